"""Results of kernels that nothing reads, as the last states of a recurrent layer: launches for them are left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.runtime.gpu.module import DeviceFunctionInfo
from tilewright.runtime.module import Param
from tilewright.runtime.plan import ExecutionPlan, KernelCall, Location
from tilewright.support.dtype import DType


def unread_results(plan: ExecutionPlan, functions: Mapping[str, DeviceFunctionInfo]) -> list[frozenset[str]]:
    """For each call of a plan the parameters that one launch writes alone, to memory of which no call reads a byte."""
    read = [(arg, _end(arg, param)) for call in plan.kernels for arg, param in _read(call, functions)]
    return [frozenset(_unread(call, functions, read)) for call in plan.kernels]


def is_for_nothing(launch: Mapping[str, Any], unread: frozenset[str]) -> bool:
    """True for a launch, as a step of a function, that writes nothing but `unread` parameters."""
    writes = launch.get("writes", ())
    return len(writes) > 0 and unread.issuperset(writes)


def _unread(
    call: KernelCall, functions: Mapping[str, DeviceFunctionInfo], read: Sequence[tuple[Location, float]]
) -> Iterator[str]:
    if call.name not in functions:
        return
    info = functions[call.name]
    named = [name for step in info.launches for name in step["args"]]
    for param, arg in zip(info.params, call.args):
        if param.is_scalar or not param.written or arg.space != "arena" or named.count(param.name) > 1:
            continue
        end = _end(arg, param)
        if not any(a.slots == arg.slots and a.offset < end and arg.offset < other for a, other in read):
            yield param.name


def _read(call: KernelCall, functions: Mapping[str, DeviceFunctionInfo]) -> Iterator[tuple[Location, Param | None]]:
    """The arguments in the arena that a call reads, with their parameters; a copy has none."""
    if call.name not in functions:
        yield call.args[0], None
        return
    for param, arg in zip(functions[call.name].params, call.args):
        if arg.space == "arena" and not param.is_scalar and not param.written:
            yield arg, param


def _end(arg: Location, param: Param | None) -> float:
    """The end of an argument's bytes; without a bound where its size is not known."""
    if param is None or param.shape is None or not all(isinstance(extent, int) for extent in param.shape):
        return math.inf
    elements = math.prod(extent for extent in param.shape if isinstance(extent, int))
    return arg.offset + elements * DType(param.dtype).itemsize
