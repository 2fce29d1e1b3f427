"""Loop functions that programs write by hand, through the passes that schedules go through."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.compat.ir.pass_config import after_stage
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Var
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.bind_threads import has_threads
from tilewright.tir.transform.pipeline import DEVICE, HOST, result
from tilewright.tir.transform.remove_no_op import remove_no_op
from tilewright.tir.transform.unroll_loop import unroll_loop
from tilewright.tir.visitor import collect

#: The attribute of functions whose buffers are flat: the shapes that they were written with.
_SHAPES = "param_shapes"


def lowered(func: PrimFunc) -> PrimFunc:
    """The function ready for a code generator; one that went through the passes is itself.

    Sizes in the shapes of its buffers that are no parameters are read off the arrays that it is called with.
    """
    if "spmd" in func.attrs or (_SHAPES in func.attrs and has_threads(func)):
        return func
    if _SHAPES in func.attrs:
        return result(HOST.lower[_workers() :], func, None)
    shapes = [param.shape if isinstance(param, Buffer) else None for param in func.params]
    sizes = dict.fromkeys(var for shape in shapes for size in shape or () for var in collect(size, Var))
    inferred = [var for var in sizes if var not in func.params]
    attrs = {**func.attrs, _SHAPES: [*shapes, *([None] * len(inferred))], "inferred": tuple(inferred)}
    whole = PrimFunc(func.name, [*func.params, *inferred], func.body, attrs)
    return result((DEVICE if has_threads(func) else HOST).lower, whole, None)


def without_workers(stages: Iterable[tuple[str, PrimFunc]]) -> PrimFunc:
    """The function that `stages` of lowering make, before they divide its loops among workers; `lowered` goes on."""
    split = HOST.lower[_workers() - 1].name
    for stage, func in stages:
        if stage == split:
            return after_stage("remove_no_op", remove_no_op(after_stage("unroll_loop", unroll_loop(func))))
    return func


def _workers() -> int:
    """The stage of a processor's pipeline that divides parallel loops among workers."""
    return HOST.names.index("lower_parallel")
