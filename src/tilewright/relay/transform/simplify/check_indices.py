"""Every index that a model reads or writes at is checked while it runs: for debugging.

Before: take(%table, %ids, axis=0)
After:  take(%table, check_indices(%ids, %table, axes=[0], label="take (from Gather_3)"), axis=0)

Without it an index out of range reads the nearest element (`take`, `gather`, `gather_nd`) or writes nothing (`scatter`
and its kin). The check runs on the host, so a model with checks runs on the virtual machine.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.common import call


def check_indices(mod: IRModule) -> IRModule:
    """Put a check before every call that reads or writes at indices which are values at run time."""
    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, _rule))))


def _rule(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.positions is None:
        return None
    data, indices, *others = node.args
    positions = node.op.positions(node)
    if positions is None or (isinstance(indices, Constant) and isinstance(data, Constant)):
        return None
    label = f"{node.op.name} (from {node.span})" if node.span else node.op.name
    checked = call(
        "check_indices",
        indices,
        data,
        axes=positions.axes,
        coordinates=positions.coordinates,
        from_back=positions.from_back,
        label=label,
    )
    return Call(node.op, [data, checked, *others], node.attrs, node.span)
