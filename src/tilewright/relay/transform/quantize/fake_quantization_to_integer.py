"""Arithmetic between `qnn.dequantize` and `qnn.quantize` is done on the integers themselves.

Before: %0 = qnn.dequantize(%x, 0.5f, 3); %1 = qnn.dequantize(w, 0.25f, 0); %2 = nn.relu(nn.dense(%0, %1));
        qnn.quantize(%2, 0.1f, 5, out_dtype="uint8")
After:  %0 = qnn.dense(%x, w, 3, 0, 0.5f, 0.25f); %1 = maximum(%0, 0);                                          (int32)
        qnn.requantize(%1, 0.125f, 0, 0.1f, 5, out_dtype="uint8")

This is how models trained with simulated quantization become integer models. From each `quantize` the calls before it
are followed back to `dequantize`s and constants; if each operator on the way has a rule, all of them are
replaced, otherwise none. Scales and zero points must be constants of one number, but for the scale of weights, which
may be one for each unit. Sums that may exceed int32 stay in floats, and so does what is added to them where no integers
stand for it. The rounding of an intermediate sum differs from that of floats: results differ by one quantum at most
where the exact value lies between two, up to the rounding of float32. Codes that are only moved or picked become those
that the two operators would have made, to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, get
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import children, post_order, rebuild, rewrite
from tilewright.relay.op import qnn
from tilewright.relay.op.tensor import maximum
from tilewright.relay.transform.quantize.transposed_in_phases import transposed_in_phases
from tilewright.relay.transform.simplify.make import along_axis, is_call
from tilewright.relay.transform.simplify.rule_index import RuleIndex
from tilewright.support.dtype import DType

Array = np.ndarray

#: Bound on sums of products, and on what is added to them: together they fit int32.
_MOST = 1 << 30
#: What a symbolic number of terms is taken for: so many products of bytes, as of the keys of a sequence, fit.
_MOST_TERMS = 1 << 14
#: A product of two scales and a whole number in float32 is off by two halves of a unit in the last place at most.
_ROUNDING = 2.0**-22


@dataclass(frozen=True)
class Affine:
    """Integers `expr` that stand for scale * (expr - zero). A scale of several numbers runs along `axis`."""

    expr: Expr
    scale: Array
    zero: Array
    axis: int = -1

    def like(self, expr: Expr) -> Affine:
        """Other integers that stand for numbers in the same way."""
        return Affine(expr, self.scale, self.zero, self.axis)

    def means_the_same(self, other: Affine) -> bool:
        """True if equal integers stand for equal numbers."""
        return np.array_equal(self.scale, other.scale) and np.array_equal(self.zero, other.zero)


#: What is known of nodes: the integers that stand for them, or None.
Known = dict[Expr, Affine | None]
Rule = Callable[[Call, Known], Affine | None]
rule_of: RuleIndex[Rule] = RuleIndex()


def fake_quantization_to_integer(mod: IRModule) -> IRModule:
    """Replace what lies between `dequantize` and `quantize`; see the module's docstring."""
    known: Known = {}
    rule = partial(_rule, known=known)
    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, rule))))


def _rule(node: Expr, known: Known) -> Expr | None:
    if not isinstance(node, Call) or not is_call(node, "qnn.quantize"):
        return None
    data, scale, zero = node.args
    if not isinstance(scale, Constant) or not isinstance(zero, Constant) or scale.data.size != 1:
        return None
    found = integers_of(data, known)
    if found is None:
        return None
    if _same_codes(found, scale, zero) and tensor_type_of(found.expr).dtype == node.attrs.out_dtype:
        return found.expr
    old_scale, old_zero = Constant(found.scale), Constant(found.zero)
    if not _one_factor_suffices(found, scale.data, node.attrs.out_dtype):
        floats = qnn.dequantize(found.expr, old_scale, old_zero, axis=found.axis)
        return rebuild(node, (floats, scale, zero))
    return qnn.requantize(found.expr, old_scale, old_zero, scale, zero, axis=found.axis, out_dtype=node.attrs.out_dtype)


def _same_codes(found: Affine, scale: Constant, zero: Constant) -> bool:
    """True if quantizing again yields the integers that there are."""
    return found.scale.size == 1 and found.scale.item() == scale.data.item() and found.zero.item() == zero.data.item()


def _one_factor_suffices(found: Affine, scale: Array, dtype: str) -> bool:
    """False if a code of few bits times the quotient of the scales rounds otherwise than its number by the new scale.

    That is so where a quotient lies next to a tie, and oftener the more codes the result has. Sums are not looked at:
    they have too many values, and floats would add them in another order.
    """
    source = DType(tensor_type_of(found.expr).dtype)
    if source.bits > 16:
        return True
    low, high = source.limits()
    codes = (np.arange(low, high + 1)[:, None] - found.zero.reshape(-1)).astype(np.float32)
    old = found.scale.reshape(-1).astype(np.float32)
    lowest, highest = DType(dtype).limits()
    span = highest - lowest
    by_steps, at_once = (np.rint(value).clip(-span, span) for value in (codes * old / scale, codes * (old / scale)))
    return np.array_equal(by_steps, at_once)


def integers_of(root: Expr, known: Known) -> Affine | None:
    """The integers for the float expression `root`; None if an operator on the way to them has no rule.

    `known` has what was found so far, and gets what is found now: a pass asks about each node of a graph once.
    """
    for node in post_order(root, operands=lambda node: () if node in known else children(node)):
        if node in known:
            continue
        found = _dequantized(node)
        rule = rule_for(node.op) if found is None and isinstance(node, Call) and isinstance(node.op, Op) else None
        if rule is not None:
            assert isinstance(node, Call)
            found = rule(node, known)
        known[node] = found
    return known[root]


def _dequantized(node: Expr) -> Affine | None:
    """The integers of a `dequantize` with constant parameters."""
    if not isinstance(node, Call) or not is_call(node, "qnn.dequantize"):
        return None
    data, scale, zero = node.args
    if not isinstance(scale, Constant) or not isinstance(zero, Constant) or max(scale.data.ndim, zero.data.ndim) > 1:
        return None  # scales of blocks run along several axes
    return Affine(data, scale.data, zero.data.astype("int32"), node.attrs.axis)


def _product(call: Call, known: Known) -> Affine | None:
    """A convolution or product of two quantized values: sums in int32 whose scale is the product of theirs."""
    data, weight = (known.get(arg) for arg in call.args)
    if data is None or weight is None or data.scale.size != 1 or np.any(weight.zero != weight.zero.flat[0]):
        return None
    of_weight, of_result = _unit_axes(call)
    alike = weight.scale.size == 1 or weight.axis % tensor_type_of(weight.expr).ndim == of_weight
    if not alike or weight.scale.size not in (1, tensor_type_of(call).shape[of_result]):
        return None  # products of one sum have several scales
    if _largest_sum(call, data, weight) >= _MOST:
        return None
    zero = Constant(np.asarray(weight.zero.flat[0], "int32"))
    args = [data.expr, weight.expr, Constant(data.zero), zero, Constant(data.scale), Constant(weight.scale)]
    attrs = call.attrs.replace(out_dtype="int32")
    assert isinstance(call.op, Op)
    quantized = Call(get(call.op.quantized), args, attrs, call.span)
    return Affine(quantized, data.scale * weight.scale, np.asarray(0, "int32"), of_result)


def _unit_axes(call: Call) -> tuple[int, int]:
    """The axes of the filters, or of a product's columns, in the weights and in the result."""
    attrs = call.attrs
    if attrs.get("kernel_layout"):
        result = attrs.get("out_layout", "") or attrs["data_layout"]
        return attrs["kernel_layout"].index("O"), result.index("C")
    return (0 if is_call(call, "nn.dense") else 1 if attrs["transpose_b"] else 2), -1


def _largest_sum(call: Call, data: Affine, weight: Affine) -> float:
    """A bound on the sums of the product `call`."""
    units, _ = _unit_axes(call)
    if isinstance(weight.expr, Constant):
        centred = np.abs(weight.expr.data.astype(np.float64) - float(weight.zero.flat[0]))
        return _reach(data) * float(np.moveaxis(centred, units, 0).reshape(centred.shape[units], -1).sum(1).max())
    shape = tensor_type_of(weight.expr).shape
    terms = shape[3 - units] if is_call(call, "nn.batch_matmul") else math.prod((*shape[:units], *shape[units + 1 :]))
    return _reach(data) * _reach(weight) * (terms if isinstance(terms, int) else _MOST_TERMS)


def _reach(value: Affine) -> float:
    """The largest distance of an integer of `value` from its zero point."""
    return max(abs(float(end) - float(value.zero.flat[0])) for end in tensor_type_of(value.expr).dtype.limits())


@rule_of("nn.conv2d_transpose")
def _transposed(call: Call, known: Known) -> Affine | None:
    """A transposed convolution by constant weights, as a convolution: there are dot products for those."""
    data, weight = (known.get(arg) for arg in call.args)
    if data is None or weight is None or not isinstance(weight.expr, Constant):
        return None
    attrs, sizes = call.attrs, (tensor_type_of(data.expr).shape[2:], tensor_type_of(call).shape[2:])
    plain = (attrs["data_layout"], attrs["kernel_layout"]) == ("NCHW", "IOHW")
    if (
        not plain
        or (attrs["groups"], *attrs["dilation"]) != (1, 1, 1)
        or not all(isinstance(size, int) for pair in sizes for size in pair)
    ):
        return None
    if data.scale.size != 1 or (weight.axis not in (1, -3) and weight.scale.size > 1) or np.ptp(weight.zero):
        return None
    if _largest_sum(call, data, weight) >= _MOST:
        return None
    zero, source = weight.zero.flat[0], data

    def convolve(filters: Array, padding: tuple[int, int, int, int]) -> Expr:
        return qnn.conv2d(
            source.expr, Constant(filters), Constant(source.zero), zero, Constant(source.scale), 1.0, padding=padding
        )

    found = transposed_in_phases(convolve, weight.expr.data, int(zero), attrs, *sizes)
    return Affine(found, data.scale * weight.scale, np.asarray(0, "int32"), 1)


@rule_of("add", "nn.bias_add")
def _add(call: Call, known: Known) -> Affine | None:
    """A sum with a constant, or with a value at the same scale: a sum of integers, in int32."""
    sides = [known.get(arg) for arg in call.args]
    if all(side is None for side in sides):
        return None
    like = next(side for side in sides if side is not None)
    if np.any(like.zero != 0) or tensor_type_of(like.expr).dtype != "int32":
        return None
    axis = call.attrs.get("axis", like.axis)
    operands: list[Expr] = []
    for arg, side in zip(call.args, sides, strict=True):
        if side is None and not isinstance(arg, Constant):
            return None
        if side is not None and not (side.means_the_same(like) and tensor_type_of(side.expr).dtype == "int32"):
            return None
        found = side.expr if side is not None else _at_scale(arg, like, axis, call)  # type: ignore[arg-type]
        if found is None:
            return None
        operands.append(found)
    return like.like(Call(call.op, operands, call.attrs, call.span))


def _at_scale(constant: Constant, like: Affine, axis: int, call: Call) -> Constant | None:
    """A constant of floats as integers at the scale of `like`; None where no integers stand for it."""
    scale = like.scale
    if scale.size > 1 and not is_call(call, "nn.bias_add"):
        column = along_axis(Constant(scale.reshape(-1)), axis, tensor_type_of(call).ndim)
        assert isinstance(column, Constant)
        scale = column.data
    steps = constant.data.astype(np.float64) / scale
    whole = np.round(steps)
    if np.any(np.abs(whole) >= _MOST) or np.any(np.abs(steps - whole) > _ROUNDING * np.abs(steps)):
        return None
    return Constant(whole.astype("int32"))


@rule_of("nn.relu")
def _relu(call: Call, known: Known) -> Affine | None:
    """The maximum with the zero point, which stands for zero."""
    data = known.get(call.args[0])
    if data is None or data.zero.size != 1:
        return None
    dtype = tensor_type_of(data.expr).dtype.numpy
    return data.like(maximum(data.expr, Constant(data.zero.reshape(()).astype(dtype))))


def _moved(call: Call, known: Known) -> Affine | None:
    """Operators that move or pick elements do so with the integers; scales along an axis follow it, if it stays one."""
    data = known.get(call.args[0])
    axis = None if data is None else _axis_after(call, data)
    if data is None or axis is None:
        return None
    moved = Call(call.op, [data.expr, *call.args[1:]], call.attrs, call.span)
    return Affine(moved, data.scale, data.zero, axis)


def _axis_after(call: Call, data: Affine) -> int | None:
    """The axis of the scales of `data` after `call`; None if it is cut up."""
    if data.scale.size == 1:
        return data.axis
    before, after = tensor_type_of(data.expr).shape, tensor_type_of(call).shape
    axis = data.axis % len(before)
    if is_call(call, "transpose"):
        axes = call.attrs["axes"] or range(len(before))[::-1]
        return [a % len(before) for a in axes].index(axis)
    if is_call(call, "reshape") and before[: axis + 1] == after[: axis + 1]:
        return axis
    return None


@rule_of("concatenate")
def _concatenated(call: Call, known: Known) -> Affine | None:
    """Values that mean the same are put side by side as they are."""
    (parts,) = call.args
    if not isinstance(parts, Tuple) or any(known.get(field) is None for field in parts.fields):
        return None
    values = [value for value in map(known.get, parts.fields) if value is not None]
    if values[0].scale.size != 1 or not all(value.means_the_same(values[0]) for value in values):
        return None
    return values[0].like(rebuild(call, (Tuple([value.expr for value in values]),)))


def rule_for(op: Op) -> Rule | None:
    """The effect of `op` on integers that stand for its inputs; None where it is not known."""
    own = next(iter(rule_of.rules(op)), None)
    if own is None and op.quantized:
        return _product
    return _moved if own is None and (op.rearranges or op.picks) else own
