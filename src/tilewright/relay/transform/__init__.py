"""Graph passes: one file each, each a function from a module to a module. `passes` has them by their classic names."""

from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.op.gradients.adjoint import adjoints
from tilewright.relay.transform.fuse.fuse_attention import fuse_attention
from tilewright.relay.transform.fuse.fuse_ops import fuse_ops
from tilewright.relay.transform.gradient.gradient import first_order_gradient, gradient
from tilewright.relay.transform.layout.alter_layout import alter_layout
from tilewright.relay.transform.memory.plan_memory import MemoryPlan, plan_memory
from tilewright.relay.transform.simplify.dead_code import dead_code
from tilewright.relay.transform.simplify.eliminate_common_subexpr import eliminate_common_subexpr
from tilewright.relay.transform.simplify.expand_operators import expand_operators
from tilewright.relay.transform.simplify.fold_constant import fold_constant
from tilewright.relay.transform.simplify.fold_scale_axis import fold_scale_axis
from tilewright.relay.transform.simplify.simplify_expr import simplify_expr
from tilewright.relay.transform.simplify.simplify_inference import simplify_inference

__all__ = [
    "MemoryPlan",
    "adjoints",
    "alter_layout",
    "dead_code",
    "eliminate_common_subexpr",
    "expand_operators",
    "first_order_gradient",
    "fold_constant",
    "fold_scale_axis",
    "fuse_attention",
    "fuse_ops",
    "gradient",
    "infer_type",
    "plan_memory",
    "simplify_expr",
    "simplify_inference",
]
