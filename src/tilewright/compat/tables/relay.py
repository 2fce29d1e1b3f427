"""`tvm.relay`: what its top level holds."""

from tilewright.compat.tables.table import Table, leads_to

_COMPAT = "tilewright.compat"

EXPR = {
    **leads_to(
        "tilewright.relay.ir.expr",
        "Call",
        "Constant",
        "Expr",
        "Function",
        "GlobalVar",
        "If",
        "Let",
        "RefCreate",
        "RefRead",
        "RefWrite",
        "Tuple",
        "TupleGetItem",
        "Var",
        RelayExpr="Expr",
    ),
    **leads_to(f"{_COMPAT}.relay.expr", "TupleWrapper", "bind", "const", "var"),
}
TYPES = leads_to(
    "tilewright.relay.ir.type",
    "Any",
    "FuncType",
    "GlobalTypeVar",
    "IncompleteType",
    "RefType",
    "TensorType",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeVar",
    "scalar_type",
)
#: Walkers of types to derive from.
TYPE_WALKERS = leads_to(f"{_COMPAT}.ir.type_functor", "TypeFunctor", "TypeMutator", "TypeVisitor")
TYPES |= leads_to(f"{_COMPAT}.ir.kinds", "TypeKind")
ADT = leads_to(
    "tilewright.relay.ir.adt",
    "Clause",
    "Constructor",
    "Match",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "TypeData",
)
#: Builders whose classic results unpack into fields.
TUPLE_VALUED = {
    **leads_to(f"{_COMPAT}.relay.expr", "meshgrid", "split"),
    **leads_to(f"{_COMPAT}.relay.arrays", "sparse_fill_empty_rows", "sparse_reshape", "topk", "unique"),
}

#: Operators written in others, and those of other names.
COMPOSED = {
    **leads_to(f"{_COMPAT}.relay.extras", "logsumexp", "mean_std", "mean_variance", "std"),
    **leads_to("tilewright.relay.op", reverse_reshape="contrib_reverse_reshape"),
    **leads_to("tilewright.relay.op.host", "shape_of"),
    **leads_to(f"{_COMPAT}.relay.windows", "sliding_window", "stft", "trilu"),
    **leads_to(f"{_COMPAT}.relay.arrays", "arange", "cumprod", "cumsum", "gather_nd", "segment_sum", "where"),
    **leads_to(
        f"{_COMPAT}.relay.dynamic",
        *("broadcast_to", "expand_dims", "full", "one_hot", "ones", "reshape", "sparse_to_dense", "squeeze"),
        *("strided_slice", "tile", "zeros"),
    ),
}
#: Those below `relay.image`.
IMAGE = {
    **leads_to(f"{_COMPAT}.relay.dynamic", "resize1d", "resize2d", "resize3d"),
    **leads_to(f"{_COMPAT}.relay.stated_sizes", "crop_and_resize", "dilation2d"),
    **leads_to(f"{_COMPAT}.topi.resizing", "resize"),
}
#: Those below `relay.vision`.
VISION = {
    **leads_to(f"{_COMPAT}.relay.stated_sizes", "roi_align"),
    **leads_to(
        f"{_COMPAT}.relay.detection",
        *("all_class_non_max_suppression", "get_valid_counts", "multibox_transform_loc", "non_max_suppression"),
    ),
}
NN = {
    **leads_to(f"{_COMPAT}.relay.expr", "batch_norm", "group_norm", "instance_norm", "layer_norm"),
    **leads_to(f"{_COMPAT}.relay.dynamic", "pad", "upsampling", "upsampling3d"),
    **leads_to(f"{_COMPAT}.relay.stated_sizes", "bitserial_dense", "conv2d", "deformable_conv2d", "matmul"),
    **leads_to(f"{_COMPAT}.relay.stated_sizes", "depth_to_space", "space_to_depth"),
    **leads_to(
        f"{_COMPAT}.relay.extras",
        *(
            "bitserial_conv2d",
            "conv1d_transpose",
            "conv3d_transpose",
            "contrib_conv2d_nchwc",
            "contrib_depthwise_conv2d_nchwc",
            "get_pad_tuple2d",
            "global_avg_pool1d",
            "global_avg_pool3d",
            "global_max_pool1d",
            "global_max_pool3d",
        ),
    ),
}

#: Type rules as values.
REFUSED_TYPES = {"TypeRelation": "type rules are functions of an operator: relay.ir.registry.register(type_rule=...)"}

TABLES = (
    Table(
        "tvm.relay",
        "The graph language.",
        names={
            **EXPR,
            **TYPES,
            **TYPE_WALKERS,
            **ADT,
            **TUPLE_VALUED,
            **leads_to(f"{_COMPAT}.relay.executor", "build", "optimize"),
            **leads_to(f"{_COMPAT}.relay.evaluation", "create_executor"),
            **leads_to(f"{_COMPAT}.runtime.params", "save_param_dict", "load_param_dict"),
            **leads_to(f"{_COMPAT}.relay.functor", "ExprFunctor", "ExprMutator", "ExprVisitor"),
            **leads_to("tilewright.relay.ir.scope_builder", "ScopeBuilder"),
            **leads_to(f"{_COMPAT}.ir.module", Module="IRModule"),
            **leads_to(f"{_COMPAT}.ir.text", "astext", "fromtext", "parse", "parse_expr"),
            **leads_to(f"{_COMPAT}.ir.structure", alpha_equal="structural_equal"),
            **leads_to(f"{_COMPAT}.relay.features", "Feature", "detect_feature"),
            **leads_to(f"{_COMPAT}.ir.kinds", Kind="TypeKind"),
            **leads_to("tilewright.relay.ir.registry", "Op"),
            **COMPOSED,
            **leads_to(f"{_COMPAT}.relay.extras", "build_config"),
            **leads_to(f"{_COMPAT}.tir.makers", "SourceName", "Span"),
        },
        open=("tilewright.relay.op",),
        refused={**REFUSED_TYPES, "SpanCheck": "errors show the program's text; parse raises where it has none"},
    ),
)
