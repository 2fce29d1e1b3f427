"""The model server of a process: HTTP and gRPC on one event loop, from the load of its models to a graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tilewright.errors import EnvironmentError_
from tilewright.serving.grpc.service import start_grpc
from tilewright.serving.http.connection import Connection
from tilewright.serving.http.routes import Routes
from tilewright.serving.models.core import Core
from tilewright.serving.models.errors import RequestError
from tilewright.serving.models.repository import Repository
from tilewright.serving.models.settings import Limits
from tilewright.support.log import INFO, log

#: Seconds between two looks at the deadlines of connections.
_LOOK_SECONDS = 0.5

#: Makes what is served, in the event loop; is called when it is.
Repositories = Callable[[], Repository]
Ready = Callable[["Server"], None]


@dataclass(frozen=True)
class Address:
    """The address of a server; a port of 0 is any that is free, None leaves gRPC out."""

    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int | None = 8001


class Server:
    """Both protocols in front of one `Core`."""

    def __init__(self, core: Core, address: Address) -> None:
        self.core, self.address, self.routes = core, address, Routes(core)
        self.port, self.grpc_port = address.port, address.grpc_port
        self._connections: set[Connection] = set()
        self._grpc: Any = None

    async def start(self) -> None:
        """Listen, and then load all models; requests for the health of the server are answered meanwhile."""
        loop = asyncio.get_running_loop()
        made = partial(Connection, self.core, self.routes, self._connections)
        try:
            self._http = await loop.create_server(made, self.address.host, self.address.port, backlog=1024)
        except OSError as error:
            where = f"{self.address.host}:{self.address.port}"
            raise EnvironmentError_(f"cannot listen at {where}: {error.strerror or error}") from None
        self.port = self._http.sockets[0].getsockname()[1]
        self._looking = loop.create_task(self._look())
        if self.address.grpc_port is not None:
            self._grpc, self.grpc_port = await start_grpc(self.core, self.address.host, self.address.grpc_port)
        await self.core.repository.load_all()
        self.core.ready = True

    async def stop(self) -> None:
        """Take no more connections, answer what there is within the grace period, and end."""
        self.core.ready = False
        self._http.close()
        for connection in list(self._connections):
            connection.close_when_idle()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.core.limits.grace_seconds):
                if self._grpc is not None:
                    await self._grpc.stop(self.core.limits.grace_seconds)
                await self.core.repository.close()
                while self._connections:
                    await asyncio.sleep(0.01)
        self._looking.cancel()
        for connection in list(self._connections):
            connection.abort()

    async def _look(self) -> None:
        """Close connections whose deadline is over."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            for connection in [one for one in self._connections if one.deadline < now]:
                connection.expire()


async def run(make: Repositories, limits: Limits, address: Address, ready: Ready) -> None:
    """Serve until SIGINT or SIGTERM; SIGHUP reloads all models. `ready` is called when models are loaded."""
    loop = asyncio.get_running_loop()
    server = Server(Core(make(), limits), address)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    await server.start()
    # what is loaded stays, and requests leave no cycles: to look for some in every batch took a tenth of its time
    gc.freeze()
    gc.set_threshold(50_000)
    loop.add_signal_handler(signal.SIGHUP, lambda: loop.create_task(_reload(server.core)))
    ready(server)
    await stopped.wait()
    await server.stop()


async def _reload(core: Core) -> None:
    for name in core.repository.names():
        try:
            await core.repository.load(name)
        except RequestError as error:
            log(INFO, "%s", error)


def serve(make: Repositories, limits: Limits, address: Address, ready: Ready) -> None:
    """`run` on an event loop of its own: uvloop's where that is installed."""
    try:
        import uvloop
    except ImportError:
        factory = asyncio.new_event_loop
    else:
        factory = uvloop.new_event_loop
    # a thread whose model has run waits no longer than this for the interpreter
    sys.setswitchinterval(0.0005)
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(run(make, limits, address, ready))
