"""A recipe put into a Relay module: `qnn.quantize` and `qnn.dequantize` around the layers that it has in integers.

Before: nn.dense(%x, w)
After:  %0 = qnn.dequantize(qnn.quantize(%x, 0.02f, 128, out_dtype="uint8"), 0.02f, 128);
        nn.dense(%0, qnn.dequantize(w8, [0.01f, ...], 0, axis=0))

`fake_quantization_to_integer` and `dequantized_products` make integer layers of that when it is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import InputError
from tilewright.quantize.layers import Layer, along_channels
from tilewright.quantize.ranges import Codes, bias_codes, weight_codes
from tilewright.quantize.recipe import Choice, Recipe
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
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
    biases = {bias: found for call, found in known.items() if (bias := _bias_of(call, users[call]))}
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
    key = call.args[0], choice.data
    if key not in coded:
        scale, zero = Constant(np.float32(choice.data.scale)), Constant(np.int32(choice.data.zero_point))
        codes = qnn.quantize(call.args[0], scale, zero, out_dtype=choice.data.dtype)
        coded[key] = qnn.dequantize(codes, scale, zero)
    scales = np.asarray(choice.weight_scales, np.float32)
    codes8 = Constant(weight_codes(layer.weight, scales))
    weight = qnn.dequantize(codes8, Constant(scales), Constant(np.zeros(len(scales), np.int32)), axis=0)
    return Call(call.op, [coded[key], weight], call.attrs, call.span)


def _corrected(product: Expr, layer: Layer, choice: Choice) -> Expr:
    """The result of a layer without a bias of its own, corrected."""
    return along_channels(add, product, Constant(np.asarray(choice.correction, np.float32)), layer)


def _bias_of(call: Call, users: Sequence[Expr]) -> Call | None:
    """The sum with the bias that is part of the model's node, as of Conv and Gemm; None where there is none."""
    if len(users) != 1 or not is_call(users[0], "add", "nn.bias_add") or call.span is None:
        return None
    user = users[0]
    assert isinstance(user, Call)
    channels = call.args[1].data.shape[0]  # type: ignore[attr-defined]
    fits = user.args[0] is call and isinstance(user.args[1], Constant) and user.args[1].data.size == channels
    return user if fits and str(user.span) == str(call.span) else None


def _whole_bias(call: Call, layer: Layer, choice: Choice) -> Call:
    """A bias with its correction, as whole numbers at the scale of the sums stand for it."""
    bias = call.args[1].data  # type: ignore[attr-defined]
    column = np.shape(bias)
    unit = np.float32(choice.data.scale) * np.asarray(choice.weight_scales, np.float32)
    whole = bias_codes(np.reshape(bias, -1), choice.correction, unit).astype(np.float32) * unit
    return Call(call.op, [call.args[0], Constant(whole.reshape(column))], call.attrs, call.span)


def check_recipe(layers: Sequence[Layer], recipe: Recipe) -> None:
    """Raise `InputError` where layers of `recipe` in integers are not among `layers`, or have other channels."""
    channels = {layer.name: len(layer.weight) for layer in layers}
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
