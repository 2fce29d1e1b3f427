"""A function of one sample for several at a time, where nothing in it depends on how many there are.

Before: fn (%x: [1, 8]) { reshape(nn.dense(%x, w), newshape=[1, 2, 2]) }
After:  fn (%x: [16, 8]) { reshape(nn.dense(%x, w), newshape=[16, 2, 2]) }
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import TypeMismatchError, UnsupportedError
from tilewright.relay.ir.expr import Expr, Function, Var
from tilewright.relay.ir.type import TensorType, Type, tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children, post_order, rebuild
from tilewright.relay.op.transform import reshape
from tilewright.relay.transform.simplify.make import is_call


def of_batch(main: Function, roots: Sequence[Expr], batch: int) -> tuple[list[Var], list[Expr]] | None:
    """The parameters and the `roots`, expressions of `main`, for `batch` samples; None where their types do not follow.

    That all of them have an axis for samples in front does not say that no operator goes along it: whoever cannot
    know compares results.
    """
    if any(not _of_one(param.type_annotation) for param in main.params):
        return None
    params = [_wide(param, batch) for param in main.params]
    made: dict[Expr, Expr] = dict(zip(main.params, params, strict=True))
    try:
        for node in post_order(*roots):
            if node not in made:
                made[node] = _of_batch(node, tuple(made[kid] for kid in children(node)), batch)
        wide = [made[root] for root in roots]
        fits = all(_many(type_of(new), type_of(old), batch) for new, old in zip(wide, roots, strict=True))
    except (TypeMismatchError, UnsupportedError):
        return None
    return (params, wide) if fits else None


def _of_batch(node: Expr, operands: tuple[Expr, ...], batch: int) -> Expr:
    if is_call(node, "reshape") and _of_one(type_of(node)) and _of_one(type_of(children(node)[0])):
        (result,) = tensor_types(type_of(node))
        return reshape(operands[0], (batch, *result.shape[1:]))
    return rebuild(node, operands)


def _wide(param: Var, batch: int) -> Var:
    (type_,) = tensor_types(type_of(param))
    return Var(param.name_hint, TensorType((batch, *type_.shape[1:]), str(type_.dtype)))


def _of_one(type_: Type | None) -> bool:
    """True for a tensor of one sample."""
    return isinstance(type_, TensorType) and type_.is_static and type_.shape[:1] == (1,)


def _many(wide: Type, one: Type, batch: int) -> bool:
    """True for tensors of `batch` samples where the function of one has those of one."""
    pairs = zip(tensor_types(wide), tensor_types(one), strict=True)
    return all(_of_one(b) and a.shape == (batch, *b.shape[1:]) for a, b in pairs)
