"""The graph passes under their classic names, in one table: `create("FoldConstant")` is a pass that calls the function.

    mod = Sequential([create("InferType"), create("FuseOps")])(mod)

The functions themselves live in one file each in the folders beside this file; the compiler's pipeline
(`compile.GRAPH_PASSES`) and this table share them. A classic constructor's arguments are the function's own, after the
module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.errors import UnsupportedError
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
from tilewright.relay.transform.fuse.combine_parallel_batch_matmul import combine_parallel_batch_matmul
from tilewright.relay.transform.fuse.combine_parallel_conv2d import combine_parallel_conv2d
from tilewright.relay.transform.fuse.combine_parallel_dense import combine_parallel_dense
from tilewright.relay.transform.fuse.defuse_ops import defuse_ops
from tilewright.relay.transform.fuse.fuse_ops import fuse_ops
from tilewright.relay.transform.fuse.split_args import split_args
from tilewright.relay.transform.gradient.lazy_gradient_init import lazy_gradient_init
from tilewright.relay.transform.layout.alter_layout import alter_layout
from tilewright.relay.transform.layout.convert_layout import convert_layout
from tilewright.relay.transform.layout.dense_to_sparse import dense_to_sparse
from tilewright.relay.transform.manager.added_passes import added_level
from tilewright.relay.transform.manager.annotate_spans import annotate_spans
from tilewright.relay.transform.manager.capture_post_dfs_index_in_spans import capture_post_dfs_index_in_spans
from tilewright.relay.transform.manager.pass_info import PassInfo
from tilewright.relay.transform.manager.pass_manager import DEFAULT_OPT_LEVEL, Pass, snake_case
from tilewright.relay.transform.memory.plan_devices import plan_devices
from tilewright.relay.transform.partition.annotate_target import annotate_target
from tilewright.relay.transform.partition.merge_compiler_regions import merge_compiler_regions
from tilewright.relay.transform.partition.merge_composite import merge_composite
from tilewright.relay.transform.partition.partition_graph import partition_graph
from tilewright.relay.transform.quantize.fake_quantization_to_integer import fake_quantization_to_integer
from tilewright.relay.transform.quantize.recast import recast
from tilewright.relay.transform.quantize.to_mixed_precision import to_mixed_precision
from tilewright.relay.transform.simplify.canonicalize_cast import canonicalize_cast
from tilewright.relay.transform.simplify.canonicalize_ops import canonicalize_ops
from tilewright.relay.transform.simplify.dead_code import dead_code
from tilewright.relay.transform.simplify.dynamic_to_static import dynamic_to_static
from tilewright.relay.transform.simplify.eliminate_common_subexpr import eliminate_common_subexpr
from tilewright.relay.transform.simplify.fast_math import fast_math
from tilewright.relay.transform.simplify.flatten_atrous_conv import flatten_atrous_conv
from tilewright.relay.transform.simplify.fold_constant import fold_constant
from tilewright.relay.transform.simplify.fold_scale_axis import fold_scale_axis
from tilewright.relay.transform.simplify.forward_fold_scale_axis import forward_fold_scale_axis
from tilewright.relay.transform.simplify.legalize import legalize
from tilewright.relay.transform.simplify.remove_unused_functions import remove_unused_functions
from tilewright.relay.transform.simplify.simplify_expr import simplify_expr
from tilewright.relay.transform.simplify.simplify_inference import simplify_inference
from tilewright.support.suggestion import suggestion


def _fold_scales_both_ways(mod: IRModule) -> IRModule:
    return fold_scale_axis(forward_fold_scale_axis(mod))


#: Classic name -> (function of a module and the constructor's arguments, level from which it runs).
PASSES: dict[str, tuple[Callable[..., IRModule], int]] = {
    "AlterOpLayout": (alter_layout, 3),
    "AnnotateSpans": (annotate_spans, 0),
    "AnnotateTarget": (annotate_target, 0),
    "BackwardFoldScaleAxis": (fold_scale_axis, 3),
    "CanonicalizeCast": (canonicalize_cast, 3),
    "CanonicalizeOps": (canonicalize_ops, 3),
    "CapturePostDfsIndexInSpans": (capture_post_dfs_index_in_spans, 0),
    "CombineParallelBatchMatmul": (combine_parallel_batch_matmul, 4),
    "CombineParallelConv2D": (combine_parallel_conv2d, 4),
    "CombineParallelDense": (combine_parallel_dense, 4),
    "ConvertLayout": (convert_layout, 3),
    "DeadCodeElimination": (dead_code, 1),
    "Defunctionalization": (defunctionalization, 1),
    "DefuseOps": (defuse_ops, 0),
    "DenseToSparse": (dense_to_sparse, 0),
    "DynamicToStatic": (dynamic_to_static, 3),
    "EliminateCommonSubexpr": (eliminate_common_subexpr, 3),
    "EtaExpand": (eta_expand, 1),
    "FakeQuantizationToInteger": (fake_quantization_to_integer, 0),
    "FastMath": (fast_math, 4),
    "FlattenAtrousConv": (flatten_atrous_conv, 3),
    "FoldConstant": (fold_constant, 2),
    "FoldScaleAxis": (_fold_scales_both_ways, 3),
    "ForwardFoldScaleAxis": (forward_fold_scale_axis, 3),
    "FuseOps": (fuse_ops, 0),
    "InferType": (infer_type, 0),
    "Inline": (inline, 1),
    "LambdaLift": (lambda_lift, 1),
    "LazyGradientInit": (lazy_gradient_init, 0),
    "Legalize": (legalize, 1),
    "MergeCompilerRegions": (merge_compiler_regions, 0),
    "MergeComposite": (merge_composite, 0),
    "PartialEvaluate": (partial_evaluate, 1),
    "PartitionGraph": (partition_graph, 0),
    "PlanDevices": (plan_devices, 0),
    "Recast": (recast, 0),
    "RemoveUnusedFunctions": (remove_unused_functions, 1),
    "SimplifyExpr": (simplify_expr, 0),
    "SimplifyInference": (simplify_inference, 0),
    "SplitArgs": (split_args, 1),
    "ToANormalForm": (to_a_normal_form, 1),
    "ToBasicBlockNormalForm": (to_basic_block_normal_form, 1),
    "ToCPS": (to_cps, 1),
    "ToGraphNormalForm": (to_graph_normal_form, 1),
    "ToMixedPrecision": (to_mixed_precision, 0),
}


def create(name: str, *args: Any, **options: Any) -> Pass:
    """The pass with the classic `name`; `args` and `options` are those of its function after the module.

    Raises `UnsupportedError` with the nearest names if there is none.
    """
    if name not in PASSES:
        raise UnsupportedError(f"there is no graph pass {name!r}{suggestion(name, PASSES)}")
    function, opt_level = PASSES[name]
    return Pass(PassInfo(opt_level, name), lambda mod, _context: function(mod, *args, **options))


def opt_level_of(name: str) -> int:
    """The level from which the pipeline runs the pass called `name`.

    At level 0 stand those without which nothing runs; what has no level here is an optimization of some backend.
    """
    added = added_level(name)
    return _LEVELS.get(name, DEFAULT_OPT_LEVEL) if added is None else added


#: Passes of the pipeline that have no classic name, or a classic level for programs that ask for them by themselves.
_PIPELINE = {
    "expand_operators": 0,
    "fold_empty": 0,
    "simplify_expr": 1,
    "compute_in_float32": 2,
    "fake_quantization_to_integer": 2,
    "dequantized_products": 2,
    "fold_packed_weights": 2,
    "trim_windows": 2,
}
_LEVELS = (
    {snake_case(name): level for name, (_, level) in PASSES.items()}
    | {function.__name__: level for function, level in PASSES.values()}
    | _PIPELINE
)
