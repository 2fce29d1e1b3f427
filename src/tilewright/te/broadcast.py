"""Functions of elements applied to whole tensors, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.errors import TypeMismatchError
from tilewright.te.operation import compute
from tilewright.te.tag import BROADCAST, ELEMWISE
from tilewright.te.tensor import Tensor
from tilewright.tir.expr import IntImm


def broadcast_shape(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """The common shape, aligned at the last axis; a symbolic size counts as equal to any other but 1.

    Raises TypeMismatchError.
    """
    rank = max((len(s) for s in shapes), default=0)
    result: list[Any] = [1] * rank
    for shape in shapes:
        for d, dim in enumerate(shape, rank - len(shape)):
            size = dim.value if isinstance(dim, IntImm) else dim
            if result[d] is size or size == 1 if isinstance(size, int) else result[d] is size:
                continue
            if isinstance(result[d], int) and (result[d] == 1 or not isinstance(size, int)):
                result[d] = size if result[d] == 1 else result[d]
            elif not isinstance(result[d], int):
                result[d] = size if isinstance(size, int) and size != 1 else result[d]
            elif not (isinstance(size, int) and isinstance(result[d], int) and size == result[d]):
                listed = " and ".join(str(tuple(s)) for s in shapes)
                raise TypeMismatchError(f"the shapes {listed} do not broadcast: sizes {result[d]} and {size} differ")
    return tuple(result)


def element(x: Tensor, indices: Sequence[Any]) -> Any:
    """The element of `x` that broadcasts to `indices` of a result of at least its rank."""
    own = indices[len(indices) - x.ndim :]
    return x(*[0 if isinstance(dim, IntImm) and dim.value == 1 else i for i, dim in zip(own, x.shape)])


def nary(function: Callable[..., Any], name: str, *operands: Any) -> Any:
    """`function` of the elements of broadcast tensors, and of numbers or expressions among them.

    Without any tensor among them it is `function` of the operands.
    """
    tensors = [x for x in operands if isinstance(x, Tensor)]
    if not tensors:
        return function(*operands)
    shape = broadcast_shape(*[t.shape for t in tensors])
    return compute(
        shape,
        lambda *i: function(*[element(x, i) if isinstance(x, Tensor) else x for x in operands]),
        name=f"T_{name}",
        tag=ELEMWISE if len(tensors) == 1 else BROADCAST,
    )
