"""Operations of `keras.ops` that layers are made of: activations, convolutions, pooling, normalization, attention."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from tilewright.frontend.builders import functions, sliding
from tilewright.frontend.builders.elements import causal_mask
from tilewright.frontend.builders.fourier import (
    complex_transform,
    frames_of,
    periodic_window,
    real_inverse,
    real_transform,
)
from tilewright.frontend.builders.product import einsum
from tilewright.frontend.builders.sliding import channel_patches
from tilewright.frontend.idioms import cast, dtype_of, flatten, like, on_axis, one_hot, rank_of, shape_of, swap_axes
from tilewright.frontend.keras.convolution import per_axis, pooled, transposed_cut
from tilewright.frontend.keras.layer import Axes, Axis, FloatTensor, Operation, channels_behind, tensors
from tilewright.frontend.keras.normalization import as_axes, layer_norm, normalized, rms_norm
from tilewright.frontend.keras.registry import operation, operations
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def _threshold(x: FloatTensor, threshold: float, default_value: float | None = None, value: float = 0.0) -> Expr:
    return functions.threshold(x, threshold, value if default_value is None else default_value)


def _normalize(x: Expr, axis: Any = -1, order: int = 2, epsilon: Any = None) -> Expr:
    return normalized(x, as_axes(axis, rank_of(x)), order, 1e-7 if epsilon is None else epsilon)


def _rms_norm(x: Expr, scale: Any = None, axis: Any = -1, epsilon: Any = None) -> Expr:
    return rms_norm(x, scale, as_axes(axis, rank_of(x)), 1e-7 if epsilon is None else epsilon)


operations("FloatTensor", {
    "Relu": op.nn.relu, "Relu6": functions.relu6, "Sigmoid": op.sigmoid, "SparseSigmoid": functions.sparse_sigmoid,
    "Softplus": functions.softplus, "Softsign": functions.softsign, "SparsePlus": functions.sparse_plus,
    "Silu": functions.silu, "LogSigmoid": functions.log_sigmoid, "HardSigmoid": functions.hard_sigmoid,
    "HardSilu": functions.hard_silu, "Selu": lambda x: functions.selu(x), "TanhShrink": functions.tanh_shrink,
    "HardTanh": functions.hard_tanh, "SoftShrink": functions.soft_shrink, "HardShrink": functions.hard_shrink,
    "Squareplus": functions.squareplus, "Elu": functions.elu, "Celu": functions.celu, "Glu": functions.glu,
    "Gelu": lambda x, approximate=True: functions.gelu(x, approximate), "Sparsemax": functions.sparsemax,
    "LeakyRelu": lambda x, negative_slope=0.2: op.nn.leaky_relu(x, alpha=negative_slope),
    "RFFT": lambda x, fft_length=None: list(real_transform(x, int(fft_length or shape_of(x)[-1]))),
    "Normalize": _normalize, "RMSNorm": _rms_norm,
})  # fmt: skip
operation("Threshold")(_threshold)


@operation("Softmax")
def convert_softmax(x: FloatTensor, axis: Axes = (-1,)) -> Expr:
    return functions.stable_softmax(x, axis)


@operation("LogSoftmax")
def convert_log_softmax(x: FloatTensor, axis: Axes = (-1,)) -> Expr:
    return op.nn.log_softmax(x, axis=axis[0]) if len(axis) == 1 else x - functions.log_sum_exp(x, axis, True)


# ------------------------------------------------------------------------------------------------------------- windows
def _adaptive(kind: str, inputs: Expr, output_size: Any, data_format: Any = None) -> Expr:
    return sliding.adaptive_pool(kind, inputs, per_axis(output_size, rank_of(inputs) - 2), channels_behind(data_format))


def _pool(
    kind: str, inputs: Expr, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: Any = None
) -> Expr:
    return pooled(kind, inputs, pool_size, strides, padding, channels_behind(data_format))


operations("FloatTensor Any", {
    "MaxPool": partial(_pool, "max"), "AveragePool": partial(_pool, "avg"),
    "AdaptiveMaxPool": partial(_adaptive, "max"), "AdaptiveAveragePool": partial(_adaptive, "avg"),
})  # fmt: skip


@operation("Conv", "DepthwiseConv", "ConvTranspose")
def convert_convolution(
    item: Operation, inputs: FloatTensor, kernel: FloatTensor, strides: Any = 1, padding: str = "valid",
    data_format: Any = None, dilation_rate: Any = 1, output_padding: Any = None,
) -> Expr:  # fmt: skip
    axes = rank_of(inputs) - 2
    extents = tuple(shape_of(kernel)[:axes])
    shape = sliding.Window(extents, per_axis(strides, axes), per_axis(dilation_rate, axes), padding.lower())
    last = channels_behind(data_format)
    if item.class_name == "DepthwiseConv":
        return sliding.convolution(inputs, sliding.depthwise_kernel(kernel), shape, shape_of(kernel)[axes], last)
    if item.class_name == "Conv":
        channels = shape_of(inputs)[-1 if last else 1]
        return sliding.convolution(
            inputs, sliding.channel_kernel(kernel), shape, channels // shape_of(kernel)[axes], last
        )
    more = [None] * axes if output_padding is None else per_axis(output_padding, axes)
    cut = [transposed_cut(*one) for one in zip(extents, shape.strides, shape.dilation, [padding] * axes, more)]
    return sliding.transposed_convolution(inputs, sliding.channel_kernel(kernel), shape, cut, 1, last)


@operation("SeparableConv")
def convert_separable(
    item: Operation, inputs: Any, depthwise_kernel: Any, pointwise_kernel: Any, strides: Any = 1,
    padding: str = "valid", data_format: Any = None, dilation_rate: Any = 1,
) -> Expr:  # fmt: skip
    first = Operation("DepthwiseConv", item.name, {}, "")
    made = convert_convolution(first, inputs, depthwise_kernel, strides, padding, data_format, dilation_rate)
    return convert_convolution(Operation("Conv", item.name, {}, ""), made, pointwise_kernel, 1, "valid", data_format)


# ------------------------------------------------------------------------------------------------------- normalization
@operation("LayerNorm")
def convert_layer_norm(
    x: FloatTensor, gamma: Any = None, beta: Any = None, axis: Any = -1, epsilon: Any = None, rms_scaling: bool = False
) -> Expr:
    return layer_norm(x, gamma, beta, as_axes(axis, rank_of(x)), 1e-7 if epsilon is None else epsilon, rms_scaling)


@operation("BatchNorm")
def convert_batch_norm(
    x: FloatTensor, mean: Any, variance: Any, offset: Any = None, scale: Any = None, axis: Axis = -1,
    epsilon: float = 1e-3,
) -> Expr:  # fmt: skip
    def wide(part: Any) -> Expr:
        return on_axis(cast(tensors(part)[0], dtype_of(x)), axis, rank_of(x))

    factor = op.rsqrt(wide(variance) + epsilon)
    factor = factor if scale is None else factor * wide(scale)
    made = (x - wide(mean)) * factor
    return made if offset is None else made + wide(offset)


@operation("DotProductAttention")
def convert_attention(
    query: FloatTensor, key: FloatTensor, value: FloatTensor, bias: Any = None, mask: Any = None, scale: Any = None,
    is_causal: bool = False, flash_attention: Any = None, attn_logits_soft_cap: Any = None,
) -> Expr:  # fmt: skip
    """[B, T, heads, width] of queries, and of keys and values with as many heads or a divisor of them."""
    times = shape_of(query)[2] // shape_of(key)[2]
    key, value = (op.repeat(part, repeats=times, axis=2) if times > 1 else part for part in (key, value))
    factor = 1 / math.sqrt(shape_of(query)[3]) if scale is None else scale
    scores = einsum("btnh,bsnh->bnts", [query, key]) * factor
    if attn_logits_soft_cap is not None:
        limit = like(float(attn_logits_soft_cap), scores)
        scores = op.tanh(scores / limit) * limit
    scores = scores if bias is None else scores + cast(tensors(bias)[0], dtype_of(scores))
    least = -0.7 * (65504.0 if dtype_of(query) == "float16" else 3.4028234663852886e38)
    if is_causal:
        scores = op.where(causal_mask(*shape_of(scores)[2:]), scores, like(least, scores))
    if mask is not None:
        scores = op.where(cast(tensors(mask)[0], "bool"), scores, like(least, scores))
    return einsum("bnts,bsnh->btnh", [op.nn.softmax(scores, axis=-1), value])


# ---------------------------------------------------------------------------------------------------------- categories
def _one_hot(x: Expr, num_classes: int, axis: int = -1, dtype: Any = None) -> Expr:
    return one_hot(cast(x, "int32"), int(num_classes), str(dtype or "float32"), axis)


def _multi_hot(
    inputs: Expr, num_classes: Any = None, axis: int = -1, dtype: Any = None, num_tokens: Any = None
) -> Expr:
    hot = _one_hot(inputs, num_tokens if num_classes is None else num_classes, axis, dtype)
    return op.max(hot, axis=(1 if rank_of(hot) > 2 else 0,))


def _binary_crossentropy(target: FloatTensor, output: FloatTensor, from_logits: bool = False) -> Expr:
    if from_logits:
        return op.nn.relu(output) - output * target + op.log1p(op.exp(-op.abs(output)))
    output = op.clip(output, 1e-7, 1 - 1e-7)
    return -(target * op.log(output) + (1 - target) * op.log(1 - output))


def _psnr(x1: FloatTensor, x2: FloatTensor, max_val: float) -> Expr:
    apart = x1 - x2
    return 20 * math.log10(max_val) - 10 * op.log10(op.mean(apart * apart))


operation("OneHot")(_one_hot)
operation("MultiHot")(_multi_hot)
operation("BinaryCrossentropy")(_binary_crossentropy)
operation("PSNR")(_psnr)


@operation("CategoricalCrossentropy", "SparseCategoricalCrossentropy")
def convert_categorical_crossentropy(
    item: Operation, target: Any, output: FloatTensor, from_logits: bool = False, axis: int = -1
) -> Expr:
    position = axis % rank_of(output)
    if from_logits:
        logs = op.nn.log_softmax(output, axis=position)
    else:
        if item.class_name == "CategoricalCrossentropy":
            output = output / op.sum(output, axis=(position,), keepdims=True)
        logs = op.log(op.clip(output, 1e-7, 1 - 1e-7))
    if item.class_name == "CategoricalCrossentropy":
        truth = cast(tensors(target)[0], dtype_of(output))
    else:
        codes = cast(tensors(target)[0], "int32")
        codes = op.squeeze(codes, axis=(position,)) if rank_of(codes) == rank_of(output) else codes
        truth = one_hot(codes, shape_of(output)[position], dtype_of(output), position)
    return -op.sum(truth * logs, axis=(position,))


# -------------------------------------------------------------------------------------------------------------- blocks
@operation("DepthToSpace", "SpaceToDepth")
def convert_blocks(item: Operation, x: Expr, block_size: int, data_format: str = "channels_last") -> Expr:
    return sliding.blocks_as_channels(
        x, int(block_size), item.class_name == "DepthToSpace", channels_behind(data_format)
    )


# ------------------------------------------------------------------------------------------------------------- signals
def _parts(x: Any) -> tuple[Expr, Expr]:
    """The real and the imaginary part that a complex operand is."""
    real, imaginary = tensors(*x, at_least_float=True)
    return real, imaginary


operations("Any", {"FFT": lambda x: list(complex_transform(*_parts(x)))})


@operation("IRFFT")
def convert_irfft(x: Any, fft_length: Any = None) -> Expr:
    real, imaginary = _parts(x)
    return real_inverse(real, imaginary, int(fft_length or 2 * (shape_of(real)[-1] - 1)))


@operation("FFT2", "IFFT2")
def convert_fft2(item: Operation, x: Any) -> list[Expr]:
    real, imaginary = _parts(x)
    for _ in range(2):
        made = complex_transform(real, imaginary, item.class_name == "IFFT2")
        real, imaginary = (swap_axes(part) for part in made)
    return [real, imaginary]


@operation("STFT")
def convert_stft(
    item: Operation, x: FloatTensor, sequence_length: int, sequence_stride: int, fft_length: int,
    window: Any = "hann", center: bool = True,
) -> list[Expr]:  # fmt: skip
    shape = periodic_window(item, window, sequence_length)
    return list(real_transform(frames_of(x, sequence_length, sequence_stride, fft_length, shape, center), fft_length))


@operation("Unfold")
def convert_unfold(x: Expr, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Expr:
    """[N, C, H, W] as [N, C * taps, windows]."""
    size, step, by, pad = (per_axis(one, 2) for one in (kernel_size, dilation, stride, padding))
    return flatten(channel_patches(x, sliding.Window(size, by, step, tuple(zip(pad, pad)))), 2)
