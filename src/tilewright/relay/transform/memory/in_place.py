"""Results of a step that are inputs of the next one, written over these where a kernel can.

Before: fn (%w, %g) { %0 = fn (a, b) { subtract(a, b) }(%w, %g); (%0,) }               main has "updates": ((0, 0),)
After:  fn (%w, %g) { %0 = fn (a, b) /* in_place: 0 */ { subtract(a, b) }(%w, %g); (%0,) }

The caller then passes one address for both. A kernel may write over what it reads at the same index alone, and not
before all others have read it, which `update_order` sees to. The other results are copied there at the end of a run.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Call, Expr, Function, Tuple, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import children, post_order, rebuild
from tilewright.relay.op.views import is_reshape

#: The attribute of `main` that has pairs of an input and the output that is written over it, by their numbers.
UPDATES = "updates"

#: The attribute of a kernel's function that has the number of the argument that its result is written over.
IN_PLACE = "in_place"


def update_in_place(mod: IRModule) -> IRModule:
    """The module, after fusion, with kernels of `main` marked that write over one of their arguments.

    Raises `UnsupportedError` where an updated input is itself the value of another result, which would change with it.
    """
    pairs = mod["main"].attrs.get(UPDATES)
    if not pairs:
        return mod
    mod = infer_type(mod)
    main = mod["main"]
    body, nodes = main.body, post_order(main.body)
    fields = list(body.fields) if isinstance(body, Tuple) else [body]
    _require_own(main, fields, dict(pairs))
    readers = _readers(nodes)
    marked: dict[Expr, int] = {}
    for number, result in pairs:
        call, var = fields[result], main.params[number]
        if not isinstance(call, Call) or fields.count(call) > 1 or readers.get(call, []) not in ([], [body]):
            continue
        at = _over(call, var)
        others = None if at is None else _kernels_reading(var, readers)
        if at is None or others is None or not _comes_last(call, others, readers):
            continue
        marked[call] = at
        for reader in others:
            if reader is not call:
                readers.setdefault(reader, []).append(call)
    return infer_type(mod.with_function("main", main.with_body(_rebuilt(nodes, marked)))) if marked else mod


def written_over(node: Expr) -> int | None:
    """The number of the argument over which the kernel of `node` writes; None where it has memory of its own."""
    return node.op.attrs.get(IN_PLACE) if isinstance(node, Call) and isinstance(node.op, Function) else None


def update_order(nodes: Sequence[Expr]) -> list[Expr]:
    """The nodes in their order, but that calls which write over an input come after all that read it."""
    marked = [node for node in nodes if isinstance(node, Call)]
    updates = [(call, call.args[at]) for call in marked if (at := written_over(call)) is not None]
    if not updates:
        return list(nodes)
    number, readers = {node: index for index, node in enumerate(nodes)}, _readers(nodes)
    for update, var in updates:
        for reader in _kernels_reading(var, readers) or ():
            if reader is not update:
                readers[reader] = [*readers.get(reader, ()), update]
    missing = dict.fromkeys(nodes, 0)
    for behind in readers.values():
        for one in behind:
            missing[one] += 1
    ready, found = [number[node] for node in nodes if not missing[node]], []
    while ready:
        node = nodes[heapq.heappop(ready)]
        found.append(node)
        for one in readers.get(node, ()):
            missing[one] -= 1
            if not missing[one]:
                heapq.heappush(ready, number[one])
    assert len(found) == len(nodes)
    return found


def is_renamed(node: Expr) -> bool:
    """True for a call of a function that only renames the shape of its one argument."""
    if not isinstance(node, Call) or not isinstance(node.op, Function) or len(node.op.params) != 1:
        return False
    body = node.op.body
    while is_reshape(body):
        assert isinstance(body, Call)
        body = body.args[0]
    return body is node.op.params[0]


def _readers(nodes: Iterable[Expr]) -> dict[Expr, list[Expr]]:
    """The nodes that read each node."""
    found: dict[Expr, list[Expr]] = {}
    for node in nodes:
        for kid in dict.fromkeys(children(node)):
            if not isinstance(kid, Function | Op):
                found.setdefault(kid, []).append(node)
    return found


def _require_own(main: Function, fields: Sequence[Expr], pairs: Mapping[int, int]) -> None:
    """Raise where a result is an updated input, renamed perhaps, and not that which it is updated by."""
    updated = {main.params[number]: result for number, result in pairs.items()}
    for index, field in enumerate(fields):
        value = field
        while is_renamed(value):
            assert isinstance(value, Call)
            value = value.args[0]
        if isinstance(value, Var) and updated.get(value, index) != index:
            raise UnsupportedError(
                f"{value.name} is updated in place, and result {index} is what it was before: return a copy of it"
            )


def _kernels_reading(var: Expr, readers: Mapping[Expr, Sequence[Expr]]) -> list[Call] | None:
    """The calls that read `var`, by other shapes of it too; None where something else holds it."""
    found: list[Call] = []
    for reader in readers.get(var, ()):
        if not isinstance(reader, Call):
            return None
        inner = _kernels_reading(reader, readers) if is_renamed(reader) else [reader]
        if inner is None:
            return None
        found += inner
    return found


def _comes_last(call: Call, others: Sequence[Call], readers: Mapping[Expr, Sequence[Expr]]) -> bool:
    """True if none of `others` has to come after `call`, which is one of them."""
    seen: set[Expr] = set()
    ahead: list[Expr] = list(readers.get(call, ()))
    while ahead:
        node = ahead.pop()
        if node not in seen:
            seen.add(node)
            ahead += readers.get(node, ())
    return seen.isdisjoint(others)


def _over(call: Call, var: Var) -> int | None:
    """The number of the argument `var` of a kernel that reads it element by element, as it writes its one result."""
    if not isinstance(call.op, Function) or list(call.args).count(var) != 1 or type_of(call) != type_of(var):
        return None
    at = list(call.args).index(var)
    onward: set[Expr] = {call.op.params[at]}
    for node in post_order(call.op.body):
        if not isinstance(node, Call):
            continue
        if not isinstance(node.op, Op) or not isinstance(type_of(node), TensorType):
            return None
        reads = not onward.isdisjoint(node.args)
        if node.op.pattern > OpPattern.BROADCAST and (reads or not is_reshape(node)):
            return None
        if reads and tensor_type_of(node).shape != tensor_type_of(call).shape:
            return None
        if reads:
            onward.add(node)
    return at


def _rebuilt(nodes: Sequence[Expr], marked: Mapping[Expr, int]) -> Expr:
    """The last of `nodes`, with the functions of calls marked."""
    done: dict[Expr, Expr] = {}
    for node in nodes:
        kids = children(node)
        made = rebuild(node, tuple([done.get(kid, kid) for kid in kids])) if kids else node
        if node in marked:
            assert isinstance(made, Call) and isinstance(made.op, Function)
            made = Call(made.op.with_attr(IN_PLACE, marked[node]), made.args, made.attrs, made.span)
        done[node] = made
    return done[nodes[-1]]
