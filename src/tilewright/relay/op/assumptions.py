"""Conditions on symbolic sizes that the program does not state: what a run has to check.

add(%x: Tensor[(H, 4)], %y: Tensor[(W, 4)])        H and W are equal
reshape(%x: Tensor[(H, 4)], newshape=(W, 2))       H * 4 and W * 2 are equal
take(%x: Tensor[(H, 4)], [0, 5], axis=0)           5 < H

They are those that type rules require and cannot decide (`topi.shapes.may_hold`), those of the field `Op.equal_sizes`,
and those of constant indices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Var
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import Dim, as_dim, tensor_types
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.unknown_sizes import UnknownSize
from tilewright.relay.ir.visitor import calls
from tilewright.relay.op.equal_sizes import of_broadcast
from tilewright.tir import expr as e
from tilewright.tir import op as tir_op
from tilewright.tir.visitor import collect_vars
from tilewright.topi.shapes import may_hold, undecided_conditions

#: Two sizes that must be equal; for a condition of another form, it and 1.
Assumption = tuple[Dim, Dim]
#: No variable whose value is known.
NO_VALUES: Mapping[Var, Expr] = {}


def assumptions(function: Function, args: Sequence[Expr] = ()) -> Iterator[tuple[Dim, Dim, str]]:
    """Assumptions about symbolic dimensions of calls within `function`, called with `args`, each with the name of the
    call.
    """
    values = dict(zip(function.params, args))
    for call in calls(function.body):
        if isinstance(call.op, Op):
            for a, b in assumptions_of_call(call, values):
                yield a, b, call.span or call.op.name


def assumptions_of_call(call: Call, values: Mapping[Var, Expr] = NO_VALUES) -> Iterator[Assumption]:
    """Assumptions about symbolic dimensions of a typed call of an operator; `values` are those of variables among its
    arguments.
    """
    assert isinstance(call.op, Op)
    types = [leaf for arg in call.args for leaf in tensor_types(arg.checked_type)]
    results = tensor_types(call.checked_type)
    if all(type_.is_static for type_ in (*types, *results)) or any(type_.has_any for type_ in (*types, *results)):
        return
    rule = call.op.equal_sizes
    if rule is None and call.op.pattern <= OpPattern.BROADCAST:
        rule = of_broadcast
    pairs = [*(rule(call, types) if rule is not None else ()), *_required(call, values)]
    yield from ((a, b) for a, b in pairs if _may_differ(a, b))


def _required(call: Call, values: Mapping[Var, Expr]) -> Iterator[Assumption]:
    """Requirements of the operator's type rule that it cannot decide, and that constant indices are in range."""
    assert isinstance(call.op, Op)
    with undecided_conditions() as found:
        call.op.type_rule([arg.checked_type for arg in call.args], call.attrs)
        _require_indices(call, values)
    for condition in dict.fromkeys(found):
        if not any(isinstance(var, UnknownSize) for var in collect_vars(condition)):
            yield (as_dim(condition.a), as_dim(condition.b)) if isinstance(condition, e.EQ) else (condition, 1)


def _require_indices(call: Call, values: Mapping[Var, Expr]) -> None:
    """Constant indices along axes of symbolic sizes are in range, so that none is read as its neighbour."""
    assert isinstance(call.op, Op)
    positions = call.op.positions(call) if call.op.positions is not None else None
    if positions is None:
        return
    data, indices = tensor_type_of(call.args[0]), call.args[1]
    known = values.get(indices, indices) if isinstance(indices, Var) else indices
    if not isinstance(known, Constant) or not known.data.size or not positions.axes:
        return
    for number, axis in enumerate(positions.axes):
        part = known.data[number] if positions.coordinates else known.data
        if part.size and not isinstance(data.shape[axis], int):
            least, most = int(part.min()), int(part.max())
            may_hold(tir_op.less(most, data.shape[axis]))
            if least < 0 and positions.from_back:
                may_hold(tir_op.less_equal(-least, data.shape[axis]))


def _may_differ(a: Dim, b: Dim) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return False
    return a is not b and not isinstance(a, AnyDim) and not isinstance(b, AnyDim)
