"""Operations: the nodes of a tensor expression graph, and the functions that build them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.support.dtype import DType
from tilewright.te.itervar import IterType, IterVar, as_index
from tilewright.te.tag import current_tag
from tilewright.te.tensor import Tensor
from tilewright.tir import op as tir_op
from tilewright.tir.arith.range import Range
from tilewright.tir.expr import Add, Expr, IntImm, Max, Min, Mul, ProducerLoad, Reduce, Var
from tilewright.tir.position import Position, caller
from tilewright.tir.visitor import post_order, rewrite_expr

#: A tensor that is read and at which indices; None stands for all of a dimension.
Read = tuple[Tensor, tuple[Expr | None, ...]]


class Operation:
    """Base of operations. `outputs` are its tensors; identity is the object.

    `axis` are the axes that the indices of its outputs stand for, `reduce_axis` those it reduces over; both are empty
    where nothing runs along axes. `position` is where it was written, for messages, pictures and the code made of it;
    it is no part of what is computed.
    """

    __slots__ = ("attrs", "name", "outputs", "position", "tag")

    name: str
    tag: str
    attrs: dict[str, Any]
    outputs: tuple[Tensor, ...]
    axis: tuple[IterVar, ...]
    reduce_axis: tuple[IterVar, ...]
    position: Position | None

    @property
    def is_reduction(self) -> bool:
        """True if its body reduces over axes."""
        return bool(self.reduce_axis)

    def reads(self) -> list[Read]:
        """Every distinct tensor read, with the indices at which it is read, in order of appearance."""
        return []

    def with_inputs(self, tensors: Mapping[Tensor, Tensor]) -> Operation:
        """The same operation with reads of each key of `tensors` made reads of its value."""
        return self

    def output(self, index: int) -> Tensor:
        """Output number `index`."""
        return self.outputs[index]

    @property
    def num_outputs(self) -> int:
        """The number of tensors this operation makes."""
        return len(self.outputs)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors it reads, in order of first appearance."""
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.name}"


class PlaceholderOp(Operation):
    """A tensor given by the caller; it has no axes, as nothing is computed."""

    __slots__ = ()
    axis = ()
    reduce_axis = ()

    def __init__(self, name: str, shape: tuple[Expr, ...], dtype: str) -> None:
        self.name, self.tag, self.attrs, self.position = name, "", {}, None
        self.outputs = (Tensor(self, 0, shape, dtype, name),)


class ComputeOp(Operation):
    """Tensors defined element by element: `body[k]` over the variables of `axis` is output k's element there.

    A reduction has one `tir.Reduce` per output, all with the same sources and condition over the axes `reduce_axis`.
    """

    __slots__ = ("_inputs", "axis", "body", "reduce_axis")

    def __init__(
        self,
        name: str,
        axis: Sequence[IterVar],
        body: Sequence[Expr],
        tag: str = "",
        attrs: Mapping[str, Any] | None = None,
        position: Position | None = None,
    ) -> None:
        self.name, self.tag, self.attrs, self.position = name, tag, dict(attrs or {}), position
        self.axis, self.body = tuple(axis), tuple(body)
        first = self.body[0]
        self.reduce_axis: tuple[IterVar, ...] = first.axis if isinstance(first, Reduce) else ()
        self._inputs: tuple[Tensor, ...] | None = None
        shape = tuple(iv.dom.extent for iv in self.axis if iv.dom is not None)
        several = len(self.body) > 1
        self.outputs = tuple(
            Tensor(self, i, shape, b.dtype, f"{name}.v{i}" if several else name) for i, b in enumerate(self.body)
        )

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors the body reads, in order of first appearance."""
        if self._inputs is None:
            self._inputs = tuple(dict.fromkeys(load.producer for load in self._loads()))
        return self._inputs

    def _loads(self) -> list[ProducerLoad]:
        """The loads of the body and of the extents of reductions."""
        spans = [iv.dom for iv in self.reduce_axis if iv.dom is not None]
        return producer_loads([*self.body, *(end for span in spans for end in (span.min, span.extent))])

    def reads(self) -> list[Read]:
        """Every distinct read in the body."""
        return [(load.producer, load.indices) for load in self._loads()]

    def with_inputs(self, tensors: Mapping[Tensor, Tensor]) -> ComputeOp:
        """The same computation on other tensors."""
        return self.with_body(redirect(self.body, tensors))

    def with_body(self, body: Sequence[Expr], name: str | None = None) -> ComputeOp:
        """The same axes, tag and attributes with another body; itself if the body is the same."""
        if name is None and tuple(body) == self.body:
            return self
        return ComputeOp(name or self.name, self.axis, body, self.tag, self.attrs, self.position)


def redirect(exprs: Sequence[Expr], tensors: Mapping[Tensor, Tensor]) -> tuple[Expr, ...]:
    """The expressions with reads of each key of `tensors` made reads of its value at the same indices."""

    def read(load: ProducerLoad) -> Expr:
        return ProducerLoad(tensors.get(load.producer, load.producer), load.indices)

    memo: dict[Expr, Expr] = {}
    return tuple(rewrite_expr(x, {ProducerLoad: read}, memo) for x in exprs)


def producer_loads(exprs: Sequence[Expr]) -> list[ProducerLoad]:
    """Every distinct tensor read in `exprs`, in order of appearance."""
    loads: dict[ProducerLoad, None] = {}

    def visit(node: Any) -> None:
        if type(node) is ProducerLoad:
            loads[node] = None

    for expr in exprs:
        post_order(expr, visit)
    return list(loads)


def placeholder(shape: Sequence[Any], dtype: str = "float32", name: str = "placeholder") -> Tensor:
    """A tensor of `shape` (integers or expressions) and `dtype` that the caller passes in."""
    return PlaceholderOp(name, as_shape(shape), DType(dtype)).output(0)


def compute(
    shape: Sequence[Any],
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """A tensor of `shape` whose element at (i, j, …) is `fcompute(i, j, …)`.

    `fcompute` gets one variable per dimension (or all through `*indices`) and returns an expression, a reduction
    such as `te.sum(…, axis=k)`, or a tuple of them for several outputs; then a list of tensors is returned. It may also
    take fewer indices than there are dimensions and call a tensor intrinsic, which makes the rest of them.
    Raises TypeError when the arity, the result or the position of a reduction is wrong.
    """
    dims = as_shape(shape)
    names = _axis_names(fcompute, len(dims), name)
    axis = [_data_axis(d, n) for d, n in zip(dims, names)]
    value = fcompute(*[iv.var for iv in axis])
    if isinstance(value, IntrinsicCall):
        inner = [_data_axis(d, f"t{i}") for i, d in enumerate(dims[len(axis) :])]
        made = ComputeOp(name, [*axis, *inner], value.body(inner, name), tag or current_tag(), attrs, caller())
        made.attrs["intrin"] = (value.intrin, len(axis), len(value.reduce_axis))
        return list(made.outputs) if made.num_outputs > 1 else made.outputs[0]
    if len(axis) < len(dims):
        raise TypeError(f"{name} has {len(dims)} dimensions, but its function takes {len(axis)} indices")
    several = isinstance(value, (tuple, list))
    body = [tir_op.convert(v) for v in (value if several else (value,))]
    _check_body(name, body)
    outputs = ComputeOp(name, axis, body, tag or current_tag(), attrs, caller()).outputs
    return list(outputs) if several else outputs[0]


def _data_axis(extent: Expr, name: str) -> IterVar:
    return IterVar(Range(tir_op.const(0, extent.dtype), extent), Var(name, extent.dtype), IterType.DATA_PAR)


class IntrinsicCall:
    """The result of calling a `TensorIntrin` on regions; its class is in `tensor_call.py`."""

    intrin: Any
    reduce_axis: tuple[IterVar, ...]

    def body(self, axis: Sequence[IterVar], name: str) -> list[Expr]:
        """The elements that it makes, over its axes. Raises ScheduleError where the shapes do not fit."""
        raise NotImplementedError


def as_shape(shape: Any) -> tuple[Expr, ...]:
    """A shape as index expressions; one size alone is a shape of one dimension. Raises TypeError for what is none.

    A float that is a whole number, as `N / factor` of two Python integers is, counts as one.
    """
    if isinstance(shape, Expr) or hasattr(shape, "__index__"):
        shape = (shape,)
    dims = tuple([as_index(int(s) if isinstance(s, float) and s.is_integer() else s) for s in shape])
    for d in dims:
        if isinstance(d, IntImm) and d.value < 0:
            raise TypeError(f"a tensor cannot have the negative size {d.value}: shape {dims!r}")
    return dims


def _axis_names(fcompute: Callable[..., Any], ndim: int, name: str) -> list[str]:
    """Names of the axes: the parameters of `fcompute`, then i0, i1, … where it takes any number."""
    try:
        parameters = list(inspect.signature(fcompute).parameters.values())
    except (TypeError, ValueError):
        return [f"i{d}" for d in range(ndim)]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    open_ended = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    required = sum(p.default is p.empty for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
    if ndim < required:
        raise TypeError(f"{name} has {ndim} dimensions, but its function takes {len(names)} indices")
    return names[:ndim] + [f"i{d}" for d in range(len(names), ndim if open_ended else 0)]


def _check_body(name: str, body: Sequence[Expr]) -> None:
    """A reduction must be the whole body, and all outputs must come from the same reduction."""
    if not body:
        raise TypeError(f"{name}: the function returned no value")
    reductions = [b for b in body if isinstance(b, Reduce)]
    if reductions and len(reductions) != len(body):
        raise TypeError(f"{name}: either all outputs are reductions or none is; split it into two te.compute")
    first = reductions[0] if reductions else None
    for r in reductions:
        if first is None or (r.combiner, r.source, r.axis, r.condition) != (
            first.combiner, first.source, first.axis, first.condition
        ):  # fmt: skip
            raise TypeError(f"{name}: its outputs must be the results of one reduction of a tuple")

    def visit(node: Any) -> None:
        if isinstance(node, Reduce):
            raise TypeError(
                f"{name}: a reduction must be the whole body of a te.compute; "
                "compute it first, then use its tensor in a second te.compute"
            )

    for b in body:
        parts: tuple[Expr, ...] = (*b.source, b.condition, *b.init) if isinstance(b, Reduce) else (b,)
        for part in parts:
            post_order(part, visit)


def reduces_by_lanes(op: Operation) -> bool:
    """True if `op` is one reduction whose combiner is x + y, x * y, min(x, y) or max(x, y)."""
    body = op.body if isinstance(op, ComputeOp) else ()
    if len(body) != 1 or not isinstance(body[0], Reduce):
        return False
    combiner = body[0].combiner
    result = combiner.result[0]
    operands = {combiner.lhs[0], combiner.rhs[0]}
    return isinstance(result, (Add, Mul, Min, Max)) and {result.a, result.b} == operands
