"""Type rules on dimensions of which nothing is known: while a rule runs, each `?` is a size with a name.

    relu-like rule:  Tensor[(?, 4), float32]  ->  Tensor[(?, 4), float32]
    concatenate:     Tensor[(?, 4), …], Tensor[(n, 4), …]  ->  the rule says u + n, so the result is Tensor[(?, 4), …]

So a rule is written for integers and expressions only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.relay.ir.type import Any, Dim, TensorType, Type, map_type, parts
from tilewright.tir.expr import Expr, SizeVar
from tilewright.tir.visitor import collect_vars


class UnknownSize(SizeVar):
    """The unknown size behind one `?`; it is replaced by any other size where two must be equal."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("unknown")


def apply_rule(rule: Callable[[Sequence[Type]], Type], types: Sequence[Type]) -> Type:
    """`rule(types)`, which never sees a `?`; what depends on one is `?` in the result."""
    if not any(map(_has_unknown, types)):
        return rule(types)
    return map_type(rule([map_type(type_, _named) for type_ in types]), _unnamed)


def _has_unknown(type_: Type) -> bool:
    if isinstance(type_, TensorType):
        return not type_.is_static and type_.has_any
    return any(map(_has_unknown, parts(type_)))


def _named(part: Type) -> Type | None:
    if not isinstance(part, TensorType) or not part.has_any:
        return None
    return TensorType([UnknownSize() if isinstance(dim, Any) else dim for dim in part.shape], part.dtype)


def _unnamed(part: Type) -> Type | None:
    if not isinstance(part, TensorType) or part.is_static:
        return None
    return TensorType([Any() if _depends(dim) else dim for dim in part.shape], part.dtype)


def _depends(dim: Dim) -> bool:
    return isinstance(dim, Expr) and any(isinstance(var, UnknownSize) for var in collect_vars(dim))
