"""Loop functions that programs write by hand, through the passes that schedules go through."""

from __future__ import annotations

from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Var
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.bind_threads import has_threads
from tilewright.tir.transform.pipeline import DEVICE, HOST, result
from tilewright.tir.visitor import collect

#: The attribute of functions whose buffers are flat: the shapes that they were written with.
_SHAPES = "param_shapes"


def lowered(func: PrimFunc) -> PrimFunc:
    """The function ready for a code generator; one that went through the passes is itself.

    Sizes in the shapes of its buffers that are no parameters are read off the arrays that it is called with.
    """
    if _SHAPES in func.attrs or "spmd" in func.attrs:
        return func
    shapes = [param.shape if isinstance(param, Buffer) else None for param in func.params]
    sizes = dict.fromkeys(var for shape in shapes for size in shape or () for var in collect(size, Var))
    inferred = [var for var in sizes if var not in func.params]
    attrs = {**func.attrs, _SHAPES: [*shapes, *([None] * len(inferred))], "inferred": tuple(inferred)}
    whole = PrimFunc(func.name, [*func.params, *inferred], func.body, attrs)
    return result((DEVICE if has_threads(func) else HOST).lower, whole, None)
