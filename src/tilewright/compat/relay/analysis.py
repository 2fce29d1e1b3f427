"""`relay.analysis` where the classic signature or result differs from this package's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tilewright import relay
from tilewright.relay.ir import analysis
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import TypeVar
from tilewright.relay.ir.visitor import calls, children, post_order
from tilewright.relay.op.cost import flops
from tilewright.relay.transform.functional.to_basic_block_normal_form import crossing_values
from tilewright.support.named import named


def operands(node: relay.Expr) -> Sequence[relay.Expr]:
    """The nodes within a node, functions that were made of several operators included."""
    if isinstance(node, relay.Call) and isinstance(node.op, relay.Function):
        return (node.op, *node.args)
    return (node.body,) if isinstance(node, relay.Function) else children(node)


def post_order_visit(expr: relay.Expr, fvisit: Callable[[Any], object]) -> None:
    """Call `fvisit` on every node of `expr`, operands before users; the operators called are among them."""
    seen: set[Any] = set()
    for node in post_order(expr, operands=operands):
        for one in ([node.op] if isinstance(node, relay.Call) and not isinstance(node.op, relay.Expr) else []) + [node]:
            if one not in seen:
                seen.add(one)
                fvisit(one)


def _with_module(own: Callable[[Any], list[TypeVar]]) -> Callable[..., list[TypeVar]]:
    """`own` that takes a module, too, which it does not need."""

    def find(expr: Any, mod: Any = None) -> list[TypeVar]:
        return own(expr)

    return named(find, own.__name__, own.__doc__)


all_type_vars = _with_module(analysis.all_type_vars)
bound_type_vars, free_type_vars = _with_module(analysis.bound_type_vars), _with_module(analysis.free_type_vars)


def unmatched_cases(match: relay.Match, mod: Any = None) -> list[str]:
    """Values, written as patterns, that no clause fits: at most one is named."""
    found = analysis.unmatched_cases(match, mod if mod is not None else relay.IRModule())
    return [] if found is None else [found]


def check_basic_block_normal_form(expr: relay.Expr) -> bool:
    """True if no region uses a value of another that is not bound."""
    return not crossing_values(expr.body if isinstance(expr, relay.Function) else expr)


def list_op_freqs(mod: Any) -> dict[str, int]:
    """The number of calls of each operator in the functions of a module."""
    found: Counter[str] = Counter()
    for func in mod.functions.values():
        nodes = post_order(func, operands=operands) if isinstance(func, relay.Expr) else ()
        found.update(node.op.name for node in nodes if isinstance(node, relay.Call) and isinstance(node.op, Op))
    return dict(found)


def count_layers(expr: Any, valid_ops: Sequence[str]) -> int:
    """The greatest number of successive calls of `valid_ops` on one path in an expression or a module's `main`."""
    if isinstance(expr, relay.IRModule):
        expr = expr["main"]
    deepest: dict[Any, int] = {}
    for node in post_order(expr):
        below = max((deepest.get(child, 0) for child in children(node)), default=0)
        counts = isinstance(node, relay.Call) and getattr(node.op, "name", "") in valid_ops
        deepest[node] = below + counts
    return deepest[expr]


def get_total_mac_number(expr: relay.Expr) -> int:
    """Multiplications with addition in the convolutions and products of a typed expression."""
    heavy = ("nn.conv", "nn.dense", "nn.batch_matmul", "nn.matmul")
    root = expr.body if isinstance(expr, relay.Function) else expr
    return sum(flops(call) // 2 for call in calls(root) if str(getattr(call.op, "name", "")).startswith(heavy))
