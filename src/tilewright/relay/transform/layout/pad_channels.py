"""Images get channels of zeros between convolutions, so that their channels are whole vectors.

Before: %0 = nn.relu(nn.conv2d(%x, w0)); nn.conv2d(%0, w1)              408 channels between them
After:  %0 = nn.relu(nn.conv2d(%x, w0')); nn.conv2d(%0, w1')            416, eight filters and inputs of zeros

The backend says how many. Elementwise operators, pooling and the like pass the padding on, and
what it holds after them is computed, a single number; a convolution with constant weights takes it up. A value is
padded only if all that reads it can do with that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, get
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children, consumers, post_order, rebuild
from tilewright.relay.op.layout_rules import (
    CHANNEL_AXIS,
    conv2d_workload,
    follow_broadcast,
    follow_input,
    follow_layout_attr,
    follow_reduce,
)
from tilewright.relay.transform.simplify.fold_constant import fold_call

Array = np.ndarray[Any, Any]

#: Rules of operators that treat all channels alike, and of those among them that do so element by element.
_ALIKE = (follow_input, follow_broadcast, follow_layout_attr, follow_reduce)
_BY_ELEMENT = (follow_input, follow_broadcast)


def pad_channels(mod: IRModule, backend: GraphBackend) -> IRModule:
    """The module with channels of zeros where whole vectors of channels are faster; see the module's docstring."""
    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(_Padder(func.body, backend).run())))


@dataclass(frozen=True)
class _Wide:
    """A value with channels behind its own, and the number that these hold."""

    value: Expr
    fill: float


class _Padder:
    """The rewriting of one function. Values are known by their nodes in the old graph."""

    def __init__(self, root: Expr, backend: GraphBackend) -> None:
        self.root = root
        self.nodes = post_order(root)
        self.widths = _widths(self.nodes, backend)
        self.wanted = self._wanted()
        self.wide: dict[Expr, _Wide] = {}
        self.narrow: dict[Expr, Expr] = {}

    def run(self) -> Expr:
        """The rewritten root."""
        if not self.wanted:
            return self.root
        for node in self.nodes:
            wide = self._widened(node) if isinstance(node, Call) and node in self.wanted else None
            if wide is not None:
                self.wide[node] = wide
            else:
                self.narrow[node] = self._as_it_was(node)
        return self._narrowed(self.root)

    def _wanted(self) -> set[Expr]:
        """Values that all their readers take with more channels, or whose channels cost nothing to cut off."""
        users = consumers(self.nodes)
        wanted: set[Expr] = set()
        for node in reversed(self.nodes):
            image = _image(node)
            if image is None or self.widths.get(image[1], 0) <= image[1] or not isinstance(node, Call):
                continue
            readers = users.get(node, [])
            if image[2:] == (1, 1) or (readers and all(self._takes(reader, node, wanted) for reader in readers)):
                wanted.add(node)
        return wanted

    def _takes(self, reader: Expr, node: Expr, wanted: set[Expr]) -> bool:
        if not isinstance(reader, Call) or not isinstance(reader.op, Op):
            return False
        if _is_convolution(reader):
            return reader.args[0] is node and (reader.attrs.groups == 1 or reader in wanted)
        return reader in wanted and reader.op.layout in _ALIKE

    def _widened(self, node: Call) -> _Wide | None:
        """`node` with more channels; None where its operands do not allow it."""
        assert isinstance(node.op, Op)
        if _is_convolution(node):
            return self._widened_convolution(node)
        image = _image(node)
        if node.op.layout not in _ALIKE or image is None:
            return None
        for blank in (0.0, 1.0):
            operands = [self._operand(arg, image[1], blank) for arg in node.args]
            if any(operand is None for operand in operands):
                return None
            fill = self._filled(node, [operand.fill for operand in operands if operand is not None])
            if fill is not None and math.isfinite(fill):
                values = [operand.value for operand in operands if operand is not None]
                return _Wide(Call(node.op, values, node.attrs, node.span), fill)
        return None

    def _operand(self, arg: Expr, channels: int, blank: float) -> _Wide | None:
        """An operand beside images of `channels`: widened, with `blank` if it is a constant for each channel."""
        if arg in self.wide:
            return self.wide[arg]
        type_ = type_of(arg)
        assert isinstance(type_, TensorType)
        extent = ((1,) * (4 - type_.ndim) + type_.shape)[CHANNEL_AXIS]
        if extent == 1 and isinstance(arg, Constant) and arg.data.size == 1:
            return _Wide(arg, float(arg.data.reshape(())))
        if extent != channels or not isinstance(arg, Constant) or type_.dtype != "float32":
            return None
        more = self.widths[channels] - channels
        sides = [(0, more if axis == arg.data.ndim - 3 else 0) for axis in range(arg.data.ndim)]
        return _Wide(Constant(np.pad(arg.data, sides, constant_values=blank)), blank)

    def _filled(self, node: Call, fills: Sequence[float]) -> float | None:
        """The number that the padding holds after `node`; None where it is not one number."""
        assert isinstance(node.op, Op)
        if node.op.layout not in _BY_ELEMENT:
            return 0.0 if not any(fills) else None
        with np.errstate(all="ignore"):
            value = fold_call(Call(node.op, [Constant(np.array(fill, np.float32)) for fill in fills], node.attrs))
        return float(value.data.reshape(())) if isinstance(value, Constant) else None

    def _widened_convolution(self, node: Call) -> _Wide | None:
        data, weight = node.args
        assert isinstance(weight, Constant)
        filters, inputs = weight.data.shape[:2]
        width = self.widths[filters]
        if node.attrs.groups == 1:
            return _Wide(self._convolution(node, width, 1), 0.0)
        if data not in self.wide or filters != inputs * node.attrs.groups or width % inputs:
            return None
        return _Wide(self._convolution(node, width, width // inputs), 0.0)

    def _convolution(self, node: Call, filters: int, groups: int) -> Call:
        """The convolution with this many filters, of the widened image where there is one."""
        data, weight = node.args
        assert isinstance(weight, Constant) and isinstance(node.op, Op)
        image = _image(data)
        assert image is not None
        more = self.widths[image[1]] - image[1] if data in self.wide and groups == 1 else 0
        sides = [(0, filters - weight.data.shape[0]), (0, more), (0, 0), (0, 0)]
        source = self.wide[data].value if data in self.wide else self._narrowed(data)
        attrs = node.attrs.replace(groups=groups, channels=None)
        return Call(node.op, [source, Constant(np.pad(weight.data, sides))], attrs, node.span)

    def _as_it_was(self, node: Expr) -> Expr:
        """`node` with the channels that it had."""
        if isinstance(node, Call) and _is_convolution(node) and node.attrs.groups == 1 and node.args[0] in self.wide:
            weight = node.args[1]
            assert isinstance(weight, Constant)
            return self._convolution(node, weight.data.shape[0], 1)
        return rebuild(node, tuple([self._narrowed(kid) for kid in children(node)]))

    def _narrowed(self, node: Expr) -> Expr:
        """The value of `node` without the padding."""
        if node not in self.narrow:
            image = _image(node)
            assert image is not None
            bounds = {"begin": (0,), "end": (image[1],), "strides": (1,), "axes": (CHANNEL_AXIS,)}
            self.narrow[node] = Call(get("strided_slice"), [self.wide[node].value], bounds)
        return self.narrow[node]


def _image(node: Expr) -> tuple[Any, ...] | None:
    """The shape of a float32 image whose number of channels is known."""
    type_ = type_of(node)
    if not isinstance(type_, TensorType) or type_.ndim != 4 or type_.dtype != "float32":
        return None
    return type_.shape if isinstance(type_.shape[CHANNEL_AXIS], int) else None


def _is_convolution(node: Call) -> bool:
    """True for a plain float32 `nn.conv2d` of constant weights."""
    if node.op is not get("nn.conv2d") or not isinstance(node.args[1], Constant) or _image(node) is None:
        return False
    attrs = node.attrs
    return (attrs.data_layout, attrs.kernel_layout, attrs.out_layout) == ("NCHW", "OIHW", "")


def _widths(nodes: Sequence[Expr], backend: GraphBackend) -> dict[int, int]:
    """For each number of channels that a convolution makes, that to pad it to: the same wherever it occurs."""
    groups: dict[int, set[int]] = {}
    for node in nodes:
        if not isinstance(node, Call) or not _is_convolution(node):
            continue
        data, weight = (type_of(arg) for arg in node.args)
        assert isinstance(data, TensorType) and isinstance(weight, TensorType)
        shape = conv2d_workload(node.attrs, (data, weight))
        of_group = shape.out_channels // shape.groups
        for channels in (shape.in_channels, shape.out_channels):
            groups.setdefault(channels, set()).update([of_group] if 1 < shape.groups < channels else [])
    return {channels: backend.padded_channels(channels, sizes) for channels, sizes in groups.items()}
