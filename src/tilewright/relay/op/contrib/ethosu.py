"""Instructions of Arm's Ethos-U processors as operators: quantized convolution, pooling and arithmetic.

Tensors are (1, H, W, C), or in the layout NHCWB16 (1, H, ceil(C / 16), W, 16). A value q of a tensor with scale s and
zero point z stands for s * (q - z). Convolutions scale their sums as the processor does, by the integers of
`scale_bias`: ten bytes a channel, little-endian, a signed bias of 40 bits, a factor of 32 and a shift of 6; the result
is round((sum + bias) * factor / 2**shift), with products of up to 63 bits. Pooling and arithmetic compute in float64
from the scales and round once.

`rounding_mode`: "TFL" rounds ties away from zero, convolutions twice, as TensorFlow Lite does; "TRUNCATE" towards
zero; "NATURAL" rounds ties up. `activation`: "NONE", "CLIP" between `clip_min` and `clip_max`, or "LUT", a table of
256 results beginning with that of the smallest value. The numbers within the processor's own TANH and SIGMOID are not
documented: pass their table as LUT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr, const
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op import nn
from tilewright.relay.op import tensor as plain
from tilewright.relay.op.common import Types, call, require, same_dim, tensor, tensors
from tilewright.relay.op.composite import type_of_expansion
from tilewright.relay.op.gather import take
from tilewright.relay.op.qnn.canonical import as_type, register_quantized
from tilewright.relay.op.qnn.quantize import rounded
from tilewright.relay.op.transform import repeat, reshape, strided_slice, transpose
from tilewright.support.dtype import DType
from tilewright.support.named import named

_BLOCK = 16
_KNOWN = {
    "activation": ("NONE", "CLIP", "LUT"),
    "rounding_mode": ("TFL", "TRUNCATE", "NATURAL"),
    "upscale": ("NONE", "NEAREST", "ZEROS"),
    "ifm_layout": ("NHWC", "NHCWB16"),
    "ifm2_layout": ("NHWC", "NHCWB16"),
    "ofm_layout": ("NHWC", "NHCWB16"),
    "pooling_type": ("AVG", "MAX", "SUM"),
    "operator_type": ("ADD", "SUB", "MUL", "MIN", "MAX", "SHR", "SHL"),
}


_ACTIVATION = {
    "activation": attr.text("NONE"),
    "clip_min": attr.integer(0),
    "clip_max": attr.integer(0),
    "rounding_mode": attr.text("TFL"),
}
_LAYOUTS = {"upscale": attr.text("NONE"), "ifm_layout": attr.text("NHWC"), "ofm_layout": attr.text("NHWC")}
_INPUT = {"ifm_scale": attr.number(), "ifm_zero_point": attr.integer()}
_OUTPUT = {"ofm_scale": attr.number(), "ofm_zero_point": attr.integer()}
_CONVOLUTION_ATTRIBUTES: dict[str, attr.Attribute] = {
    **_INPUT,
    "weight_zero_point": attr.integer(),
    **_OUTPUT,
    "kernel_shape": attr.integers(2),
    "ofm_channels": attr.integer(),
    "strides": attr.integers(2, (1, 1)),
    "padding": attr.integers(4, (0, 0, 0, 0)),
    "dilation": attr.integers(2, (1, 1)),
    **_ACTIVATION,
    **_LAYOUTS,
}
_POOLING_ATTRIBUTES: dict[str, attr.Attribute] = {
    "pooling_type": attr.text(),
    **_INPUT,
    **_OUTPUT,
    "pool_shape": attr.integers(2),
    "ofm_channels": attr.integer(),
    "ofm_dtype": attr.dtype(""),
    "strides": attr.integers(2, (1, 1)),
    "padding": attr.integers(4, (0, 0, 0, 0)),
    **_ACTIVATION,
    **_LAYOUTS,
}
_BINARY_ATTRIBUTES: dict[str, attr.Attribute] = {
    "operator_type": attr.text(),
    **_INPUT,
    "ifm2_scale": attr.number(),
    "ifm2_zero_point": attr.integer(),
    **_OUTPUT,
    "ifm_channels": attr.integer(),
    "ifm2_channels": attr.integer(),
    "reversed_operands": attr.flag(),
    "ofm_dtype": attr.dtype(),
    **_ACTIVATION,
    "ifm_layout": attr.text("NHWC"),
    "ifm2_layout": attr.text("NHWC"),
    "ofm_layout": attr.text("NHWC"),
}


def _check(attrs: Attrs) -> None:
    for name, known in _KNOWN.items():
        if name in attrs:
            require(attrs[name] in known, f"{name} {attrs[name]!r}; known: {', '.join(known)}")


# --------------------------------------------------------------------------------------------- layouts, both ends
def _plain(data: Expr, layout: str, channels: int) -> Expr:
    """`data` as (N, H, W, channels)."""
    if layout == "NHWC":
        return data
    n, h, blocks, w, _ = tensor_type_of(data).shape
    flat = reshape(transpose(data, (0, 1, 3, 2, 4)), (n, h, w, blocks * _BLOCK))
    return strided_slice(flat, (0,), (channels,), axes=(3,))


def _blocked(data: Expr, layout: str) -> Expr:
    """(N, H, W, C) in `layout`, with zeros for the channels that fill the last block."""
    if layout == "NHWC":
        return data
    n, h, w, c = tensor_type_of(data).shape
    blocks = -(-c // _BLOCK)
    padded = nn.pad(data, ((0, 0), (0, 0), (0, 0), (0, blocks * _BLOCK - c)))
    return transpose(reshape(padded, (n, h, w, blocks, _BLOCK)), (0, 1, 3, 2, 4))


def _centred(data: Expr, attrs: Attrs, channels: int) -> Expr:
    """The input less its zero point, int32, scaled up twice in height and width where `upscale` says so."""
    value = as_type(_plain(data, attrs["ifm_layout"], channels), "int32") - const(attrs["ifm_zero_point"], "int32")
    if attrs["upscale"] == "NEAREST":
        return repeat(repeat(value, 2, 1), 2, 2)
    if attrs["upscale"] == "ZEROS":
        return nn.pad(nn.dilate(value, (1, 2, 2, 1)), ((0, 0), (0, 1), (0, 1), (0, 0)))
    return value


def _finished(value: Expr, lut: Expr, attrs: Attrs, dtype: str) -> Expr:
    """Whole numbers with the zero point in them, limited, through the activation, in the output's layout."""
    low, high = DType(dtype).limits()
    if attrs["activation"] == "CLIP":
        low, high = max(low, attrs["clip_min"]), min(high, attrs["clip_max"])
    result = as_type(plain.clip(value, low, high), dtype)
    if attrs["activation"] == "LUT":
        result = take(lut, as_type(result, "int32") - const(DType(dtype).limits()[0], "int32"), 0)
    return _blocked(result, attrs["ofm_layout"])


def _whole(value: Expr, mode: str) -> Expr:
    """Float64 `value` rounded."""
    if mode == "TRUNCATE":
        return plain.trunc(value)
    return rounded(value, "TONEAREST" if mode == "TFL" else "UPWARD")


# ----------------------------------------------------------------------------------------------------- convolutions
def _int64(value: int) -> Expr:
    return const(value, "int64")


def _little_endian(table: Expr, first: int, last: int) -> Expr:
    """The bytes `first` to `last` - 1 of each row as an unsigned number."""
    parts = [plain.left_shift(take(table, const(i, "int32"), 1), _int64(8 * (i - first))) for i in range(first, last)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _shifted(value: Expr, shift: Expr, mode: str) -> Expr:
    """value / 2**shift, rounded; `shift` is at least 0."""
    unit = plain.left_shift(plain.ones_like(shift), shift)
    if mode == "NATURAL":
        return plain.floor_divide(value + plain.floor_divide(unit, _int64(2)), unit)
    half = _int64(0) if mode == "TRUNCATE" else plain.floor_divide(unit, _int64(2))
    return plain.sign(value) * plain.floor_divide(plain.abs(value) + half, unit)


def _scaled(total: Expr, scale_bias: Expr, mode: str) -> Expr:
    """The sums with their bias and factor, int64."""
    table = as_type(scale_bias, "int64")
    bias = plain.right_shift(plain.left_shift(_little_endian(table, 0, 5), _int64(24)), _int64(24))
    factor = _little_endian(table, 5, 9)
    shift = plain.bitwise_and(_little_endian(table, 9, 10), _int64(63))
    value = as_type(total, "int64") + bias
    if mode != "TFL":
        return _shifted(value * factor, shift, mode)
    before, after = (plain.maximum(d, _int64(0)) for d in (_int64(31) - shift, shift - _int64(31)))
    return _shifted(_shifted(plain.left_shift(value, before) * factor, _int64(31), mode), after, mode)


def _convolution(depthwise: bool) -> Callable[[Attrs, Sequence[Expr]], Expr]:
    def canonical(attrs: Attrs, args: Sequence[Expr]) -> Expr:
        ifm, weight, scale_bias, lut = args
        channels = attrs["ofm_channels"] if depthwise else tensor_type_of(weight).shape[3]
        weights = as_type(weight, "int32") - const(attrs["weight_zero_point"], "int32")
        kernel = transpose(weights, (0, 3, 1, 2))
        total = nn.conv2d(
            transpose(_centred(ifm, attrs, channels), (0, 3, 1, 2)),
            kernel,
            strides=attrs["strides"],
            padding=attrs["padding"],
            dilation=attrs["dilation"],
            groups=channels if depthwise else 1,
        )
        value = _scaled(transpose(total, (0, 2, 3, 1)), scale_bias, attrs["rounding_mode"])
        return _finished(value + _int64(attrs["ofm_zero_point"]), lut, attrs, str(tensor_type_of(ifm).dtype))

    return canonical


def _convolution_type(depthwise: bool) -> Callable[[Types, Attrs], Type]:
    canonical = _convolution(depthwise)

    def type_rule(types: Types, attrs: Attrs) -> Type:
        _check(attrs)
        ifm, weight, scale_bias, _ = tensors(types)
        channels, kernel = attrs["ofm_channels"], tuple(attrs["kernel_shape"])
        for name, type_ in (("ifm", ifm), ("weight", weight)):
            require(type_.dtype in ("int8", "uint8"), f"{name} is int8 or uint8, not {type_.dtype}")
        fits = weight.ndim == 4 and weight.shape[:3] == (channels, *kernel) and (not depthwise or weight.shape[3] == 1)
        entering = 1 if depthwise else "ifm_channels"
        require(fits, f"the weight is ({channels}, {kernel[0]}, {kernel[1]}, {entering}), not {weight.shape}")
        fits = scale_bias == TensorType((channels, 10), "uint8")
        require(fits, f"scale_bias is Tensor[({channels}, 10), uint8], not {scale_bias}")
        return type_of_expansion(lambda args, a: canonical(a, args), types, attrs)

    return type_rule


def _register_convolution(name: str, depthwise: bool) -> Callable[..., Call]:
    register_quantized(name, 4, _convolution_type(depthwise), _convolution(depthwise), **_CONVOLUTION_ATTRIBUTES)

    def build(
        ifm: Expr,
        weight: Expr,
        scale_bias: Expr,
        lut: Expr,
        ifm_scale: float,
        ifm_zero_point: int,
        weight_zero_point: int,
        ofm_scale: float,
        ofm_zero_point: int,
        kernel_shape: Sequence[int],
        ofm_channels: int,
        strides: Sequence[int] = (1, 1),
        padding: Sequence[int] = (0, 0, 0, 0),
        dilation: Sequence[int] = (1, 1),
        activation: str = "NONE",
        clip_min: int = 0,
        clip_max: int = 0,
        rounding_mode: str = "TFL",
        upscale: str = "NONE",
        ifm_layout: str = "NHWC",
        ofm_layout: str = "NHWC",
    ) -> Call:
        return call(
            name, ifm, weight, scale_bias, lut, ifm_scale=ifm_scale, ifm_zero_point=ifm_zero_point,
            weight_zero_point=weight_zero_point, ofm_scale=ofm_scale, ofm_zero_point=ofm_zero_point,
            kernel_shape=kernel_shape, ofm_channels=ofm_channels, strides=strides, padding=padding, dilation=dilation,
            activation=activation, clip_min=clip_min, clip_max=clip_max, rounding_mode=rounding_mode, upscale=upscale,
            ifm_layout=ifm_layout, ofm_layout=ofm_layout,
        )  # fmt: skip

    return build


conv2d = named(
    _register_convolution("contrib.ethosu.conv2d", False),
    "conv2d",
    "A quantized convolution: weights (O, H, W, I), `padding` top, left, bottom, right.",
)
depthwise_conv2d = named(
    _register_convolution("contrib.ethosu.depthwise_conv2d", True),
    "depthwise_conv2d",
    "A quantized convolution of each channel with its own kernel: weights (C, H, W, 1).",
)


# ----------------------------------------------------------------------------------------------------------- pooling
def _window_sums(value: Expr, attrs: Attrs) -> Expr:
    """The sum of each window of int32 (N, H, W, C)."""
    channels = attrs["ofm_channels"]
    ones = plain.ones((channels, 1, *attrs["pool_shape"]), "int32")
    planes = transpose(value, (0, 3, 1, 2))
    strides, padding = attrs["strides"], attrs["padding"]
    return transpose(nn.conv2d(planes, ones, strides=strides, padding=padding, groups=channels), (0, 2, 3, 1))


def _pooling(attrs: Attrs, args: Sequence[Expr]) -> Expr:
    ifm, lut = args
    value = _centred(ifm, attrs, attrs["ofm_channels"])
    if attrs["pooling_type"] == "MAX":
        window = {key: attrs[key] for key in ("strides", "padding")}
        pooled: Expr = nn.max_pool2d(value, attrs["pool_shape"], layout="NHWC", **window)
    else:
        pooled = _window_sums(value, attrs)
    real = as_type(pooled, "float64") * const(attrs["ifm_scale"] / attrs["ofm_scale"], "float64")
    if attrs["pooling_type"] == "AVG":
        real = plain.divide(real, as_type(_window_sums(plain.ones_like(value), attrs), "float64"))
    total = _whole(real, attrs["rounding_mode"]) + const(attrs["ofm_zero_point"], "float64")
    return _finished(total, lut, attrs, attrs["ofm_dtype"] or str(tensor_type_of(ifm).dtype))


def _pooling_type(types: Types, attrs: Attrs) -> Type:
    _check(attrs)
    ifm = tensor(types[0])
    require(ifm.dtype in ("int8", "uint8", "int16", "int32"), f"ifm is int8, uint8, int16 or int32, not {ifm.dtype}")
    channels = ifm.shape[-1] if attrs["ifm_layout"] == "NHWC" else attrs["ofm_channels"]
    require(same_dim(channels, attrs["ofm_channels"]), f"{channels} channels make {attrs['ofm_channels']}")
    return type_of_expansion(lambda args, a: _pooling(a, args), types, attrs)


register_quantized("contrib.ethosu.pooling", 2, _pooling_type, _pooling, **_POOLING_ATTRIBUTES)


def pooling(
    ifm: Expr,
    lut: Expr,
    pooling_type: str,
    ifm_scale: float,
    ifm_zero_point: int,
    ofm_scale: float,
    ofm_zero_point: int,
    pool_shape: Sequence[int],
    ofm_channels: int,
    ofm_dtype: str = "",
    strides: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    activation: str = "NONE",
    clip_min: int = 0,
    clip_max: int = 0,
    rounding_mode: str = "TFL",
    upscale: str = "NONE",
    ifm_layout: str = "NHWC",
    ofm_layout: str = "NHWC",
) -> Call:
    """The mean ("AVG", over the elements inside), largest ("MAX") or sum ("SUM") of each window, rescaled."""
    return call(
        "contrib.ethosu.pooling", ifm, lut, pooling_type=pooling_type, ifm_scale=ifm_scale,
        ifm_zero_point=ifm_zero_point, ofm_scale=ofm_scale, ofm_zero_point=ofm_zero_point, pool_shape=pool_shape,
        ofm_channels=ofm_channels, ofm_dtype=ofm_dtype, strides=strides, padding=padding, activation=activation,
        clip_min=clip_min, clip_max=clip_max, rounding_mode=rounding_mode, upscale=upscale, ifm_layout=ifm_layout,
        ofm_layout=ofm_layout,
    )  # fmt: skip


# -------------------------------------------------------------------------------------------------------- arithmetic
_REAL: dict[str, Callable[[Expr, Expr], Expr]] = {
    "ADD": plain.add,
    "SUB": plain.subtract,
    "MUL": plain.multiply,
    "MIN": plain.minimum,
    "MAX": plain.maximum,
}


def _operand(data: Expr, which: str, attrs: Attrs) -> Expr:
    """The whole number of `which` ("ifm" or "ifm2") less its zero point, in float64."""
    value = as_type(_plain(data, attrs[f"{which}_layout"], attrs[f"{which}_channels"]), "float64")
    return value - const(attrs[f"{which}_zero_point"], "float64")


def _binary(attrs: Attrs, args: Sequence[Expr]) -> Expr:
    kind, lut = attrs["operator_type"], args[2]
    pair = [(_operand(data, which, attrs), attrs[f"{which}_scale"]) for data, which in zip(args, ("ifm", "ifm2"))]
    (a, a_scale), (b, b_scale) = reversed(pair) if attrs["reversed_operands"] else pair
    if kind in ("SHR", "SHL"):
        real = a * plain.power(const(2.0, "float64"), b if kind == "SHL" else plain.negative(b))
    else:
        operands = [x * const(scale, "float64") for x, scale in ((a, a_scale), (b, b_scale))]
        real = plain.divide(_REAL[kind](*operands), const(attrs["ofm_scale"], "float64"))
    total = _whole(real, attrs["rounding_mode"]) + const(attrs["ofm_zero_point"], "float64")
    return _finished(total, lut, attrs, attrs["ofm_dtype"])


def _binary_type(types: Types, attrs: Attrs) -> Type:
    _check(attrs)
    ifm, ifm2, _ = tensors(types)
    kind, result = attrs["operator_type"], attrs["ofm_dtype"]
    given = {"SHR": ("int32",), "SHL": ("int32",), "MIN": ("int8", "uint8"), "MAX": ("int8", "uint8")}
    takes = given.get(kind, ("int8", "uint8", "int32"))
    require(ifm.dtype in takes and ifm.dtype == ifm2.dtype, f"{kind} takes two of {takes}, not {ifm}, {ifm2}")
    results = {"SHL": ("int32",), "MIN": (ifm.dtype,), "MAX": (ifm.dtype,)}.get(kind, ("int8", "uint8", "int32"))
    require(result in results, f"{kind} of {ifm.dtype} is {', '.join(results)}, not {result}")
    require(result != "int32" or attrs["activation"] != "LUT", "a table has 256 entries, none for int32")
    return type_of_expansion(lambda args, a: _binary(a, args), types, attrs)


register_quantized("contrib.ethosu.binary_elementwise", 3, _binary_type, _binary, **_BINARY_ATTRIBUTES)


def binary_elementwise(
    ifm: Expr,
    ifm2: Expr,
    lut: Expr,
    operator_type: str,
    ifm_scale: float,
    ifm_zero_point: int,
    ifm2_scale: float,
    ifm2_zero_point: int,
    ofm_scale: float,
    ofm_zero_point: int,
    ifm_channels: int,
    ifm2_channels: int,
    reversed_operands: bool,
    ofm_dtype: str,
    activation: str = "NONE",
    clip_min: int = 0,
    clip_max: int = 0,
    rounding_mode: str = "TFL",
    ifm_layout: str = "NHWC",
    ifm2_layout: str = "NHWC",
    ofm_layout: str = "NHWC",
) -> Call:
    """ADD, SUB, MUL, MIN, MAX on the real numbers that stand behind two tensors; SHR and SHL by powers of two."""
    return call(
        "contrib.ethosu.binary_elementwise", ifm, ifm2, lut, operator_type=operator_type, ifm_scale=ifm_scale,
        ifm_zero_point=ifm_zero_point, ifm2_scale=ifm2_scale, ifm2_zero_point=ifm2_zero_point, ofm_scale=ofm_scale,
        ofm_zero_point=ofm_zero_point, ifm_channels=ifm_channels, ifm2_channels=ifm2_channels,
        reversed_operands=reversed_operands, ofm_dtype=ofm_dtype, activation=activation, clip_min=clip_min,
        clip_max=clip_max, rounding_mode=rounding_mode, ifm_layout=ifm_layout, ifm2_layout=ifm2_layout,
        ofm_layout=ofm_layout,
    )  # fmt: skip
