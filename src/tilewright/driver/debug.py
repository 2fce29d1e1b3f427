"""Every value of a straight graph, computed by compiled code, beside that of the operators' reference functions.

    for value in debug_run(mod, {"x": x}, build):
        print(value.source, value.operator, value.error)

Each operator's result becomes an output of the compiled program, so nothing is fused across what one can look at. The
executor "debug" of `compile` keeps the values of any program, and needs no reference functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import InputError, UnsupportedError
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Call, Function, Tuple
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.visitor import post_order
from tilewright.runtime.model import Model

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Intermediate:
    """One value: where it comes from, what compiled code and the reference say, and how far they are apart.

    `error` is the largest difference, relative to the largest value of the reference (infinite where one of them only
    is no finite number).
    """

    source: str
    operator: str
    value: Array
    reference: Array
    error: float


def debug_run(mod: IRModule, inputs: Mapping[str, Any], build: Callable[[IRModule], Model]) -> list[Intermediate]:
    """Every tensor that an operator of `main` computes on `inputs`, in order of evaluation; `build` compiles a module.

    Raises `UnsupportedError` for a program with control flow, `InputError` for a missing input.
    """
    main = infer_type(mod)["main"]
    nodes = post_order(main.body)
    if any(isinstance(node, Call) and not isinstance(node.op, Op) for node in nodes):
        raise UnsupportedError("the debug executor runs straight graphs of operators; this program calls functions")
    calls = [n for n in nodes if isinstance(n, Call) and isinstance(n.checked_type, TensorType)]
    missing = [param.name for param in main.params if param.name not in inputs]
    if missing:
        raise InputError(f"input {missing[0]!r} is missing")
    opened = mod.with_function("main", Function(main.params, Tuple(calls), attrs={}))
    values = build(opened).run(inputs)
    references = interpret(opened, inputs)
    return [
        Intermediate(call.span, call.op.name, value, wanted, error_of(value, wanted))  # type: ignore[union-attr]
        for call, value, wanted in zip(calls, values, references, strict=True)
    ]


def error_of(value: Array, reference: Array) -> float:
    """The largest difference between two arrays of one shape, relative to the largest number in the reference."""
    if value.size == 0:
        return 0.0
    if value.dtype.kind not in "fciub" and value.dtype.name != "bfloat16":
        return float(not np.array_equal(value, reference))
    a, b = value.astype(np.float64), reference.astype(np.float64)
    both = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(np.where(both, 0, a), np.where(both, 0, b), equal_nan=True):
        return float("inf")
    scale = np.abs(b[both]).max(initial=0.0)
    return float(np.abs(a[both] - b[both]).max(initial=0.0) / (scale or 1.0))


def first_wrong(values: list[Intermediate], tolerance: float = 1e-3) -> Intermediate | None:
    """The first value that is further from its reference than `tolerance`; None if there is none."""
    return next((value for value in values if not value.error <= tolerance), None)


def source_values(values: list[Intermediate]) -> dict[str, Array]:
    """The computed values by the names of the source model's nodes, the last one of each; for dumping to a file."""
    return {value.source or value.operator: value.value for value in values}


__all__ = ["Intermediate", "debug_run", "error_of", "first_wrong", "source_values"]
