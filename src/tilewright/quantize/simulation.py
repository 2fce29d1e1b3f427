"""One compiled model that is the float model and every choice of layers in integers.

Before: nn.dense(%x, w)
After:  nn.dense(where(%on, (clip(round(%x / %scale) + %zero, %least, %most) - %zero) * %scale, %x),
                 %weight)

What is in integers, and by which codes, are inputs, as are the floats that codes of weights stand for: ranges, methods,
roundings and layers are compared without compiling again.
The codes are those of the integer model, its sums are rounded as floats are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.quantize.calibrate import compiled
from tilewright.quantize.data import Sample
from tilewright.quantize.equalize import data_axis, input_axis, scaled_weight
from tilewright.quantize.layers import Layer, along_channels, operands_of
from tilewright.quantize.ranges import CODES
from tilewright.quantize.recipe import Choice
from tilewright.relay.ir.expr import Call, Expr, Function, Tuple, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import children, post_order, rebuild
from tilewright.relay.op.tensor import add, divide, maximum, minimum, multiply, round, subtract, where
from tilewright.relay.op.transform import reshape

Array = np.ndarray[Any, Any]
#: The inputs of an operand's codes behind its layer's name and its number: all but the scale hold whole numbers.
_SCALARS = ("scale", "zero", "least", "most")


#: The end of the input of a layer's weights.
_WEIGHT = ":weight"


class Simulation:
    """The float model with `layers` that can be switched to the codes of their choices."""

    def __init__(self, mod: IRModule, layers: Sequence[Layer], threads: int | None = None) -> None:
        self.layers = {layer.name: layer for layer in layers}
        results, made = _results(mod["main"]), _Switched(layers)
        body = [made.of(one) for one in results]
        self.outputs = len(body)
        params = [*mod["main"].params, *made.params]
        switched = mod.with_function("main", Function(params, Tuple(body)))
        inner = [made.done[layer.call] for layer in layers]
        self._model = compiled(infer_type(switched), [*body, *inner], threads=threads)
        self._off = {one.name_hint: _zeros(one) for one in made.params if not one.name_hint.endswith(_WEIGHT)}
        self._off |= {layer.name + _WEIGHT: _as_stored(layer, layer.weight) for layer in layers if layer.channels}
        self._coded: dict[str, tuple[Choice, Array]] = {}

    def run(
        self, sample: Sample, choices: Mapping[str, Choice], on: Collection[str]
    ) -> tuple[list[Array], dict[str, Array]]:
        """The results on `sample` with the layers `on` in integers, and what each layer computes before its bias."""
        switches = dict(self._off)
        for name in on:
            switches |= self._switches(name, choices[name])
        given = {
            spec.name: switches[spec.name] if spec.name in switches else sample[spec.name]
            for spec in self._model.inputs
        }
        values = [np.asarray(value) for value in self._model.run(given)]
        return values[: self.outputs], dict(zip(self.layers, values[self.outputs :], strict=True))

    def _switches(self, name: str, choice: Choice) -> dict[str, Array]:
        made = {f"{name}:on": np.asarray(True)}
        for number, codes in enumerate(choice.codes):
            values = (codes.scale, codes.zero_point, *CODES[codes.dtype])
            for part, value in zip(_SCALARS, values, strict=True):
                made[f"{name}:{number}:{part}"] = np.asarray(value, np.float32)
        if choice.weight_scales:
            made[name + _WEIGHT] = self._weights(name, choice)
        if choice.factors:
            made[f"{name}:factors"] = np.asarray(choice.factors, np.float32)
        if choice.correction:
            made[f"{name}:correction"] = np.asarray(choice.correction, np.float32)
        return made

    def _weights(self, name: str, choice: Choice) -> Array:
        """The floats that the codes of weights stand for; the last ones are kept."""
        known = self._coded.get(name)
        if known is None or known[0] is not choice:
            layer = self.layers[name]
            weight = scaled_weight(layer, np.asarray(choice.factors, np.float32)) if choice.factors else layer.weight
            scales = np.asarray(choice.weight_scales, np.float32).reshape(-1, *(1,) * (weight.ndim - 1))
            floats = choice.codes_of(weight).astype(np.float32) * scales
            known = self._coded[name] = choice, _as_stored(layer, floats)
        return known[1]


class _Switched:
    """Expressions with switches at their layers, each made once."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = {layer.call: layer for layer in layers}
        self.done: dict[Expr, Expr] = {}
        self.params: list[Var] = []

    def of(self, root: Expr) -> Expr:
        """`root` with its layers switched."""
        for node in post_order(root, operands=lambda node: () if node in self.done else children(node)):
            if node in self.done:
                continue
            fresh = rebuild(node, tuple(self.done[kid] for kid in children(node)))
            layer = self.layers.get(node) if isinstance(node, Call) else None
            self.done[node] = fresh if layer is None else self._layer(layer, fresh)
        return self.done[root]

    def _layer(self, layer: Layer, call: Expr) -> Expr:
        assert isinstance(call, Call)
        on = self._param(f"{layer.name}:on", (), "bool")
        operands, factors = operands_of(call), None
        if input_axis(layer) is not None:
            factors = self._param(
                f"{layer.name}:factors", (tensor_type_of(layer.operands[0]).shape[data_axis(layer)],), "float32"
            )
        coded = [
            self._coded(f"{layer.name}:{number}", on, data, layer, factors) for number, data in enumerate(operands)
        ]
        if layer.weight_axis is None:
            return layer.with_operands(call, coded)
        weight = self._param(layer.name + _WEIGHT, tensor_type_of(layer.call.args[1]).shape, "float32")
        correction = self._param(f"{layer.name}:correction", (layer.channels,), "float32")
        product = layer.with_operands(call, coded, weight)
        return along_channels(add, product, correction, layer)

    def _coded(self, name: str, on: Expr, data: Expr, layer: Layer, factors: Expr | None) -> Expr:
        scale, zero, least, most = (self._param(f"{name}:{part}", (), "float32") for part in _SCALARS)
        whole = data
        if factors is not None:
            behind = tensor_type_of(layer.operands[0]).ndim - 1 - data_axis(layer)
            whole = divide(data, reshape(factors, (-1, *(1,) * behind)))
        code = minimum(maximum(add(round(divide(whole, scale)), zero), least), most)
        return where(on, multiply(subtract(code, zero), scale), data)

    def _param(self, name: str, shape: tuple[int, ...], dtype: str) -> Var:
        self.params.append(Var(name, TensorType(shape, dtype)))
        return self.params[-1]


def _as_stored(layer: Layer, weight: Array) -> Array:
    """Weights [output channels, ...] with their axes in the order of the model."""
    return np.ascontiguousarray(np.moveaxis(weight, 0, layer.weight_axis or 0), np.float32)


def _zeros(param: Var) -> Array:
    """A value that switches nothing."""
    type_ = param.type_annotation
    assert isinstance(type_, TensorType)
    off = 0 if param.name_hint.endswith((":on", ":correction")) else 1
    return np.full(type_.shape, off, type_.dtype.numpy)


def _results(main: Function) -> list[Expr]:
    """The results of a function, one by one."""
    return list(main.body.fields) if isinstance(main.body, Tuple) else [main.body]
