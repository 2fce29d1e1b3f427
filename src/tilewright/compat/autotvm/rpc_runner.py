"""`autotvm.RPCRunner`: configurations timed on devices that a tracker lends.

What was built is built again here as a library and sent; the results are not compared, which the local runner does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.autotvm.classic.measure import FAILED, MeasureErrorNo, MeasureInput, MeasureResult, Runner
from tilewright.backend import build
from tilewright.compat.rpc.session import RPCSession, connect_tracker
from tilewright.errors import InputError, RpcError, UnsupportedError, UserError
from tilewright.rpc import RemoteLibrary, Session
from tilewright.support.dtype import DType


def request_remote(
    device_key: str, host: str | None = None, port: int | None = None, priority: int = 1, timeout: float = 60
) -> RPCSession:
    """A session of `timeout` seconds with a free device of a tracker's.

    Without an address the tracker is that of TVM_TRACKER_HOST and TVM_TRACKER_PORT. Raises `InputError` without either.
    """
    host = host or os.environ.get("TVM_TRACKER_HOST", "")
    port = port or int(os.environ.get("TVM_TRACKER_PORT", "0"))
    if not host or not port:
        raise InputError("request_remote needs a tracker: pass host and port, or set TVM_TRACKER_HOST and _PORT")
    return connect_tracker(host, port).request(device_key, priority, timeout)


@dataclass(eq=False)
class RPCRunner(Runner):
    """Runs on devices of the kind `key` of the tracker at `host`:`port`, `n_parallel` at a time.

    Each is timed `repeat` times over `number` calls, or as many as take `min_repeat_ms`, then left alone for
    `cooldown_interval` seconds. Raises `UnsupportedError` for `enable_cpu_cache_flush` and `module_loader`.
    """

    key: str
    host: str
    port: int
    priority: int = 1
    timeout: float = 10
    n_parallel: int | None = None
    number: int = 4
    repeat: int = 3
    min_repeat_ms: float = 0
    cooldown_interval: float = 0.1
    enable_cpu_cache_flush: bool = False
    module_loader: Any = None

    def __post_init__(self) -> None:
        super().__init__(self.timeout, self.n_parallel)
        if self.enable_cpu_cache_flush or self.module_loader is not None:
            raise UnsupportedError("RPCRunner takes neither enable_cpu_cache_flush nor module_loader: leave them out")

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        """A `MeasureResult` for each input; of those that were not built, why."""
        with ThreadPoolExecutor(self.n_parallel or 1) as pool:
            return list(pool.map(self._one, measure_inputs, build_results))

    def _one(self, given: MeasureInput, built: Any) -> MeasureResult:
        begun = time.perf_counter()

        def result(costs: tuple[Any, ...], number: int) -> MeasureResult:
            return MeasureResult(costs, number, time.perf_counter() - begun + built.time_cost, time.time())

        if built.error is not None:
            return result((built.error,), MeasureErrorNo.INSTANTIATION_ERROR)
        try:
            library = build(given.task.lower(given.config), given.task.target)
        except UserError as error:
            return result((error,), MeasureErrorNo.COMPILE_HOST)
        try:
            return result(self._timed(library, given.task), MeasureErrorNo.NO_ERROR)
        except RpcError as error:
            late = time.perf_counter() - begun >= self.timeout
            return result((error, FAILED), MeasureErrorNo.RUN_TIMEOUT if late else MeasureErrorNo.RUNTIME_DEVICE)

    def _timed(self, library: Any, task: Any) -> tuple[float, ...]:
        """Seconds of each repeat on a device; its session ends after the runner's `timeout`."""
        remote = request_remote(self.key, self.host, self.port, self.priority, self.timeout)
        session: Session = remote.session
        loaded = session.load_module(session.upload(library))
        assert isinstance(loaded, RemoteLibrary)
        generator = np.random.default_rng(0)
        arrays = [
            session.array((generator.random(argument.shape) * 10).astype(DType(argument.dtype).numpy))
            for argument in task.arguments
        ]
        name = next(iter(loaded.functions))
        times = loaded.time_evaluator(name, self.number, self.repeat, self.min_repeat_ms)(*arrays)
        time.sleep(self.cooldown_interval)
        return tuple(times.results)
