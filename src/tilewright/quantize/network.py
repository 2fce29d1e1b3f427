"""The graph of a model whose layers compute with fake codes: as it is trained, and as its integers will compute.

Before: add(nn.conv2d(%x, w), b)
After:  add(multiply(nn.conv2d(codes(%x), codes(%w)), scale of %w * scale of %x), %b)

Codes are whole numbers in float32, so sums below 2**24 are exact and those of the integer model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from tilewright.quantize.fake import FakeQuantized
from tilewright.quantize.grid import Grid
from tilewright.quantize.groups import Group, prepared_groups, rebuilt
from tilewright.quantize.ranges import Array, Histogram
from tilewright.quantize.trained import scaled
from tilewright.relay.ir.expr import Call, Expr, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.op import nn
from tilewright.relay.op.reduce import max as largest_of
from tilewright.relay.op.reduce import mean
from tilewright.relay.op.reduce import min as least_of
from tilewright.relay.op.tensor import multiply, subtract
from tilewright.relay.op.transform import reshape


class LayerGrids(Protocol):
    """The codes of a layer's weights and of its data."""

    @property
    def weight_grid(self) -> Grid:
        """The codes of the weights."""

    @property
    def data_grid(self) -> Grid:
        """The codes of the data."""


class Network:
    """Results of a model by variables: `parameters` are trained, `buffers` are inputs that follow the data.

    `seen` has, by the name of a tensor, its least and largest value, by that of a layer its batch's mean and variance.
    """

    def __init__(
        self,
        mod: IRModule,
        grids: Mapping[str, LayerGrids],
        histograms: Mapping[str, Histogram],
        learned: bool,
        norms: str,
    ) -> None:
        main, groups = prepared_groups(mod, norms == "batch")
        self.inputs: tuple[Var, ...] = tuple(main.params)
        self.learned, self.norms = learned, norms
        self.groups = {group.layer.name: group for group in groups if group.layer.name in grids}
        self.data: dict[str, FakeQuantized] = {}
        self.weights: dict[str, FakeQuantized] = {}
        self.parameters: dict[str, Array] = {}
        self.buffers: dict[str, Array] = {}
        for name, group in self.groups.items():
            self._enter(name, group, grids[name], histograms[group.layer.tensors[0]])
        self.variables = {
            name: Var(name, TensorType(value.shape, "float32"))
            for name, value in (self.parameters | self.buffers).items()
        }
        self.seen: dict[str, tuple[Expr, Expr]] = {}
        self._coded: dict[tuple[Expr, str], tuple[Expr, Expr]] = {}
        self.training = rebuilt(main, list(self.groups.values()), self._trained)
        self.inference = rebuilt(main, list(self.groups.values()), self._inferred)
        for one in (*self.training, *self.inference):
            type_of(one)

    def _enter(self, name: str, group: Group, grids: LayerGrids, histogram: Histogram) -> None:
        """The parameters and buffers of a layer, with their first values."""
        weight, grid, data = group.layer.weight, grids.weight_grid, grids.data_grid
        column = (-1, *(1,) * (weight.ndim - 1))
        scale, zero = (part.reshape(column) for part in grid.fitted(weight.reshape(len(weight), -1)))
        self.weights[name] = FakeQuantized(f"{name}:weight", grid, scale, zero, self.learned)
        scale, zero = (part.reshape(()) for part in data.fitted_to(histogram))
        tensor = f"{group.layer.tensors[0]}:{data.kind}{data.bits}"
        self.data[name] = FakeQuantized(tensor, data, scale, zero, self.learned)
        for fake in (self.weights[name], self.data[name]):
            (self.parameters if self.learned else self.buffers).update(fake.initial())
        self.parameters |= {f"{name}:weight": weight.astype(np.float32), f"{name}:bias": group.bias}
        if group.norm is not None:
            self.parameters |= {f"{name}:gamma": group.norm.gamma, f"{name}:beta": group.norm.beta}
            self.buffers |= {f"{name}:mean": group.norm.mean, f"{name}:variance": group.norm.variance}

    def _trained(self, group: Group, data: Expr) -> Expr:
        """A layer as it is trained: batch norms by the statistics of the batch."""
        name, result = group.layer.name, self._layer(group, data)
        if not self.learned:
            self.seen[self.data[name].name] = least_of(data), largest_of(data)
        if group.norm is None:
            return result
        axes = [axis for axis in range(tensor_type_of(group.layer.call).ndim) if axis != group.layer.channel_axis]
        centred = subtract(result, mean(result, axis=axes, keepdims=True))
        self.seen[name] = mean(result, axis=axes), mean(multiply(centred, centred), axis=axes)
        return self._normalized(group, result, *self.seen[name])

    def _inferred(self, group: Group, data: Expr) -> Expr:
        """A layer as the integer model computes it: batch norms by their moving averages."""
        name, result = group.layer.name, self._layer(group, data)
        if group.norm is None:
            return result
        return self._normalized(group, result, self.variables[f"{name}:mean"], self.variables[f"{name}:variance"])

    def _normalized(self, group: Group, result: Expr, middle: Expr, spread: Expr) -> Expr:
        assert group.norm is not None
        gamma, beta = (self.variables[f"{group.layer.name}:{part}"] for part in ("gamma", "beta"))
        axis, epsilon = group.layer.channel_axis, group.norm.epsilon
        return nn.batch_norm(result, gamma, beta, middle, spread, axis=axis, epsilon=epsilon)[0]

    def _layer(self, group: Group, data: Expr) -> Expr:
        name, call = group.layer.name, group.layer.call
        fake = self.data[name]
        if (data, fake.name) not in self._coded:
            type_of(data)
            self._coded[data, fake.name] = fake.codes(data, self.variables)
        codes, scale = self._coded[data, fake.name]
        whole, scales = self.weights[name].codes(self.variables[f"{name}:weight"], self.variables)
        sums = Call(call.op, [codes, whole], call.attrs, call.span)
        result = scaled(group, sums, multiply(reshape(scales, (-1,)), scale), self.variables[f"{name}:bias"])
        type_of(result)
        return result
