"""Tensor expressions: what to compute (`placeholder`, `compute`, reductions) and how (`Schedule`, `lower`)."""

from tilewright.te import hybrid, wmma
from tilewright.te.accelerator import Accelerator
from tilewright.te.auto_inline import auto_inline_broadcast, auto_inline_elemwise, auto_inline_injective
from tilewright.te.extern import ExternOp, extern
from tilewright.te.gradient import gradient
from tilewright.te.group import Group
from tilewright.te.itervar import IterType, IterVar, index_dtype, index_type, reduce_axis, size_var, thread_axis, var
from tilewright.te.lower import lower, lower_stages
from tilewright.te.operation import ComputeOp, Operation, PlaceholderOp, compute, placeholder
from tilewright.te.picture import picture_page, schedule_picture
from tilewright.te.reducer import CommReducer, comm_reducer, max, min, prod, sum
from tilewright.te.scan import ScanOp, scan
from tilewright.te.schedule import Schedule, create_schedule, load_schedule
from tilewright.te.schedule_to_tir import schedule_to_tir
from tilewright.te.stage import Stage
from tilewright.te.tag import tag_scope
from tilewright.te.tensor import Tensor, TensorSlice
from tilewright.te.tensor_intrin import TensorIntrin, decl_buffer, decl_tensor_intrin

__all__ = [
    "Accelerator",
    "CommReducer",
    "ComputeOp",
    "ExternOp",
    "Group",
    "IterType",
    "IterVar",
    "Operation",
    "PlaceholderOp",
    "ScanOp",
    "Schedule",
    "Stage",
    "Tensor",
    "TensorIntrin",
    "TensorSlice",
    "auto_inline_broadcast",
    "auto_inline_elemwise",
    "auto_inline_injective",
    "comm_reducer",
    "compute",
    "create_schedule",
    "decl_buffer",
    "decl_tensor_intrin",
    "extern",
    "gradient",
    "hybrid",
    "index_dtype",
    "index_type",
    "load_schedule",
    "lower",
    "lower_stages",
    "max",
    "min",
    "picture_page",
    "placeholder",
    "prod",
    "reduce_axis",
    "scan",
    "schedule_picture",
    "schedule_to_tir",
    "size_var",
    "sum",
    "tag_scope",
    "thread_axis",
    "var",
    "wmma",
]
