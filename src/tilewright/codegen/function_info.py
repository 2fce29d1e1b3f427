"""The calling convention of a lowered function, read off the function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.runtime.module import FunctionInfo, Param
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import IntImm, Var
from tilewright.tir.stmt import BufferStore, PrimFunc, Stmt
from tilewright.tir.transform.plan_allocations import workspace_size
from tilewright.tir.transform.run_regions import kind_of


def function_info(func: PrimFunc) -> FunctionInfo:
    """The calling convention of `func`: its parameters without the workspaces, and the sizes of those.

    Shapes come from the attribute "param_shapes" (one tuple per parameter) where lowering has flattened the buffers.
    Scalars that the attribute "inferred" lists are read off the shapes of the arguments, not given by the caller.
    """
    shared, private = func.attrs.get("workspace_bytes", 0), func.attrs.get("worker_workspace_bytes", 0)
    varies = workspace_size(func)
    if varies is not None:
        shared = private = 0
    params = func.params[:-2] if varies is not None or shared or private else func.params
    inferred = func.attrs.get("inferred", ())
    shapes: Sequence[Any] = func.attrs.get("param_shapes") or [None] * len(params)
    stored = set(_stored(func.body))
    names = _scalar_names(params)

    def extent(size: Any) -> int | str | None:
        if isinstance(size, IntImm):
            return size.value
        return size if isinstance(size, int) else names.get(size)

    infos = []
    for param, shape in zip(params, shapes):
        if isinstance(param, Buffer):
            sizes = tuple(param.shape if shape is None else shape)
            infos.append(Param(param.name, str(param.dtype), tuple(map(extent, sizes)), False, param in stored))
        else:
            infos.append(Param(names[param], str(param.dtype), None, True, inferred=param in inferred))
    sizes = int(shared), int(private), "" if varies is None else varies.name
    kind = kind_of(func)
    return FunctionInfo(func.name, tuple(infos), *sizes, parallel=kind != "alone", meets=kind == "meeting")


def _scalar_names(params: Sequence[Buffer | Var]) -> dict[Any, str]:
    """A name of its own for each scalar parameter."""
    names: dict[Any, str] = {}
    for param in params:
        if isinstance(param, Var):
            name, taken = param.name, set(names.values())
            while name in taken:
                name += "_"
            names[param] = name
    return names


def _stored(stmt: Stmt) -> Iterator[Buffer]:
    """The buffers stored to anywhere in `stmt`."""
    stack: list[Any] = [stmt]
    while stack:
        top = stack.pop()
        if isinstance(top, BufferStore):
            yield top.buffer
        for value in top.fields():
            if isinstance(value, Stmt):
                stack.append(value)
            elif isinstance(value, tuple):
                stack += [x for x in value if isinstance(x, Stmt)]
