"""Integer products whose operands are bytes less a zero point, as dot products of bytes.

Before: %0 = subtract(cast(%x, "int32"), 131); nn.dense(%0, w)                        %x: uint8, w: int32 that fits int8
After:  %0 = nn.contrib_dense_int8(%x, layout_transform(cast(w, "int8"), "NC", "NC32n4c"));
        subtract(%0, 131 * sum(w, axis=1))

The sums are the same numbers: sum (x - p) (w - q) = sum x w - p sum w - q sum x + K p q, in integers that wrap around
alike. What depends on weights alone is computed at compile time; p may be known at run time only. Signs are changed
where the instruction of the target wants others (`Backend.dot_operands`): x - p is (x ^ 128) - (p - 128). One that
multiplies 16-bit numbers gets x - p itself, which the kernel that computes x writes so.

Convolutions keep their padding, with the zero point around the image; input channels are padded to groups of four,
filters to blocks. A
depthwise convolution, whose products do not meet in sums, becomes one of 16-bit integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rebuild, rewrite
from tilewright.relay.op import nn
from tilewright.relay.op.reduce import sum as sum_of
from tilewright.relay.op.tensor import add, cast, multiply, subtract, where
from tilewright.relay.op.transform import concatenate, layout_transform, reshape, strided_slice
from tilewright.relay.transform.quantize.few_bit_weights import few_bit_dense, has_few_values
from tilewright.relay.transform.quantize.pair_order import pair_order
from tilewright.relay.transform.simplify.fold_constant import ANY_SIZE, fold_call
from tilewright.relay.transform.simplify.make import first_of, is_call
from tilewright.relay.transform.simplify.rule_index import RuleIndex
from tilewright.tir.dot_product import GROUP, SUMS
from tilewright.tir.size_hint import size_hint
from tilewright.tir.table_lookup import ENTRIES
from tilewright.topi.winograd import exact_below


def dot_products(mod: IRModule, backend: GraphBackend) -> IRModule:
    """Rewrite the int32 products that `backend` has dot products for; see the module's docstring."""
    types = backend.dot_operands()
    if types is None:
        return mod

    def rule(node: Expr) -> Expr | None:
        found = rule_of.rules(node.op) if isinstance(node, Call) else ()
        if not isinstance(node, Call) or not found or tensor_type_of(node).dtype != "int32":
            return None
        left, right = map(centred_bytes, node.args)
        if left is None or right is None:
            return None
        return found[0](node, left, right, _Wanted(backend, *types))

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, rule))))


@dataclass(frozen=True)
class _Wanted:
    """The backend and the operand types of its dot product; with `in_pairs` sums of two products fit 16 bits."""

    backend: GraphBackend
    data: str
    weight: str
    in_pairs: bool = False

    @property
    def group(self) -> int:
        """Elements that lie side by side in weights."""
        return SUMS[self.data][0]

    def of(self, weights: np.ndarray, axis: int) -> _Wanted:
        """The operands that meet constant bytes: unsigned ones where the target gains by sums of two neighbours along
        `axis` in 16 bits, and none of them can exceed these. With weights of 7 bits none can, whatever they meet.
        """
        if not self.backend.dots_in_pairs():
            return self
        wide = np.moveaxis(weights, axis, -1).astype(np.int32)
        limits = np.iinfo(np.int16)
        above, below = (255 * (part[..., ::2] + part[..., 1::2]) for part in (wide.clip(min=0), wide.clip(max=0)))
        fits = above.max(initial=0) <= limits.max and below.min(initial=0) >= limits.min
        return replace(self, data="uint8", in_pairs=True) if fits else self


_Rule = Callable[[Call, "Bytes", "Bytes", _Wanted], Expr | None]
rule_of: RuleIndex[_Rule] = RuleIndex()


@dataclass(frozen=True)
class Bytes:
    """Bytes `expr` that stand for expr - zero, which is one number, known now or (an int32 scalar) at run time.

    Or 16-bit numbers, whose zero is 0.
    """

    expr: Expr
    zero: int | Expr = 0

    @property
    def dtype(self) -> str:
        """int8, uint8 or int16."""
        return str(tensor_type_of(self.expr).dtype)

    def through(self, function: Callable[[Expr], Expr]) -> Bytes:
        """The same numbers, their bytes moved by `function`."""
        return Bytes(_folded(function(self.expr)), self.zero)

    def as_type(self, dtype: str) -> Bytes:
        """The same numbers as bytes of the other sign, or in 16 bits."""
        if self.dtype == dtype:
            return self
        if dtype == "int16":
            return Bytes(_short(self))
        step = 128 if dtype == "uint8" else -128
        moved = add(cast(self.expr, "int16"), Constant(np.asarray(step, "int16")))
        zero = self.zero + step if isinstance(self.zero, int) else add(self.zero, _int32(step))
        return Bytes(_folded(cast(moved, dtype)), zero)


def centred_bytes(expr: Expr) -> Bytes | None:
    """`expr`, bytes or int32, as bytes less a zero point; None if it is no such thing."""
    value = constant_value(expr)
    if value is not None:
        return _constant_bytes(value)
    if str(tensor_type_of(expr).dtype) in ("int8", "uint8"):
        return Bytes(expr)
    if is_call(expr, "cast"):
        (data,) = expr.args  # type: ignore[attr-defined]
        return Bytes(data) if str(tensor_type_of(data).dtype) in ("int8", "uint8") else None
    if is_call(expr, "subtract"):
        data, zero = expr.args  # type: ignore[attr-defined]
        found = centred_bytes(data)
        if found is None or tensor_type_of(zero).size != 1 or found.zero != 0:
            return None
        known = constant_value(zero)
        return Bytes(found.expr, reshape(zero, ()) if known is None else int(known.reshape(-1)[0]))
    if isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.rearranges:
        found = centred_bytes(expr.args[0])
        return None if found is None else found.through(lambda data: rebuild(expr, (data,)))
    return None


def _constant_bytes(value: np.ndarray) -> Bytes | None:
    """Constant integers as bytes: of either sign, or moved to where they fit."""
    if value.dtype.kind not in "iu" or value.size == 0:
        return None
    low, high = int(value.min()), int(value.max())
    if high - low > 255:
        return None
    if low >= -128 and high <= 127:
        return Bytes(Constant(value.astype(np.int8)))
    zero = 0 if low >= 0 and high <= 255 else -low
    return Bytes(Constant((value.astype(np.int64) + zero).astype(np.uint8)), zero)


def constant_value(expr: Expr) -> np.ndarray | None:
    """The value of an expression of constants, however large."""
    if not _is_constant(expr):
        return None
    values: dict[Expr, np.ndarray] = {}
    stack = [expr]  # by hand: data comes through all layers before it
    while stack:
        node = stack.pop()
        if isinstance(node, Constant):
            values[node] = node.data
        if node in values:
            continue
        if not isinstance(node, Call) or not node.args:
            return None
        missing = [arg for arg in node.args if arg not in values]
        if missing:
            stack += [node, *missing]
            continue
        found = fold_call(Call(node.op, [Constant(values[arg]) for arg in node.args], node.attrs), limit=ANY_SIZE)
        if not isinstance(found, Constant):
            return None
        values[node] = found.data
    return values[expr]


def _is_constant(expr: Expr) -> bool:
    """True for an expression of calls and constants. It follows first operands, by which inputs are found soon."""
    stack, seen = [expr], {expr}
    while stack:
        node = stack.pop()
        if isinstance(node, Constant):
            continue
        if not isinstance(node, Call) or not node.args:
            return False
        following = [arg for arg in node.args if arg not in seen]
        seen.update(following)
        stack += reversed(following)
    return True


def _folded(expr: Expr) -> Expr:
    value = constant_value(expr)
    return expr if value is None else Constant(value)


def _int32(value: int | np.ndarray) -> Constant:
    return Constant(np.asarray(value, np.int64).astype(np.int32))


# ------------------------------------------------------------------------------------------------------ products
@rule_of("nn.dense")
def _dense(call: Call, data: Bytes, weight: Bytes, wanted: _Wanted) -> Expr | None:
    if not isinstance(weight.expr, Constant) or not isinstance(weight.zero, int):
        return None
    few = _few_bits(data, weight.expr.data.astype(np.int32) - weight.zero, wanted.backend)
    if few is not None:
        return few
    weight = weight.as_type(wanted.weight)
    assert isinstance(weight.expr, Constant)
    units, depth = weight.expr.data.shape
    rows = size_hint(math.prod(tensor_type_of(data.expr).shape[:-1]))
    if units < _fewest_columns(wanted.backend):
        return None
    values = _extended(weight.expr.data, (_missing(units, wanted.backend), -depth % GROUP))
    width, deep = values.shape
    wanted = wanted.of(values, 1)
    assert isinstance(weight.zero, int)
    columns = weight.expr.data.sum(axis=1, dtype=np.int64)
    ordered = None if wanted.in_pairs else _in_order(data, values, wanted.backend)
    if ordered is not None:
        data, product, added = ordered
        product = _less_columns(first_of(product, units), columns, data.zero, weight.zero, depth, added[:units])
        return _less_rows(product, data, weight.zero)
    data = data.as_type(wanted.data)
    layout = f"NC{wanted.backend.dot_block(width, deep, rows)}n{wanted.group}c"
    packed = layout_transform(Constant(values), "NC", layout)
    rows_of_bytes, leading = _in_last_axis(_lengthened(data.expr, -1, -depth % GROUP))
    product = nn.contrib_dense_int8(rows_of_bytes, packed, layout, wanted.in_pairs, leading)
    product = first_of(product, units)
    product = _less_columns(product, columns, data.zero, weight.zero, depth)
    return _less_rows(product, data, weight.zero)


def _in_last_axis(data: Expr) -> tuple[Expr, tuple[int, ...]]:
    """Rows [R, 1, K] as [R, K], of which tiles can be in matrix registers, and the axes that the result has instead."""
    *leading, depth = tensor_type_of(data).shape
    if leading[-1] != 1 or len(leading) == 1 or not all(isinstance(size, int) for size in leading):
        return data, ()
    return reshape(data, (math.prod(leading), depth)), tuple(leading)


def _in_order(data: Bytes, weights: np.ndarray, backend: GraphBackend) -> tuple[Bytes, Expr, np.ndarray] | None:
    """The data and their product in pairs, in an order of the depth for each panel of weights, and what is to be added
    to its columns; None where there is no such order, or none that is worth it.
    """
    units, depth = weights.shape
    *rows, found = tensor_type_of(data.expr).shape
    if not all(isinstance(size, int) for size in rows) or found != depth or depth % ENTRIES:
        return None
    best, chosen, layout = 1.0, None, ""
    for block, share in backend.ordered_blocks(units, depth, math.prod(rows)):
        if share < best:
            order = pair_order(weights, block)
            time = share * order.weights.shape[1] / depth
            if time < best:
                best, chosen, layout = time, order, f"NC{block}n{GROUP}c"
    if chosen is None:
        return None
    data = data.as_type("uint8")
    parts = [strided_slice(data.expr, [ENTRIES * i], [ENTRIES * (i + 1)], axes=[-1]) for i in chosen.copies]
    whole = concatenate([data.expr, *parts], axis=-1) if parts else data.expr
    packed = layout_transform(Constant(chosen.weights), "NC", layout)
    whole, leading = _in_last_axis(whole)
    product = nn.contrib_dense_int8_ordered(whole, packed, Constant(chosen.order), layout, leading)
    return data, product, chosen.added


def _few_bits(data: Bytes, weight: np.ndarray, backend: GraphBackend) -> Expr | None:
    """The product from the bits of weights of few values, where that costs less."""
    if not has_few_values(weight):
        return None
    data = data.as_type("uint8")
    product = few_bit_dense(data.expr, weight, backend)
    columns = weight.sum(axis=1, dtype=np.int64)
    return None if product is None else _less_columns(product, columns, data.zero, 0, weight.shape[1])


@rule_of("nn.batch_matmul")
def _batch_matmul(call: Call, a: Bytes, b: Bytes, wanted: _Wanted) -> Expr | None:
    if call.attrs["transpose_a"]:
        return None
    layout = "BNC" if call.attrs["transpose_b"] else "BCN"
    shape = dict(zip(layout, tensor_type_of(b.expr).shape, strict=True))
    depth, units, rows = shape["C"], shape["N"], size_hint(tensor_type_of(a.expr).shape[1])
    if not isinstance(depth, int) or not isinstance(units, int) or units < _fewest_columns(wanted.backend):
        return None
    a, b = a.as_type(wanted.data), b.as_type(wanted.weight)
    extra, deeper = _missing(units, wanted.backend), -depth % GROUP
    panels = f"BNC{wanted.backend.dot_block(units + extra, depth + deeper, rows)}n{wanted.group}c"
    whole = _lengthened(_lengthened(b.expr, layout.index("N"), extra), layout.index("C"), deeper)
    packed = layout_transform(whole, layout, panels)
    product = first_of(nn.contrib_batch_matmul_int8(_lengthened(a.expr, -1, deeper), packed, panels), units)
    if a.zero != 0:
        columns = sum_of(cast(b.expr, "int32"), axis=[layout.index("C")], keepdims=False)
        columns = reshape(columns, (*tensor_type_of(columns).shape[:1], 1, units))
        product = subtract(product, multiply(_scalar(a.zero), columns))
    product = _less_rows(product, a, b.zero)
    if a.zero == 0 or b.zero == 0:
        return product
    return add(product, multiply(multiply(_scalar(a.zero), _scalar(b.zero)), _int32(depth)))


def _scalar(zero: int | Expr) -> Expr:
    return _int32(zero) if isinstance(zero, int) else zero


def _less_columns(
    product: Expr, columns: np.ndarray, zero: int | Expr, weight_zero: int, depth: int, added: np.ndarray | None = None
) -> Expr:
    """product - zero * (columns - depth * weight_zero) + added, where `columns` are the sums of the weights."""
    centred = columns - depth * weight_zero
    known = (zero * centred if isinstance(zero, int) else 0) - (0 * centred if added is None else added)
    product = subtract(product, _int32(known)) if known.any() else product
    if isinstance(zero, int) or not centred.any():
        return product
    return subtract(product, multiply(zero, _int32(centred)))


def _less_rows(product: Expr, data: Bytes, zero: int | Expr) -> Expr:
    """product - zero * the sums of the rows of the data."""
    if zero == 0:
        return product
    rows = sum_of(cast(data.expr, "int32"), axis=[-1], keepdims=True)
    return subtract(product, multiply(_scalar(zero), rows))


def _fewest_columns(backend: GraphBackend) -> int:
    """Columns that are worth vectors: a quarter of one."""
    return max(2, backend.lanes() // 4)


def _missing(units: int, backend: GraphBackend) -> int:
    """Columns to add to `units` that leave half vectors at least."""
    lanes = backend.lanes()
    return 0 if units % max(4, lanes // 2) == 0 else -units % lanes


def _missing_filters(filters: int, backend: GraphBackend) -> int:
    """Filters to add to those of a convolution that come in no blocks, so that they do: to whole vectors if there are
    as many, to fours otherwise; none to fewer than four."""
    if filters < GROUP or backend.channel_block(filters) is not None:
        return 0
    lanes = min(16, backend.lanes())
    return -filters % (lanes if filters >= lanes and lanes % 4 == 0 else 4)


def _lengthened(data: Expr, axis: int, more: int) -> Expr:
    """`data` with zeros behind its end along an axis."""
    ndim = tensor_type_of(data).ndim
    widths = [(0, more if d == axis % ndim else 0) for d in range(ndim)]
    return _folded(nn.pad(data, widths)) if more else data


def _extended(value: np.ndarray, more: tuple[int, ...]) -> np.ndarray:
    return np.pad(value, [(0, n) for n in more])


# -------------------------------------------------------------------------------------------------- convolutions
@rule_of("nn.conv2d")
def _conv2d(call: Call, data: Bytes, kernel: Bytes, wanted: _Wanted) -> Expr | None:
    attrs = call.attrs
    plain = (attrs["data_layout"], attrs["kernel_layout"]) == ("NCHW", "OIHW") and attrs["out_layout"] in ("", "NCHW")
    if not plain or not isinstance(kernel.expr, Constant) or not isinstance(kernel.zero, int):
        return None
    if attrs["groups"] > 1:
        return _depthwise(call, data, kernel)
    kernel = kernel.as_type(wanted.weight)
    assert isinstance(kernel.expr, Constant)
    filters = kernel.expr.data.shape[0]
    extra = _missing_filters(filters, wanted.backend)
    if wanted.backend.channel_block(filters + extra) is None:
        return None
    more = -kernel.expr.data.shape[1] % GROUP
    weights = Constant(_extended(kernel.expr.data, (extra, more, 0, 0)))
    wanted = wanted.of(weights.data, 1)
    small_sums = wanted.data == "int16" and _small_sums(data, weights.data, attrs["strides"])
    data = data.as_type(wanted.data)
    padding, image = tuple(attrs["padding"]), data.expr
    if not isinstance(data.zero, int) and any(padding):
        image, padding = _surrounded(data, padding), (0, 0, 0, 0)
    product: Expr = nn.contrib_conv2d_int8(
        _lengthened(image, 1, more),
        weights,
        attrs["strides"],
        padding,
        attrs["dilation"],
        pad_value=data.zero if isinstance(data.zero, int) else 0,
        in_pairs=wanted.in_pairs,
        small_sums=small_sums,
    )
    product = first_of(product, filters, axis=1)
    channels = kernel.expr.data.sum(axis=(1, 2, 3), dtype=np.int64).reshape(-1, 1, 1)
    assert isinstance(kernel.zero, int)
    product = _less_columns(product, channels, data.zero, kernel.zero, kernel.expr.data[0].size)
    if kernel.zero == 0:
        return product
    return subtract(product, multiply(_int32(kernel.zero), _window_sums(call, image, data.zero, padding)))


def _small_sums(data: Bytes, weights: np.ndarray, strides: Sequence[int]) -> bool:
    """True if no sum of products of the data with a filter exceeds what Winograd is exact below, whatever the bytes."""
    if not isinstance(data.zero, int):
        return False
    info = np.iinfo(data.dtype)
    low, high = info.min - data.zero, info.max - data.zero
    above, below = (part.sum(axis=(1, 2, 3), dtype=np.int64) for part in (weights.clip(min=0), weights.clip(max=0)))
    largest = max(int((above * high + below * low).max()), -int((above * low + below * high).min()))
    return -256 < low <= 0 <= high < 256 and largest < exact_below(weights.shape[2:], strides)


def _window_sums(call: Call, image: Expr, zero: int | Expr, padding: tuple[int, ...]) -> Expr:
    """The sum of the bytes that each result of the convolution `call` sees, [N, 1, OH, OW]: of channels, then taps."""
    sums = sum_of(cast(image, "int32"), axis=[1], keepdims=True)
    if any(padding):
        assert isinstance(zero, int)
        top, left, bottom, right = padding
        beyond = zero * tensor_type_of(image).shape[1]
        sums = nn.pad(sums, ((0, 0), (0, 0), (top, bottom), (left, right)), beyond)
    taps = Constant(np.ones((1, 1, *tensor_type_of(call.args[1]).shape[2:]), np.int32))
    return nn.conv2d(sums, taps, strides=call.attrs["strides"], dilation=call.attrs["dilation"])


def _surrounded(data: Bytes, padding: tuple[int, ...]) -> Expr:
    """The images with their zero point around, which is known at run time only."""
    top, left, bottom, right = padding
    height, width = tensor_type_of(data.expr).shape[2:]
    padded = nn.pad(data.expr, ((0, 0), (0, 0), (top, bottom), (left, right)))
    inside = np.pad(np.ones((1, 1, height, width), bool), ((0, 0), (0, 0), (top, bottom), (left, right)))
    return where(Constant(inside), padded, cast(data.zero, data.dtype))  # type: ignore[arg-type]


def _depthwise(call: Call, data: Bytes, kernel: Bytes) -> Expr | None:
    """The convolution of 16-bit integers, half as much memory as 32, with sums in 32."""
    operands = [_short(operand) for operand in (data, kernel)]
    return Call(call.op, operands, call.attrs.replace(out_dtype="int32"), call.span)


def _short(operand: Bytes) -> Expr:
    """The numbers themselves in 16 bits, the zero point taken off."""
    wide, zero = cast(operand.expr, "int16"), operand.zero
    short = Constant(np.asarray(zero, "int16")) if isinstance(zero, int) else cast(zero, "int16")
    return _folded(wide if zero == 0 else subtract(wide, short))
