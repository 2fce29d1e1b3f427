"""Functions that only repeat tensor operators, as loops that run without the interpreter.

    @f(%i, %x, %l) { if (test(%i, %x)) @f(%i + 1, g(%x), push(%l, h(%x))) else … }

Its repetition is one segment, (%i, %x) -> (%i + 1, g(%x), h(%x), test(%i + 1, g(%x))), which the runtime calls until
the last result is false (`runtime/vm/loop.py`). The function's results are computed as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.driver.vm.segments import close_types, is_tensor_operator
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Tuple, TupleGetItem, Var
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.visitor import calls, free_vars, post_order, substitute
from tilewright.runtime.manifest import Loop


@dataclass(frozen=True)
class Repetition:
    """The segment of a loop, how it is called, and the parameters it reads; those that change, those that collect."""

    body: Function
    loop: Loop
    reads: list[Var]
    carried: list[Var]
    collected: list[Var]


def repetition(name: str, function: Function, captured: Sequence[Var]) -> Repetition | None:
    """The loop that the function called `name` is; None for any other function."""
    branch = function.body
    if captured or not isinstance(branch, If) or not isinstance(branch.true_branch, Call):
        return None
    again = branch.true_branch
    if not isinstance(again.op, GlobalVar) or again.op.name != name:
        return None
    new = dict(zip(function.params, again.args, strict=True))
    changed = {param: value for param, value in new.items() if value is not param}
    collected = {
        param: value.args[1] for param, value in changed.items() if isinstance(value, Call) and _pushes(param, value)
    }
    carried: dict[Expr, Expr] = {param: value for param, value in changed.items() if param not in collected}
    repeated = [*carried.values(), *collected.values(), branch.cond]
    own = set(calls(*repeated))
    if own & set(calls(branch.false_branch)) or not all(map(_is_tensor, [*own, *post_order(*repeated)])):
        return None
    if not all(_fixed(param) and param.checked_type == value.checked_type for param, value in carried.items()):
        return None
    results = [*carried.values(), *collected.values(), substitute(branch.cond, carried)]
    reads = free_vars(*results)
    types, carriers = close_types(list(reads), list(own), function)
    fresh = [Var(f"value{index}", type_) for index, type_ in enumerate(types)]
    inputs: dict[Expr, Expr] = dict(zip(reads, fresh, strict=True))
    body = substitute(results[0] if len(results) == 1 else Tuple(results), inputs)
    changing = [param for param in function.params if param in carried]
    numbers = tuple(reads.index(param) if param in inputs else None for param in changing)
    made = Function([*fresh, *[Var(c.name, c.checked_type) for c in carriers]], body)
    return Repetition(made, Loop(carried=numbers), [*reads, *carriers], changing, list(collected))


def _pushes(param: Var, value: Call) -> bool:
    """True if `value` is the list `param` with one more element."""
    return value.op is get("list.push") and value.args[0] is param


def _is_tensor(node: Expr) -> bool:
    """True for what a segment can compute or be given."""
    if isinstance(node, Call):
        return is_tensor_operator(node)
    if isinstance(node, Var):
        return isinstance(node.checked_type, TensorType)
    return isinstance(node, Constant | Tuple | TupleGetItem)


def _fixed(param: Expr) -> bool:
    return isinstance(param.checked_type, TensorType) and param.checked_type.is_static
