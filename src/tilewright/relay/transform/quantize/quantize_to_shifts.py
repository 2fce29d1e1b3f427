"""A float network in int8 whose scales are powers of two: what is left of rescaling is shifts.

Before: nn.relu(add(nn.conv2d(%x, w), b))                                                                   (float32)
After:  %0 = cast(clip(round(%x * 32f), -128, 127), "int8");
        %1 = add(nn.conv2d(%0, w8, out_dtype="int32"), b32);                        (b32: half a unit of the shift, too)
        %2 = cast(clip(right_shift(%1, 7), 0, 127), "int8");      cast(%2, "float32") * 0.0625f

Convolutions and dense layers with constant weights, sums of two of their results, activations, pooling and changes of
shape behind them stay integers from one to the next; all else stays float, with conversions between. Weights have a
power of two each output channel. Machines that have no multiplier for scales, such as VTA, run the result as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Tuple
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import children, consumers, post_order, rebuild
from tilewright.relay.op import view_rules
from tilewright.relay.transform.quantize.thresholds import percentile_threshold
from tilewright.relay.transform.simplify.conv2d_transpose_to_conv2d import conv2d_transpose_to_conv2d
from tilewright.relay.transform.simplify.fold_constant import fold_constant
from tilewright.relay.transform.simplify.fold_scale_axis import fold_scale_axis
from tilewright.relay.transform.simplify.make import is_call, make
from tilewright.relay.transform.simplify.simplify_inference import simplify_inference

Array = np.ndarray[Any, Any]
Run = Callable[[Function, Mapping[str, Any]], Sequence[Array]]

_LOW, _HIGH = -128, 127
#: Bits of a sum that a bias, a shift and its rounding may need at most.
_SUM_BITS = 30
#: A multiplier must fit into an immediate of 16 bits.
_MULTIPLIER = (1 << 15) - 1


def quantize_to_shifts(
    mod: IRModule, dataset: Iterable[Mapping[str, Any]] | None = None, run: Run = interpret
) -> IRModule:
    """The module in integers; see the module's docstring. `dataset` has inputs by name, some tens of typical ones.

    Without it, ranges are those of one input of normally distributed numbers: enough to try a network, not to rely on
    its answers. `run` computes a function's outputs on inputs.
    """
    for prepare in (simplify_inference, conv2d_transpose_to_conv2d, fold_scale_axis, fold_constant):
        mod = infer_type(prepare(infer_type(mod)))
    main = mod["main"]
    chains = _chains(main)
    tensors = _ranged(main, chains)
    magnitudes = _magnitudes(main, tensors, dataset or [_random_inputs(main)], run)
    body = _Quantizer(chains, magnitudes).rewritten(main.body)
    return infer_type(fold_constant(infer_type(mod.with_function("main", main.with_body(body)))))


# ------------------------------------------------------------------------------------------------- what is quantized
@dataclass(frozen=True)
class _Chain:
    """A product or sum with what is done to it at once: a bias [channels] and bounds."""

    core: Call
    bias: Array | None
    low: float
    high: float


def _chains(main: Function) -> dict[Expr, _Chain]:
    """The chains by their last call."""
    nodes = post_order(main.body)
    users = consumers(nodes)
    found: dict[Expr, _Chain] = {}
    for node in nodes:
        if not isinstance(node, Call) or not _is_core(node):
            continue
        last, bias, low, high = node, None, -np.inf, np.inf
        while len(users[last]) == 1 and isinstance(user := users[last][0], Call):
            if bias is None and np.isinf([low, high]).all() and _is_product(node) and is_call(user, "add"):
                bias = _bias(user, last)
                if bias is None:
                    break
            elif (bounds := _bounds(user)) is not None:
                low, high = max(low, bounds[0]), min(high, bounds[1])
            else:
                break
            last = user
        found[last] = _Chain(node, bias, low, high)
    return found


def _bounds(call: Call) -> tuple[float, float] | None:
    """The bounds at which an activation clips values; None for any other call."""
    if is_call(call, "nn.relu"):
        return 0.0, np.inf
    if is_call(call, "clip"):
        return float(call.attrs.a_min), float(call.attrs.a_max)
    if is_call(call, "maximum", "minimum"):
        numbers = [arg.data for arg in call.args if isinstance(arg, Constant) and arg.data.size == 1]
        if numbers and tensor_type_of(call).ndim > numbers[0].ndim:
            value = float(numbers[0].reshape(()))
            return (value, np.inf) if is_call(call, "maximum") else (-np.inf, value)
    return None


def _averages_image(node: Expr) -> bool:
    """True for the mean of whole images, their two dimensions kept as one."""
    if is_call(node, "nn.global_avg_pool2d"):
        return node.attrs.layout == "NCHW"  # type: ignore[attr-defined]
    if not is_call(node, "nn.avg_pool2d", "mean"):
        return False
    assert isinstance(node, Call)
    type_, attrs = tensor_type_of(node.args[0]), node.attrs
    if type_.ndim != 4:
        return False
    if is_call(node, "mean"):
        axes = attrs.axis if isinstance(attrs.axis, tuple) else (attrs.axis,)
        whole = None not in axes and sorted(axis % type_.ndim for axis in axes) == [2, 3]
        return whole and bool(attrs.keepdims) and not attrs.exclude
    whole = tuple(attrs.pool_size) == tuple(type_.shape[2:]) and not any(attrs.padding)
    return whole and attrs.layout == "NCHW" and tensor_type_of(node).shape[2:] == (1, 1)


def _is_product(node: Expr) -> bool:
    return is_call(node, "nn.conv2d", "nn.dense")


def _is_core(node: Call) -> bool:
    if not node.args or any(str(tensor_type_of(a).dtype) != "float32" for a in node.args if not isinstance(a, Tuple)):
        return False
    if is_call(node, "nn.conv2d"):
        plain = node.attrs.data_layout == "NCHW" and node.attrs.kernel_layout == "OIHW"
        return plain and isinstance(node.args[1], Constant)
    if is_call(node, "nn.dense"):
        return isinstance(node.args[1], Constant) and tensor_type_of(node.args[0]).ndim == 2
    if is_call(node, "add"):
        left, right = node.args
        same = tensor_type_of(left).shape == tensor_type_of(right).shape
        return same and not isinstance(left, Constant) and not isinstance(right, Constant)
    return False


def _bias(user: Call, product: Expr) -> Array | None:
    """The constant [channels] that an `add` of a product adds; None for anything else."""
    other = user.args[1] if user.args[0] is product else user.args[0]
    type_ = tensor_type_of(product)
    if not isinstance(other, Constant) or tensor_type_of(user).shape != type_.shape:
        return None
    wanted = (1, *other.data.shape)[-type_.ndim + 1 :] if type_.ndim > 1 else ()
    full = np.broadcast_to(other.data, (1, *type_.shape[1:])) if len(wanted) <= type_.ndim else other.data
    flat = full.reshape(type_.shape[1], -1)
    return np.array(flat[:, 0]) if (flat == flat[:, :1]).all() else None


def _ranged(main: Function, chains: Mapping[Expr, _Chain]) -> list[Expr]:
    """The tensors whose ranges are needed: inputs of products, results of chains, averages."""
    inputs = [chain.core.args[0] for chain in chains.values() if _is_product(chain.core)]
    averages = [n for n in post_order(main.body) if _averages_image(n)]
    return list(dict.fromkeys([*inputs, *chains, *averages]))


def _random_inputs(main: Function) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    made: dict[str, Array] = {}
    for param in main.params:
        type_ = tensor_type_of(param)
        made[param.name] = rng.standard_normal(type_.shape).astype(type_.dtype.numpy)
    return made


def _magnitudes(
    main: Function, tensors: Sequence[Expr], dataset: Iterable[Mapping[str, Any]], run: Run
) -> dict[Expr, float]:
    """The magnitude that each tensor is cut off at."""
    if not tensors:
        return {}
    probe = Function(main.params, Tuple(list(tensors)))
    largest = np.zeros(len(tensors))
    for batch in dataset:
        values = run(probe, dict(batch))
        largest = np.maximum(largest, [percentile_threshold(np.asarray(value)) for value in values])
    return dict(zip(tensors, largest.tolist()))


# ------------------------------------------------------------------------------------------------------- the rewrite
@dataclass(frozen=True)
class _Integers:
    """A tensor of int8: its values are `expr` · 2^-`bits`."""

    expr: Expr
    bits: int


class _Quantizer:
    def __init__(self, chains: Mapping[Expr, _Chain], magnitudes: Mapping[Expr, float]) -> None:
        self.chains, self.magnitudes = chains, magnitudes
        self.floats: dict[Expr, Expr] = {}
        self.integers: dict[Expr, _Integers] = {}

    def rewritten(self, body: Expr) -> Expr:
        """The body, its results float as before."""
        for node in self._needed(body):
            made = self._integer(node)
            if made is not None:
                self.integers[node] = made
            elif node not in self.floats:
                kids = tuple([self._float(child) for child in children(node)])
                self.floats[node] = rebuild(node, kids)
        return self._float(body)

    def _needed(self, body: Expr) -> list[Expr]:
        """Nodes in order, without those inside of chains."""

        def operands(node: Expr) -> Sequence[Expr]:
            return self.chains[node].core.args if node in self.chains else children(node)

        return post_order(body, operands=operands)

    def _float(self, node: Expr) -> Expr:
        if node not in self.floats:
            known = self.integers[node]
            wide = make("cast", known.expr, dtype="float32")
            self.floats[node] = make("multiply", wide, _scalar(2.0**-known.bits, "float32"))
        return self.floats[node]

    def _int8(self, node: Expr) -> _Integers:
        if node not in self.integers:
            bits = _bits(self.magnitudes.get(node, 1.0))
            scaled = make("multiply", self.floats[node], _scalar(2.0**bits, "float32"))
            expr = make("cast", make("clip", make("round", scaled), a_min=_LOW, a_max=_HIGH), dtype="int8")
            self.integers[node] = _Integers(expr, bits)
        return self.integers[node]

    def _integer(self, node: Expr) -> _Integers | None:
        """`node` in integers; None where it stays float."""
        if node in self.chains:
            chain = self.chains[node]
            return self._sum(node, chain) if is_call(chain.core, "add") else self._product(node, chain)
        if not isinstance(node, Call) or not node.args or node.args[0] not in self.integers:
            return None
        data = self.integers[node.args[0]]
        moves = isinstance(node.op, Op) and node.op.view is view_rules.whole
        if moves or is_call(node, "nn.max_pool2d", "nn.dilate"):  # zero is zero in integers
            return _Integers(Call(node.op, [data.expr, *node.args[1:]], node.attrs, node.span), data.bits)
        if (bounds := _bounds(node)) is not None:
            low, high = (_bound(value, data.bits) for value in bounds)
            return _Integers(make("clip", data.expr, a_min=low, a_max=high), data.bits)
        return self._average(node, data) if _averages_image(node) else None

    def _product(self, node: Expr, chain: _Chain) -> _Integers:
        core, data = chain.core, self._int8(chain.core.args[0])
        assert isinstance(core.args[1], Constant)
        weight = core.args[1].data.astype(np.float64)
        axes = tuple(range(1, weight.ndim))
        largest = np.abs(weight).max(axis=axes, initial=0.0)
        weight_bits = np.array([_bits(x) for x in np.where(largest > 0, largest, largest.max() or 1.0)])
        out_bits = min(_bits(self.magnitudes[node]), int(weight_bits.min()) + data.bits)
        bias = np.zeros(len(weight)) if chain.bias is None else chain.bias.astype(np.float64)
        weight_bits = np.minimum(weight_bits, _most_bits(bias, out_bits) - data.bits)
        shift = data.bits + weight_bits - out_bits
        if (shift < 0).any():  # a bias far beyond all sums: coarser results instead
            out_bits += int(shift.min())
            shift = data.bits + weight_bits - out_bits
        along = (-1, *(1,) * len(axes))
        integers = np.clip(np.rint(weight * 2.0 ** weight_bits.reshape(along)), _LOW, _HIGH).astype(np.int8)
        half = np.where(shift > 0, 1 << np.maximum(shift - 1, 0), 0)
        offset = (np.rint(bias * 2.0 ** (data.bits + weight_bits)) + half).astype(np.int32)
        attrs = core.attrs.replace(out_dtype="int32")
        product = Call(core.op, [data.expr, Constant(integers)], attrs, core.span)
        total = make("add", product, Constant(offset.reshape(along[: weight.ndim - 1 if weight.ndim > 2 else 1])))
        return _Integers(self._narrow(total, shift, weight.ndim, chain, out_bits), out_bits)

    def _narrow(self, total: Expr, shift: Array, ndim: int, chain: _Chain, bits: int) -> Expr:
        """Sums shifted, cut to their bounds and to int8."""
        if shift.any():
            by = shift.reshape(-1, *(1,) * (ndim - 2)) if (shift != shift[0]).any() else shift[0]
            total = make("right_shift", total, Constant(np.asarray(by, np.int32)))
        low, high = _bound(chain.low, bits), _bound(chain.high, bits)
        return make("cast", make("clip", total, a_min=low, a_max=high), dtype="int8")

    def _sum(self, node: Expr, chain: _Chain) -> _Integers | None:
        """Both summands with the bits of the finer one, then as few as the result needs."""
        if not any(arg in self.integers for arg in chain.core.args):
            values = [self.floats[arg] for arg in chain.core.args]
            self._float_sum(node, chain, values)
            return None
        left, right = (self._int8(arg) for arg in chain.core.args)
        fine = max(left.bits, right.bits)
        bits = min(_bits(self.magnitudes[node]), fine)
        parts: list[Expr] = []
        for part in (left, right):
            wide = make("cast", part.expr, dtype="int32")
            by = _scalar(fine - part.bits, "int32")
            parts.append(make("left_shift", wide, by) if fine > part.bits else wide)
        total, shift = make("add", *parts), fine - bits
        if shift:
            total = make("add", total, _scalar(1 << (shift - 1), "int32"))
        return _Integers(self._narrow(total, np.array([shift]), 2, chain, bits), bits)

    def _float_sum(self, node: Expr, chain: _Chain, values: Sequence[Expr]) -> None:
        """A sum that no integers come to: as it was."""
        total: Expr = Call(chain.core.op, values, chain.core.attrs, chain.core.span)
        if np.isfinite([chain.low, chain.high]).any():
            total = make("clip", total, a_min=float(chain.low), a_max=float(chain.high))
        self.floats[node] = total

    def _average(self, node: Call, data: _Integers) -> _Integers:
        """The mean of an image as a sum, a multiplication and a shift."""
        type_ = tensor_type_of(node.args[0])
        count = int(type_.shape[2]) * int(type_.shape[3])
        bits = _bits(self.magnitudes[node])
        shift = 0
        ratio = 2.0 ** (bits - data.bits) / count
        while ratio * 2 ** (shift + 1) <= _MULTIPLIER and count * 128 * ratio * 2 ** (shift + 1) < 1 << _SUM_BITS:
            shift += 1
        total = make("sum", make("cast", data.expr, dtype="int32"), axis=(2, 3), keepdims=True)
        total = make("multiply", total, _scalar(round(ratio * 2**shift), "int32"))
        total = make("add", total, _scalar(1 << shift >> 1, "int32"))
        return _Integers(self._narrow(total, np.array([shift]), 2, _Chain(node, None, -np.inf, np.inf), bits), bits)


def _scalar(value: float, dtype: str) -> Constant:
    return Constant(np.asarray(value, dtype))


def _bits(magnitude: float) -> int:
    """The finest power of two that a magnitude fits into int8 with."""
    return int(np.floor(np.log2(_HIGH / max(magnitude, 2.0**-_SUM_BITS))))


def _bound(value: float, bits: int) -> int:
    return int(np.clip(np.rint(np.clip(value * 2.0**bits, _LOW, _HIGH)), _LOW, _HIGH))


def _most_bits(bias: Array, out_bits: int) -> Array:
    """The most bits of a sum whose bias fits, and whose shift to `out_bits` has no more than a number has."""
    room = np.floor(np.log2(2.0**_SUM_BITS / np.maximum(np.abs(bias), 2.0**-_SUM_BITS)))
    return np.minimum(room, out_bits + _SUM_BITS).astype(int)
