"""`python -m tvm.exec.rpc_tracker`, `rpc_server` and `query_rpc_tracker`: the classic programs of a fleet.

    python -m tilewright.compat -m tvm.exec.rpc_tracker --port 9190
    python -m tilewright.compat -m tvm.exec.rpc_server --tracker 127.0.0.1:9190 --key board
    python -m tilewright.compat -m tvm.exec.query_rpc_tracker --port 9190

They run what `tvm.rpc` provides. With certificates (`TILEWRIGHT_RPC_BUNDLE`) they listen for all, else locally.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence

from tilewright.compat.rpc.session import Server, Tracker, connect_tracker
from tilewright.errors import InputError, UserError
from tilewright.rpc.frames import spelled
from tilewright.support.knobs import RPC_BUNDLE
from tilewright.support.waiting import wait_for


def rpc_tracker(arguments: Sequence[str] | None = None) -> int:
    """Run a tracker until it is stopped; 2 with one line of what is wrong where it cannot run."""
    parser = _parser("rpc_tracker", "Run a tracker, which lends devices.")
    _listening(parser, 9190, 9199)
    given = parser.parse_args(arguments)

    def run() -> None:
        tracker = Tracker(given.host, given.port, given.port_end)
        _serve(f"tracker on {spelled(tracker.host, tracker.port)}", given.silent)
        tracker.terminate()

    return _reported(run)


def rpc_server(arguments: Sequence[str] | None = None) -> int:
    """Run the server of a device until it is stopped; 2 with one line of what is wrong where it cannot run."""
    parser = _parser("rpc_server", "Run the server of a device.")
    _listening(parser, 9090, 9099)
    parser.add_argument("--tracker", default="", metavar="HOST:PORT", help="register there")
    parser.add_argument("--key", default="", help="the kind of device")
    parser.add_argument("--custom-addr", help="the address that users reach this device by")
    parser.add_argument("--load-library", help="refused: a server runs what is uploaded and nothing else")
    parser.add_argument("--through-proxy", action="store_true", help="refused: devices are reached by their addresses")
    parser.add_argument("--no-fork", action="store_true", help="makes no difference: sessions have their own processes")
    given = parser.parse_args(arguments)

    def run() -> None:
        if given.tracker and not given.key:
            raise InputError("--tracker needs --key, the kind of device that users ask for")
        server = Server(
            given.host, given.port, given.port_end, given.through_proxy, _address(given.tracker), given.key,
            given.load_library, given.custom_addr,
        )  # fmt: skip
        _serve(f"server on {spelled(server.host, server.port)}", given.silent)
        server.terminate()

    return _reported(run)


def query_rpc_tracker(arguments: Sequence[str] | None = None) -> int:
    """Print the devices of a tracker and its queues; 2 with one line of what is wrong where nobody answers."""
    parser = _parser("query_rpc_tracker", "List the devices of a tracker and its queues.")
    parser.add_argument("--host", default=os.environ.get("TVM_TRACKER_HOST", "127.0.0.1"), help="of the tracker")
    parser.add_argument("--port", type=int, default=int(os.environ.get("TVM_TRACKER_PORT", "9190")))
    given = parser.parse_args(arguments)

    def run() -> None:
        summary = connect_tracker(given.host, given.port).text_summary()
        print(f"Tracker address {spelled(given.host, given.port)}\n\n{summary}")

    return _reported(run)


def _parser(name: str, what: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(f"python -m tvm.exec.{name}", description=what)


def _listening(parser: argparse.ArgumentParser, port: int, port_end: int) -> None:
    """The options of what listens."""
    host = "127.0.0.1" if RPC_BUNDLE.get() is None else "0.0.0.0"
    parser.add_argument("--host", default=host, help="the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=port, help="the first port to try (default: %(default)s)")
    parser.add_argument("--port-end", type=int, default=port_end, help="where to stop trying (default: %(default)s)")
    parser.add_argument("--silent", action="store_true", help="print nothing")


def _address(text: str) -> tuple[str, int] | None:
    """The parts of "HOST:PORT"; None for no text. Raises `InputError`."""
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"{text!r} is no address; write HOST:PORT")
    return host.strip("[]"), int(port)


def _serve(line: str, silent: bool) -> None:
    """Announce the server, and wait until it is stopped."""
    stopped = threading.Event()
    for kind in (signal.SIGTERM, signal.SIGINT):
        signal.signal(kind, lambda *_: stopped.set())
    if not silent:
        print(line, flush=True)
    wait_for(stopped)


def _reported(run: Callable[[], None]) -> int:
    """The exit status of a program; an error of its user is one line."""
    try:
        run()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
