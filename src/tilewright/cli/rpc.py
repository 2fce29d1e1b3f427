"""`tilewright rpc …`: certificates of a fleet, its tracker, a device's server, a model run on one (docs/fleet.md)."""

from __future__ import annotations

import json
import shlex
import signal
import statistics
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from tilewright.cli.inputs import InputOptions, input_options
from tilewright.cli.options import (
    BOUND,
    SECONDS,
    ModelOptions,
    bundle_option,
    model_options,
    parse_address,
    require_file,
)
from tilewright.cli.run import run_once
from tilewright.cli.tables import print_table
from tilewright.errors import InputError
from tilewright.runtime.artifact import is_artifact
from tilewright.support.knobs import parse_bytes
from tilewright.support.waiting import wait_for

_STATE = Path("~/.local/state/tilewright")


def _plain(bundle: str | None, plaintext: bool) -> None:
    """Refuse to listen without certificates unless an option says so."""
    if bundle is None and not plaintext:
        raise InputError(
            "use --bundle DIR, a certificate made by `tilewright rpc init`; or --plaintext, which listens on this "
            "machine alone, without authentication"
        )
    if bundle is not None and plaintext:
        raise InputError("--plaintext and --bundle exclude each other")


@click.group("rpc")
def rpc_command() -> None:
    """Devices from afar: certificates, a tracker, a server on each device, models run there."""


@rpc_command.command("init")
@click.argument("folder")
@click.option("--tracker", "trackers", multiple=True, metavar="NAME", help="make the bundle of a tracker")
@click.option("--device", "devices", multiple=True, metavar="NAME", help="make the bundle of a device")
@click.option("--user", "users", multiple=True, metavar="NAME", help="make the bundle of a user")
def init_command(folder: str, trackers: tuple[str, ...], devices: tuple[str, ...], users: tuple[str, ...]) -> None:
    """Make the authority of a fleet in FOLDER, if there is none, and bundles that it certifies."""
    # only this verb needs it
    from tilewright.rpc import identity

    if not (Path(folder) / "authority.pem").exists():
        click.echo(
            f"{identity.make_authority(folder)}: the authority; its key beside it signs all others: keep it here"
        )
    for role, names in (("tracker", trackers), ("device", devices), ("user", users)):
        for name in names:
            click.echo(f"{identity.make_bundle(folder, role, name)}: copy this folder to {role} {name}")


@rpc_command.command("revoke")
@click.argument("folder")
@click.argument("role", type=click.Choice(("tracker", "device", "user")))
@click.argument("name")
def revoke_command(folder: str, role: str, name: str) -> None:
    """Revoke the certificate of NAME in the fleet of FOLDER."""
    # only this verb needs it
    from tilewright.rpc import identity

    listed = identity.revoke(folder, role, name)
    click.echo(
        f"{listed}: copy it into the bundle of every tracker and device; it counts from their next connection on"
    )


@rpc_command.command("tracker")
@bundle_option
@click.option("--plaintext", is_flag=True, help="no certificates: this machine alone may connect")
@click.option("--host", default="127.0.0.1", show_default=True, help="the address to listen on")
@click.option("--port", default=9190, show_default=True, help="the port; 0 is any free one")
@click.option("--folder", default=str(_STATE / "tracker"), show_default=True, help="where the journal is kept")
@click.option("--quota", default=0, show_default=True, help="devices a user may have at a time; 0 is any number")
@click.option("--page", type=int, metavar="PORT", help="serve a page and /metrics on this port of this machine")
def tracker_command(
    bundle: str | None, plaintext: bool, host: str, port: int, folder: str, quota: int, page: int | None
) -> None:
    """Run a tracker: devices register with it, users ask it for one."""
    # only this verb needs it
    from tilewright.rpc.frames import spelled
    from tilewright.rpc.identity import Bundle
    from tilewright.rpc.page import serve_page
    from tilewright.rpc.tracker import Tracker, TrackerSettings

    _plain(bundle, plaintext)
    position = Path(folder).expanduser()
    settings = TrackerSettings(position, host, port, Bundle(Path(bundle)) if bundle else None, quota)
    with Tracker(settings) as tracker, _until_stopped() as stopped:
        if page is not None:
            serve_page(tracker, page)
        click.echo(f"tracker on {spelled(*tracker.address)}")
        wait_for(stopped)


@rpc_command.command("server")
@bundle_option
@click.option("--plaintext", is_flag=True, help="no certificates: this machine alone may connect")
@click.option("--host", default="127.0.0.1", show_default=True, help="the address to listen on")
@click.option("--port", default=9090, show_default=True, help="the port; 0 is any free one")
@click.option("--name", default="", help="the device's name, as in its certificate  [default: --board's, or device]")
@click.option("--key", default="", help="what kind of device this is  [default: its board, or its architecture]")
@click.option("--tracker", metavar="HOST:PORT", help="register there; sessions then need a lease")
@click.option("--reached-at", default="", metavar="HOST", help="the address that users reach this device by")
@click.option("--folder", help=f"where uploads are kept, of this server alone  [default: {_STATE / 'devices'}/NAME]")
@click.option("--memory", metavar="BYTES", help="what a session's process may use, as 512M  [default: half of all]")
@click.option(
    "--request-seconds", default=600.0, show_default=True, type=SECONDS, help="the longest a request may take"
)
@click.option(
    "--device", "devices", multiple=True, metavar="KIND", help="a kind of GPU, as opencl: leaves them unconfined"
)
@click.option("--worker", metavar="FILE", help="a program of `tilewright rpc board` that runs what is uploaded")
@click.option("--launcher", metavar="COMMAND", help='what runs it, as "qemu-aarch64 -L /usr/aarch64-linux-gnu"')
@click.option("--elsewhere", is_flag=True, help="the launcher reaches another machine, as ssh does, which confines")
@click.option("--board", metavar="NAME", help="serve this board without an operating system, as mps2-an386, virt")
@click.option("--serial", metavar="LINE", help="of --board: a serial line to it, as /dev/ttyACM0; or qemu's")
@click.option("--flash", metavar="COMMAND", help="of --serial: brings a program to the board; {image} is its file")
def server_command(
    bundle: str | None,
    plaintext: bool,
    host: str,
    port: int,
    name: str,
    key: str,
    tracker: str | None,
    reached_at: str,
    folder: str | None,
    memory: str | None,
    request_seconds: float,
    devices: tuple[str, ...],
    worker: str | None,
    launcher: str | None,
    elsewhere: bool,
    board: str | None,
    serial: str | None,
    flash: str | None,
) -> None:
    """Run the server of a device: take uploads, and run them one session at a time.

    With --worker it stands in for a board without Python, which runs that program: under an emulator, or over ssh.
    With --board it builds programs for a board without an operating system and runs them there: under qemu, or on what
    is at the other end of a serial line.
    """
    # only this verb needs it
    from tilewright.rpc.frames import spelled
    from tilewright.rpc.identity import Bundle
    from tilewright.rpc.leases import Leases
    from tilewright.rpc.registration import Registration
    from tilewright.rpc.sandbox import Limits
    from tilewright.rpc.server import Server, Settings
    from tilewright.support.memory_limit import physical_bytes

    _plain(bundle, plaintext)
    limits = Limits(_bytes(memory) if memory else physical_bytes() // 2, request_seconds=request_seconds)
    if board is not None and (worker or launcher or elsewhere or devices):
        raise InputError("--board has a worker of its own; leave out --worker, --launcher, --elsewhere and --device")
    served = _bare_board(board, serial, flash) or _board(worker, launcher, elsewhere)
    name, key = name or board or "device", key or board or ""
    settings = Settings(
        Path(folder or _STATE / "devices" / name).expanduser(), host, port, Bundle(Path(bundle)) if bundle else None,
        name, key, limits=limits, board=served, devices=devices,
    )  # fmt: skip
    with Server(settings, Leases(required=tracker is not None)) as server, _until_stopped() as stopped:
        click.echo(f"device {name} on {spelled(*server.address)}")
        _tell_confinement(server.confinement())
        if tracker is not None:
            registration = Registration(server, *parse_address(tracker), bundle, reached_at)
            _say_when_registered(registration, tracker)
        wait_for(stopped)


@rpc_command.command("board")
@click.argument("target")
@click.option("-o", "--output", required=True, metavar="FILE", help="the program to write")
def board_command(target: str, output: str) -> None:
    """Compile the worker of a board without Python for TARGET, as "raspberry-pi-4": see `rpc server --worker`."""
    # only this verb needs it
    from tilewright.rpc.board.program import build_worker

    click.echo(f"{build_worker(Path(output), target)}: the worker for {target}")


def _bare_board(board: str | None, serial: str | None, flash: str | None) -> Any:
    # only a server needs it
    from tilewright.rpc.bare_worker import launched

    if board is None and (serial or flash):
        raise InputError("--serial and --flash say how a board is reached; add --board NAME")
    if flash and not serial:
        raise InputError("--flash brings programs to a board that is then asked over a line; add --serial LINE")
    return None if board is None else launched(board, serial or "", flash or "")


def _board(worker: str | None, launcher: str | None, elsewhere: bool) -> Any:
    # only a server needs it
    from tilewright.rpc.worker_process import Board

    if worker is None:
        if launcher or elsewhere:
            raise InputError("--launcher and --elsewhere say how --worker is run; add --worker FILE")
        return None
    if not elsewhere:
        require_file(worker)
    return Board(worker if elsewhere else str(Path(worker).resolve()), tuple(shlex.split(launcher or "")), elsewhere)


@rpc_command.command("query")
@bundle_option
@click.option("--tracker", required=True, metavar="HOST:PORT", help="the tracker to ask")
@click.option("--drain", metavar="DEVICE", help="lease this device no more")
@click.option("--resume", metavar="DEVICE", help="lease this device again")
@click.option("--failed", is_flag=True, help="list the jobs that did not end well lately")
@click.option("--json", "as_json", is_flag=True, help="print it all as JSON")
def query_command(
    bundle: str | None, tracker: str, drain: str | None, resume: str | None, failed: bool, as_json: bool
) -> None:
    """List the devices of a fleet and who has them, or the jobs that failed."""
    # only this verb needs it
    from tilewright.rpc.tracker_client import connect_tracker, devices

    fleet = connect_tracker(*parse_address(tracker), bundle=bundle)
    for device, on in ((drain, True), (resume, False)):
        if device:
            fleet.drain(device, on)
    if as_json:
        click.echo(json.dumps(fleet.failures() if failed else fleet.status(), indent=2))
        return
    if failed:
        heads = ("seconds ago", "job", "user", "device", "reason")
        rows = [(f"{one['seconds_ago']:.0f}", *(one[name] for name in ("job", "user", "device", "reason")))
                for one in fleet.failures()]  # fmt: skip
        print_table(heads, rows, ("  ".join(row) for row in [heads, *rows]))
        return
    status = fleet.status()
    rows = list(devices(status))
    columns = ("device", "key", "architecture", "state", "user", "address")
    print_table(columns, rows, ("  ".join(word or "-" for word in row) for row in [columns, *rows]))
    click.echo(f"{len(rows)} devices, {status['waiting']} requests waiting, {status['granted']} granted so far")


@rpc_command.command("run")
@click.argument("model")
@bundle_option
@click.option("--device", metavar="HOST:PORT", help="the server of a device, where there is no tracker")
@click.option("--tracker", metavar="HOST:PORT", help="the tracker to ask for a device")
@click.option("--key", default="", help="the kind of device to ask for")
@click.option("--wait", default=60.0, show_default=True, type=BOUND, help="seconds to wait for a free one")
@click.option("--priority", default=0, show_default=True, help="of the request, up to 10")
@click.option("--repeat", default=10, show_default=True, help="runs to time")
@input_options
@model_options
def run_command(
    model: str,
    bundle: str | None,
    device: str | None,
    tracker: str | None,
    key: str,
    wait: float,
    priority: int,
    repeat: int,
    inputs: InputOptions,
    options: ModelOptions,
) -> None:
    """Run MODEL (a model or a compiled .tw) on a device: print its outputs, and the time it takes there."""
    # only this verb needs it
    from tilewright.rpc.client import connect
    from tilewright.rpc.tracker_client import connect_tracker

    if (device is None) == (tracker is None):
        raise InputError("pass --device HOST:PORT, or --tracker HOST:PORT with --key")
    require_file(model)
    if tracker is not None:
        session = connect_tracker(*parse_address(tracker), bundle=bundle).request(key, priority, wait=wait)
    else:
        session = connect(*parse_address(device or ""), bundle=bundle)
    with session as remote:
        compiled: Any = model if is_artifact(model) else inputs.open(model, options, runs=False)
        loaded: Any = remote.load_module(remote.upload(compiled), threads=options.threads)
        for given in inputs.sets(loaded, model):
            run_once(loaded, given)
            times = loaded.time(given.arrays, repeat=repeat)
            middle, least = statistics.median(times) * 1e3, min(times) * 1e3
            click.echo(f"on {remote.name}: median {middle:.3f} ms, minimum {least:.3f} ms of {repeat} runs")


def _bytes(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError:
        raise InputError(f"{text!r} is no size; write it as 512M or 2G") from None


def _tell_confinement(measures: Mapping[str, str]) -> None:
    """A line of what confines the processes of sessions, and one for each measure that this system does not have."""
    on = [name for name, state in measures.items() if state == "on"]
    click.echo(f"sessions are confined by: {', '.join(on) or 'nothing'}")
    for name, state in measures.items():
        if state != "on":
            click.echo(f"not confined by {name}: {state}", err=True)


def _say_when_registered(registration: Any, tracker: str) -> None:
    """One line when the tracker knows us, or what keeps it from that."""

    def say() -> None:
        known = registration.registered.wait(5.0)
        click.echo(
            f"registered with {tracker}" if known else f"not registered yet: {registration.problem}", err=not known
        )

    threading.Thread(target=say, daemon=True).start()


@contextmanager
def _until_stopped() -> Iterator[threading.Event]:
    """An event that is set by SIGTERM; an interrupt ends the waiting too."""
    stopped = threading.Event()
    old = signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    try:
        yield stopped
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
    finally:
        signal.signal(signal.SIGTERM, old)
