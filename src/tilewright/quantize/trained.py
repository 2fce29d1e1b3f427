"""Layers as training left them: codes, scales and biases in a recipe, and the integer layers made of them.

Before: add(nn.conv2d(%x, w), b)
After:  %0 = cast(round(clip(%x / 0.5f, 0, 3)), "uint8");
        add(multiply(cast(nn.bitserial_conv2d(%0, bits), "float32"), m), b)

or `qnn.conv2d` of bytes. The sums are whole numbers, and what follows are the operations of the training graph: so the
integer model returns what training computed.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.quantize.grid import Grid
from tilewright.quantize.groups import Group, prepared_groups, rebuilt
from tilewright.quantize.layers import along_channels
from tilewright.quantize.ranges import Array
from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get
from tilewright.relay.op.nn.bits import bitserial_conv2d, bitserial_dense
from tilewright.relay.op.tensor import add, cast, divide, maximum, minimum, multiply, round
from tilewright.relay.transform.simplify.make import is_call

KERNELS = ("bytes", "bit-serial")


@dataclass(frozen=True)
class TrainedLayer:
    """A layer in integers: result = multiplier * (sum of codes) + bias, by channel.

    `codes` are the weights' less their zero point, as int8 in base64; `zero` is the zero point of the data.
    """

    weight_bits: int
    weight_kind: str
    data_bits: int
    data_kind: str
    scale: float
    zero: int
    weight_scales: tuple[float, ...]
    codes: str
    multiplier: tuple[float, ...]
    bias: tuple[float, ...]
    kernel: str = KERNELS[0]

    @property
    def data_grid(self) -> Grid:
        """The codes of the data."""
        return Grid(self.data_bits, self.data_kind)

    def weights(self, shape: tuple[int, ...]) -> Array:
        """The codes as int8 of `shape`. Raises ValueError where they are not as many."""
        return np.frombuffer(base64.b64decode(self.codes), np.int8).reshape(shape)


def packed(codes: Array) -> str:
    """Whole numbers from -128 to 127 as `TrainedLayer.codes`."""
    return base64.b64encode(np.ascontiguousarray(codes, np.int8).tobytes()).decode("ascii")


def trained_layers(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, TrainedLayer]:
    """The layers of `as_entries`, read from JSON. Raises ValueError, KeyError or TypeError where they are malformed."""
    made = {}
    for name, entry in entries.items():
        vectors = {key: tuple(float(value) for value in entry[key]) for key in ("weight_scales", "multiplier", "bias")}
        made[name] = TrainedLayer(**{**entry, **vectors})
        if made[name].kernel not in KERNELS or not made[name].scale > 0.0:
            raise ValueError(f"the trained layer {name!r} has no such kernel, or a scale that is not above zero")
    return made


def as_entries(trained: Mapping[str, TrainedLayer]) -> dict[str, dict[str, Any]]:
    """The layers as JSON has them."""
    return {name: asdict(one) for name, one in trained.items()}


def with_trained_layers(mod: IRModule, trained: Mapping[str, TrainedLayer], norms: str) -> IRModule:
    """The float model `mod`, as it was before training, with `trained` layers in integers; norms as `quantize_aware`.

    Raises `InputError` where it is another model than the trained one.
    """
    main, groups = prepared_groups(mod, norms == "batch")
    known = {group.layer.name: group for group in groups}
    for name, one in trained.items():
        if name not in known:
            raise InputError(
                f"the recipe has the trained layer {name!r}, which the model has not; it is another model's"
            )
        shape = known[name].layer.weight.shape
        if len(base64.b64decode(one.codes)) != np.prod(shape) or len(one.multiplier) != shape[0]:
            raise InputError(
                f"the recipe's layer {name!r} has not the model's weights {list(shape)}; it is another model's"
            )
    coded: dict[tuple[Expr, Grid, float, int], Expr] = {}

    def replacement(group: Group, data: Expr) -> Expr:
        one = trained[group.layer.name]
        key = data, one.data_grid, one.scale, one.zero
        if key not in coded:
            coded[key] = _codes(*key)
        return scaled(group, _sums(group, coded[key], one), _vector(one.multiplier), _vector(one.bias))

    results = rebuilt(main, [known[name] for name in trained], replacement)
    body = results[0] if not isinstance(main.body, Tuple) else Tuple(results)
    return infer_type(mod.with_function("main", main.with_body(body)))


def scaled(group: Group, sums: Expr, multiplier: Expr, bias: Expr) -> Expr:
    """The result of a layer from its sums: the operations that training and the integer model share."""
    return along_channels(add, along_channels(multiply, sums, multiplier, group.layer), bias, group.layer)


def _vector(values: Sequence[float]) -> Constant:
    return Constant(np.asarray(values, np.float32))


def _codes(data: Expr, grid: Grid, scale: float, zero: int) -> Expr:
    """The codes of floats with their zero point, as bytes."""
    low, high = (Constant(np.float32(end - zero)) for end in (grid.least, grid.most))
    whole = round(maximum(minimum(divide(data, Constant(np.float32(scale))), high), low))
    if zero:
        whole = add(whole, Constant(np.float32(zero)))
    return cast(whole, "int8" if grid.least < 0 else "uint8")


def serial_obstacle(group: Group, weights: Grid, data: Grid, zero: int) -> str:
    """The reason why a layer is not computed bit by bit; "" where it can be."""
    call = group.layer.call
    if weights.kind != "bipolar" or data.kind != "asymmetric" or zero:
        return "bit-serial products take bipolar weights, and data that is never negative"
    if is_call(call, "nn.conv2d") and (call.attrs["groups"] != 1 or tuple(call.attrs["dilation"]) != (1, 1)):
        return "bit-serial convolutions have no groups and no dilation"
    return ""


def _sums(group: Group, codes: Expr, one: TrainedLayer) -> Expr:
    """The sums of products as float32."""
    call, weights = group.layer.call, one.weights(group.layer.weight.shape)
    if one.kernel == "bytes":
        scales = Constant(np.float32(1)), Constant(np.float32(1))
        operands = [codes, Constant(weights), Constant(np.int32(one.zero)), Constant(np.int32(0)), *scales]
        attrs = {**call.attrs, "out_dtype": "int32"}
        return cast(Call(get(f"qnn.{group.layer.operator[3:]}"), operands, attrs, call.span), "float32")
    bits = Constant(((weights.astype(np.int32) + 2**one.weight_bits - 1) // 2).astype(np.uint8))
    if is_call(call, "nn.dense"):
        sums = bitserial_dense(codes, bits, one.data_bits, one.weight_bits, "int32", unipolar=True)
    else:
        window = {name: call.attrs[name] for name in ("strides", "padding")}
        sums = bitserial_conv2d(
            codes, bits, **window, activation_bits=one.data_bits, weight_bits=one.weight_bits, out_dtype="int32"
        )
    return cast(sums, "float32")
