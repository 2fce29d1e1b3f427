"""Operations of `keras.ops` that layers are made of: activations, convolutions, pooling, normalization, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.frontend.builders import functions
from tilewright.frontend.builders.fourier import complex_transform, frames_of, hann_window, real_inverse, real_transform
from tilewright.frontend.builders.product import einsum
from tilewright.frontend.builders.sliding import (
    Window,
    adaptive_pool,
    channel_kernel,
    convolution,
    depthwise_kernel,
    pool,
    transposed_convolution,
)
from tilewright.frontend.idioms import (
    cast,
    channels_first,
    channels_last,
    concatenate,
    constant,
    dtype_of,
    like,
    rank_of,
    reshape,
    shape_of,
)
from tilewright.frontend.keras.attention import causal_mask
from tilewright.frontend.keras.convolution import per_axis, transposed_cut
from tilewright.frontend.keras.layer import Operation, as_float, on_floats, tensors
from tilewright.frontend.keras.normalization import as_axes, layer_norm, normalized, rms_norm
from tilewright.frontend.keras.registry import operation
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_PLAIN = {
    "Relu": op.nn.relu, "Relu6": functions.relu6, "Sigmoid": op.sigmoid, "SparseSigmoid": functions.sparse_sigmoid,
    "Softplus": functions.softplus, "Softsign": functions.softsign, "SparsePlus": functions.sparse_plus,
    "Silu": functions.silu, "LogSigmoid": functions.log_sigmoid, "HardSigmoid": functions.hard_sigmoid,
    "HardSilu": functions.hard_silu, "Selu": functions.selu, "TanhShrink": functions.tanh_shrink,
    "HardTanh": functions.hard_tanh,
}  # fmt: skip
for _name, _function in _PLAIN.items():
    operation(_name)(on_floats(_function))


@operation("SoftShrink", "HardShrink")
def convert_shrink(item: Operation, x: Any, threshold: float = 0.5) -> Expr:
    return (functions.soft_shrink if item.class_name == "SoftShrink" else functions.hard_shrink)(as_float(x), threshold)


@operation("Threshold")
def convert_threshold(
    _item: Operation, x: Any, threshold: float, default_value: float | None = None, value: float = 0.0
) -> Expr:
    return functions.threshold(as_float(x), threshold, value if default_value is None else default_value)


@operation("Squareplus")
def convert_squareplus(_item: Operation, x: Any, b: float = 4) -> Expr:
    return functions.squareplus(as_float(x), b)


@operation("LeakyRelu")
def convert_leaky_relu(_item: Operation, x: Any, negative_slope: float = 0.2) -> Expr:
    return op.nn.leaky_relu(as_float(x), alpha=negative_slope)


@operation("Elu", "Celu")
def convert_elu(item: Operation, x: Any, alpha: float = 1.0) -> Expr:
    return (functions.elu if item.class_name == "Elu" else functions.celu)(as_float(x), alpha)


@operation("Gelu")
def convert_gelu(_item: Operation, x: Any, approximate: bool = True) -> Expr:
    return functions.gelu(as_float(x), approximate)


@operation("Glu")
def convert_glu(_item: Operation, x: Any, axis: int = -1) -> Expr:
    return functions.glu(as_float(x), axis)


@operation("Softmax", "LogSoftmax")
def convert_softmax(item: Operation, x: Any, axis: Any = -1) -> Expr:
    value = as_float(x)
    axes = tuple(range(rank_of(value))) if axis is None else as_axes(axis, rank_of(value))
    if item.class_name == "LogSoftmax":
        if len(axes) == 1:
            return op.nn.log_softmax(value, axis=axes[0])
        return value - functions.log_sum_exp(value, axes, True)
    return functions.stable_softmax(value, axes)


@operation("Sparsemax")
def convert_sparsemax(_item: Operation, x: Any, axis: int = -1) -> Expr:
    return functions.sparsemax(as_float(x), axis)


# ------------------------------------------------------------------------------------------------------------- windows
def _last(data_format: Any) -> bool:
    return data_format != "channels_first"


@operation("MaxPool", "AveragePool")
def convert_pool(
    item: Operation, inputs: Any, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: Any = None
) -> Expr:
    value = as_float(inputs)
    axes = rank_of(value) - 2
    size = per_axis(pool_size, axes)
    shape = Window(size, size if strides is None else per_axis(strides, axes), (1,) * axes, padding.lower())
    return pool("max" if item.class_name == "MaxPool" else "avg", value, shape, _last(data_format))


@operation("AdaptiveMaxPool", "AdaptiveAveragePool")
def convert_adaptive_pool(item: Operation, inputs: Any, output_size: Any, data_format: Any = None) -> Expr:
    value = as_float(inputs)
    kind = "max" if item.class_name == "AdaptiveMaxPool" else "avg"
    return adaptive_pool(kind, value, per_axis(output_size, rank_of(value) - 2), _last(data_format))


@operation("Conv", "DepthwiseConv", "ConvTranspose")
def convert_convolution(
    item: Operation, inputs: Any, kernel: Any, strides: Any = 1, padding: str = "valid", data_format: Any = None,
    dilation_rate: Any = 1, output_padding: Any = None,
) -> Expr:  # fmt: skip
    data, weight = tensors(inputs, kernel, at_least_float=True)
    axes = rank_of(data) - 2
    extents = tuple(shape_of(weight)[:axes])
    shape = Window(extents, per_axis(strides, axes), per_axis(dilation_rate, axes), padding.lower())
    last = _last(data_format)
    if item.class_name == "DepthwiseConv":
        return convolution(data, depthwise_kernel(weight), shape, shape_of(weight)[axes], last)
    if item.class_name == "Conv":
        channels = shape_of(data)[-1 if last else 1]
        return convolution(data, channel_kernel(weight), shape, channels // shape_of(weight)[axes], last)
    more = [None] * axes if output_padding is None else per_axis(output_padding, axes)
    cut = [transposed_cut(*one) for one in zip(extents, shape.strides, shape.dilation, [padding] * axes, more)]
    return transposed_convolution(data, channel_kernel(weight), shape, cut, 1, last)


@operation("SeparableConv")
def convert_separable(
    item: Operation, inputs: Any, depthwise_kernel: Any, pointwise_kernel: Any, strides: Any = 1,
    padding: str = "valid", data_format: Any = None, dilation_rate: Any = 1,
) -> Expr:  # fmt: skip
    first = Operation("DepthwiseConv", item.name, {}, "")
    made = convert_convolution(first, inputs, depthwise_kernel, strides, padding, data_format, dilation_rate)
    return convert_convolution(Operation("Conv", item.name, {}, ""), made, pointwise_kernel, 1, "valid", data_format)


# ------------------------------------------------------------------------------------------------------- normalization
@operation("Normalize")
def convert_normalize(_item: Operation, x: Any, axis: Any = -1, order: int = 2, epsilon: Any = None) -> Expr:
    value = as_float(x)
    return normalized(value, as_axes(axis, rank_of(value)), order, 1e-7 if epsilon is None else epsilon)


@operation("LayerNorm")
def convert_layer_norm(
    _item: Operation, x: Any, gamma: Any = None, beta: Any = None, axis: Any = -1, epsilon: Any = None,
    rms_scaling: bool = False,
) -> Expr:  # fmt: skip
    value = as_float(x)
    return layer_norm(
        value, gamma, beta, as_axes(axis, rank_of(value)), 1e-7 if epsilon is None else epsilon, rms_scaling
    )


@operation("RMSNorm")
def convert_rms_norm(_item: Operation, x: Any, scale: Any = None, axis: Any = -1, epsilon: Any = None) -> Expr:
    value = as_float(x)
    return rms_norm(value, scale, as_axes(axis, rank_of(value)), 1e-7 if epsilon is None else epsilon)


@operation("BatchNorm")
def convert_batch_norm(
    _item: Operation, x: Any, mean: Any, variance: Any, offset: Any = None, scale: Any = None, axis: int = -1,
    epsilon: float = 1e-3,
) -> Expr:  # fmt: skip
    value = as_float(x)
    position = int(axis) % rank_of(value)

    def wide(part: Any) -> Expr:
        (one,) = tensors(part)
        return reshape(
            cast(one, dtype_of(value)),
            [shape_of(value)[position] if a == position else 1 for a in range(rank_of(value))],
        )

    factor = op.rsqrt(wide(variance) + epsilon)
    factor = factor if scale is None else factor * wide(scale)
    made = (value - wide(mean)) * factor
    return made if offset is None else made + wide(offset)


@operation("DotProductAttention")
def convert_attention(
    item: Operation, query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, scale: Any = None,
    is_causal: bool = False, flash_attention: Any = None, attn_logits_soft_cap: Any = None,
) -> Expr:  # fmt: skip
    """[B, T, heads, width] of queries, and of keys and values with as many heads or a divisor of them."""
    q, k, v = tensors(query, key, value, at_least_float=True)
    times = shape_of(q)[2] // shape_of(k)[2]
    k, v = (op.repeat(part, repeats=times, axis=2) if times > 1 else part for part in (k, v))
    factor = 1 / math.sqrt(shape_of(q)[3]) if scale is None else scale
    scores = einsum("btnh,bsnh->bnts", [q, k]) * factor
    if attn_logits_soft_cap is not None:
        limit = like(float(attn_logits_soft_cap), scores)
        scores = op.tanh(scores / limit) * limit
    scores = scores if bias is None else scores + cast(tensors(bias)[0], dtype_of(scores))
    least = -0.7 * (65504.0 if dtype_of(q) == "float16" else 3.4028234663852886e38)
    if is_causal:
        scores = op.where(op.expand_dims(causal_mask(*shape_of(scores)[2:]), axis=0), scores, like(least, scores))
    if mask is not None:
        scores = op.where(cast(tensors(mask)[0], "bool"), scores, like(least, scores))
    return einsum("bnts,bsnh->btnh", [op.nn.softmax(scores, axis=-1), v])


# ---------------------------------------------------------------------------------------------------------- categories
@operation("OneHot")
def convert_one_hot(
    _item: Operation, x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Expr:
    kind = str(dtype or "float32")
    made = op.one_hot(
        cast(tensors(x)[0], "int32"),
        constant(1, kind),
        constant(0, kind),
        depth=int(num_classes),
        axis=axis,
        dtype=kind,
    )
    return made


@operation("MultiHot")
def convert_multi_hot(
    item: Operation, inputs: Any, num_classes: Any = None, axis: int = -1, dtype: Any = None, sparse: bool = False,
    num_tokens: Any = None,
) -> Expr:  # fmt: skip
    hot = convert_one_hot(item, inputs, int(num_classes if num_classes is not None else num_tokens), axis, dtype)
    return op.max(hot, axis=(1 if rank_of(hot) > 2 else 0,))


@operation("BinaryCrossentropy")
def convert_binary_crossentropy(_item: Operation, target: Any, output: Any, from_logits: bool = False) -> Expr:
    truth, guess = tensors(target, output, at_least_float=True)
    if from_logits:
        return op.nn.relu(guess) - guess * truth + op.log1p(op.exp(-op.abs(guess)))
    guess = op.clip(guess, 1e-7, 1 - 1e-7)
    one = like(1, guess)
    right = truth * op.log(guess)
    wrong = (one - truth) * op.log(one - guess)
    return -(right + wrong)


@operation("CategoricalCrossentropy", "SparseCategoricalCrossentropy")
def convert_categorical_crossentropy(
    item: Operation, target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Expr:
    guess = as_float(output)
    position = int(axis) % rank_of(guess)
    if from_logits:
        logs = op.nn.log_softmax(guess, axis=position)
    else:
        if item.class_name == "CategoricalCrossentropy":
            guess = guess / op.sum(guess, axis=(position,), keepdims=True)
        logs = op.log(op.clip(guess, 1e-7, 1 - 1e-7))
    if item.class_name == "CategoricalCrossentropy":
        truth = cast(tensors(target)[0], dtype_of(guess))
    else:
        codes = cast(tensors(target)[0], "int32")
        codes = op.squeeze(codes, axis=(position,)) if rank_of(codes) == rank_of(guess) else codes
        kind = dtype_of(guess)
        truth = op.one_hot(
            codes, constant(1, kind), constant(0, kind), depth=shape_of(guess)[position], axis=position, dtype=kind
        )
    return -op.sum(truth * logs, axis=(position,))


@operation("PSNR")
def convert_psnr(_item: Operation, x1: Any, x2: Any, max_val: float) -> Expr:
    left, right = tensors(x1, x2, at_least_float=True)
    apart = left - right
    error = op.mean(apart * apart)
    return 20 * math.log10(max_val) - 10 * op.log10(error)


# -------------------------------------------------------------------------------------------------------------- blocks
@operation("DepthToSpace", "SpaceToDepth")
def convert_blocks(item: Operation, x: Any, block_size: int, data_format: str = "channels_last") -> Expr:
    """Blocks of pixels as channels, the block's position varying slower than the channel, or back."""
    (value,) = tensors(x)
    last = _last(data_format)
    plain = value if last else channels_last(value)
    batch, height, width, channels = shape_of(plain)
    b = int(block_size)
    if item.class_name == "SpaceToDepth":
        parts = reshape(plain, (batch, height // b, b, width // b, b, channels))
        made = reshape(op.transpose(parts, axes=(0, 1, 3, 2, 4, 5)), (batch, height // b, width // b, channels * b * b))
    else:
        parts = reshape(plain, (batch, height, width, b, b, channels // (b * b)))
        made = reshape(
            op.transpose(parts, axes=(0, 1, 3, 2, 4, 5)), (batch, height * b, width * b, channels // (b * b))
        )
    return made if last else channels_first(made)


# ------------------------------------------------------------------------------------------------------------- signals
@operation("FFT")
def convert_fft(_item: Operation, x: Any) -> list[Expr]:
    real, imaginary = tensors(*x, at_least_float=True)
    return list(complex_transform(real, imaginary))


@operation("FFT2", "IFFT2")
def convert_fft2(item: Operation, x: Any) -> list[Expr]:
    real, imaginary = tensors(*x, at_least_float=True)
    inverse = item.class_name == "IFFT2"
    for _ in range(2):
        rank = rank_of(real)
        swapped = (*range(rank - 2), rank - 1, rank - 2)
        made = complex_transform(real, imaginary, inverse)
        real, imaginary = (op.transpose(part, axes=swapped) for part in made)
    return [real, imaginary]


@operation("RFFT")
def convert_rfft(_item: Operation, x: Any, fft_length: Any = None) -> list[Expr]:
    value = as_float(x)
    return list(real_transform(value, int(fft_length or shape_of(value)[-1])))


@operation("IRFFT")
def convert_irfft(_item: Operation, x: Any, fft_length: Any = None) -> Expr:
    real, imaginary = tensors(*x, at_least_float=True)
    return real_inverse(real, imaginary, int(fft_length or 2 * (shape_of(real)[-1] - 1)))


@operation("STFT")
def convert_stft(
    item: Operation, x: Any, sequence_length: int, sequence_stride: int, fft_length: int, window: Any = "hann",
    center: bool = True,
) -> list[Expr]:  # fmt: skip
    value = as_float(x)
    if window not in ("hann", "hamming", None):
        item.unsupported(f"the window {window!r}")
    shape = np.ones(sequence_length) if window is None else hann_window(sequence_length, window)
    return list(
        real_transform(frames_of(value, sequence_length, sequence_stride, fft_length, shape, center), fft_length)
    )


@operation("Unfold")
def convert_unfold(
    _item: Operation, x: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Expr:
    """[N, C, H, W] as [N, C * taps, windows]."""
    (value,) = tensors(x)
    size, step, by, pad = (per_axis(one, 2) for one in (kernel_size, dilation, stride, padding))
    padded = op.nn.pad(value, pad_width=((0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1]))) if any(pad) else value
    batch, channels, *extents = shape_of(padded)
    counts = [(extent - (n - 1) * d - 1) // s + 1 for extent, n, d, s in zip(extents, size, step, by)]
    taps = []
    for tap in np.ndindex(*size):
        begin = [t * d for t, d in zip(tap, step)]
        end = [b + (c - 1) * s + 1 for b, c, s in zip(begin, counts, by)]
        part = op.strided_slice(padded, begin=begin, end=end, strides=by, axes=(2, 3))
        taps.append(reshape(part, (batch, channels, 1, counts[0] * counts[1])))
    return reshape(concatenate(taps, 2), (batch, channels * len(taps), counts[0] * counts[1]))
