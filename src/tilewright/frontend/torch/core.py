"""The operators that PyTorch calls core ATen (tagged so in 2.13), and which of them are not converted.

https://docs.pytorch.org/docs/stable/torch.compiler_ir.html lists them; overloads called "default" stand without it.
"""

from __future__ import annotations

from tilewright.frontend.torch.families import find_converter

CORE = (
    "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d", "_cdist_forward",
    "_embedding_bag", "_fft_c2r", "_fft_r2c", "_local_scalar_dense", "_log_softmax", "_native_batch_norm_legit",
    "_native_batch_norm_legit.no_stats", "_native_batch_norm_legit_no_training", "_pdist_forward", "_softmax",
    "_to_copy", "abs", "acos", "acosh", "adaptive_avg_pool1d", "add.Scalar", "add.Tensor", "addmm", "alias", "amax",
    "amin", "any", "any.dim", "any.dims", "arange.start_step", "argmax", "argmin", "as_strided", "asin", "asinh",
    "atan", "atan2", "atan2.out", "atanh", "avg_pool1d", "avg_pool2d", "avg_pool2d_backward", "avg_pool3d",
    "bitwise_and.Scalar", "bitwise_and.Tensor", "bitwise_not", "bitwise_or.Scalar", "bitwise_or.Tensor",
    "bitwise_xor.Scalar", "bitwise_xor.Tensor", "bmm", "cat", "ceil", "clamp", "clamp.Tensor", "clone", "col2im",
    "constant_pad_nd", "convolution", "convolution_backward", "copy", "cos", "cosh", "cumsum", "diagonal",
    "div.Scalar", "div.Scalar_mode", "div.Tensor", "div.Tensor_mode", "elu", "embedding", "embedding_dense_backward",
    "empty.memory_format", "empty_strided", "eq.Scalar", "eq.Tensor", "erf", "exp", "expand", "expm1", "fill.Scalar",
    "flip", "floor", "fmod.Scalar", "fmod.Tensor", "full", "full_like", "gather", "ge.Scalar", "ge.Tensor", "gelu",
    "grid_sampler_2d", "gt.Scalar", "gt.Tensor", "hardtanh", "index.Tensor", "index_put", "index_select", "isinf",
    "isnan", "le.Scalar", "le.Tensor", "leaky_relu", "log", "log10", "log1p", "log2", "logical_and", "logical_not",
    "logical_or", "logical_xor", "lt.Scalar", "lt.Tensor", "masked_scatter", "max.dim", "max_pool2d_with_indices",
    "max_pool2d_with_indices_backward", "max_pool3d_with_indices", "maximum", "mean", "mean.dim", "min.dim",
    "minimum", "mm", "mul.Scalar", "mul.Tensor", "native_dropout", "native_group_norm", "native_group_norm_backward",
    "native_layer_norm", "native_layer_norm_backward", "ne.Scalar", "ne.Tensor", "neg", "nonzero", "permute",
    "pow.Scalar", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "prod", "prod.dim_int", "rand", "randn", "randperm",
    "reciprocal", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "relu", "remainder.Scalar",
    "remainder.Tensor", "repeat", "replication_pad2d", "replication_pad3d", "resize_", "round", "rsqrt",
    "scalar_tensor", "scatter.src", "scatter.value", "scatter_add", "scatter_reduce.two", "select.int",
    "select_scatter", "sigmoid", "sign", "sin", "sinh", "slice.Tensor", "slice_scatter", "sort", "split_with_sizes",
    "sqrt", "squeeze.dim", "squeeze.dims", "sub.Scalar", "sub.Tensor", "sum.dim_IntList", "sym_is_contiguous",
    "sym_numel", "sym_size.int", "sym_storage_offset", "sym_stride.int", "tan", "tanh", "topk", "trunc", "unsqueeze",
    "upsample_bilinear2d.vec", "upsample_nearest2d.vec", "var.correction", "var.dim", "view", "where.self",
)  # fmt: skip

#: What PyTorch decomposes for us or makes functional (`resize` instead of `resize_`), and the questions about sizes
#: that importing a graph answers.
_TAKEN_OTHERWISE = (
    "_native_batch_norm_legit", "col2im", "embedding_dense_backward", "native_group_norm_backward",
    "native_layer_norm_backward", "resize_", "sym_is_contiguous", "sym_numel", "sym_size.int", "sym_storage_offset",
    "sym_stride.int",
)  # fmt: skip


def missing_core() -> list[str]:
    """Core overloads that a program cannot use."""
    return [
        name
        for name in CORE
        if name not in _TAKEN_OTHERWISE and not any(find_converter(overload(name), kind) for kind in (False, True))
    ]


def overload(name: str) -> str:
    """The full name of an overload of `CORE`: ``aten.abs.default``."""
    return f"aten.{name}" if "." in name else f"aten.{name}.default"
