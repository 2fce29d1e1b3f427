"""Workers of a dask cluster: they build configurations, and measure them in confined processes of their own.

A worker that measures runs the server of a device for itself alone, on loopback, with leases that nobody else knows; a
configuration that crashes or hangs costs that server a process, and the worker nothing.
"""

from __future__ import annotations

import secrets
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.autotvm.measure.fleet import Judgement, judged
from tilewright.autotvm.measure.loop import reference_loop
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.measure.remote_stand import RemoteStand, Upload
from tilewright.autotvm.task.task import Argument, Task
from tilewright.backend import backend_of
from tilewright.errors import UserError
from tilewright.rpc.board.library import packed_for
from tilewright.rpc.board.loads import ARTIFACT
from tilewright.rpc.client import RemoteModel, Session, connect
from tilewright.rpc.leases import Leases
from tilewright.rpc.server import Server, Settings

_LEASE_SECONDS = 1e6
#: One measurement at a time, whatever the number of the worker's threads.
_alone = threading.Lock()
_stands: dict[Any, RemoteStand] = {}
_models: dict[bytes, RemoteModel] = {}
_sessions: list[Session] = []


def build(task: Task, config: Mapping[str, Any] | None, loop: bool = False) -> Upload:
    """The file of a configuration; of the task's reference without one, or of the reference loop."""
    if loop:
        func = reference_loop(task.target)
    else:
        func = task.lower_reference() if config is None else task.lower(config)
    code = backend_of(task.target).compiled([func], here=False)
    return Upload(packed_for(code, ARTIFACT), code.functions[0].name)


def describe() -> dict[str, Any]:
    """The description of this machine."""
    return _server().capability


def measure(
    arguments: Sequence[Argument],
    threads: int | None,
    codes: tuple[Upload, Upload, Upload, Upload | None],
    options: MeasureOptions,
) -> Judgement:
    """Compare a configuration with the incumbent; `codes` are the reference, the loop and those two.

    Raises `UserError` where not even the reference runs.
    """
    reference, loop, candidate, incumbent = codes
    with _alone:
        key = reference, tuple(arguments), threads, options
        if key not in _stands:
            _stands.clear()
            _stands[key] = RemoteStand(_session(), arguments, reference, loop, threads, options)
        found = judged(_stands[key], candidate, incumbent, options)
        if found.gone:
            _stands.clear()
        return found


def time_model(contents: bytes, inputs: Mapping[str, Any], repeat: int, warmup: int) -> list[float]:
    """Seconds of runs of a model."""
    with _alone:
        return _model(contents).time(inputs, repeat, warmup)


def profile_model(contents: bytes, inputs: Mapping[str, Any], repeat: int) -> Any:
    """Seconds of its kernels."""
    with _alone:
        return _model(contents).profile(inputs, repeat)


@cache
def _server() -> Server:
    return Server(Settings(Path(tempfile.mkdtemp(prefix="tilewright-cluster-"))), Leases(required=True))


def _session() -> Session:
    """The session with our own server; a new one where that has ended."""
    try:
        _sessions[0].describe()
    except (IndexError, UserError):
        _sessions.clear()
        lease = secrets.token_hex(16)
        _server().leases.grant(lease, "", _LEASE_SECONDS)
        _sessions.append(connect(*_server().address, lease=lease))
    return _sessions[0]


def _model(contents: bytes) -> RemoteModel:
    remote = _session()
    if contents not in _models:
        while len(_models) > 1:  # the default network and the tuned one
            del _models[next(iter(_models))]
        found = remote.load_module(remote.upload(contents))
        assert isinstance(found, RemoteModel)
        _models[contents] = found
    return _models[contents]
