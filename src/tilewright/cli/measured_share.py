"""The share of the multiply-add peak that a kernel reaches, by running it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import UnsupportedError

if TYPE_CHECKING:
    from tilewright.backend.kernels import Task
    from tilewright.target import Target


def measured_share(task: Task, target: Target, seconds: float = 0.2) -> str:
    """Run the kernel of `task` on one worker with arbitrary data: its best time, and its share of the measured peak.

    Operations are those of the definition, so Winograd may pass the peak. Raises UnsupportedError for another
    machine's target.
    """
    # only for this option: the compiler is slow to import
    from tilewright.backend.build import build
    from tilewright.cli.peak import fma_peak
    from tilewright.cli.timing import measure
    from tilewright.driver.lower import lower_function
    from tilewright.relay.ir.expr import Call
    from tilewright.relay.ir.type import tensor_types
    from tilewright.relay.op.cost import flops

    if not target.is_host:
        raise UnsupportedError(f"--measure runs kernels, and this machine cannot run code for {target}")
    function = task.function
    types = [t for value in (*function.params, function.body) for t in tensor_types(value.checked_type)]
    arrays = [np.ones(t.concrete_shape, str(t.dtype)) for t in types]
    kernel = build([lower_function(function, task.name, target)], target, threads=1)[task.name]
    best = min(measure({"kernel": lambda: kernel(*arrays)}, seconds, 1000).times["kernel"])
    rate = flops(Call(function, list(function.params))) / best / 1e9
    return (
        f"measured {best * 1e3:.3f} ms, {rate:.1f} GFLOP/s, {rate / fma_peak(1, seconds):.1%} of the multiply-add peak"
    )
