"""Cheap element-wise values that several kernels read, computed again in each of them instead of stored.

Before: %1 = subtract(%x, %mean); %2 = mean(multiply(%1, %1)); %3 = multiply(%1, %scale)     (%1: a kernel of its own)
After:  %1 = subtract(%x, %mean); %2 = mean(multiply(%1, %1)); %3 = multiply(subtract(%x, %mean), %scale)

A value is copied for its readers where all of them can take it into their kernels, where it would be stored otherwise
(its readers do not meet in one kernel anyway), and where reading what it is made of again moves fewer bytes than to
store it and read it. Passes over memory are counted in values of its size: storing one reads its line and writes it.
Must come after equal expressions were merged, and before fusion.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import OpPattern
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import children, post_order, rebuild
from tilewright.relay.transform.fuse.dominator import Flow, build_flow
from tilewright.tir.size_hint import size_hint

#: Passes over memory that storing a value takes: its lines come to the cache, and leave it.
_STORED = 2

#: An operand of less than a value's size by this factor costs nothing to read again.
_SMALL = 8


def recompute(mod: IRModule) -> IRModule:
    """Copy cheap values of `main` for their readers; see the module's docstring."""
    mod = infer_type(mod)
    main = mod["main"]
    nodes = post_order(main.body)
    flow = build_flow(nodes, main.body)
    copied, inlined = _copied(flow)
    if not copied:
        return mod
    return infer_type(mod.with_function("main", main.with_body(_rebuilt(nodes, copied, inlined))))


def _copied(flow: Flow) -> tuple[set[Call], set[Call]]:
    """The calls that are worth computing in each kernel that reads them, and with them those that a kernel computes
    on the way to the one call that reads them."""
    copied: set[Call] = set()
    sources: dict[Call, frozenset[Expr]] = {}  # what a copied call, or one inside a reader's kernel, reads of its size
    for call in flow.order:
        if flow.patterns[call] > OpPattern.BROADCAST or flow.ops[call].costly or not _is_array(call):
            continue
        read: set[Expr] = set()
        for value in call.args:
            if isinstance(value, Call) and value in sources:
                read |= sources[value]
            elif not isinstance(value, Constant) and _size(value) * _SMALL > flow.size[call]:
                read.add(value)
        users = [user for user in flow.users[call] if user is not None]
        if len(set(users)) < 2:
            if len(flow.users[call]) == 1 and users and _takes(flow, call, users[0]):
                sources[call] = frozenset(read)
            continue
        again, stored = len(set(users)) * len(read), len(read) + _STORED + len(set(users))
        apart = len(users) == len(flow.users[call]) and not _meets(flow, call) and not _follows_product(flow, call)
        if apart and again <= stored and all(_takes(flow, call, user) for user in users):
            copied.add(call)
            sources[call] = frozenset(read)
    return copied, set(sources)


def _follows_product(flow: Flow, call: Call) -> bool:
    """True where the kernel of a product, or of an operator by rows, stores the value of `call` for nothing.

    Only `call` reads what it computes, or element-wise calls on the way to it: x * sigmoid(x) is such a value.
    """
    within, ahead = {call}, list(call.args)
    while ahead:
        value = ahead.pop()
        if not isinstance(value, Call) or value not in flow.ops or not within.issuperset(flow.users[value]):
            continue
        if flow.ops[value].by_rows or flow.patterns[value] == OpPattern.OUT_ELEMWISE_FUSABLE:
            return True
        if flow.patterns[value] <= OpPattern.BROADCAST and value not in within:
            within.add(value)
            ahead = [arg for one in within for arg in one.args]
    return False


def _is_array(call: Call) -> bool:
    return isinstance(type_of(call), TensorType) and all(isinstance(type_of(value), TensorType) for value in call.args)


def _size(value: Expr) -> int:
    return max(1, size_hint(tensor_type_of(value).size))


def _takes(flow: Flow, call: Call, user: Call) -> bool:
    """True if `user` computes what it reads of `call` in its own kernel: of the same size, or a sum over it."""
    pattern = flow.patterns[user]
    if pattern <= OpPattern.BROADCAST:
        return flow.size[user] == flow.size[call]
    return pattern == OpPattern.COMM_REDUCE and "pool_size" not in user.attrs


def _meets(flow: Flow, call: Call) -> bool:
    """True if all readers lead to one call by element-wise ones, so that they become one kernel without copies."""
    return flow.dominator[call] is not None and flow.path_pattern[call] <= OpPattern.BROADCAST


def _rebuilt(nodes: list[Expr], copied: set[Call], inlined: set[Call]) -> Expr:
    """The last of `nodes` with an own copy of each of the calls `copied`, and of what leads to it, for every reader."""
    done: dict[Expr, Expr] = {}

    def operand(value: Expr, within: bool = False) -> Expr:
        if not isinstance(value, Call) or value not in (inlined if within else copied):
            return done[value]
        return Call(value.op, [operand(arg, True) for arg in value.args], value.attrs, value.span)

    for node in nodes:
        if node in copied:
            continue
        kids = children(node)
        own = {kid: operand(kid) for kid in kids}
        done[node] = rebuild(node, tuple([own[kid] for kid in kids])) if kids else node
    return done[nodes[-1]]
