"""A model server on a thread of the test, and small models for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay

MISSING = "the extra [serve] is not installed"


@dataclass
class Running:
    """A server with its ports, and its event loop for what tests ask of it."""

    server: Any
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread
    stopped: asyncio.Event

    @property
    def http(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    @property
    def grpc(self) -> str:
        return f"127.0.0.1:{self.server.grpc_port}"

    def stop(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.stopped.set)
        self.thread.join(30)
        assert not self.thread.is_alive(), "it ends"


def start(sources: list[str], loader: Any = None, settings: Any = None, **limits: Any) -> Running:
    """A server of models; `loader` makes them in place of `load_model`."""
    from tilewright.serving.models.core import Core
    from tilewright.serving.models.repository import Repository
    from tilewright.serving.models.settings import Limits, ModelSettings
    from tilewright.serving.models.version import load_model
    from tilewright.serving.server import Address, Server

    made: list[Any] = []
    there = threading.Event()

    async def main() -> None:
        repository = Repository(sources, settings or ModelSettings(), loader or load_model)
        server, stopped = Server(Core(repository, Limits(**limits)), Address(port=0, grpc_port=0)), asyncio.Event()
        await server.start()
        made.extend((server, asyncio.get_running_loop(), stopped))
        there.set()
        await stopped.wait()
        await server.stop()

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    assert there.wait(60), "it starts"
    server, loop, stopped = made
    return Running(server, loop, thread, stopped)


@dataclass
class Fake:
    """A model made of a function, with the interface that the server uses."""

    inputs: list[Any]
    outputs: list[Any]
    work: Callable[..., list[np.ndarray]]
    threads: int = 1
    batches: list[int] = field(default_factory=list)

    def run(self, inputs: dict[str, Any]) -> list[np.ndarray]:
        arrays = list(inputs.values())
        self.batches.append(len(arrays[0]) if arrays[0].ndim else 0)
        return self.work(*arrays)

    def set_threads(self, threads: int) -> None:
        self.threads = threads


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository: `scale` by versions 1 (times 2, any batch) and 3 (times 3), `fixed` of a batch of 4."""
    pytest.importorskip("httptools", reason=MISSING)
    pytest.importorskip("grpc", reason=MISSING)
    folder = tmp_path_factory.mktemp("repository")
    for name, version, factor, size in (("scale", 1, 2, None), ("scale", 3, 3, None), ("fixed", 1, 2, 4)):
        rows = size or tw.te.size_var("N", hint=8)
        x = relay.var("x", shape=(rows, 3), dtype="float32")
        body = relay.multiply(x, relay.const(np.float32(factor)))
        path = folder / name / str(version) / "model.tw"
        path.parent.mkdir(parents=True)
        tw.compile(relay.IRModule.from_expr(relay.Function([x], body)), threads=1).save(path)
    (folder / "fixed" / "serving.json").write_text('{"fixed_batch": true}')
    return folder


@pytest.fixture(scope="session")
def running(artifacts: Path) -> Iterator[Running]:
    """A server of the repository."""
    found = start([str(artifacts)])
    yield found
    found.stop()
