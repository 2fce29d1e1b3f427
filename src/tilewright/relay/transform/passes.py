"""All graph passes in one list, the compiler's pipeline first and in order; `create` finds them by their classic names.

    mod = Sequential([create("InferType"), create("FuseOps")])(mod)

A pass is a value (`manager/graph_pass.py`): name, level, classic name, function. The functions live in one file each in
the folders beside this file. A classic constructor's arguments are the function's own, after the module.
"""

from __future__ import annotations

from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.functional.defunctionalization import defunctionalization
from tilewright.relay.transform.functional.eta_expand import eta_expand
from tilewright.relay.transform.functional.inline import inline
from tilewright.relay.transform.functional.lambda_lift import lambda_lift
from tilewright.relay.transform.functional.partial_evaluate import partial_evaluate
from tilewright.relay.transform.functional.to_a_normal_form import to_a_normal_form
from tilewright.relay.transform.functional.to_basic_block_normal_form import to_basic_block_normal_form
from tilewright.relay.transform.functional.to_cps import to_cps
from tilewright.relay.transform.functional.to_graph_normal_form import to_graph_normal_form
from tilewright.relay.transform.fuse.attention_gradients import attention_gradients
from tilewright.relay.transform.fuse.combine_parallel_batch_matmul import combine_parallel_batch_matmul
from tilewright.relay.transform.fuse.combine_parallel_conv2d import combine_parallel_conv2d
from tilewright.relay.transform.fuse.combine_parallel_dense import combine_parallel_dense
from tilewright.relay.transform.fuse.defuse_ops import defuse_ops
from tilewright.relay.transform.fuse.fuse_attention import fuse_attention
from tilewright.relay.transform.fuse.fuse_ops import MAX_GROUP, fuse_ops
from tilewright.relay.transform.fuse.recompute import recompute
from tilewright.relay.transform.fuse.split_args import split_args
from tilewright.relay.transform.gradient.lazy_gradient_init import lazy_gradient_init
from tilewright.relay.transform.layout.alter_layout import alter_layout
from tilewright.relay.transform.layout.batch_products import batch_products
from tilewright.relay.transform.layout.channels_first import channels_first
from tilewright.relay.transform.layout.convert_layout import convert_layout
from tilewright.relay.transform.layout.dense_to_sparse import dense_to_sparse
from tilewright.relay.transform.layout.pack_blockwise import pack_blockwise
from tilewright.relay.transform.layout.pack_dense import pack_dense
from tilewright.relay.transform.layout.pack_recurrent import pack_recurrent
from tilewright.relay.transform.layout.pad_channels import pad_channels
from tilewright.relay.transform.layout.row_products import row_products
from tilewright.relay.transform.layout.weight_gradients import weight_gradients
from tilewright.relay.transform.layout.widen_groups import widen_groups
from tilewright.relay.transform.manager.annotate_spans import annotate_spans
from tilewright.relay.transform.manager.capture_post_dfs_index_in_spans import capture_post_dfs_index_in_spans
from tilewright.relay.transform.manager.graph_pass import GraphPass
from tilewright.relay.transform.manager.pass_info import PassInfo
from tilewright.relay.transform.manager.pass_manager import Pass, PassContext
from tilewright.relay.transform.memory.plan_devices import plan_devices
from tilewright.relay.transform.partition.annotate_target import annotate_target
from tilewright.relay.transform.partition.merge_compiler_regions import merge_compiler_regions
from tilewright.relay.transform.partition.merge_composite import merge_composite
from tilewright.relay.transform.partition.partition_graph import partition_graph
from tilewright.relay.transform.quantize.bfloat16_products import bfloat16_products
from tilewright.relay.transform.quantize.bitserial_products import bitserial_products
from tilewright.relay.transform.quantize.compute_in_float32 import compute_in_float32
from tilewright.relay.transform.quantize.dequantized_products import dequantized_products
from tilewright.relay.transform.quantize.dot_products import dot_products
from tilewright.relay.transform.quantize.fake_quantization_to_integer import fake_quantization_to_integer
from tilewright.relay.transform.quantize.float16_products import float16_products
from tilewright.relay.transform.quantize.lookup_tables import lookup_tables
from tilewright.relay.transform.quantize.narrow_attention import narrow_attention
from tilewright.relay.transform.quantize.quantized_floats import quantized_floats
from tilewright.relay.transform.quantize.recast import recast
from tilewright.relay.transform.quantize.to_mixed_precision import to_mixed_precision
from tilewright.relay.transform.simplify.canonicalize_cast import canonicalize_cast
from tilewright.relay.transform.simplify.canonicalize_ops import canonicalize_ops
from tilewright.relay.transform.simplify.dead_code import dead_code
from tilewright.relay.transform.simplify.dynamic_to_static import dynamic_to_static
from tilewright.relay.transform.simplify.eliminate_common_subexpr import eliminate_common_subexpr
from tilewright.relay.transform.simplify.expand_operators import expand_operators
from tilewright.relay.transform.simplify.fast_math import fast_math
from tilewright.relay.transform.simplify.flatten_atrous_conv import flatten_atrous_conv
from tilewright.relay.transform.simplify.fold_constant import fold_constant
from tilewright.relay.transform.simplify.fold_empty import fold_empty
from tilewright.relay.transform.simplify.fold_scale_axis import fold_scale_axis
from tilewright.relay.transform.simplify.forward_fold_scale_axis import forward_fold_scale_axis
from tilewright.relay.transform.simplify.legalize import legalize
from tilewright.relay.transform.simplify.remove_unused_functions import remove_unused_functions
from tilewright.relay.transform.simplify.scan_gathers import scan_gathers
from tilewright.relay.transform.simplify.simplify_expr import simplify_expr
from tilewright.relay.transform.simplify.simplify_inference import simplify_inference
from tilewright.relay.transform.simplify.trim_windows import trim_windows
from tilewright.support.suggestion import suggestion


def _fold_scales_both_ways(mod: IRModule) -> IRModule:
    return fold_scale_axis(forward_fold_scale_axis(mod))


def _fused(mod: IRModule, backend: GraphBackend) -> IRModule:
    """`fuse_ops`; each call is a kernel of its own where the open `PassContext` wants none fused."""
    wanted = PassContext.current().enabled(PassInfo(1, "fuse_ops"))
    return fuse_ops(mod, MAX_GROUP if wanted else 1, backend)


#: The level of passes that run only where a context requires them.
REQUIRED = 9

#: The pipeline, in order. At level 0 are the passes without which nothing runs. A pass that programs ask for by its
#: classic name at another level, or that runs a second time, has another entry below or a name of its own.
PIPELINE: tuple[GraphPass, ...] = (
    GraphPass("infer_type", 0, "InferType", infer_type),
    GraphPass("compute_in_float32", 2, "", compute_in_float32),
    GraphPass("fake_quantization_to_integer", 2, "", fake_quantization_to_integer),
    GraphPass("dequantized_products", 2, "", dequantized_products),
    GraphPass("bitserial_products", 3, "", bitserial_products),
    GraphPass("weight_gradients", 3, "", weight_gradients),
    GraphPass("attention_gradients", 3, "", attention_gradients),
    GraphPass("expand_operators", 0, "", expand_operators),
    GraphPass("fold_empty", 0, "", fold_empty),
    GraphPass("scan_gathers", REQUIRED, "", scan_gathers),
    GraphPass("simplify_inference", 0, "SimplifyInference", simplify_inference),
    GraphPass("channels_first", 3, "", channels_first),
    GraphPass("fold_scale_axis", 3, "BackwardFoldScaleAxis", fold_scale_axis),
    GraphPass("simplify_expr", 1, "", simplify_expr),
    GraphPass("fold_constant", 2, "FoldConstant", fold_constant),
    GraphPass("trim_windows", 2, "", trim_windows),
    GraphPass("eliminate_common_subexpr", 3, "EliminateCommonSubexpr", eliminate_common_subexpr),
    GraphPass("dot_products", 3, "", dot_products),
    GraphPass("bfloat16_products", 3, "", bfloat16_products),
    GraphPass("float16_products", 3, "", float16_products),
    GraphPass("lookup_tables", 3, "", lookup_tables),
    GraphPass("fuse_attention", 3, "", fuse_attention),
    GraphPass("narrow_attention", 3, "", narrow_attention),
    GraphPass("pad_channels", 3, "", pad_channels),
    GraphPass("widen_groups", 3, "", widen_groups),
    GraphPass("alter_layout", 3, "AlterOpLayout", alter_layout),
    GraphPass("batch_products", 3, "", batch_products),
    GraphPass("row_products", 3, "", row_products),
    GraphPass("pack_dense", 3, "", pack_dense),
    GraphPass("pack_blockwise", 3, "", pack_blockwise),
    GraphPass("pack_recurrent", 3, "", pack_recurrent),
    GraphPass("share_packed_weights", 3, "", eliminate_common_subexpr),
    GraphPass("fold_packed_weights", 2, "", fold_constant),
    GraphPass("dead_code", 1, "DeadCodeElimination", dead_code),
    GraphPass("split_args", 1, "SplitArgs", split_args),
    GraphPass("recompute", 3, "", recompute),
    GraphPass("fuse_ops", 0, "", _fused),
    GraphPass("quantized_floats", 3, "", quantized_floats),
)

#: Those that choose layouts, pack weights and rewrite products by the rules of a processor (`GraphBackend`).
_BY_RULES = {
    "bitserial_products", "dot_products", "bfloat16_products", "float16_products", "lookup_tables", "quantized_floats",
    "weight_gradients", "attention_gradients", "fuse_attention", "narrow_attention", "pad_channels", "widen_groups",
    "alter_layout", "batch_products", "row_products", "pack_dense", "pack_blockwise", "pack_recurrent",
    "share_packed_weights", "fold_packed_weights",
}  # fmt: skip

#: The pipeline of a device whose kernels read plain layouts.
PLAIN_PIPELINE: tuple[GraphPass, ...] = tuple(one for one in PIPELINE if one.name not in _BY_RULES)

#: Every pass: those of the pipeline, then those that programs ask for, by their classic names.
PASSES: tuple[GraphPass, ...] = (
    *PIPELINE,
    GraphPass("annotate_spans", 0, "AnnotateSpans", annotate_spans),
    GraphPass("annotate_target", 0, "AnnotateTarget", annotate_target),
    GraphPass("canonicalize_cast", 3, "CanonicalizeCast", canonicalize_cast),
    GraphPass("canonicalize_ops", 3, "CanonicalizeOps", canonicalize_ops),
    GraphPass("capture_post_dfs_index_in_spans", 0, "CapturePostDfsIndexInSpans", capture_post_dfs_index_in_spans),
    GraphPass("combine_parallel_batch_matmul", 4, "CombineParallelBatchMatmul", combine_parallel_batch_matmul),
    GraphPass("combine_parallel_conv2d", 4, "CombineParallelConv2D", combine_parallel_conv2d),
    GraphPass("combine_parallel_dense", 4, "CombineParallelDense", combine_parallel_dense),
    GraphPass("convert_layout", 3, "ConvertLayout", convert_layout),
    GraphPass("defunctionalization", 1, "Defunctionalization", defunctionalization),
    GraphPass("defuse_ops", 0, "DefuseOps", defuse_ops),
    GraphPass("dense_to_sparse", 0, "DenseToSparse", dense_to_sparse),
    GraphPass("dynamic_to_static", 3, "DynamicToStatic", dynamic_to_static),
    GraphPass("eta_expand", 1, "EtaExpand", eta_expand),
    GraphPass("fake_quantization_to_integer", 0, "FakeQuantizationToInteger", fake_quantization_to_integer),
    GraphPass("fast_math", 4, "FastMath", fast_math),
    GraphPass("flatten_atrous_conv", 3, "FlattenAtrousConv", flatten_atrous_conv),
    GraphPass("fold_scale_axis", 3, "FoldScaleAxis", _fold_scales_both_ways),
    GraphPass("forward_fold_scale_axis", 3, "ForwardFoldScaleAxis", forward_fold_scale_axis),
    GraphPass("fuse_ops", 0, "FuseOps", fuse_ops),
    GraphPass("inline", 1, "Inline", inline),
    GraphPass("lambda_lift", 1, "LambdaLift", lambda_lift),
    GraphPass("lazy_gradient_init", 0, "LazyGradientInit", lazy_gradient_init),
    GraphPass("legalize", 1, "Legalize", legalize),
    GraphPass("merge_compiler_regions", 0, "MergeCompilerRegions", merge_compiler_regions),
    GraphPass("merge_composite", 0, "MergeComposite", merge_composite),
    GraphPass("partial_evaluate", 1, "PartialEvaluate", partial_evaluate),
    GraphPass("partition_graph", 0, "PartitionGraph", partition_graph),
    GraphPass("plan_devices", 0, "PlanDevices", plan_devices),
    GraphPass("recast", 0, "Recast", recast),
    GraphPass("remove_unused_functions", 1, "RemoveUnusedFunctions", remove_unused_functions),
    GraphPass("simplify_expr", 0, "SimplifyExpr", simplify_expr),
    GraphPass("to_a_normal_form", 1, "ToANormalForm", to_a_normal_form),
    GraphPass("to_basic_block_normal_form", 1, "ToBasicBlockNormalForm", to_basic_block_normal_form),
    GraphPass("to_cps", 1, "ToCPS", to_cps),
    GraphPass("to_graph_normal_form", 1, "ToGraphNormalForm", to_graph_normal_form),
    GraphPass("to_mixed_precision", 0, "ToMixedPrecision", to_mixed_precision),
)

CLASSIC: dict[str, GraphPass] = {one.classic: one for one in PASSES if one.classic}


def create(name: str, *args: Any, **options: Any) -> Pass:
    """The pass with the classic `name`; `args` and `options` are those of its function after the module.

    Raises `UnsupportedError` with the nearest names if there is none.
    """
    if name not in CLASSIC:
        raise UnsupportedError(f"there is no graph pass {name!r}{suggestion(name, CLASSIC)}")
    found = CLASSIC[name]
    return Pass(PassInfo(found.level, name), lambda mod, _context: found.function(mod, *args, **options))
