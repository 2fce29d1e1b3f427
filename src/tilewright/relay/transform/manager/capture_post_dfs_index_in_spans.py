"""Every call is named after its position in the order of evaluation, so that a later pass's output can be traced back.

Before: nn.relu(add(%x, %b))
After:  nn.relu(add(%x, %b) /* index:2 */) /* index:3 */

Names that the source model gave stay in front.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import children, post_order, rebuild


def capture_post_dfs_index_in_spans(mod: IRModule) -> IRModule:
    """Put "index:i" into the span of each call, i its number in the post-order of its function."""
    return infer_type(mod.map_functions(lambda func: func.with_body(_numbered(func.body))))


def _numbered(root: Expr) -> Expr:
    fresh: dict[Expr, Expr] = {}
    for index, node in enumerate(post_order(root)):
        made = rebuild(node, tuple([fresh[kid] for kid in children(node)]))
        if isinstance(made, Call):
            span = f"{made.span};index:{index}" if made.span else f"index:{index}"
            made = Call(made.op, made.args, made.attrs, span)
        fresh[node] = made
    return fresh[root]
