"""Spectrograms of signals."""

from __future__ import annotations

import numpy as np

from tilewright.frontend.builders import functions
from tilewright.frontend.builders.fourier import frames_of, periodic_window, real_transform
from tilewright.frontend.builders.product import matmul
from tilewright.frontend.builders.sliding import Window, channel_kernel, convolution
from tilewright.frontend.idioms import cast, constant, dtype_of, like, product, rank_of, reshape, shape_of, transpose
from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("STFTSpectrogram")
def convert_stft_spectrogram(layer: Layer, inputs: Expr) -> Expr:
    """The transform as a convolution with the layer's kernels of cosines and sines."""
    mode = str(layer.get("mode", "log"))
    names = [f"{part}_kernel" for part, without in (("real", "imag"), ("imag", "real")) if mode != without]
    parts = [_channels(layer, inputs, kernel) for kernel in layer.weight(*names)]
    if mode in ("real", "imag"):
        return _arranged(layer, parts[0])
    if mode == "angle":
        return _arranged(layer, functions.atan2(parts[1], parts[0]))
    if mode == "stft":
        return _arranged(layer, op.concatenate(parts, axis=2))
    power = op.add(*[part * part for part in parts])
    if mode == "psd":
        inner = op.strided_slice(power, begin=(1,), end=(shape_of(power)[2] - 1,), strides=(1,), axes=(2,))
        return _arranged(layer, power + op.nn.pad(inner, pad_width=((0, 0), (0, 0), (1, 1), (0, 0))))
    least = like(1e-7, power)
    size = _arranged(layer, op.sqrt(op.maximum(power, least)))
    if mode not in ("magnitude", "log"):
        layer.bad(f"mode {mode!r}")
    return size if mode == "magnitude" else op.log(op.maximum(size, least))


def _channels(layer: Layer, inputs: Expr, kernel: Expr) -> Expr:
    """[N, channels, lines, frames]: each channel convolved by itself."""
    data = transpose(inputs, (0, 2, 1)) if layer.last else inputs
    batch, channels, time = shape_of(data)
    flat = reshape(data, (product((batch, channels)), 1, time))
    step = int(layer.get("frame_step") or int(layer["frame_length"]) // 2)
    shape = Window((int(shape_of(kernel)[0]),), (step,), (1,), str(layer.get("padding", "valid")))
    made = convolution(flat, channel_kernel(cast(kernel, dtype_of(flat))), shape, 1, last=False)
    return reshape(made, (batch, channels, *shape_of(made)[1:]))


def _arranged(layer: Layer, value: Expr) -> Expr:
    batch, channels, lines, frames = shape_of(value)
    if layer.get("expand_dims"):
        return transpose(value, (0, 3, 2, 1) if layer.last else (0, 1, 3, 2))
    joined = reshape(value, (batch, product((channels, lines)), frames))
    return transpose(joined, (0, 2, 1)) if layer.last else joined


@converts("MelSpectrogram")
def convert_mel_spectrogram(layer: Layer, inputs: Expr) -> Expr:
    dtype = layer.compute_dtype if layer.compute_dtype in ("float32", "float64") else "float32"
    data = cast(inputs, dtype)
    length = int(layer.get("fft_length", 2048))
    frames = int(layer.get("sequence_length") or length)
    shape = periodic_window(layer, layer.get("window", "hann"), frames)
    parts = frames_of(data, frames, int(layer.get("sequence_stride", 512)), length, shape)
    real, imaginary = real_transform(parts, length)
    size = op.sqrt(real * real + imaginary * imaginary)
    exponent = float(layer.get("mag_exp", 1.0))
    size = size if exponent == 1 else op.power(size, like(exponent, size))
    high = layer.get("max_freq")
    matrix = _mel_matrix(
        int(layer.get("num_mel_bins", 128)), length // 2 + 1, float(layer.get("sampling_rate", 16000)),
        float(layer.get("min_freq", 20.0)), float(layer["sampling_rate"] / 2 if high is None else high),
    )  # fmt: skip
    made = matmul(size, constant(matrix, dtype))
    if layer.get("power_to_db", True):
        made = _decibels(layer, made)
    rank = rank_of(made)
    return cast(transpose(made, (*range(rank - 2), rank - 1, rank - 2)), layer.compute_dtype)


def _decibels(layer: Layer, value: Expr) -> Expr:
    least = float(layer.get("min_power", 1e-10))
    top, reference = float(layer.get("top_db", 80.0)), abs(float(layer.get("ref_power", 1.0)))
    made = 10.0 * op.log10(op.maximum(value, like(least, value)))
    made = made - 10 * np.log10(max(reference, least))
    return op.maximum(made, op.max(made) - top)


def _mel_matrix(bins: int, lines: int, rate: float, low: float, high: float) -> np.ndarray:
    """[lines, bins]: triangles that are linear on the mel scale of HTK, 1127 ln(1 + f / 700)."""

    def mel(frequency: np.ndarray) -> np.ndarray:
        return 1127.0 * np.log1p(frequency / 700.0)

    positions = mel(np.linspace(0.0, rate / 2, lines))[1:, None]
    edges = np.linspace(mel(np.asarray(low)), mel(np.asarray(high)), bins + 2)
    below = (positions - edges[:-2]) / (edges[1:-1] - edges[:-2])
    above = (edges[2:] - positions) / (edges[2:] - edges[1:-1])
    return np.concatenate([np.zeros((1, bins)), np.maximum(0.0, np.minimum(below, above))])
