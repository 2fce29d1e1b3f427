"""Sums of products as products of matrices: convolutions, dense layers, stacks of matrices and einsums alike.

    out[n, f, y, x] = sum over (c, i, j) of image[n, c, y + i, x + j] * weight[f, c, i, j]

becomes, with m = f, n = (n, y, x) and k = (c, i, j),

    left[b, k, m]  = weight[m, c(k), i(k), j(k)]                  the operand of the rows
    right[b, k, n] = image[n(n), c(k), y(n) + i(k), x(n) + j(k)]  the operand of the columns, gathered (im2col)
    sums[b, m, n]  = sum over k of left[b, k, m] * right[b, k, n]
    out[n, f, y, x] = sums[0, f, (n, y, x)]

An axis of the result that only one operand reads is a row or a column, one that both read counts products (b). `left`
and `right` exist in shared memory only, tile by tile, so that the image is never copied (Chetlur et al., "cuDNN",
2014). Sizes are rounded up to whole tiles with zeros, so that the loops of a tile have no guards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import te, tir
from tilewright.te.cache import replace_op
from tilewright.te.rewrite import BodyRewriter
from tilewright.tir import op as tir_op
from tilewright.tir.dot_product import GROUP, dp4a, word_of, word_of_number
from tilewright.tir.expr import Add, Call, Cast, Expr, IntImm, Mul, ProducerLoad, Reduce, Sub, Var
from tilewright.tir.visitor import collect_vars
from tilewright.topi.schedule.access import producer_reads, reads_through, stride
from tilewright.topi.schedule.stages import extent_of, shape_of
from tilewright.topi.util import unflatten_index


@dataclass(frozen=True)
class Factors:
    """A reduction that sums products: its axes by what reads them, and its two factors.

    `columns` holds the axis along which the result lies in memory, where one operand alone reads that.
    """

    batch: tuple[te.IterVar, ...]
    rows: tuple[te.IterVar, ...]
    columns: tuple[te.IterVar, ...]
    depth: tuple[te.IterVar, ...]
    left: Expr
    right: Expr

    def sizes(self) -> tuple[int, int, int, int]:
        """Products, rows, columns and terms; symbolic ones as templates suppose them."""
        batch, rows, columns, depth = (
            math.prod(extent_of(iv) for iv in axes) for axes in (self.batch, self.rows, self.columns, self.depth)
        )
        return batch, rows, columns, depth


@dataclass(frozen=True)
class Product:
    """The stages of a product in a schedule; `totals` are sums of rows and of columns of operands."""

    left: te.Tensor
    right: te.Tensor
    sums: te.Tensor
    totals: tuple[te.Tensor, ...] = ()


def factors_of(tensor: te.Tensor, out: te.Tensor) -> Factors | None:
    """The factors of a reduction with the epilogue `out`; None where it is no sum of products with rows and columns."""
    op = tensor.op
    if not isinstance(op, te.ComputeOp) or not op.is_reduction or len(op.body) != 1:
        return None
    body = op.body[0]
    if not isinstance(body, Reduce) or body.combiner.name != "sum" or body.init:
        return None
    source = body.source[0]
    if not isinstance(source, Mul) or not all(_is_fixed(iv) for iv in op.reduce_axis):
        return None
    left, right = _conditioned(source.a, source.b, body.condition)
    if left is None or right is None:
        return None
    of_left, of_right = set(collect_vars(left)), set(collect_vars(right))
    if not all(iv.var in of_left and iv.var in of_right for iv in op.reduce_axis):
        return None
    both = [iv for iv in op.axis if (iv.var in of_left) == (iv.var in of_right)]
    rows = [iv for iv in op.axis if iv.var in of_left and iv.var not in of_right]
    columns = [iv for iv in op.axis if iv.var in of_right and iv.var not in of_left]
    if not rows or not columns:
        return None
    if _last_axis(tensor, out) in rows:
        rows, columns, left, right = columns, rows, right, left
    return Factors(tuple(both), tuple(rows), tuple(columns), _in_memory_order(tensor), left, right)


def _last_axis(tensor: te.Tensor, out: te.Tensor) -> te.IterVar | None:
    """The axis of `tensor` along which its epilogue lies in memory."""
    wide = [iv for iv in out.op.axis if extent_of(iv) > 1]
    if tensor.op is out.op or not wide:
        return wide[-1] if wide else None
    for load in _loads_of(tensor, out):
        for axis, index in zip(tensor.op.axis, load.indices, strict=True):
            if wide[-1].var in collect_vars(index):
                return axis
    return None


def _loads_of(tensor: te.Tensor, out: te.Tensor) -> list[ProducerLoad]:
    """The reads of `tensor` by its epilogue, by the axes of that."""
    return [load for load in reads_through(out, lambda t: t.op is tensor.op) if load.producer.op is tensor.op]


def _is_fixed(iv: te.IterVar) -> bool:
    return iv.dom is not None and isinstance(iv.dom.extent, IntImm)


def _conditioned(left: Expr, right: Expr, condition: Expr) -> tuple[Expr | None, Expr | None]:
    """The factors with the reduction's condition on one of them; None where it needs both."""
    if isinstance(condition, IntImm) and condition.value:
        return left, right
    needed = set(collect_vars(condition))
    if needed <= set(collect_vars(left)):
        return tir.if_then_else(condition, left, tir.const(0, left.dtype)), right
    if needed <= set(collect_vars(right)):
        return left, tir.if_then_else(condition, right, tir.const(0, right.dtype))
    return None, None


def _in_memory_order(tensor: te.Tensor) -> tuple[te.IterVar, ...]:
    """The axes of the reduction, that along which operands lie in memory last."""
    axes = [*tensor.op.reduce_axis, *tensor.op.axis]
    loads = producer_reads(tensor)

    def step(iv: te.IterVar) -> int:
        steps = [stride(load, iv, axes) for load in loads if extent_of(iv) > 1]
        return max((abs(found) for found in steps if found), default=1 << 60)

    return tuple(sorted(tensor.op.reduce_axis, key=step, reverse=True))


@dataclass(frozen=True)
class Centred:
    """A factor that is `value` less the number `zero`, or 0 where the condition `inside` fails."""

    value: Expr
    zero: int = 0
    inside: tuple[Expr, ...] = ()


def centred(factors: Factors) -> tuple[Centred, Centred]:
    """Both factors, of which those that are bytes less a number come apart."""
    depth = {iv.var for iv in factors.depth}
    left, right = (_as_bytes(factor, depth) or Centred(factor) for factor in (factors.left, factors.right))
    return left, right


def _as_bytes(factor: Expr, depth: set[Var]) -> Centred | None:
    """A factor as a byte less a number; None where it is none, or some of the terms of a row are 0 instead."""
    value, zero, inside = _inlined(factor), 0, list[Expr]()
    while isinstance(value, Call) and value.op == "if_then_else" and tir.is_const(value.args[2], 0):
        inside.append(value.args[0])
        value = _inlined(value.args[1])
    if isinstance(value, (Add, Sub)) and isinstance(number := _inlined(value.b), IntImm):
        zero = number.value if isinstance(value, Sub) else -number.value
        value = _inlined(value.a)
    if not isinstance(value, Cast) or value.value.dtype.itemsize > 1 or value.dtype != "int32":
        return None
    byte = value.value
    if zero and any(depth & set(collect_vars(condition)) for condition in inside):
        return None
    for condition in reversed(inside):
        byte = tir.if_then_else(condition, byte, tir.const(0, byte.dtype))
    return Centred(byte, zero, tuple(inside))


def in_words(factors: Factors) -> tuple[Centred, Centred] | None:
    """Both factors, where they are bytes less numbers that are bytes too, so that words hold four terms."""
    sides = centred(factors)
    for side in sides:
        dtype = str(side.value.dtype)
        if dtype not in ("int8", "uint8") or (side.zero and side.inside):
            return None
        if tir_op.wrap(side.zero, side.value.dtype) != side.zero:
            return None
    return sides


def _inlined(value: Expr) -> Expr:
    """The value computed for an element of a stage, or of a stage that this reads as it is."""
    while isinstance(value, ProducerLoad) and isinstance(value.producer.op, te.ComputeOp):
        op = value.producer.op
        if op.is_reduction or len(op.body) != 1:
            break
        value = BodyRewriter({iv.var: i for iv, i in zip(op.axis, value.indices, strict=True)})(op.body[0])
    return value


def split_product(
    s: te.Schedule,
    tensor: te.Tensor,
    factors: Factors,
    tile: tuple[int, int, int],
    parts: int = 1,
    sides: tuple[Centred, Centred] | None = None,
    words: bool = False,
) -> Product:
    """Put the product's stages before that of `tensor`, which then reads the sums; sizes are multiples of `tile`.

    `tile` are rows, columns and terms. With several `parts` the terms are divided among them, so that there are sums
    of each, as of so many products more, and `tensor` adds them up (split-K). `sides` are the factors where these come
    apart into bytes and numbers. With `words` terms are words of four bytes each, and `tile` counts those.
    """
    sides = sides or (Centred(factors.left), Centred(factors.right))
    op = tensor.op
    assert isinstance(op, te.ComputeOp)
    groups = (factors.batch, factors.rows, factors.columns, factors.depth)
    one = tir.const(1, te.index_dtype())
    batch, rows, columns, depth = (math.prod([_extent(iv) for iv in axes], start=one) for axes in groups)
    group = GROUP if words else 1
    steps = (tile[0], tile[1], tile[2] * parts * group)
    m, n, terms = (_rounded(size, step) for size, step in zip((rows, columns, depth), steps))
    k = tir.const(terms.value // group, terms.dtype)

    def operand(source: Expr, own: Sequence[te.IterVar], size: Any, padded: Any, name: str) -> te.Tensor:
        def element(b: Any, term: Any, position: Any) -> Any:
            values = {**_values(factors.batch, b), **_values(own, position), **_values(factors.depth, term)}
            value = BodyRewriter(values)(_stored(source))
            inside = [i < whole for i, whole, up in ((term, depth, terms), (position, size, padded)) if up is not whole]
            return tir.if_then_else(tir.all(*inside), value, tir.const(0, value.dtype)) if inside else value

        def word(b: Any, term: Any, position: Any) -> Any:
            return word_of([element(b, term * group + i, position) for i in range(group)])

        return te.compute((batch, k, padded), word if words else element, name=name)

    left = operand(sides[0].value, factors.rows, rows, m, f"{op.name}.left")
    right = operand(sides[1].value, factors.columns, columns, n, f"{op.name}.right")
    term, wide, own = te.reduce_axis((0, k // parts), "k"), op.body[0].dtype, k // parts

    def sum_of_products(z: Any, i: Any, j: Any) -> Any:
        b, first = (z // parts, z % parts * own) if parts > 1 else (z, 0)
        factors = left(b, first + term, i), right(b, first + term, j)
        product = _of_words(factors, sides) if words else factors[0].astype(wide) * factors[1].astype(wide)
        return te.sum(product, axis=term)

    sums = te.compute((batch * parts, m, n), sum_of_products, name=f"{op.name}.sums")
    product, row, column = (_flat(group) for group in groups[:3])
    part = te.reduce_axis((0, parts), "part")
    whole = te.sum(sums(product * parts + part, row, column), axis=part) if parts > 1 else sums(product, row, column)
    with_totals = [(side, other) for side, other in ((left, sides[1]), (right, sides[0])) if other.zero and not words]
    totals = {side: _totals(side, wide) for side, _ in with_totals}
    if totals or (words and sides[0].zero and sides[1].zero):
        read = {side: totals[side](product, at) for side, at in ((left, row), (right, column)) if side in totals}
        whole = whole + _correction(read.get(left), read.get(right), sides, depth.astype(wide))
    _read_instead(s, tensor, whole, (left, right, sums, *totals.values()), [part] if parts > 1 else [])
    return Product(left, right, sums, tuple(totals.values()))


def _read_instead(
    s: te.Schedule, tensor: te.Tensor, whole: Expr, made: Sequence[te.Tensor], parts: Sequence[te.IterVar] = ()
) -> None:
    """Put the stages that were `made` before that of `tensor`, whose value is then `whole`, a sum over `parts`."""
    op, stage = tensor.op, s[tensor]
    assert isinstance(op, te.ComputeOp)
    position = s.stages.index(stage)
    for offset, one in enumerate(made):
        s.insert(position + offset, one.op)
    stage.leaf_iter_vars, stage.relations, stage.attrs = [*op.axis, *parts], [], {}
    replace_op(s, stage, te.ComputeOp(op.name, op.axis, [whole], "", {}, op.position))


def split_by_axis(s: te.Schedule, tensor: te.Tensor, factors: Factors, tile: tuple[int, int]) -> Product:
    """Put the product's stages before that of `tensor`, as `split_product` does, with each axis of the terms apart.

    Rows and columns are multiples of `tile`: behind the last one it is read again.
    """
    op = tensor.op
    assert isinstance(op, te.ComputeOp)
    one = tir.const(1, te.index_dtype())
    groups = (factors.batch, factors.rows, factors.columns)
    batch, rows, columns = (math.prod([_extent(iv) for iv in axes], start=one) for axes in groups)
    terms = [te.reduce_axis((0, _extent(iv)), iv.var.name) for iv in factors.depth]

    def operand(source: Expr, own: Sequence[te.IterVar], size: Any, padded: Any, name: str) -> te.Tensor:
        def element(b: Any, *at: Any) -> Any:
            position = at[-1] if padded is size else tir_op.minimum(at[-1], size - 1)
            values = {**_values(factors.batch, b), **_values(own, position)}
            values |= {iv.var: tir.convert(index) for iv, index in zip(factors.depth, at[:-1], strict=True)}
            return BodyRewriter(values)(_stored(source))

        return te.compute((batch, *[_extent(iv) for iv in factors.depth], padded), element, name=name)

    m, n = (_rounded(size, step) for size, step in zip((rows, columns), tile))
    left = operand(factors.left, factors.rows, rows, m, f"{op.name}.left")
    right = operand(factors.right, factors.columns, columns, n, f"{op.name}.right")
    wide = op.body[0].dtype

    def sum_of_products(b: Any, i: Any, j: Any) -> Any:
        return te.sum(left(b, *terms, i).astype(wide) * right(b, *terms, j).astype(wide), axis=terms)

    sums = te.compute((batch, m, n), sum_of_products, name=f"{op.name}.sums")
    _read_instead(s, tensor, sums(*(_flat(group) for group in groups)), (left, right, sums))
    return Product(left, right, sums)


def _of_words(factors: tuple[Expr, Expr], sides: tuple[Centred, Centred]) -> Expr:
    """The products of four terms; what is subtracted from the bytes of a side counts as often as the other's bytes.

    sum (a - p) (b - q) = sum a b - sum a q - sum p b + K p q, of which the last is added to all sums at once
    """
    (a, b), (p, q) = factors, (word_of_number(side.zero, str(side.value.dtype)) for side in sides)
    zero = tir.const(0, "int32")
    less = [dp4a(zero, x, y) for x, y, side in ((a, q, sides[1]), (p, b, sides[0])) if side.zero]
    return dp4a(tir.const(0, "int32") - sum(less[1:], start=less[0]) if less else zero, a, b)


def _correction(of_row: Expr | None, of_column: Expr | None, sides: tuple[Centred, Centred], depth: Expr) -> Expr:
    """The correction for numbers subtracted from bytes, by the totals of a row and of a column.

    sum (a - p) (b - q) = sum a b - q sum a - p sum b + K p q
    """
    p, q = (tir.const(side.zero, depth.dtype) for side in sides)
    found: Expr = depth * p * q
    if of_row is not None:
        found = found - of_row * q
    if of_column is not None:
        found = found - of_column * p
    inside = [*sides[0].inside, *sides[1].inside]
    return tir.if_then_else(tir.all(*inside), found, tir.const(0, depth.dtype)) if inside else found


def _totals(operand: te.Tensor, wide: Any) -> te.Tensor:
    """The sum of all terms of each row, or column, of an operand."""
    batch, terms, count = operand.shape
    term = te.reduce_axis((0, terms), "k")
    return te.compute(
        (batch, count), lambda b, i: te.sum(operand(b, term, i).astype(wide), axis=term), name=f"{operand.name}.totals"
    )


def _stored(source: Expr) -> Expr:
    """A factor in the type that it is read in: what widens it stands behind the copy in shared memory."""
    return source.value if isinstance(source, Cast) and source.value.dtype.itemsize < source.dtype.itemsize else source


def _rounded(size: Expr, step: int) -> Any:
    if isinstance(size, IntImm):
        return size if size.value % step == 0 else tir.const(-(-size.value // step) * step, size.dtype)
    return (size + (step - 1)) // step * step


def _values(axes: Sequence[te.IterVar], flat: Any) -> Mapping[Var, Expr]:
    """The value of each axis at the position `flat` of all of them."""
    if len(axes) == 1:
        return {axes[0].var: flat}
    sizes = [extent if not isinstance(extent := _extent(iv), IntImm) else extent.value for iv in axes]
    return {iv.var: tir.convert(index) for iv, index in zip(axes, unflatten_index(flat, sizes), strict=True)}


def _flat(axes: Sequence[te.IterVar]) -> Any:
    """The number of the element at a position along `axes`."""
    found: Any = tir.const(0, te.index_dtype())
    for iv in axes:
        if not tir_op.is_const(_extent(iv), 1):  # else its position is 0, and bounds of fused symbolic axes are found
            found = found * _extent(iv) + iv.var
    return found


def _extent(iv: te.IterVar) -> Expr:
    assert iv.dom is not None
    return iv.dom.extent


def loops_of(out: te.Tensor, tensor: te.Tensor, factors: Factors) -> tuple[list[te.IterVar], ...] | None:
    """The axes of `out`, an epilogue of `tensor`, that stand for products, rows and columns, each in order.

    None where elements of `out` do not stand for one element of the sums each.
    """
    if out.op is tensor.op:
        return list(factors.batch), list(factors.rows), list(factors.columns)
    loads = _loads_of(tensor, out)
    if len(set(loads)) != 1 or math.prod(shape_of(out)) > math.prod(shape_of(tensor)):
        return None
    groups: tuple[list[te.IterVar], ...] = ([], [], [])
    found: dict[Var, int] = {}
    for axis, index in zip(tensor.op.axis, loads[0].indices, strict=True):
        number = next(i for i, own in enumerate((factors.batch, factors.rows, factors.columns)) if axis in own)
        for var in collect_vars(index):
            if found.setdefault(var, number) != number:
                return None
    for iv in out.op.axis:
        if iv.var in found:
            groups[found[iv.var]].append(iv)
        elif extent_of(iv) == 1:
            groups[0].append(iv)
        else:
            return None
    return groups


def tiles_in_order(out: te.Tensor, tensor: te.Tensor, factors: Factors, groups: tuple[list[te.IterVar], ...]) -> bool:
    """True if the axes of `out` in `groups` stand, one by one and with known sizes, for those of the sums in order."""
    own = (factors.batch, factors.rows, factors.columns)
    if out.op is tensor.op:
        indices: dict[te.IterVar, Expr] = {iv: iv.var for iv in tensor.op.axis}
    else:
        indices = dict(zip(tensor.op.axis, _loads_of(tensor, out)[0].indices, strict=True))
    for axes, group in zip(own, groups, strict=True):
        wide = [iv for iv in axes if extent_of(iv) > 1]
        outer = [iv for iv in group if extent_of(iv) > 1]
        if not all(_is_fixed(iv) for iv in (*wide, *outer)) or [indices[iv] for iv in wide] != [iv.var for iv in outer]:
            return False
        if [extent_of(iv) for iv in wide] != [extent_of(iv) for iv in outer]:
            return False
    return True
