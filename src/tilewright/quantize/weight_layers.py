"""The layers of a module whose weights can be codes of a few bits, and the module with such codes in them.

Before: nn.dense(%x, w)
After:  nn.dense_blockwise(%x, codes, scales, bits=4)

Tables that `take` picks rows of (embeddings) become arithmetic on the codes of the rows that a run picks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.quantize.calibrate import compiled
from tilewright.quantize.data import Sample
from tilewright.quantize.layers import Layer, layers
from tilewright.quantize.simulation import Simulation
from tilewright.quantize.weight_codes import CodedWeights
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Tuple, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import children, post_order, rebuild
from tilewright.relay.op.nn.coded_weights import dense_of_codes, take_of_codes
from tilewright.relay.transform.simplify.make import is_call
from tilewright.support import trace

Array = np.ndarray[Any, Any]


class Table(Layer):
    """A table [rows, depth] that a `take` picks rows of; `tensors` names its indices."""

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The indices."""
        return (self.call.args[1],)

    @property
    def weight(self) -> Array:
        """The table."""
        table = self.call.args[0]
        assert isinstance(table, Constant)
        return np.asarray(table.data)

    @property
    def channel_axis(self) -> int:
        """The last axis: the depth."""
        return tensor_type_of(self.call).ndim - 1


def weight_layers(main: Function, tables: bool) -> list[Layer]:
    """Dense layers with constant weights in float32, and with `tables` the tables; in order of computation."""
    found = {layer.call: layer for layer in layers(main) if layer.operator == "nn.dense"}
    if not tables:
        return list(found.values())
    taken = {layer.name for layer in found.values()}
    for node in post_order(main.body):
        if isinstance(node, Call) and _is_table(node):
            base = str(node.span or "").split(";")[0] or "take"
            name = next(one for i in range(len(taken) + 1) if (one := f"{base}#{i + 1}" if i else base) not in taken)
            taken.add(name)
            found[node] = Table(name, node, (f"{name}:input",))
    return [found[node] for node in post_order(main.body) if node in found]


def _is_table(call: Call) -> bool:
    if not is_call(call, "take") or not isinstance(call.args[0], Constant) or call.attrs["axis"] != 0:
        return False
    table = call.args[0].data
    return table.ndim == 2 and str(table.dtype) == "float32" and not isinstance(call.args[1], Constant)


def has_coded_weights(mod: IRModule) -> bool:
    """True where a layer has weights of a few bits already."""
    return any(is_call(node, "nn.dense_blockwise") for node in post_order(mod["main"].body))


def with_codes(
    mod: IRModule, layers: Sequence[Layer], coded: Mapping[str, CodedWeights], accuracy_level: int
) -> IRModule:
    """The module with the codes `coded`, by the names of layers, in place of floats."""
    known = {layer.call: layer for layer in layers if layer.name in coded}
    made: dict[Expr, Expr] = {}
    main = mod["main"]
    for node in post_order(main.body):
        fresh = rebuild(node, tuple([made[kid] for kid in children(node)]))
        if isinstance(node, Call) and isinstance(fresh, Call) and node in known:
            fresh = _of_codes(fresh, known[node], coded[known[node].name], accuracy_level)
        made[node] = fresh
    return infer_type(mod.with_function("main", main.with_body(made[main.body])))


def _of_codes(call: Call, layer: Layer, weights: CodedWeights, accuracy_level: int) -> Expr:
    codes, scales, zeros = weights.codes, weights.scales, weights.zeros
    if isinstance(layer, Table):
        points = np.array(1 << (weights.bits - 1)) if zeros is None else zeros
        table = codes.reshape(len(codes), -1)[:, : weights.depth]
        return take_of_codes(table, call.args[1], scales, points, weights.bits, weights.block, (0, 1))
    made = dense_of_codes(call.args[0], codes, scales, zeros, weights.bits, accuracy_level=accuracy_level)
    assert isinstance(made, Call)
    return Call(made.op, made.args, made.attrs, call.span)


def moments(
    mod: IRModule, layers: Iterable[Layer], samples: Sequence[Sample], threads: int | None = None
) -> dict[str, Array]:
    """X^T X of the data X [rows, depth] of dense layers over `samples`, by the names of the tensors that they read."""
    data = {layer.tensors[0]: layer.operands[0] for layer in layers if not isinstance(layer, Table)}
    found: dict[str, Array] = {}
    if not data:
        return found
    model = compiled(mod, list(data.values()), threads=threads)
    for number, sample in enumerate(samples):
        trace.progress("calibrate", number, len(samples))
        values = model.run({spec.name: sample[spec.name] for spec in model.inputs})
        for name, value in zip(data, values, strict=True):
            rows = np.asarray(value, np.float64).reshape(-1, np.shape(value)[-1])
            found[name] = found.get(name, 0.0) + rows.T @ rows
    return found


class WeightSimulation(Simulation):
    """The float model with weights as inputs: those of layers that are on are the floats that codes stand for."""

    def __init__(self, mod: IRModule, layers: Sequence[Layer], threads: int | None = None) -> None:
        self.layers = {layer.name: layer for layer in layers}
        variables = {
            layer.call: Var(f"{layer.name}:weight", TensorType(layer.weight.shape, "float32")) for layer in layers
        }
        made: dict[Expr, Expr] = {}
        main = mod["main"]
        for node in post_order(main.body):
            fresh = rebuild(node, tuple([made[kid] for kid in children(node)]))
            if isinstance(node, Call) and isinstance(fresh, Call) and node in variables:
                of_table = is_call(node, "take")
                operands = [variables[node], fresh.args[1]] if of_table else [fresh.args[0], variables[node]]
                fresh = Call(fresh.op, operands, fresh.attrs, fresh.span)
            made[node] = fresh
        body = made[main.body]
        results = list(body.fields) if isinstance(body, Tuple) else [body]
        self.outputs = len(results)
        inner = [made[layer.call] for layer in layers]
        given = mod.with_function("main", Function([*main.params, *variables.values()], body))
        self._model = compiled(infer_type(given), [*results, *inner], threads=threads)

    def run(
        self, sample: Sample, choices: Mapping[str, Any], on: Iterable[str]
    ) -> tuple[list[Array], dict[str, Array]]:
        """The results on `sample` with the codes `choices` of the layers `on`, and what each layer computes."""
        names = set(on)
        given = dict(sample)
        for name, layer in self.layers.items():
            given[f"{name}:weight"] = choices[name].floats() if name in names else layer.weight
        values = [
            np.asarray(value) for value in self._model.run({one.name: given[one.name] for one in self._model.inputs})
        ]
        return values[: self.outputs], dict(zip(self.layers, values[self.outputs :], strict=True))
