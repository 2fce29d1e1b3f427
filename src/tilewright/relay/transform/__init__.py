"""Graph passes: one file each, each a function from a module to a module."""

from tilewright.relay.transform.dead_code import dead_code
from tilewright.relay.transform.eliminate_common_subexpr import eliminate_common_subexpr
from tilewright.relay.transform.fold_constant import fold_constant
from tilewright.relay.transform.fuse_ops import fuse_ops
from tilewright.relay.transform.infer_type import infer_type, tensor_type_of, type_of
from tilewright.relay.transform.plan_memory import MemoryPlan, plan_memory

__all__ = [
    "MemoryPlan",
    "dead_code",
    "eliminate_common_subexpr",
    "fold_constant",
    "fuse_ops",
    "infer_type",
    "plan_memory",
    "tensor_type_of",
    "type_of",
]
