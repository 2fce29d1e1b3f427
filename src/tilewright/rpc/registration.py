"""A device's connection to its tracker: it registers, reports that it is alive, and learns of the leases on it.

The connection is made again whenever it breaks: a tracker that is restarted has its devices back within seconds, with
the leases that they hold.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from typing import Any

from tilewright.errors import RpcError, UserError
from tilewright.rpc.client import dial
from tilewright.rpc.frames import Channel
from tilewright.rpc.messages import VERSION, result_of
from tilewright.rpc.server import Server

#: Seconds between two tries to reach a tracker that is not there: the first, and the longest.
_AGAIN_SECONDS = (0.2, 5.0)


class Registration:
    """Keeps `server` registered with the tracker at `host`:`port` until it is closed. `problem` says why it is not."""

    def __init__(
        self,
        server: Server,
        host: str,
        port: int,
        bundle: str | os.PathLike[str] | None = None,
        reached_at: str = "",
    ) -> None:
        """`reached_at` is the name or address by which users reach this device (default: where it listens)."""
        self._server, self._tracker, self._bundle = server, (host, port), bundle
        self._address = [reached_at or server.address[0], server.address[1]]
        self._numbers = itertools.count(1)
        self._sending = threading.Lock()
        self._channel: Channel | None = None
        self._closed = threading.Event()
        self.registered = threading.Event()
        self.problem = ""
        server.leases.ended = self._ended
        threading.Thread(target=self._keep, name="registration", daemon=True).start()

    def close(self) -> None:
        """Leave the tracker."""
        self._closed.set()
        if self._channel is not None:
            self._channel.close()

    def _keep(self) -> None:
        wait, longest = _AGAIN_SECONDS
        while not self._closed.is_set():
            try:
                self._visit()
                wait = _AGAIN_SECONDS[0]
            except UserError as error:
                self.problem = str(error)
            if self.registered.is_set():
                wait = _AGAIN_SECONDS[0]
            self.registered.clear()
            self._closed.wait(wait)
            wait = min(2 * wait, longest)

    def _visit(self) -> None:
        """Register, then listen and tell that we are alive until the connection ends."""
        connection, peer = dial(*self._tracker, self._bundle, ("tracker",))
        channel = self._channel = Channel(connection, str(peer))
        try:
            beat = float(self._ask(channel, "hello", version=VERSION)["heartbeat"])
            leases = self._server.leases
            fields = {"address": self._address, "capability": self._server.capability, "busy": leases.in_use()}
            self._tell("register", name=self._server.settings.name, **fields)
            alive = threading.Thread(target=self._beat, args=(channel, beat), daemon=True)
            alive.start()
            while not self._closed.is_set():
                message, _ = channel.receive(4 * beat, most=0)
                self._hear(message)
        finally:
            channel.close()

    def _hear(self, message: dict[str, Any]) -> None:
        leases = self._server.leases
        push = message.get("push")
        if push == "grant":
            if not (message.get("known") and leases.holds(message["lease"])):
                leases.grant(message["lease"], message["user"], message["seconds"])
        elif push == "renew":
            leases.renew(message["lease"], message["seconds"])
        elif push == "withdraw":
            leases.withdraw(message["lease"])
        elif "error" in message:
            raise RpcError(str(message["error"].get("text")))
        else:
            self.registered.set()
            self.problem = ""

    def _beat(self, channel: Channel, seconds: float) -> None:
        try:
            while channel is self._channel and not self._closed.wait(seconds):
                self._tell("heartbeat")
        except RpcError:
            channel.close()

    def _ended(self, lease: str, fault: str, late: bool) -> None:
        """A session is over: its device is free again. A tracker that is away ends the lease when nobody renews it."""
        with contextlib.suppress(RpcError):
            self._tell("ended", lease=lease, **({"fault": fault} if fault else {}), **({"late": True} if late else {}))

    def _tell(self, verb: str, **fields: Any) -> None:
        channel = self._channel
        if channel is None:
            raise RpcError("the tracker is not there")
        with self._sending:
            channel.send({"verb": verb, "id": next(self._numbers), **fields})

    def _ask(self, channel: Channel, verb: str, **fields: Any) -> dict[str, Any]:
        number = next(self._numbers)
        channel.send({"verb": verb, "id": number, **fields})
        return result_of(channel.receive(10.0, most=0)[0], number, channel.peer)
