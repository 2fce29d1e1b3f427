"""Cut a function into segments: as many tensor operators as can run in one compiled call.

In each scope, the operators that need no result of anything but operators form segment 0. What the virtual machine does
itself (a call, a branch, a host operator) comes behind the segments it needs, and the operators that need its results
form later segments:

    %a = exp(%x); %b = f(%a); %c = exp(%y); %d = add(%b, %c)      segment 0: %a, %c;   call of f;   segment 1: %d

With a `Placement` some operators are computed on the host, in segments of their own beside those of the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.driver.vm.closures import captured_vars
from tilewright.driver.vm.placement import Placement
from tilewright.driver.vm.scopes import Scope, Scopes, find_scopes, operands
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.symbolic import attr_exprs, dims_of, fresh_dims
from tilewright.relay.ir.type import TensorType, TupleType, Type
from tilewright.relay.ir.visitor import children
from tilewright.support.recursion import nested
from tilewright.tir.expr import Expr as TirExpr
from tilewright.tir.expr import SizeVar
from tilewright.tir.size_hint import size_hint
from tilewright.tir.visitor import collect_vars


@dataclass(eq=False)
class SegmentNodes:
    """The operators of one segment in order, and which of their values are needed outside (fields of tuples too)."""

    members: list[Call] = field(default_factory=list)
    outputs: dict[Expr, None] = field(default_factory=dict)
    on_host: bool = False


@dataclass(eq=False)
class Steps:
    """The steps of every scope of one function, in order: segments, and nodes for the virtual machine itself."""

    scopes: Scopes
    steps: dict[Scope, list[SegmentNodes | Expr]]
    segment_of: dict[Expr, SegmentNodes]


def is_tensor_operator(node: Expr) -> bool:
    """True for a call that can be compiled: an operator with a compute (or an expansion) on numbers."""
    if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.data_dependent:
        return False
    if node.op.compute is None and node.op.expansion is None:
        return False
    return all(map(_is_numeric, [node.checked_type, *[arg.checked_type for arg in node.args]]))


def _is_numeric(type_: Type) -> bool:
    if isinstance(type_, TupleType):
        return all(map(_is_numeric, type_.fields))
    return isinstance(type_, TensorType) and not type_.dtype.is_string


def cut_segments(function: Function, one_by_one: bool = False, placement: Placement | None = None) -> Steps:
    """The segments of a function whose types are known; with `one_by_one` each operator is a segment of its own.

    `placement` divides the operators between a device and the host.
    """
    scopes = find_scopes(function.body)
    steps = Steps(scopes, {}, {})
    reads = _reads_of_regions(scopes)
    for scope in _all_scopes(scopes):
        if one_by_one:
            _cut_everywhere(scope, steps)
        else:
            operators = {node for node in scope.nodes if is_tensor_operator(node)}
            on_host = set() if placement is None else placement.on_host(scope, scopes, operators)
            _cut_scope(scope, steps, reads, on_host)
    _find_outputs(steps)
    return steps


def _all_scopes(scopes: Scopes) -> Iterator[Scope]:
    stack = [scopes.top]
    while stack:
        scope = stack.pop()
        yield scope
        for node in scope.nodes:
            stack.extend(scopes.inner.get(node, ()))


def needed(node: Expr, scopes: Scopes) -> list[Expr]:
    """The values that `node` itself reads in its scope, looked through; for a closure those it captures."""
    if isinstance(node, Function):
        return [scopes.value(var) for var in captured_vars(node)]
    return [scopes.value(kid) for kid, opens in operands(node) if not opens]


def _reads_of_regions(scopes: Scopes) -> dict[Expr, list[Expr]]:
    """For each node that opens scopes, the values of its own scope that are read somewhere within."""
    reads: dict[Expr, list[Expr]] = {}
    for scope in _all_scopes(scopes):
        values = [scopes.value(scope.result), *[value for node in scope.nodes for value in needed(node, scopes)]]
        for value in values:
            home = scopes.of.get(value)
            inner = scope
            while inner.parent is not None and inner is not home:
                assert inner.opener is not None
                if home is inner.parent:
                    reads.setdefault(inner.opener, []).append(value)
                inner = inner.parent
    return reads


@dataclass(eq=False)
class _Round:
    """The segments of one round, that of the device first, which computes while the host goes on; other nodes of it."""

    segments: tuple[SegmentNodes, SegmentNodes] = field(
        default_factory=lambda: (SegmentNodes(), SegmentNodes(on_host=True))
    )
    rest: list[Expr] = field(default_factory=list)

    @property
    def steps(self) -> list[SegmentNodes | Expr]:
        return [*[segment for segment in self.segments if segment.members], *self.rest]


def _cut_scope(scope: Scope, steps: Steps, reads: dict[Expr, list[Expr]], on_host: set[Expr]) -> None:
    """Find the round of each node: operators of one round are a segment, other nodes of it come behind that."""
    scopes = steps.scopes
    done: dict[Expr, int] = {}  # the first round in which the value is there for the machine
    ready: dict[Expr, tuple[int, int]] = {}  # the first rounds whose segments, of device and host, may use the value
    rounds: dict[int, _Round] = {}
    last_effect = 0
    for node in scope.nodes:
        if isinstance(node, Tuple | TupleGetItem):
            kids = [scopes.value(kid) for kid in children(node)]
            done[node] = max((done.get(kid, 0) for kid in kids), default=0)
            there = [ready.get(kid, (0, 0)) for kid in kids]
            ready[node] = max((r[0] for r in there), default=0), max((r[1] for r in there), default=0)
            continue
        needs = [*needed(node, scopes), *reads.get(node, ())]
        if is_tensor_operator(node):
            here = node in on_host
            turn = max((ready.get(kid, (0, 0))[here] for kid in needs), default=0)
            done[node], ready[node] = turn, (turn + here, turn + (not here))
            segment = rounds.setdefault(turn, _Round()).segments[here]
            assert isinstance(node, Call)
            segment.members.append(node)
            steps.segment_of[node] = segment
        else:
            turn = max([last_effect, *[done.get(kid, 0) for kid in needs]])
            last_effect = done[node] = turn
            ready[node] = turn + 1, turn + 1
            rounds.setdefault(turn, _Round()).rest.append(node)
    steps.steps[scope] = [step for turn in sorted(rounds) for step in rounds[turn].steps]


def _cut_everywhere(scope: Scope, steps: Steps) -> None:
    """A segment for each operator, all in the order of the scope's nodes."""
    order: list[SegmentNodes | Expr] = []
    for node in scope.nodes:
        if is_tensor_operator(node):
            assert isinstance(node, Call)
            steps.segment_of[node] = SegmentNodes([node])
            order.append(steps.segment_of[node])
        elif not isinstance(node, Tuple | TupleGetItem):
            order.append(node)
    steps.steps[scope] = order


def _find_outputs(steps: Steps) -> None:
    """Mark the values of segments that something outside reads."""
    scopes = steps.scopes
    for scope, order in steps.steps.items():
        _demand(scopes.value(scope.result), None, steps)
        for step in order:
            if isinstance(step, SegmentNodes):
                for member in step.members:
                    for value in needed(member, scopes):
                        _demand(value, step, steps)
            else:
                for value in needed(step, scopes):
                    _demand(value, None, steps)


@nested
def _demand(value: Expr, reader: SegmentNodes | None, steps: Steps) -> None:
    """Note that `reader` (None: the machine) reads `value`."""
    scopes = steps.scopes
    if isinstance(value, Tuple):
        for item in value.fields:
            _demand(scopes.value(item), reader, steps)
        return
    source = scopes.value(value.tuple_value) if isinstance(value, TupleGetItem) else value
    segment = steps.segment_of.get(source)
    if segment is None:
        if isinstance(value, TupleGetItem):
            _demand(source, reader, steps)
    elif segment is not reader:
        segment.outputs[value] = None


def segment_function(segment: SegmentNodes, scopes: Scopes, around: Function) -> tuple[Function, list[Expr]]:
    """The segment as a closed function of the values it reads from outside, and those values in order.

    Dimensions that nothing is known of become size variables of the segment. Raises `UnsupportedError` where an
    operator mentions a dimension that neither an outside value nor a parameter of the function `around` has.
    """
    outside = _outside_values(segment, scopes)
    types, carriers = close_types(outside, segment.members, around)
    params = {value: Var(f"value{index}", type_) for index, (value, type_) in enumerate(zip(outside, types))}
    made: dict[Expr, Expr] = {}

    def operand(expr: Expr) -> Expr:
        value = scopes.value(expr)
        if value in made or value in params:
            return made.get(value) or params[value]
        if isinstance(value, Constant):
            return value
        if isinstance(value, Tuple):
            return Tuple([operand(item) for item in value.fields])
        if isinstance(value, TupleGetItem) and scopes.value(value.tuple_value) in made:
            return TupleGetItem(made[scopes.value(value.tuple_value)], value.index)
        return Tuple([params[item] for item in fields_of(value, scopes)])

    for member in segment.members:
        made[member] = Call(member.op, [operand(arg) for arg in member.args], member.attrs, member.span)
    results = [leaf for output in segment.outputs for leaf in _leaves(operand(output), output.checked_type)]
    body = results[0] if len(results) == 1 else Tuple(results)
    return Function([*params.values(), *[Var(c.name, c.checked_type) for c in carriers]], body), [*outside, *carriers]


def leaf_types(type_: Type) -> Sequence[Type]:
    """The types of a segment's results for a value: of each field of an operator's tuple, or the value's own."""
    return type_.fields if isinstance(type_, TupleType) else (type_,)


def _leaves(value: Expr, type_: Type) -> list[Expr]:
    """The results of a segment for `value`, one expression for each of `leaf_types`."""
    if not isinstance(type_, TupleType):
        return [value]
    return [TupleGetItem(value, index) for index in range(len(type_.fields))]


def _outside_values(segment: SegmentNodes, scopes: Scopes) -> list[Expr]:
    """The tensors that a segment's operators read and that it does not compute, in order."""
    inside = set(segment.members)
    found: dict[Expr, None] = {}
    stack = [arg for member in reversed(segment.members) for arg in reversed(member.args)]
    while stack:
        value = scopes.value(stack.pop())
        if isinstance(value, Constant) or value in inside:
            continue
        if isinstance(value, TupleGetItem) and scopes.value(value.tuple_value) in inside:
            continue
        if isinstance(value, Tuple):
            stack.extend(reversed(value.fields))
        elif isinstance(value.checked_type, TupleType):
            found.update(dict.fromkeys(fields_of(value, scopes)))
        else:
            found[value] = None
    return list(found)


def fields_of(value: Expr, scopes: Scopes) -> list[Expr]:
    """The tensors of a tuple that something else computes, as fields of it; the same nodes each time."""
    if not isinstance(value.checked_type, TupleType):
        return [value]
    if value not in scopes.fields:
        items = []
        for index, type_ in enumerate(value.checked_type.fields):
            item = TupleGetItem(value, index)
            item.set_inferred_type(type_)
            items.append(item)
        scopes.fields[value] = items
    return [leaf for item in scopes.fields[value] for leaf in fields_of(item, scopes)]


def close_types(values: list[Expr], members: list[Call], around: Function) -> tuple[list[Type], list[Var]]:
    """The types of `values` in dimensions that a call on them tells, and parameters of `around` that tell the rest."""
    mentioned = {var for member in members for expr in attr_exprs(member.attrs) for var in collect_vars(expr)}
    dims = [dim for value in values for dim in dims_of(value.checked_type)]
    whole = {dim for dim in dims if isinstance(dim, SizeVar)}
    carriers: list[Var] = []
    for var in [var for var in mentioned if var not in whole]:
        carrier = next((p for p in around.params if var in dims_of(p.checked_type)), None)
        if carrier is None:
            raise UnsupportedError(
                f"the dimension {var.name} is used within a loop or branch that gets no tensor with such a dimension; "
                "pass it one, or fix its size with --input-shapes (in Python: input_shapes=)"
            )
        whole.update(dim for dim in dims_of(carrier.checked_type) if isinstance(dim, SizeVar))
        if carrier not in carriers and carrier not in values:
            carriers.append(carrier)
    fresh: dict[object, SizeVar] = {}
    for dim in dims:
        if isinstance(dim, TirExpr) and any(var not in whole for var in collect_vars(dim)):
            fresh.setdefault(dim, SizeVar(f"s{len(fresh)}", "int32", size_hint(dim)))
    return [fresh_dims(value.checked_type, fresh, "any") for value in values], carriers
