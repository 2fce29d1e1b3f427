"""Operator fusion by the four categories of the OSDI 2018 paper (section 3): one group of calls = one kernel.

Before: %0 = nn.conv2d(%x, %w); %1 = add(%0, %b); nn.relu(%1)
After:  %0 = fn (%p0, %p1, %p2, Primitive=1) { nn.relu(add(nn.conv2d(%p0, %p1), %p2)) }; %0(%x, %w, %b)

A call joins the group of its immediate post-dominator (the first call that every use of its value leads to) if all
calls on the way may join too, so nothing is computed twice and no group needs a value that depends on itself:

1. complex-out-fusable (conv2d, dense): elementwise and broadcast calls follow it, as long as each has the shape of its
   result; another operand, as of a residual add, may be any value;
2. injective: joins injective calls that follow it, or the reduction that reads it;
3. reduction: takes the injective calls before it, nothing after it;
4. opaque: alone.

Where a backend gathers the operands of products, transposes that one product alone reads join it, and so does what
widens bytes and subtracts a number of them, or weights of 16 bits.

Beyond them a blocked depthwise convolution, with what follows it elementwise, joins the 1x1 convolution that alone
reads it where that pays (see `depthwise_pair`). Where a backend finishes rows in one kernel, softmax and layer
normalization are followed as products are.

What widens bytes at the end of a group moves to the one that reads it elementwise: bytes are what is stored.

Calls that move no bytes (see `views`) stay out where they can: concatenations that `plan_memory` gets for nothing do
not fuse, and reshapes and slices at the rim of a group are taken out of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var, merge_spans
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import children, consumers, post_order, rebuild
from tilewright.relay.op.views import cut_offsets, free_concatenations, is_reshape, memory_of, producer
from tilewright.relay.transform.fuse.depthwise_pair import is_depthwise_pair
from tilewright.relay.transform.fuse.dominator import Flow, build_flow
from tilewright.relay.transform.simplify.make import is_call
from tilewright.support.recursion import nested

#: Calls of a group, and values from outside that it reads, at most.
MAX_GROUP, MAX_READS = 256, 128


@dataclass(frozen=True)
class FusionForm:
    """The forms of groups that make no difference to results; these are the ones that compiled models run best with.

    Without `views_apart` calls that move no bytes join groups like any other. `patterns` are categories of operators by
    name in place of their own. Without `sparing` elements that take long may be computed any number of times. With
    `whole` constants other than scalars are parameters of a group, and where one field of a group's result is all that
    is read, the group returns that field.
    """

    views_apart: bool = True
    patterns: Mapping[str, OpPattern] = field(default_factory=dict)
    sparing: bool = True
    whole: bool = False


def fuse_ops(
    mod: IRModule, max_group: int = MAX_GROUP, backend: GraphBackend | None = None, form: FusionForm | None = None
) -> IRModule:
    """Group the calls of `main` into primitive functions, each called once; see the module's docstring.

    Without a backend no two convolutions join.
    """
    mod, form = infer_type(mod), form or FusionForm()
    main = mod["main"]
    nodes = post_order(main.body)
    if backend is not None and backend.finishes_rows():
        rows = {
            node.op.name for node in nodes if isinstance(node, Call) and isinstance(node.op, Op) and node.op.by_rows
        }
        form = replace(form, patterns={**dict.fromkeys(rows, OpPattern.OUT_ELEMWISE_FUSABLE), **form.patterns})
    flow = build_flow(nodes, main.body, form.patterns)
    results = main.body.fields if isinstance(main.body, Tuple) else (main.body,)
    alone = free_concatenations(flow.order, results) if form.views_apart else set()
    groups = _grow_groups(flow, alone, max_group, backend, form.sparing)
    if form.views_apart:
        _peel_views(groups)
    body = _rebuild_main(nodes, groups, form)
    fused = Function(main.params, body, main.ret_type, attrs=main.attrs)
    return infer_type(mod.with_function("main", fused))


def fused_name(func: Function) -> str:
    """A readable name made of the operators of a primitive function: `fused_nn_conv2d_add_nn_relu`."""
    ops = [node.op.name for node in post_order(func.body) if isinstance(node, Call) and isinstance(node.op, Op)]
    shown = ops if len(ops) <= 6 else [*ops[:5], f"and_{len(ops) - 5}_more"]
    return "_".join(["fused", *shown]).replace(".", "_")


@dataclass(eq=False)
class _Group:
    """Calls that become one kernel, in order of evaluation; the last one's value is the result."""

    members: list[Call]
    pattern: OpPattern
    costly: bool


def _grow_groups(
    flow: Flow, alone: set[Call], max_group: int, backend: GraphBackend | None, sparing: bool
) -> dict[Call, _Group]:
    """The group of each call, by the rules above: first what follows the anchors, then injective calls."""
    groups = {
        call: _Group([call], OpPattern.OPAQUE if call in alone else flow.patterns[call], sparing and op.costly)
        for call, op in flow.ops.items()
    }
    for phase in ("anchors", "injective"):
        if phase == "injective" and backend is not None:
            _join_depthwise_pairs(flow, groups, max_group, backend)
        for call in flow.order:
            sink, edge = flow.dominator[call], flow.path_pattern[call]
            if sink is None or groups[sink] is groups[call]:
                continue
            source = groups[call]
            if phase == "anchors":
                wanted = source.pattern == OpPattern.OUT_ELEMWISE_FUSABLE and edge == OpPattern.ELEMWISE
            else:
                wanted = source.pattern <= OpPattern.INJECTIVE and edge <= OpPattern.COMM_REDUCE
            path = _path(flow, groups, call, sink, source.pattern) if wanted else None
            if path is not None:
                _merge(flow, groups, path, max_group)
    if backend is not None and backend.gathers_operands():
        _join_gathered_operands(flow, groups, max_group)
    for call in flow.order:
        if groups[call].members[-1] is call:
            _widen_where_read(flow, groups, groups[call])
    return groups


def _widen_where_read(flow: Flow, groups: dict[Call, _Group], group: _Group) -> None:
    """Move what widens bytes at the end of a group to the only group that reads it."""
    last, inside = group.members[-1], set(group.members)
    if not _is_scalar_step(last):
        return
    chain: list[Call] = []
    node: Expr = last
    while isinstance(node, Call) and node in inside and (not chain or len(flow.users[node]) == 1):
        if not _is_scalar_step(node) or tensor_type_of(node).dtype.itemsize == 1:
            break
        chain.append(node)
        node = node.args[0]
    bytes_inside = chain and node in inside and tensor_type_of(node).dtype.itemsize == 1
    readers = {groups[user] if user is not None else None for user in flow.users[last]}
    reader = next(iter(readers), None)
    if not bytes_inside or len(readers) != 1 or reader is None or reader is group:
        return
    if not all(user is not None and _reads_once(flow, user) for user in flow.users[last]):
        return
    left = [call for call in group.members if call not in chain]
    moved = sorted((*chain, *reader.members), key=flow.position.__getitem__)
    if _reads_too_many(moved):
        return
    groups.update(dict.fromkeys(left, replace(group, members=left)))
    groups.update(dict.fromkeys(moved, replace(reader, members=moved)))


def _is_scalar_step(node: Call) -> bool:
    """True for a conversion, or arithmetic with constant numbers, one of a kind."""
    if is_call(node, "cast"):
        return True
    known = is_call(node, "subtract", "multiply", "left_shift", "nn.contrib_fixed_point")
    return known and all(isinstance(number, Constant) and number.data.size == 1 for number in node.args[1:])


def _reads_once(flow: Flow, user: Call) -> bool:
    """True if `user` reads each element for one result."""
    pattern = flow.patterns[user]
    return pattern <= OpPattern.BROADCAST or (pattern == OpPattern.COMM_REDUCE and "pool_size" not in user.attrs)


def _join_gathered_operands(flow: Flow, groups: dict[Call, _Group], max_group: int) -> None:
    """Merge groups that only move or widen elements with the product that alone reads them."""
    for call in reversed(flow.order):
        members, users = groups[call].members, flow.users[call]
        moves = all(flow.ops[member].rearranges or _centres_bytes(member) for member in members)
        reader = users[0] if len(users) == 1 else None
        halves = _widens_weights(call)
        if reader is None or members[-1] is not call or not (moves or halves) or groups[reader] is groups[call]:
            continue
        is_product = groups[reader].pattern == OpPattern.OUT_ELEMWISE_FUSABLE
        is_product = is_product and (halves or not flow.ops[reader].spatial_axes)
        if is_product and (flow.patterns[reader] == OpPattern.OUT_ELEMWISE_FUSABLE or flow.ops[reader].rearranges):
            _merge(flow, groups, [*members, reader], max_group)


def _widens_weights(node: Call) -> bool:
    """True for weights that are stored as float16, of a product in float32."""
    return is_call(node, "cast") and isinstance(node.args[0], Constant) and str(node.args[0].data.dtype) == "float16"


def _centres_bytes(node: Expr) -> bool:
    """True for what widens bytes to int32, or subtracts a number from these."""
    if not isinstance(node, Call) or not is_call(node, "subtract", "cast"):
        return False
    if is_call(node, "subtract"):
        number = node.args[1]
        return isinstance(number, Constant) and number.data.size == 1 and _centres_bytes(node.args[0])
    return tensor_type_of(node.args[0]).dtype.itemsize == 1 and tensor_type_of(node).dtype == "int32"


def _join_depthwise_pairs(flow: Flow, groups: dict[Call, _Group], max_group: int, backend: GraphBackend) -> None:
    """Merge the groups of depthwise convolutions with those of the 1x1 convolutions that read them."""
    for call in flow.order:
        data = call.args[0] if call.args else None
        if not isinstance(data, Call) or data not in groups or flow.users[data] != [call]:
            continue
        first, *rest = groups[data].members
        elementwise = all(flow.patterns[member] <= OpPattern.BROADCAST for member in rest)
        if elementwise and groups[data].members[-1] is data and is_depthwise_pair(first, call, backend):
            _merge(flow, groups, [data, call], max_group)


def _path(flow: Flow, groups: dict[Call, _Group], source: Call, sink: Call, pattern: OpPattern) -> list[Call] | None:
    """All calls on the ways from `source` to `sink`, both included, or None if one of them may not join."""
    at_sink: tuple[OpPattern, ...]
    if pattern == OpPattern.OUT_ELEMWISE_FUSABLE:
        between, at_sink = OpPattern.BROADCAST, (OpPattern.ELEMWISE, OpPattern.BROADCAST)
    else:
        between, at_sink = OpPattern.INJECTIVE, tuple(OpPattern)[: OpPattern.COMM_REDUCE + 1]
        if pattern <= OpPattern.BROADCAST:
            at_sink = (*at_sink, OpPattern.OUT_ELEMWISE_FUSABLE)
    found: dict[Call, None] = {source: None}
    stack = [source]
    while stack:
        node = stack.pop()
        for user in flow.users[node]:
            if user is None or not _repeatable(flow, groups[node], node, user):
                return None
            group = groups[user].pattern
            if user is sink:
                if group not in at_sink:
                    return None
            elif group > between:
                return None
            elif user not in found:
                stack.append(user)
            found[user] = None
    return list(found)


def _repeatable(flow: Flow, group: _Group, node: Call, user: Call) -> bool:
    """False if `user` would compute a costly element of `node` more than twice."""
    if not group.costly:
        return True
    window = math.prod(user.attrs.get("pool_size", ()))
    reads = max(flow.size[user] * window / flow.size[node], flow.ops[user].passes)
    return reads <= 2


def _merge(flow: Flow, groups: dict[Call, _Group], path: list[Call], max_group: int) -> None:
    """Make one group of the groups of all calls of `path`, unless it would be too large."""
    parts = list(dict.fromkeys(groups[call] for call in path))
    if sum(len(part.members) for part in parts) > max_group:
        return
    members = sorted((call for part in parts for call in part.members), key=flow.position.__getitem__)
    if _reads_too_many(members):
        return
    merged = _Group(members, max(part.pattern for part in parts), any(part.costly for part in parts))
    groups.update(dict.fromkeys(members, merged))


def _reads_too_many(members: list[Call]) -> bool:
    """True if a kernel of `members` would read more than `MAX_READS` values."""
    read: set[Expr] = set()
    for call in members:
        for arg in call.args:
            read.update(arg.fields if isinstance(arg, Tuple) else (arg,))
    return len(read) > MAX_READS and len(read.difference(members)) > MAX_READS


def _peel_views(groups: dict[Call, _Group]) -> None:
    """Take reshapes and whole slices that come first, and reshapes that come last, out of their groups."""
    for group in dict.fromkeys(groups.values()):
        inside = dict.fromkeys(group.members)
        for call in group.members:
            if len(inside) > 1 and _is_view(call) and producer(call.args[0]) not in inside:
                del inside[call]
        while len(inside) > 1 and is_reshape(last := next(reversed(inside))) and last.args[0] in inside:
            del inside[last]
        if len(inside) < len(group.members):
            for call in group.members:
                rest = [call] if call not in inside else list(inside)
                groups[call] = _Group(rest, group.pattern, group.costly)


def _is_view(call: Call) -> bool:
    """True for a reshape, or a whole slice of a computed value, to which `plan_memory` can assign storage."""
    if is_reshape(call):
        return True
    return cut_offsets(call) is not None and isinstance(producer(memory_of(call.args[0])), Call)


def _rebuild_main(nodes: list[Expr], groups: dict[Call, _Group], form: FusionForm) -> Expr:
    """The body of `main` with each group replaced by a call of its primitive function, and no marks that end fusion."""
    done: dict[Expr, Expr] = {}
    fields = _only_fields(nodes) if form.whole else {}
    for node in nodes:
        if is_call(node, "annotation.stop_fusion"):
            done[node] = done[node.args[0]]  # type: ignore[attr-defined]
        elif isinstance(node, Call) and node in groups:
            members = groups[node].members
            if node is members[-1]:
                done[node] = _call_of_group(members, done, fields.get(node), form)
        elif isinstance(node, TupleGetItem) and fields.get(node.tuple_value) is node:
            if node.tuple_value in done:
                done[node] = done[node.tuple_value]
        elif all(kid in done for kid in children(node)):
            done[node] = rebuild(node, tuple([done[kid] for kid in children(node)]))
    return done[nodes[-1]]


def _only_fields(nodes: list[Expr]) -> dict[Expr, TupleGetItem]:
    """The calls of which one field is all that is read, with that field."""
    return {
        value: users[0]
        for value, users in consumers(nodes).items()
        if isinstance(value, Call) and len(users) == 1 and isinstance(users[0], TupleGetItem)
    }


def _call_of_group(
    members: list[Call], done: dict[Expr, Expr], only: TupleGetItem | None, form: FusionForm
) -> Call:  # fmt: skip
    """A primitive function of the calls `members` and a call of it on the (rebuilt) values from outside the group.

    Constants of one element stand in it, but not where a call may read all of a value from memory, as opaque ones do.
    Its result is that of the last member, or `only` a field of that.
    """
    inner: dict[Expr, Expr] = {}
    params: dict[Expr, Var] = {}
    inside = set(members)
    patterns = [form.patterns.get(call.op.name, call.op.pattern) for call in members if isinstance(call.op, Op)]
    opaque = OpPattern.OPAQUE in patterns

    def stands_inside(value: Expr) -> bool:
        return (
            isinstance(value, Constant) and value.data.size == 1 and not opaque and not (form.whole and value.data.ndim)
        )

    @nested
    def operand(expr: Expr) -> Expr:
        if expr in inner:
            return inner[expr]
        if stands_inside(expr):
            return expr
        if isinstance(expr, Tuple) or (isinstance(expr, TupleGetItem) and expr.tuple_value in inside):
            made = rebuild(expr, tuple([operand(kid) for kid in children(expr)]))
            made.set_inferred_type(type_of(expr))
        else:
            made = params[expr] = Var(f"p{len(params)}", tensor_type_of(expr))
        inner[expr] = made
        return made

    for call in members:
        copy = Call(call.op, [operand(arg) for arg in call.args], call.attrs, call.span)
        copy.set_inferred_type(call.checked_type)
        inner[call] = copy
    func = Function(params.values(), operand(only or members[-1]), attrs={"Primitive": 1})
    return Call(func, [done[expr] for expr in params], span=merge_spans(*members))
