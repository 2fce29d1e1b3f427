"""Commutative reducers: sum, product, min, max, and those a user declares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.support.dtype import DType
from tilewright.support.named import named
from tilewright.te.itervar import IterType, IterVar
from tilewright.tir import op as tir_op
from tilewright.tir.expr import Expr, Reduce, Var
from tilewright.tir.visitor import substitute


class CommReducer:
    """A commutative, associative combiner of tuples: `result` is written over the variables `lhs` and `rhs`.

    `identity` holds one expression per component: combining with it changes nothing.
    """

    __slots__ = ("identity", "lhs", "name", "result", "rhs")

    def __init__(
        self, lhs: Sequence[Var], rhs: Sequence[Var], result: Sequence[Expr], identity: Sequence[Expr], name: str
    ) -> None:
        self.lhs, self.rhs = tuple(lhs), tuple(rhs)
        self.result, self.identity = tuple(result), tuple(identity)
        self.name = name

    def combine(self, a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, ...]:
        """The components of `a` combined with `b`."""
        mapping = dict(zip((*self.lhs, *self.rhs), (*a, *b), strict=True))
        return tuple(substitute(r, mapping) for r in self.result)

    def __repr__(self) -> str:
        return f"reducer {self.name}"


class _Family:
    """A reducer as declared: one `CommReducer` for each combination of types that it has been used with."""

    def __init__(self, combine: Callable[[Any, Any], Any], identity: Callable[..., Any], name: str) -> None:
        self.combine, self.identity, self.name = combine, identity, name
        self.known: dict[tuple[tuple[DType, ...], bool], CommReducer] = {}

    def member(self, dtypes: tuple[DType, ...], is_tuple: bool) -> CommReducer:
        """The reducer of values of `dtypes`; always the same one."""
        found = self.known.get((dtypes, is_tuple))
        if found is None:
            found = self.known[dtypes, is_tuple] = self._declare(dtypes, is_tuple)
        return found

    def _declare(self, dtypes: tuple[DType, ...], is_tuple: bool) -> CommReducer:
        lhs = [Var(f"x{i}", d) for i, d in enumerate(dtypes)]
        rhs = [Var(f"y{i}", d) for i, d in enumerate(dtypes)]
        result = self.combine(tuple(lhs), tuple(rhs)) if is_tuple else self.combine(lhs[0], rhs[0])
        identity = self.identity(*dtypes)
        results = tuple(result) if is_tuple else (result,)
        identities = tuple(identity) if is_tuple else (identity,)
        _check_components(self.name, dtypes, results, identities)
        exact = [tir_op.convert(v, d) for v, d in zip(identities, dtypes, strict=True)]
        return CommReducer(lhs, rhs, results, exact, self.name)


def comm_reducer(
    fcombine: Callable[[Any, Any], Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """A reduction function from a combiner and its identity.

    `fcombine(x, y)` and `fidentity(dtype)` deal with expressions for a reduction of one value and with tuples for
    several: `fcombine((xi, xv), (yi, yv))`, `fidentity(dtype_i, dtype_v)`. The result is called as
    `f(expr, axis=axes, where=condition, init=value)`; with a tuple as `expr` it returns a tuple of results. It raises
    TypeError for axes that are not `te.reduce_axis`, and for a combiner or identity of other types than the values.
    """
    family = _Family(fcombine, fidentity, name)

    def reduce(expr: Any, axis: Any, where: Any = None, init: Any = None) -> Any:
        is_tuple = isinstance(expr, (tuple, list))
        source = tuple(tir_op.convert(x) for x in (expr if is_tuple else (expr,)))
        axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
        for item in axes:
            if not isinstance(item, IterVar) or item.iter_type is not IterType.REDUCE:
                raise TypeError(f"te.{name} reduces over te.reduce_axis axes; got {item!r}")
        condition = tir_op.const(True, "bool") if where is None else tir_op.convert(where)
        combiner = family.member(tuple(x.dtype for x in source), is_tuple)
        start = () if init is None else tuple(init) if isinstance(init, (tuple, list)) else (init,)
        inits = tuple(tir_op.convert(v, x.dtype) for v, x in zip(start, source, strict=bool(start)))
        made = [Reduce(combiner, source, axes, condition, i, inits) for i in range(len(source))]
        return tuple(made) if is_tuple else made[0]

    return named(reduce, name, f"{name} of `expr` over the reduction axes `axis`, where the condition `where` holds.")


def _check_components(name: str, dtypes: Sequence[DType], results: Sequence[Any], identities: Sequence[Any]) -> None:
    if len(results) != len(dtypes) or len(identities) != len(dtypes):
        raise TypeError(
            f"reducer {name} of {len(dtypes)} values must combine to and start from as many; "
            f"it returns {len(results)} and {len(identities)}"
        )
    for result, dtype in zip(results, dtypes, strict=True):
        if result.dtype is not dtype:
            raise TypeError(f"reducer {name} combines {dtype} values to {result.dtype}; cast the result to {dtype}")


def _lowest(dtype: DType) -> Expr:
    return tir_op.const(dtype.extremes()[0], dtype)


def _highest(dtype: DType) -> Expr:
    return tir_op.const(dtype.extremes()[1], dtype)


sum = comm_reducer(lambda x, y: x + y, lambda t: tir_op.const(0, t), "sum")
prod = comm_reducer(lambda x, y: x * y, lambda t: tir_op.const(1, t), "prod")
max = comm_reducer(tir_op.maximum, _lowest, "max")
min = comm_reducer(tir_op.minimum, _highest, "min")
