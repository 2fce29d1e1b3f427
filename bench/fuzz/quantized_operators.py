"""Operators that chains of quantized values are drawn from: QDQ groups, QLinear*, integer products, few bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.fuzz.exact import limits
from bench.fuzz.quantized_chain import LARGEST, MICROSOFT, Chain, Codes, Named, Unfit

#: Sizes of channels: those of whole vectors and tiles, and others.
CHANNELS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 16, 17, 24, 32, 32, 33, 48, 64, 64)
BYTES = ("uint8", "int8")


def window(chain: Chain, spatial: tuple[int, ...], pads: bool = True) -> dict[str, Any]:
    """Kernel, strides, dilations and pads that fit an image."""
    rank = len(spatial)
    kernel = [chain.choice([k for k in (1, 1, 2, 3, 3, 5, 7) if k <= size + 1] or [1]) for size in spatial]
    if chain.chance(0.6):
        kernel = [min(kernel)] * rank
    padding = [chain.choice(range((k + 1) // 2)) if pads and chain.chance(0.6) else 0 for k in kernel * 2]
    dilations = [chain.choice([1, 1, 1, 2]) for _ in kernel]
    for axis, size in enumerate(spatial):
        if size + padding[axis] + padding[axis + rank] < (kernel[axis] - 1) * dilations[axis] + 1:
            raise Unfit("the window is larger than the image")
    strides = [chain.choice([1, 1, 1, 2, 3]) for _ in kernel]
    return {"kernel_shape": kernel, "pads": padding, "dilations": dilations, "strides": strides}


def images(chain: Chain, data: Named) -> tuple[int, tuple[int, ...]]:
    """Channels and image of [N, C, …]; `Unfit` for other ranks."""
    if len(data.shape) not in (3, 4):
        raise Unfit("not an image")
    return data.shape[1], data.shape[2:]


def filters(chain: Chain, channels: int) -> tuple[int, int]:
    """(filters, groups) of a convolution."""
    kind = chain.choice(["dense", "dense", "dense", "depthwise", "grouped"])
    if kind == "depthwise":
        return channels * chain.choice([1, 1, 2]), channels
    groups = chain.choice([g for g in (1, 2, 3, 4) if channels % g == 0]) if kind == "grouped" else 1
    return groups * chain.choice(CHANNELS[:14]), groups


def bias_of(chain: Chain, count: int, size: float) -> Named | None:
    """A bias in int32, small or large."""
    if chain.chance(0.4):
        return None
    limit = int(chain.choice([10, 1000, max(10.0, size)]))
    return chain.constant(chain.numbers.integers(-limit, limit, count).astype(np.int32))


# ------------------------------------------------------------------------------------------------------- QDQ
def activated(chain: Chain, data: Named) -> Named:
    """Nothing, or what networks put behind a product."""
    kind = chain.choice(["none", "none", "Relu", "Clip", "LeakyRelu", "Sigmoid", "HardSwish", "Tanh", "swish"])
    if kind == "none":
        return data
    if kind == "Clip":
        top = float(np.abs(data.bounded.value).max()) * 0.6 + 0.01
        return chain.emit("Clip", [data, chain.constant(np.float32(0)), chain.constant(np.float32(top))])[0]
    if kind == "LeakyRelu":
        return chain.emit("LeakyRelu", [data], alpha=chain.choice([0.25, 0.1]))[0]
    if kind == "swish":
        return chain.emit("Mul", [data, chain.emit("Sigmoid", [data])[0]])[0]
    return chain.emit(kind, [data])[0]


def dequantized_bias(chain: Chain, data: Codes, weight: Codes, size: float) -> Named | None:
    """A bias as quantizers store it, int32 at the product's scale, or as they find it, in float32."""
    count = weight.codes.shape[0]
    bias = bias_of(chain, count, size)
    if bias is None:
        return None
    scale = (data.scale.bounded.value * weight.scale.bounded.value).astype(np.float32)
    if chain.chance(0.3):
        return chain.constant((bias.bounded.value * scale + chain.choice([0.0, 0.3]) * scale).astype(np.float32))
    zero = chain.constant(np.zeros(scale.shape, np.int32))
    return chain.dequantize(Codes(bias, chain.constant(scale), zero), axis=0)


def qdq_conv(chain: Chain, data: Codes) -> Named:
    """DequantizeLinear, Conv, an activation."""
    channels, spatial = images(chain, data.codes)
    count, groups = filters(chain, channels)
    attributes = window(chain, spatial)
    weight = chain.weights((count, channels // groups, *attributes["kernel_shape"]), 0)
    if count * np.prod(spatial) * data.codes.shape[0] > LARGEST:
        raise Unfit("too large")
    bias = dequantized_bias(chain, data, weight, float(channels * 2000))
    inputs = [chain.dequantize(data), chain.dequantize(weight, axis=0), bias]
    return activated(chain, chain.emit("Conv", inputs, group=groups, **attributes)[0])


def qdq_matmul(chain: Chain, data: Codes) -> Named:
    """DequantizeLinear, MatMul with weights, a bias."""
    if len(data.codes.shape) < 2:
        raise Unfit("no matrix")
    columns = chain.choice(CHANNELS)
    axis = 0 if chain.chance(0.1) else 1
    weight = chain.weights((data.codes.shape[-1], columns), axis, ("int8", "int8", "uint8", "int4", "int16"))
    (product,) = chain.emit("MatMul", [chain.dequantize(data), chain.dequantize(weight, axis=axis)])
    if chain.chance(0.5):
        bias = (chain.numbers.integers(-64, 64, columns) / 64).astype(np.float32)
        (product,) = chain.emit("Add", [product, chain.constant(bias)])
    return activated(chain, product)


def qdq_gemm(chain: Chain, data: Codes) -> Named:
    """DequantizeLinear, Gemm of a matrix with weights and a bias of the product's scale."""
    if len(data.codes.shape) != 2:
        data = Codes(flat(chain, data.codes), data.scale, data.zero)
    columns = chain.choice(CHANNELS)
    weight = chain.weights((columns, data.codes.shape[1]), 0)
    bias = dequantized_bias(chain, data, weight, 5000.0)
    inputs = [chain.dequantize(data), chain.dequantize(weight, axis=0), bias]
    return activated(chain, chain.emit("Gemm", inputs, transB=1)[0])


def flat(chain: Chain, data: Named) -> Named:
    """[N, …] as [N, all others]."""
    return chain.emit("Flatten", [data], axis=1)[0]


def qdq_binary(chain: Chain, data: Codes) -> Named:
    """Two dequantized tensors added, subtracted or multiplied; one may be constant or broadcast."""
    left = chain.dequantize(data)
    if chain.chance(0.3):
        right = chain.dequantize(data)
    else:
        shape = [1 if chain.chance(0.3) or axis == 0 else size for axis, size in enumerate(data.codes.shape)]
        dtype = chain.choice([data.codes.dtype, "int8"])
        codes = chain.constant(chain.codes(shape, dtype), dtype)
        scale = chain.constant(np.float32(chain.scale_near(float(data.scale.bounded.value))))
        right = chain.dequantize(Codes(codes, scale, chain.zero_point(dtype)))
    return activated(chain, chain.emit(chain.choice(["Add", "Add", "Mul", "Sub"]), [left, right])[0])


def qdq_pool(chain: Chain, data: Codes) -> Named:
    """Pooling of dequantized images."""
    _, spatial = images(chain, data.codes)
    real = chain.dequantize(data)
    kind = chain.choice(["MaxPool", "AveragePool", "GlobalAveragePool"])
    if kind == "GlobalAveragePool":
        return chain.emit(kind, [real])[0]
    attributes = window(chain, spatial)
    del attributes["dilations"]
    return chain.emit(kind, [real], **attributes, **({"count_include_pad": 1} if kind == "AveragePool" else {}))[0]


def qdq_moved(chain: Chain, data: Codes) -> Named:
    """Dequantized elements elsewhere: transposed, cut, joined, repeated, padded."""
    real, rank = chain.dequantize(data), len(data.codes.shape)
    kind = chain.choice(["Transpose", "Slice", "Concat", "Resize", "Pad", "Flatten"])
    axis = chain.choice(range(1, rank))
    if kind == "Transpose":
        return chain.emit(kind, [real], perm=[0, *chain.random.sample(range(1, rank), rank - 1)])[0]
    if kind == "Slice":
        size = data.codes.shape[axis]
        begin = chain.choice(range(size))
        ends = [begin, chain.choice(range(begin + 1, size + 1)), axis]
        return chain.emit(kind, [real, *(chain.constant(np.array([v])) for v in ends)])[0]
    if kind == "Concat":
        return chain.emit(kind, [real, chain.emit("Relu", [real])[0]], axis=axis)[0]
    if kind == "Resize" and rank == 4:
        factors = chain.constant(np.array([1, 1, 2, chain.choice([1, 2, 3])], np.float32))
        ways = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return chain.emit(kind, [real, None, factors], **ways)[0]
    if kind == "Pad":
        widths = [0 if d == 0 else chain.choice([0, 0, 1, 2]) for d in range(rank)] * 2
        return chain.emit(kind, [real, chain.constant(np.array(widths))])[0]
    return flat(chain, real)


def attention(chain: Chain, data: Codes) -> Named:
    """Query, key and value of one tensor [N, rows, depth], products and softmax of heads, all between codes."""
    if len(data.codes.shape) != 3:
        raise Unfit("no rows of sequences")
    heads, width = chain.choice([1, 2, 4]), chain.choice([4, 8, 16, 17])
    order = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    parts = []
    for perm in order:
        weight = chain.weights((data.codes.shape[2], heads * width), 1)
        (part,) = chain.emit("MatMul", [chain.dequantize(data), chain.dequantize(weight, axis=1)])
        part = chain.dequantize(chain.quantize(part, data.codes.dtype))
        shape = chain.constant(np.array([0, 0, heads, width]))
        parts.append(chain.emit("Transpose", chain.emit("Reshape", [part, shape]), perm=perm)[0])
    (scores,) = chain.emit("MatMul", parts[:2])
    (scores,) = chain.emit("Div", [scores, chain.constant(np.float32(chain.choice([4.0, width**0.5])))])
    (shares,) = chain.emit("Softmax", [chain.dequantize(chain.quantize(scores))], axis=-1)
    (mixed,) = chain.emit("MatMul", [chain.dequantize(chain.quantize(shares, "uint8")), parts[2]])
    (rows,) = chain.emit("Transpose", [mixed], perm=[0, 2, 1, 3])
    return chain.emit("Reshape", [rows, chain.constant(np.array([0, 0, heads * width]))])[0]


# ------------------------------------------------------------------------------------------------ operators on codes
def bytes_of(data: Codes) -> str:
    """The type of codes of 8 bits."""
    if data.codes.dtype not in BYTES:
        raise Unfit("not bytes")
    return data.codes.dtype


def into_codes(
    chain: Chain, inputs: list[Named | None], operator: str, factor: Any, total: float, **attributes: Any
) -> Codes:
    """A QLinear operator whose results are about `total` times `factor` large."""
    dtype = attributes.pop("dtype")
    span = limits(dtype)[1] - limits(dtype)[0]
    scale = chain.constant(np.float32(chain.scale_near(float(np.max(factor)) * max(total, 1.0) / span)))
    zero = chain.zero_point(dtype)
    position = attributes.pop("position")
    made = chain.emit(operator, [*inputs[:position], scale, zero, *inputs[position:]], **attributes)
    return Codes(made[0], scale, zero)


def qlinear_conv(chain: Chain, data: Codes) -> Codes:
    """QLinearConv."""
    dtype = bytes_of(data)
    channels, spatial = images(chain, data.codes)
    count, groups = filters(chain, channels)
    attributes = window(chain, spatial)
    weight = chain.weights((count, channels // groups, *attributes["kernel_shape"]), 0)
    if count * np.prod(spatial) * data.codes.shape[0] > LARGEST:
        raise Unfit("too large")
    bias = bias_of(chain, count, 5000.0)
    inputs = [data.codes, data.scale, data.zero, weight.codes, weight.scale, weight.zero, bias]
    factor = data.scale.bounded.value * weight.scale.bounded.value
    total = 3000.0 * weight.codes.bounded.value[0].size ** 0.5
    return into_codes(chain, inputs, "QLinearConv", factor, total, position=6, dtype=dtype, group=groups, **attributes)


def qlinear_matmul(chain: Chain, data: Codes) -> Codes:
    """QLinearMatMul with constant weights."""
    dtype = bytes_of(data)
    depth, columns = data.codes.shape[-1], chain.choice(CHANNELS)
    if len(data.codes.shape) < 2:
        raise Unfit("no matrix")
    weight = chain.weights((depth, columns), 1)
    inputs: list[Named | None] = [data.codes, data.scale, data.zero, weight.codes, weight.scale, weight.zero]
    factor = data.scale.bounded.value * weight.scale.bounded.value
    return into_codes(chain, inputs, "QLinearMatMul", factor, 3000.0 * depth**0.5, position=6, dtype=dtype)


def qgemm(chain: Chain, data: Codes) -> Codes | Named:
    """onnxruntime's QGemm, into codes or float32."""
    dtype = bytes_of(data)
    codes = data.codes if len(data.codes.shape) == 2 else flat(chain, data.codes)
    depth, columns = codes.shape[1], chain.choice(CHANNELS)
    weight = chain.weights((columns, depth), 0)
    bias = bias_of(chain, columns, 5000.0)
    inputs = [codes, data.scale, data.zero, weight.codes, weight.scale, weight.zero, bias]
    if chain.chance(0.3):
        return chain.emit("QGemm", inputs, transB=1, domain=MICROSOFT)[0]
    factor = data.scale.bounded.value * weight.scale.bounded.value
    kind = {"transB": 1, "domain": MICROSOFT, "dtype": dtype, "position": 7}
    return into_codes(chain, inputs, "QGemm", factor, 3000.0 * depth**0.5, **kind)


def qlinear_elementwise(chain: Chain, data: Codes) -> Codes:
    """onnxruntime's elementwise and pooling operators on codes."""
    dtype = bytes_of(data)
    kind = chain.choice(["Add", "Mul", "Sigmoid", "LeakyRelu", "GlobalAveragePool", "AveragePool", "Concat"])
    given: list[Named | None] = [data.codes, data.scale, data.zero]
    attributes: dict[str, Any] = {"domain": MICROSOFT, "dtype": dtype, "position": 3}
    total, factor = 256.0, data.scale.bounded.value
    if kind in ("Add", "Mul"):
        shape = [1 if chain.chance(0.3) or axis == 0 else size for axis, size in enumerate(data.codes.shape)]
        scale = chain.constant(np.float32(chain.scale_near(float(factor))))
        given += [chain.constant(chain.codes(shape, dtype), dtype), scale, chain.zero_point(dtype)]
        attributes["position"] = 6
        factor = factor * scale.bounded.value * 100 if kind == "Mul" else factor
    elif kind == "Concat":
        given, attributes["position"] = given * 2, 0
        attributes["axis"] = chain.choice(range(1, len(data.codes.shape)))
    elif kind == "Sigmoid":
        factor, total = np.asarray(1.0), 1.0
    elif kind != "LeakyRelu":
        _, spatial = images(chain, data.codes)
        if kind == "AveragePool":
            attributes |= {k: v for k, v in window(chain, spatial, pads=False).items() if k != "dilations"}
    return into_codes(chain, given, f"QLinear{kind}", factor, total, **attributes)


def integer_conv(chain: Chain, data: Codes) -> Named:
    """ConvInteger, then the scales, as dynamic quantization has it."""
    bytes_of(data)
    channels, spatial = images(chain, data.codes)
    count, groups = filters(chain, channels)
    attributes = window(chain, spatial)
    if count * np.prod(spatial) * data.codes.shape[0] > LARGEST:
        raise Unfit("too large")
    weight = chain.weights((count, channels // groups, *attributes["kernel_shape"]), 0)
    zero = chain.constant(weight.zero.bounded.value.flat[0], weight.zero.dtype) if weight.zero.shape else weight.zero
    inputs = [data.codes, weight.codes, data.zero, zero]
    total = chain.emit("ConvInteger", inputs, group=groups, **attributes)
    scale = np.float32(float(data.scale.bounded.value) * float(weight.scale.bounded.value.flat[0]))
    return chain.emit("Mul", [*chain.emit("Cast", total, to=1), chain.constant(scale)])[0]


def integer_matmul(chain: Chain, data: Codes) -> Named:
    """MatMulInteger, then the scales and a bias."""
    bytes_of(data)
    if len(data.codes.shape) < 2:
        raise Unfit("no matrix")
    weight = chain.weights((data.codes.shape[-1], chain.choice(CHANNELS)), 1)
    zero = weight.zero if weight.zero.shape or chain.chance(0.8) else None
    total = chain.emit("MatMulInteger", [data.codes, weight.codes, data.zero, zero])
    both = chain.emit("Mul", [data.scale, weight.scale])
    return chain.emit("Mul", [*chain.emit("Cast", total, to=1), *both])[0]


def integer_to_float(chain: Chain, data: Codes) -> Named:
    """MatMulIntegerToFloat."""
    bytes_of(data)
    if len(data.codes.shape) < 2:
        raise Unfit("no matrix")
    columns = chain.choice(CHANNELS)
    weight = chain.weights((data.codes.shape[-1], columns), 1)
    bias = chain.constant((chain.numbers.integers(-9, 9, columns) / 8).astype(np.float32))
    inputs = [data.codes, weight.codes, data.scale, weight.scale, data.zero, weight.zero, bias]
    return chain.emit("MatMulIntegerToFloat", inputs, domain=MICROSOFT)[0]


# ------------------------------------------------------------------------------------------------------ of float32
def dynamic(chain: Chain, data: Named) -> Codes:
    """DynamicQuantizeLinear; the range of rounded data is not known exactly."""
    if not data.bounded.exact:
        raise Unfit("inexact data")
    return Codes(*chain.emit("DynamicQuantizeLinear", [data], outputs=3))


def dynamic_matmul(chain: Chain, data: Named) -> Named:
    """DynamicQuantizeMatMul."""
    if not data.bounded.exact or len(data.shape) < 2:
        raise Unfit("inexact data")
    weight = chain.weights((data.shape[-1], chain.choice(CHANNELS)), 1)
    inputs = [data, weight.codes, weight.scale, weight.zero]
    return chain.emit("DynamicQuantizeMatMul", inputs, domain=MICROSOFT)[0]


def few_bits(chain: Chain, data: Named) -> Named:
    """MatMul with weights of 4 or 8 bits, scaled by block, dequantized."""
    if len(data.shape) < 2:
        raise Unfit("no matrix")
    depth, columns = data.shape[-1], chain.choice(CHANNELS)
    dtype, block = chain.choice(["int4", "uint4", "int8", "uint8"]), chain.choice([8, 16, 32])
    blocks = -(-depth // block)
    size = 1.0 / (limits(dtype)[1] * depth**0.5)
    scales = np.array([chain.scale_near(size) for _ in range(blocks * columns)], np.float32).reshape(blocks, columns)
    zero = chain.constant(chain.codes((blocks, columns), dtype), dtype) if chain.chance(0.5) else None
    codes = chain.constant(chain.codes((depth, columns), dtype), dtype)
    (weight,) = chain.emit("DequantizeLinear", [codes, chain.constant(scales), zero], axis=0, block_size=block)
    return chain.emit("MatMul", [data, weight])[0]


def packed_bits(chain: Chain, data: Named) -> Named:
    """MatMulNBits of 2, 4 or 8 bits."""
    if len(data.shape) < 2:
        raise Unfit("no matrix")
    depth, columns = data.shape[-1], chain.choice(CHANNELS)
    bits, block = chain.choice([2, 4, 4, 8]), chain.choice([16, 32, 64])
    blocks, packed = -(-depth // block), block * bits // 8
    codes = chain.constant(chain.numbers.integers(0, 256, (columns, blocks, packed)).astype(np.uint8))
    size = 1.0 / (2**bits * depth**0.5)
    scales = np.array([chain.scale_near(size) for _ in range(columns * blocks)], np.float32)
    inputs = [data, codes, chain.constant(scales)]
    if chain.chance(0.5):
        zeros = chain.numbers.integers(0, 256, (columns, -(-blocks * bits // 8))).astype(np.uint8)
        inputs.append(chain.constant(zeros.reshape(-1)))
    attributes = {"K": depth, "N": columns, "bits": bits, "block_size": block}
    return chain.emit("MatMulNBits", inputs, domain=MICROSOFT, **attributes)[0]


OfCodes = Callable[[Chain, Codes], "Codes | Named"]
OfReals = Callable[[Chain, Named], "Codes | Named"]
#: What codes go through, the commonest several times.
OF_CODES: tuple[OfCodes, ...] = (
    qdq_conv, qdq_conv, qdq_conv, qdq_matmul, qdq_matmul, qdq_gemm, qdq_binary, qdq_binary, qdq_pool, qdq_moved,
    attention, qlinear_conv, qlinear_conv, qlinear_matmul, qgemm, qlinear_elementwise, integer_conv, integer_matmul,
    integer_to_float,
)  # fmt: skip
#: What float32 goes through, but for QuantizeLinear.
OF_REALS: tuple[OfReals, ...] = (dynamic, dynamic_matmul, few_bits, packed_bits)
