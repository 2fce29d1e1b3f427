"""`tvm.topi`: this package's own `topi`, with the classic signatures, schedules and NumPy references."""

from tilewright.compat.tables.table import Table, leads_to

_CLASSIC = "tilewright.compat.classic"
_UTILS = leads_to(f"{_CLASSIC}.topi_ops", "get_const_int", "get_const_tuple", "prod", "simplify", "traverse_inline")
_NN = leads_to(
    f"{_CLASSIC}.topi_ops",
    *("adaptive_pool", "conv2d", "conv2d_nchw", "conv2d_nhwc", "conv2d_transpose_nchw", "dense"),
    *("depthwise_conv2d_nchw", "dilate", "global_pool", "pool2d"),
)
_OPERATORS = (
    *("adaptive_pool", "batch_matmul", "batch_norm", "broadcast", "concatenate", "conv2d", "conv2d_NCHWc"),
    *("conv2d_nchw", "conv2d_nhwc", "conv2d_transpose_nchw", "dense", "depthwise_conv2d_NCHWc"),
    *("depthwise_conv2d_nchw", "elemwise", "injective", "lrn", "pool", "reduce", "softmax"),
)
_SCHEDULES = {f"schedule_{name}": f"{_CLASSIC}.topi_schedule:schedule" for name in _OPERATORS}
_REFERENCES = (
    *("adaptive_pool", "batch_matmul", "conv1d_ncw_python", "conv2d_hwcn_python", "conv2d_nchw_python"),
    *("conv2d_nhwc_python", "conv2d_transpose_nchw_python", "conv2d_transpose_nhwc_python", "conv3d_ncdhw_python"),
    *("conv3d_ndhwc_python", "dense", "depthwise_conv2d_python_nchw", "dilate_python", "gather_nd_python"),
    *("gather_python", "l2_normalize_python", "log_softmax_python", "lrn_python", "one_hot", "resize2d_python"),
    *("softmax_python", "strided_slice_python"),
)
_GET_SCHEDULE = {
    f"get_{kind}_schedule": f"{_CLASSIC}.topi_schedule:get_schedule"
    for kind in ("broadcast", "conv2d_nhwc", "elemwise", "injective", "reduce", "softmax")
}

TABLES = (
    Table(
        "tvm.topi",
        "The operator library.",
        names=leads_to(f"{_CLASSIC}.topi_ops", "elemwise_sum", "flip"),
        open=("tilewright.topi",),
    ),
    Table("tvm.topi.math", "Element by element.", open=("tilewright.topi.elemwise",)),
    Table("tvm.topi.transform", "Shapes and places.", open=("tilewright.topi.transform",)),
    Table("tvm.topi.utils", "Helpers.", names=_UTILS),
    Table("tvm.topi.util", "Helpers, by their oldest name.", names=_UTILS),
    Table(
        "tvm.topi.tag",
        "Kinds of operations.",
        names=leads_to("tilewright.topi.tag", "BROADCAST", "COMM_REDUCE", "ELEMWISE", "INJECTIVE", "is_injective"),
    ),
    Table("tvm.topi.nn", "Operators of neural networks.", names=_NN, open=("tilewright.topi.nn",)),
    Table("tvm.topi.nn.utils", "Padding.", names=leads_to(f"{_CLASSIC}.topi_ops", "get_pad_tuple")),
    Table("tvm.topi.nn.pooling", "Pooling.", names=_NN),
    Table("tvm.topi.image", "Operators of images.", open=("tilewright.topi.image",)),
    Table("tvm.topi.generic", "Schedules.", names=_SCHEDULES),
    Table("tvm.topi.x86", "Schedules for processors.", names={**_SCHEDULES, **_NN}),
    Table(
        "tvm.topi.testing",
        "References in NumPy, and schedules by target.",
        names={
            **leads_to(f"{_CLASSIC}.topi_references", *_REFERENCES),
            **leads_to(f"{_CLASSIC}.topi_schedule", "dispatch", "get_conv2d_nchw_implement"),
            **_GET_SCHEDULE,
        },
    ),
)
