"""The host's steps in a call of a device function: launches, loops and conditions around them, calls of Python.

The compiler leaves the steps as plain data (`codegen.build_device`); sizes in them are expressions, as
`runtime.shape_program` reads them.

    {"kernel": name, "args": [names], "writes": [names], "grid": [3 sizes], "block": [3 ints], "shared_bytes": int}
    {"loop": name, "dtype": type, "min": size, "extent": size, "body": [steps]}
    {"if": condition, "then": [steps], "else": [steps]}
    {"call": name, "args": [{"array": name, "dtype": type, "shape": [sizes], "offset": size} or {"value": number}]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.runtime.gpu.api import Kernel
from tilewright.runtime.packed import get_func
from tilewright.runtime.shape_program import compile_expressions
from tilewright.support.dtype import DType

#: Takes a step: its argument is the value of each parameter, temporary and loop variable by name.
Run = Callable[[dict[str, Any]], None]
Step = Mapping[str, Any]


def launches_of(steps: Sequence[Step]) -> Iterator[Step]:
    """All launches among the steps, in order."""
    for step in steps:
        if "kernel" in step:
            yield step
        else:
            yield from launches_of([*step.get("body", ()), *step.get("then", ()), *step.get("else", ())])


def compile_steps(steps: Sequence[Step], scalars: Sequence[str], kernels: Mapping[str, Kernel]) -> Run:
    """One function that takes the steps in order; `scalars` are the names of numbers that sizes may mention."""
    runs = [_step(step, scalars, kernels) for step in steps]

    def run(values: dict[str, Any]) -> None:
        for one in runs:
            one(values)

    return run


def _step(step: Step, scalars: Sequence[str], kernels: Mapping[str, Kernel]) -> Run:
    if "kernel" in step:
        return _launch(step, scalars, kernels)
    if "loop" in step:
        return _loop(step, scalars, kernels)
    return _call(step, scalars) if "call" in step else _branch(step, scalars, kernels)


def _sizes(scalars: Sequence[str], sizes: Sequence[Any]) -> Callable[[Mapping[str, Any]], Sequence[int]]:
    compute = compile_expressions(scalars, sizes)
    return lambda values: compute(*[int(values[name]) for name in scalars])


def _launch(step: Step, scalars: Sequence[str], kernels: Mapping[str, Kernel]) -> Run:
    shared = [step["shared_bytes"]] if step.get("shared_bytes") else []
    kernel, block, extents = kernels[step["kernel"]], tuple(step["block"]), _sizes(scalars, step["grid"])

    def run(values: dict[str, Any]) -> None:
        x, y, z = (int(n) for n in extents(values))
        if min(x, y, z) > 0:
            arguments = [getattr(values[name], "buffer", values[name]) for name in step["args"]]
            kernel.launch((x, y, z), block, arguments, *shared)

    return run


def _loop(step: Step, scalars: Sequence[str], kernels: Mapping[str, Kernel]) -> Run:
    name, kind = step["loop"], DType(step["dtype"]).numpy.type
    bounds = _sizes(scalars, [step["min"], step["extent"]])
    body = compile_steps(step["body"], [*scalars, name], kernels)

    def run(values: dict[str, Any]) -> None:
        low, extent = bounds(values)
        for i in range(low, low + extent):
            values[name] = kind(i)
            body(values)

    return run


def _branch(step: Step, scalars: Sequence[str], kernels: Mapping[str, Kernel]) -> Run:
    condition = _sizes(scalars, [step["if"]])
    sides = [compile_steps(step[side], scalars, kernels) for side in ("else", "then")]
    return lambda values: sides[bool(condition(values)[0])](values)


def _call(step: Step, scalars: Sequence[str]) -> Run:
    """A call of a Python function: arrays are copied to the host before it and back after it."""
    sizes = [
        _sizes(scalars, [arg["offset"], *arg["shape"]] if "array" in arg else [] if _is_float(arg) else [arg["value"]])
        for arg in step["args"]
    ]

    def run(values: dict[str, Any]) -> None:
        given: list[Any] = []
        back: list[tuple[Any, np.ndarray[Any, Any]]] = []
        for arg, compute in zip(step["args"], sizes, strict=True):
            if "array" not in arg:
                given.append(arg["value"] if _is_float(arg) else compute(values)[0])
                continue
            held = values[arg["array"]]
            offset, *shape = compute(values)
            whole = held.numpy()
            given.append(whole.reshape(-1)[offset : offset + int(np.prod(shape, dtype=np.int64))].reshape(shape))
            back.append((held, whole))
        get_func(step["call"])(*given)
        for held, whole in back:
            held.api.write(held.buffer, whole)

    return run


def _is_float(arg: Mapping[str, Any]) -> bool:
    return isinstance(arg.get("value"), float)
