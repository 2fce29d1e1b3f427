"""Operators that take shapes as values become static ones where those values are known when compiling.

Before: dyn.reshape(%x, concatenate((shape_of(%y), [4])))                             (%y: [2, 3], known)
After:  reshape(%x, newshape=[2, 3, 4])

Shapes of tensors of known sizes are constants, and arithmetic on constants is done, so a chain of shape arithmetic
folds from its beginning. What depends on a size that is not known stays dynamic.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.transform.simplify.fold_constant import fold_call


def dynamic_to_static(mod: IRModule) -> IRModule:
    """Replace the calls of `dyn` operators whose shapes are known; see the module's docstring."""
    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, _rule))))


def _rule(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return None
    if node.op.static is None:
        return fold_call(node) if not node.op.data_dependent and _of_constants(node) else None
    shapes = node.args[node.op.first_shape :]
    values = [arg.data for arg in shapes if isinstance(arg, Constant)]
    return node.op.static(node, *values) if len(values) == len(shapes) else None


def _of_constants(node: Call) -> bool:
    leaves = [leaf for arg in node.args for leaf in (arg.fields if isinstance(arg, Tuple) else (arg,))]
    return bool(leaves) and all(isinstance(leaf, Constant) for leaf in leaves)
