"""`tvm.topi`: this package's own `topi`, with the classic signatures, schedules and NumPy references."""

from tilewright.compat.tables.table import Table, leads_to

_COMPAT = "tilewright.compat"
_OWN_TILES = "templates choose their tiles themselves; topi.testing.get_conv2d_nchw_implement gives a schedule"
_WORKLOAD = f"{_COMPAT}.topi.conv2d_workload"
_UTILS = leads_to(
    f"{_COMPAT}.topi.ops",
    *(
        "get_const_int",
        "get_const_tuple",
        "get_shape",
        "nchw_pack_layout",
        "nchw_xc_layout",
        "prod",
        "simplify",
        "traverse_inline",
    ),
)
_ARRAYS = {
    **leads_to(f"{_COMPAT}.topi.arrays", "arange", "concatenate", "gather_nd", "one_hot", "take", "where"),
    **leads_to(f"{_COMPAT}.topi.slices", "strided_set", "strided_slice"),
}
_NN = leads_to(
    f"{_COMPAT}.topi.ops",
    *("adaptive_pool", "conv2d", "conv2d_nchw", "conv2d_nhwc", "conv2d_transpose_nchw", "dense"),
    *("depthwise_conv2d_nchw", "dilate", "global_pool", "pool", "pool2d"),
)
#: Computations made of Relay operators (`classic/through_relay.py`).
_COMPUTES = leads_to(
    f"{_COMPAT}.topi.computes",
    *(
        "acos",
        "acosh",
        "adv_index",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "cosh",
        "cumprod",
        "cumsum",
        "einsum",
        "expand_like",
    ),
    *("fast_erf", "fast_exp", "fast_tanh", "isinf", "log10", "log2", "matmul", "matrix_set_diag", "ndarray_size"),
    *(
        "dft",
        "reinterpret",
        "reverse_sequence",
        "scatter",
        "scatter_add",
        "searchsorted",
        "sequence_mask",
        "shape",
        "sinh",
        "sort",
        "sparse_to_dense",
    ),
    *("tensordot", "topk", "trilu", "unravel_index"),
) | leads_to(f"{_COMPAT}.topi.counted_results", "argwhere", "unique")
_NN_COMPUTES = leads_to(
    f"{_COMPAT}.topi.computes",
    *(
        "adaptive_pool3d",
        "batch_matmul",
        "batch_norm",
        "batch_to_space_nd",
        "bitserial_conv2d_nchw",
        "bitserial_conv2d_nhwc",
    ),
    *("bitserial_dense", "conv1d", "conv1d_ncw", "conv1d_nwc", "conv1d_transpose_ncw", "conv2d_hwcn", "conv3d_ncdhw"),
    *("conv3d_ndhwc", "conv3d_transpose_ncdhw", "correlation_nchw", "deformable_conv2d_nchw"),
    *("deformable_conv2d_nhwc", "depth_to_space", "depthwise_conv2d_nhwc", "fifo_buffer", "group_conv2d_nchw"),
    *("group_conv2d_nhwc", "group_conv2d_transpose_nchw", "matmul", "nll_loss", "pool1d", "pool3d", "pool_grad"),
    *("scale_shift_nchw", "scale_shift_nhwc", "space_to_batch_nd", "space_to_depth", "sparse_add"),
    *("group_conv1d_ncw", "group_conv1d_nwc", "group_norm", "instance_norm", "layer_norm", "rms_norm"),
    *("sparse_transpose", "upsampling", "upsampling3d"),
) | leads_to(f"{_COMPAT}.topi.sparse", "sparse_conv2d", "sparse_dense")
_VISION = leads_to(
    f"{_COMPAT}.topi.computes",
    *(
        "get_valid_counts",
        "multibox_detection",
        "multibox_prior",
        "non_max_suppression",
        "proposal",
        "reorg",
        "roi_align_nchw",
    ),
    "roi_pool_nchw",
)
#: Operators whose result is as long as its values say.
_COUNTED = {"all_class_non_max_suppression": "its result has no size before it runs: relay.vision has it"}
_IMAGE = leads_to(
    f"{_COMPAT}.topi.computes", "affine_grid", "crop_and_resize", "grid_sample", "resize", "resize2d", "resize3d"
)
#: Computations that the classic library has once more for a kind of device, by another name or the same.
_FOR_DEVICES = {
    **_NN,
    **_NN_COMPUTES,
    **_VISION,
    **leads_to(
        f"{_COMPAT}.topi.ops",
        conv2d_nchw_spatial_pack="conv2d_nchw",
        conv2d_nchw_winograd="conv2d_nchw",
        conv2d_nhwc_spatial_pack="conv2d_nhwc",
        conv2d_nhwc_tensorcore="conv2d_nhwc",
        conv2d_nhwc_winograd_direct="conv2d_nhwc",
        conv2d_nhwc_winograd_tensorcore="conv2d_nhwc",
        dense_dynamic="dense",
        dense_int8="dense",
        dense_large_batch="dense",
        dense_nopack="dense",
        dense_pack="dense",
        dense_small_batch="dense",
        dense_tensorcore="dense",
        depthwise_conv2d_nchw_spatial_pack="depthwise_conv2d_nchw",
    ),
    **leads_to(
        f"{_COMPAT}.topi.computes",
        *("cumprod", "cumsum", "dft", "scatter", "scatter_add", "searchsorted", "sort", "topk"),
        batch_matmul_int8="batch_matmul",
        batch_matmul_tensorcore="batch_matmul",
        compute_depthwise_conv2d_nhwc="depthwise_conv2d_nhwc",
        conv3d_ncdhw_winograd="conv3d_ncdhw",
        conv3d_ndhwc_tensorcore="conv3d_ndhwc",
    ),
    **leads_to("tilewright.topi", "argsort", "scatter_nd"),
    **leads_to(f"{_COMPAT}.topi.counted_results", "argwhere", "unique"),
}
_OPERATORS = (
    *("adaptive_pool", "argsort", "batch_norm", "broadcast", "concatenate", "conv2d", "conv2d_NCHWc", "elemwise"),
    *("extern", "injective", "lrn", "multibox_detection", "multibox_prior", "nms", "pool", "reduce", "roi_align"),
    *("roi_pool", "softmax", "sparse_dense", "batch_matmul_int8", "batch_matmul_tensorcore", "bitserial_dense"),
    *("conv2d_nchw_spatial_pack", "conv2d_nchw_winograd", "conv2d_nhwc_spatial_pack", "conv2d_nhwc_tensorcore"),
    *("conv2d_nhwc_winograd_direct", "conv2d_nhwc_winograd_tensorcore", "conv3d_ncdhw_winograd"),
    *("conv3d_ndhwc_tensorcore", "dense_dynamic", "dense_int8", "dense_large_batch", "dense_nopack", "dense_pack"),
    *("dense_small_batch", "dense_tensorcore", "depthwise_conv2d_NCHWc", "depthwise_conv2d_nchw_spatial_pack"),
    *_NN,
    *_NN_COMPUTES,
    *_VISION,
    *("argwhere", "l2_normalize", "scan", "sort", "topk", "unique"),
)
_SCHEDULES = {f"schedule_{name}": f"{_COMPAT}.topi.schedule:schedule" for name in _OPERATORS}
#: The classic packages of operators for a kind of device each; "generic" has schedules only.
_DEVICES = ("x86", "arm_cpu", "cuda", "gpu", "mali", "bifrost", "rocm", "hls", "intel_graphics")
_REFERENCES = (
    *("adaptive_pool", "batch_matmul", "conv1d_ncw_python", "conv2d_hwcn_python", "conv2d_nchw_python"),
    *("conv2d_nhwc_python", "conv2d_transpose_nchw_python", "conv2d_transpose_nhwc_python", "conv3d_ncdhw_python"),
    *("conv3d_ndhwc_python", "dense", "depthwise_conv2d_python_nchw", "dilate_python", "gather_nd_python"),
    *("gather_python", "l2_normalize_python", "log_softmax_python", "lrn_python", "one_hot", "resize2d_python"),
    *("softmax_python", "strided_slice_python"),
)
#: References made of the same Relay operators as the computations.
_FROM_RELAY = leads_to(
    f"{_COMPAT}.topi.numpy_references",
    *("conv1d_transpose_ncw_python", "conv3d_transpose_ncdhw_python", "crop_and_resize_python"),
    *("depth_to_space_python", "depthwise_conv2d_python_nhwc", "matrix_set_diag", "nll_loss", "pool_grad_nchw"),
    *("poolnd_python", "resize1d_python", "resize3d_python", "roi_align_nchw_python", "roi_align_nhwc_python"),
    "sequence_mask",
    affine_grid_python="affine_grid",
    batch_norm="batch_norm",
    bilinear_resize_python="bilinear_resize_python",
    group_conv1d_ncw_python="group_conv1d_ncw_python",
    group_norm_python="group_norm",
    instance_norm_python="instance_norm",
    layer_norm_python="layer_norm",
    pool1d_ncw_python="pool1d_ncw_python",
    pool3d_ncdhw_python="pool3d_ncdhw_python",
    rms_norm_python="rms_norm",
    upsampling3d_python="upsampling3d_python",
    upsampling_python="upsampling_python",
    batch_to_space_nd_python="batch_to_space_nd",
    correlation_nchw_python="correlation_nchw",
    deformable_conv2d_nchw_python="deformable_conv2d_nchw",
    deformable_conv2d_nhwc_python="deformable_conv2d_nhwc",
    grid_sample_nchw_python="grid_sample_python",
    grid_sample_python="grid_sample_python",
    reorg_python="reorg",
    roi_pool_nchw_python="roi_pool_nchw",
    searchsorted_ref="searchsorted",
    space_to_batch_nd_python="space_to_batch_nd",
    space_to_depth_python="space_to_depth",
    strided_set_python="strided_set",
)
_GET_SCHEDULE = {
    f"get_{kind}_schedule": f"{_COMPAT}.topi.schedule:get_schedule"
    for kind in ("broadcast", "conv2d_nhwc", "elemwise", "injective", "reduce", "softmax")
}

TABLES = (
    Table(
        "tvm.topi",
        "The operator library.",
        names={**leads_to(f"{_COMPAT}.topi.ops", "elemwise_sum", "flip", "get_const_tuple"), **_COMPUTES, **_ARRAYS},
        open=("tilewright.topi",),
    ),
    Table("tvm.topi.math", "Element by element.", open=("tilewright.topi.elemwise",)),
    Table(
        "tvm.topi.transform", "Shapes and places.", names={**_COMPUTES, **_ARRAYS}, open=("tilewright.topi.transform",)
    ),
    Table("tvm.topi.utils", "Helpers.", names=_UTILS),
    Table("tvm.topi.util", "Helpers, by their oldest name.", names=_UTILS),
    Table(
        "tvm.topi.tag",
        "Kinds of operations.",
        names=leads_to("tilewright.topi.tag", "BROADCAST", "COMM_REDUCE", "ELEMWISE", "INJECTIVE", "is_injective"),
    ),
    Table("tvm.topi.nn", "Operators of neural networks.", names={**_NN_COMPUTES, **_NN}, open=("tilewright.topi.nn",)),
    *[
        Table(
            f"tvm.topi.nn.{name}",
            "Padding.",
            names=leads_to(f"{_COMPAT}.topi.ops", "get_pad_tuple", "get_pad_tuple1d", "get_pad_tuple3d"),
        )
        for name in ("utils", "util")
    ],
    Table("tvm.topi.nn.pooling", "Pooling.", names={**_NN, **leads_to(f"{_COMPAT}.topi.ops", "pool")}),
    Table(
        "tvm.topi.nn.depthwise_conv2d",
        "Convolutions by channel.",
        names={**_NN, **leads_to(_WORKLOAD, "_get_workload")},
    ),
    Table(
        "tvm.topi.nn.qnn",
        "Quantization that stays in floats.",
        names=leads_to("tilewright.relay.op.qnn.quantize", SQNN_DTYPE_TO_CODE="SIMULATED_CODES"),
    ),
    Table("tvm.topi.nn.conv2d", "Convolutions.", names={**_NN, **leads_to(_WORKLOAD, "_get_workload")}),
    *[
        Table(f"tvm.topi.x86.{name}", "Convolutions.", names=leads_to(_WORKLOAD, "_fallback_schedule"))
        for name in ("conv2d_avx_common", "depthwise_conv2d")
    ],
    Table("tvm.topi.cuda.conv3d_winograd", "Convolutions.", refused={"_infer_tile_size": _OWN_TILES}),
    Table(
        "tvm.topi.sparse",
        "Products of sparse matrices.",
        names=leads_to(f"{_COMPAT}.topi.sparse", "csrmm", "csrmv", "dense"),
    ),
    Table(
        "tvm.topi.sparse.utils",
        "Sparse matrices to try programs with, and sparse models.",
        names=leads_to(
            f"{_COMPAT}.relay.sparse_models",
            *("convert_model_dense_to_sparse", "random_bsr_matrix", "random_sparse_dense_params"),
        ),
        refused={
            "random_sparse_conv2d_params": "convolutions of models stay dense",
            "sparse_sketch_rules": "kernels of networks are tuned by their templates; for a computation of your own "
            "write a rule (auto_scheduler.PreloadCustomSketchRule)",
        },
    ),
    Table("tvm.topi.image", "Operators of images.", names=_IMAGE, open=("tilewright.topi.image",)),
    *[
        Table(f"tvm.topi.{name}", what, names=_VISION, refused=_COUNTED)
        for name, what in (
            ("vision", "Operators of boxes."),
            ("vision.rcnn", "Regions."),
            ("vision.ssd", "Anchors."),
        )
    ],
    Table(
        "tvm.topi.random",
        "Random numbers.",
        names=leads_to(f"{_COMPAT}.topi.computes", "threefry_generate", "threefry_split", "uniform"),
    ),
    Table("tvm.topi.generic", "Schedules.", names=_SCHEDULES),
    Table(
        "tvm.topi.generic.conv2d",
        "Schedules of convolutions.",
        names={"schedule_depthwise_conv2d_nhwc": f"{_COMPAT}.topi.schedule:schedule"},
        refused=dict.fromkeys(
            ("fallback_schedule_cpu_1x1_int8", "fallback_schedule_cpu_common_int8"),
            "templates choose their tiles themselves",
        ),
    ),
    *[
        Table(
            f"tvm.topi.{name}",
            "Operators and schedules for a kind of device.",
            names={**_SCHEDULES, **_FOR_DEVICES},
            refused=_COUNTED,
        )
        for name in _DEVICES
    ],
    Table(
        "tvm.topi.testing",
        "References in NumPy, and schedules by target.",
        names={
            **leads_to(f"{_COMPAT}.topi.references", *_REFERENCES),
            **_FROM_RELAY,
            **leads_to(f"{_COMPAT}.topi.schedule", "compare_numpy_tvm", "dispatch", "get_conv2d_nchw_implement"),
            **_GET_SCHEDULE,
        },
    ),
)
