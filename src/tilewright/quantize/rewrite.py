"""A recipe put into a Relay module: `qnn.quantize` and `qnn.dequantize` around the layers that it has in integers.

Before: nn.dense(%x, w)
After:  %0 = qnn.dequantize(qnn.quantize(%x, 0.02f, 128, out_dtype="uint8"), 0.02f, 128);
        nn.dense(%0, qnn.dequantize(w8, [0.01f, ...], 0, axis=0))

`fake_quantization_to_integer` and `dequantized_products` make integer layers of that when it is compiled.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np

from tilewright.errors import InputError
from tilewright.quantize.layers import Layer, along_channels, operands_of
from tilewright.quantize.ranges import Codes, bias_codes
from tilewright.quantize.recipe import Choice, Recipe
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import children, consumers, post_order, rebuild
from tilewright.relay.op import qnn
from tilewright.relay.op.tensor import add
from tilewright.relay.transform.simplify.make import is_call


def rewrite(mod: IRModule, layers: Sequence[Layer], recipe: Recipe) -> IRModule:
    """The module with the layers of `recipe` in integers. Raises `InputError` where the recipe is another model's."""
    check_recipe(layers, recipe)
    on = set(recipe.quantized)
    known = {layer.call: (layer, recipe.choices[layer.name]) for layer in layers if layer.name in on}
    made: dict[Expr, Expr] = {}
    coded: dict[tuple[Expr, Codes], Expr] = {}
    main = mod["main"]
    nodes = post_order(main.body)
    users = consumers(nodes)
    biases = {bias: found for call, found in known.items() if (bias := _bias_of(call, found[0], users[call]))}
    for node in nodes:
        fresh = rebuild(node, tuple([made[kid] for kid in children(node)]))
        if isinstance(node, Call) and isinstance(fresh, Call):
            if node in known:
                fresh = _in_integers(fresh, *known[node], coded)
                if known[node][1].correction and known[node] not in list(biases.values()):
                    fresh = _corrected(fresh, *known[node])
            elif node in biases:
                fresh = _whole_bias(fresh, *biases[node])
        made[node] = fresh
    return infer_type(mod.with_function("main", main.with_body(made[main.body])))


def _in_integers(call: Call, layer: Layer, choice: Choice, coded: dict[tuple[Expr, Codes], Expr]) -> Expr:
    axis = layer.weight_axis
    operands = [_coded(one, codes, coded, layer) for one, codes in zip(operands_of(call), choice.codes, strict=True)]
    if axis is None:
        return layer.with_operands(call, operands)
    scales = np.asarray(choice.weight_scales, np.float32)
    codes8 = Constant(np.ascontiguousarray(np.moveaxis(choice.codes_of(layer.weight), 0, axis)))
    weight = qnn.dequantize(codes8, Constant(scales), Constant(np.zeros(len(scales), np.int32)), axis=axis)
    return layer.with_operands(call, operands, weight)


def _coded(data: Expr, codes: Codes, coded: dict[tuple[Expr, Codes], Expr], layer: Layer) -> Expr:
    """`data` through its codes, made once: of what was moved or is the largest of windows, before that was done."""
    key = data, codes
    if key not in coded:
        moves = isinstance(data, Call) and isinstance(data.op, Op) and isinstance(data.args[0], Call)
        if moves and (data.op.rearranges or is_call(data, "nn.max_pool2d")):  # type: ignore[attr-defined]
            data = rebuild(data, (_coded(children(data)[0], codes, coded, layer), *children(data)[1:]))
        scale, zero = Constant(np.float32(codes.scale)), Constant(np.int32(codes.zero_point))
        narrow = _named(qnn.quantize(data, scale, zero, out_dtype=codes.dtype), layer)
        coded[key] = _named(qnn.dequantize(narrow, scale, zero), layer)
    return coded[key]


def _named(conversion: Call, layer: Layer) -> Call:
    """A conversion with the name of the layer that it is for."""
    return Call(conversion.op, conversion.args, conversion.attrs, layer.call.span)


def _corrected(product: Expr, layer: Layer, choice: Choice) -> Expr:
    """The result of a layer without a bias of its own, corrected."""
    return along_channels(add, product, Constant(np.asarray(choice.correction, np.float32)), layer)


def _bias_of(call: Call, layer: Layer, users: Sequence[Expr]) -> Call | None:
    """The sum with the bias that is part of the model's node, as of Conv and Gemm; None where there is none."""
    if len(users) != 1 or not is_call(users[0], "add", "nn.bias_add") or call.span is None or not layer.channels:
        return None
    user, channels = users[0], layer.channels
    assert isinstance(user, Call)
    fits = user.args[0] is call and isinstance(user.args[1], Constant) and user.args[1].data.size == channels
    return user if fits and str(user.span) == str(call.span) else None


def _whole_bias(call: Call, layer: Layer, choice: Choice) -> Call:
    """A bias with its correction, as whole numbers at the scale of the sums stand for it."""
    bias = call.args[1].data  # type: ignore[attr-defined]
    column = np.shape(bias)
    unit = np.float32(choice.codes[0].scale) * np.asarray(choice.weight_scales, np.float32)
    whole = bias_codes(np.reshape(bias, -1), choice.correction, unit).astype(np.float32) * unit
    return Call(call.op, [call.args[0], Constant(whole.reshape(column))], call.attrs, call.span)


def check_recipe(layers: Sequence[Layer], recipe: Recipe) -> None:
    """Raise `InputError` where layers of `recipe` in integers are not among `layers`, or have other channels."""
    channels = {layer.name: layer.channels for layer in layers}
    operands = {layer.name: len(layer.operands) for layer in layers}
    sizes = {layer.name: layer.weight.size for layer in layers if layer.channels}
    for name in recipe.quantized:
        if name not in channels:
            raise InputError(
                f"the recipe has the layer {name!r}, which the model has not; it is another model's recipe"
            )
        if channels[name] != len(recipe.choices[name].weight_scales):
            raise InputError(
                f"the recipe has {len(recipe.choices[name].weight_scales)} channels for the layer {name!r}, the model "
                f"{channels[name]}; it is another model's recipe"
            )
        if operands[name] != len(recipe.choices[name].codes):
            raise InputError(
                f"the recipe has codes of {len(recipe.choices[name].codes)} operands for the layer {name!r}, the model "
                f"{operands[name]}; it is another model's recipe"
            )
        codes = recipe.choices[name].weight_codes
        if codes and len(base64.b64decode(codes)) != sizes.get(name):
            raise InputError(
                f"the recipe has codes for other weights of the layer {name!r}; it is another model's recipe"
            )
