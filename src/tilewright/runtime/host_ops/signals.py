"""ONNX operators on matrices and signals that are rare enough for NumPy."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_, InputError
from tilewright.runtime.host_ops.onnx_op import onnx_op, require_shape
from tilewright.support.dtype import DType

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


@onnx_op("Det")
def determinant(attrs: Attrs, data: Array) -> Array:
    """Determinants of the matrices in the last two axes."""
    return np.asarray(np.linalg.det(data.astype(np.float64)), data.dtype)


@onnx_op("MelWeightMatrix")
def mel_weight_matrix(attrs: Attrs, bins: Array, length: Array, rate: Array, low: Array, high: Array) -> Array:
    """Triangular filters, evenly spaced in mel, that turn a spectrum of length // 2 + 1 lines into `bins` bands."""
    count, size, sampling = (int(np.reshape(value, -1)[0]) for value in (bins, length, rate))
    lines = size // 2 + 1
    ends = [2595 * np.log10(1 + float(np.reshape(value, -1)[0]) / 700) for value in (low, high)]
    # One band more than requested spreads the edges, as ONNX defines it.
    mels = ends[0] + np.arange(count + 2) * ((ends[1] - ends[0]) / (count + 2))
    edges = ((size + 1) * (700 * (np.power(10, mels / 2595) - 1)) // sampling).astype(np.int64)
    result = np.zeros((lines, count), np.float64)
    for band in range(count):
        left, centre, right = edges[band : band + 3]
        if centre == left:
            result[centre, band] = 1
        else:
            result[left : centre + 1, band] = np.arange(centre + 1 - left) / (centre - left)
        if right > centre:
            result[centre:right, band] = (right - np.arange(centre, right)) / (right - centre)
    return result.astype(DType(attrs["result_dtype"]).numpy)


def _complex(data: Array) -> Array:
    """Signals whose last axis holds real, or real and imaginary, parts."""
    if data.shape[-1] not in (1, 2):
        raise ValueError(f"the last axis holds real and imaginary parts, and so 1 or 2, not {data.shape[-1]}")
    return data[..., 0] + 1j * data[..., 1] if data.shape[-1] == 2 else data[..., 0].astype(np.complex128)


def _parts(data: Array, dtype: Any) -> Array:
    return np.stack([data.real, data.imag], axis=-1).astype(dtype)


@onnx_op("DFT")
def dft(attrs: Attrs, data: Array, length: Array | None = None, axis: Array | None = None) -> Array:
    """The discrete Fourier transform along an axis, its inverse, or of real signals one half of it."""
    at = int(axis.reshape(-1)[0]) if axis is not None else int(attrs.get("axis", -2))
    at = at % data.ndim
    count = None if length is None else int(length.reshape(-1)[0])
    signal, onesided = _complex(data), attrs.get("onesided", 0)
    if attrs.get("inverse", 0):
        if onesided:
            return np.fft.irfft(signal, count, at)[..., None].astype(data.dtype)
        return _parts(np.fft.ifft(signal, count, at), data.dtype)
    turned = np.fft.fft(signal, count, at)
    return _parts(np.take(turned, range(turned.shape[at] // 2 + 1), at) if onesided else turned, data.dtype)


@onnx_op("STFT")
def stft(attrs: Attrs, data: Array, step: Array, window: Array | None = None, length: Array | None = None) -> Array:
    """Transforms of windowed frames (batch, frames, lines, 2) of a signal (batch, length, 1 or 2)."""
    hop = int(step.reshape(-1)[0])
    size = int(length.reshape(-1)[0]) if length is not None else len(window)  # type: ignore[arg-type]
    if window is not None and len(window) != size:  # one of a single element would be repeated
        raise ValueError(f"a window of {len(window)} elements does not fit frames of {size}")
    count = (data.shape[1] - size) // hop + 1
    frames = _complex(data)[:, np.arange(count)[:, None] * hop + np.arange(size)]
    turned = np.fft.fft(frames if window is None else frames * window, axis=2)
    return _parts(turned[:, :, : size // 2 + 1] if attrs.get("onesided", 1) else turned, data.dtype)


@onnx_op("Col2Im")
def col2im(attrs: Attrs, data: Array, image: Array, block: Array) -> Array:
    """Patches (N, C * taps, positions) added up to images."""
    axes = len(image)
    strides, dilations = attrs.get("strides") or [1] * axes, attrs.get("dilations") or [1] * axes
    pads = attrs.get("pads") or [0] * (2 * axes)
    padded = [int(image[a]) + pads[a] + pads[a + axes] for a in range(axes)]
    steps = [(padded[a] - dilations[a] * (int(block[a]) - 1) - 1) // strides[a] + 1 for a in range(axes)]
    channels = data.shape[1] // int(np.prod(block))
    patches = data.reshape(data.shape[0], channels, *[int(size) for size in block], *steps)
    result = np.zeros((data.shape[0], channels, *padded), data.dtype)
    for tap in np.ndindex(*[int(size) for size in block]):
        begin = [position * dilation for position, dilation in zip(tap, dilations)]
        region = tuple(slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(begin, steps, strides))
        result[(slice(None), slice(None), *region)] += patches[(slice(None), slice(None), *tap)]
    inner = tuple(slice(pads[a], pads[a] + int(image[a])) for a in range(axes))
    return np.asarray(result[(slice(None), slice(None), *inner)], order="C")


#: The first three terms of a window as a sum of cosines, a0 - a1 cos(t) + a2 cos(2t), t going once round.
WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


def cosine_window(name: str, size: int, periodic: bool) -> Array:
    """`size` values of one of `WINDOWS` in float64; a periodic one leaves out the value that would begin it again."""
    angle = 2 * np.pi * np.arange(size) / max(size if periodic else size - 1, 1)
    first, second, third = WINDOWS[name]
    return first - second * np.cos(angle) + third * np.cos(2 * angle)


def _register_window(name: str) -> None:
    @onnx_op(name)
    def window(attrs: Attrs, size: Array) -> Array:
        values = cosine_window(name, int(size.reshape(-1)[0]), bool(attrs.get("periodic", 1)))
        return values.astype(DType(attrs["result_dtype"]).numpy)


for _name in WINDOWS:
    _register_window(_name)


@onnx_op("AffineGrid")
def affine_grid(attrs: Attrs, theta: Array, size: Array) -> Array:
    """The positions of a regular grid from -1 to 1 under an affine map (N, axes, axes + 1), last axis first."""
    extents = [int(extent) for extent in size[2:]]
    lines = []
    for extent in extents:
        steps = np.arange(extent, dtype=np.float64)
        corners = 2 * steps / max(extent - 1, 1) - (1 if extent > 1 else 0)
        lines.append(corners if attrs.get("align_corners", 0) else (2 * steps + 1) / extent - 1)
    planes = np.meshgrid(*lines, indexing="ij")[::-1]
    points = np.stack([*planes, np.ones_like(planes[0])], axis=-1).reshape(-1, len(extents) + 1)
    placed = points @ theta.astype(np.float64).transpose(0, 2, 1)
    return placed.reshape(int(size[0]), *extents, len(extents)).astype(theta.dtype)


@onnx_op("MaxUnpool")
def max_unpool(attrs: Attrs, data: Array, indices: Array, shape: Array | None = None) -> Array:
    """The maxima put back to the flat positions that max pooling took them from; zero elsewhere."""
    require_shape("indices", indices, data.shape)
    kernel = attrs["kernel_shape"]
    strides = attrs.get("strides") or [1] * len(kernel)
    pads = attrs.get("pads") or [0] * (2 * len(kernel))
    inferred = list(data.shape[:2])
    for axis, size in enumerate(kernel):
        inferred.append((data.shape[axis + 2] - 1) * strides[axis] + size - pads[axis] - pads[axis + len(kernel)])
    pooled = np.zeros(int(np.prod(inferred, dtype=np.int64)), data.dtype)
    if indices.size and not 0 <= indices.min() <= indices.max() < pooled.size:
        raise InputError(
            f"MaxUnpool: an index is out of range for {pooled.size} elements, the shape {inferred} that its window, "
            "strides and pads make; they and the indices are of another image"
        )
    pooled[indices.reshape(-1)] = data.reshape(-1)
    result = pooled.reshape(inferred)
    if shape is None:
        return result
    target = np.zeros([int(extent) for extent in shape], data.dtype)
    target[tuple(slice(0, extent) for extent in inferred)] = result
    return target


@onnx_op("RoiAlign")
def roi_align(attrs: Attrs, data: Array, rois: Array, batch: Array) -> Array:
    """Regions of feature maps [N, C, H, W] averaged (or their largest sample taken) over bins of a fixed grid."""
    shift = 0.5 if attrs.get("coordinate_transformation_mode", "half_pixel") == "half_pixel" else 0.0
    scale = float(attrs.get("spatial_scale", 1.0))
    bins = (int(attrs.get("output_height", 1)), int(attrs.get("output_width", 1)))
    require_shape("batch indices", batch, rois.shape[:1])
    boxes = rois.astype(np.float64) * scale - shift
    result = np.empty((len(rois), data.shape[1], *bins), data.dtype)
    for number, (x1, y1, x2, y2) in enumerate(boxes):
        size = [y2 - y1, x2 - x1] if shift else [max(y2 - y1, 1.0), max(x2 - x1, 1.0)]
        steps = [extent / count for extent, count in zip(size, bins)]
        ratio = int(attrs.get("sampling_ratio", 0))
        counts = [ratio if ratio > 0 else max(int(np.ceil(step)), 1) for step in steps]
        rows, columns = (
            begin + step * (np.arange(bins_)[:, None] + (np.arange(count)[None, :] + 0.5) / count)
            for begin, step, bins_, count in zip((y1, x1), steps, bins, counts)
        )
        result[number] = _pooled(attrs, data[int(batch[number])].astype(np.float64), rows, columns)
    return result


def _pooled(attrs: Attrs, image: Array, rows: Array, columns: Array) -> Array:
    """Samples of `image` [C, H, W] at rows [bins, samples] by columns, pooled over the samples of each bin."""
    weighted = []
    for y, wy in _neighbours(rows, image.shape[1]):
        for x, wx in _neighbours(columns, image.shape[2]):
            weight = wy[:, :, None, None] * wx[None, None]
            pixels = np.where(weight == 0, 0.0, image[:, y[:, :, None, None], x[None, None]])
            weighted.append(pixels * weight)
    if attrs.get("mode", "avg") == "max":
        # ONNX takes the largest weighted neighbour, not the largest interpolated sample.
        return np.maximum.reduce(weighted).max(axis=(2, 4))
    return sum(weighted).mean(axis=(2, 4))


def _neighbours(positions: Array, extent: int) -> list[tuple[Array, Array]]:
    """The two pixels beside each position with their weights; none of what lies more than a pixel outside."""
    inside = (positions >= -1.0) & (positions <= extent)
    clipped = np.clip(positions, 0, None)
    low = np.minimum(clipped.astype(np.int64), extent - 1)
    high = np.minimum(low + 1, extent - 1)
    part = np.where(low >= extent - 1, 0.0, clipped - low)
    return [(low, (1 - part) * inside), (high, part * inside)]


@onnx_op("MaxRoiPool")
def max_roi_pool(attrs: Attrs, data: Array, rois: Array) -> Array:
    """The maximum over each bin of each region (batch, x1, y1, x2, y2) of feature maps [N, C, H, W]."""
    bins, scale = attrs["pooled_shape"], float(attrs.get("spatial_scale", 1.0))
    result = np.zeros((len(rois), data.shape[1], *bins), data.dtype)
    for number, roi in enumerate(rois):
        x1, y1, x2, y2 = (int(np.floor(value * scale + 0.5)) for value in roi[1:])
        spans = [
            _bins(begin, max(end - begin + 1, 1), count, extent)
            for begin, end, count, extent in zip((y1, x1), (y2, x2), bins, data.shape[2:])
        ]
        for i, (top, bottom) in enumerate(spans[0]):
            for j, (left, right) in enumerate(spans[1]):
                window = data[int(roi[0]), :, top:bottom, left:right]
                if window.shape[1] and window.shape[2]:
                    result[number, :, i, j] = window.max(axis=(1, 2))
    return result


def _bins(begin: int, length: int, count: int, extent: int) -> list[tuple[int, int]]:
    step = length / count
    ends = [(begin + int(np.floor(i * step)), begin + int(np.ceil((i + 1) * step))) for i in range(count)]
    return [(min(max(low, 0), extent), min(max(high, 0), extent)) for low, high in ends]


@onnx_op("ImageDecoder")
def image_decoder(attrs: Attrs, encoded: Array) -> Array:
    """An encoded image as uint8 [height, width, channels] in the requested pixel format; needs Pillow."""
    try:
        from PIL import Image
    except ImportError:
        raise EnvironmentError_(
            "decoding images needs Pillow, which is not installed; run: pip install Pillow"
        ) from None
    image = Image.open(io.BytesIO(encoded.tobytes()))
    if attrs.get("pixel_format", "RGB") == "Grayscale":
        return np.asarray(image.convert("L"))[:, :, None]
    pixels = np.asarray(image.convert("RGB"))
    return np.asarray(pixels[:, :, ::-1] if attrs.get("pixel_format") == "BGR" else pixels, order="C")
