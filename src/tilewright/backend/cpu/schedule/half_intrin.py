"""The tensor intrinsic of products of float16: sums of a few products in float16, which are added up in float32.

A vector has two products of each of its columns, as those of bfloat16 (`tir/dot_product.py`): a word of data is spread
over it. So sums are of every other product:

    for each tile of rows, in registers
      wide = 0                                             float32, [rows, 2 * columns]
      for each block of the depth
        sums = 0                                           float16
        for each pair of the block: sums += data pair, spread, * weights
        wide += sums
      c = the even columns of wide + the odd ones

A sum in float16 is of `_ADDED` products at most. Root of the mean square of errors of a product 1024 x 1024 x 1024 of
normal numbers, beside that of the results: 6.7e-4 for 16 products, 8.9e-4 for 32, 1.2e-3 for 64, 1.7e-3 for 128; 2.4e-3
with operands in bfloat16 and sums in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright import tir
from tilewright.tir import op

#: Products of a sum in float16. Adding it up in float32 takes about a quarter of the time of 32 multiply-adds.
_ADDED = 32

#: Products of one column in a vector.
_PAIR = 2


def half_statements(
    data: tir.Buffer, weight: tir.Buffer, sums: tir.Buffer, size: tuple[int, int], starts: Sequence[int], high: int
) -> tir.Stmt:
    """`sums` [rows, columns] of data [rows, depth] by weights [depth / 2, columns, 2], in tiles of `high` rows.

    `size` are the pairs of the depth and the float16 of a vector. Data and weights may be words of int32 for pairs.
    """
    depth, lanes = size
    tile = _Tile(data, weight, sums, high, lanes)
    regular = sum(start == index * high for index, start in enumerate(starts))
    index = tir.Var("tile", "int32")
    each = tir.For(index, op.const(0), op.const(regular), tir.ForKind.SERIAL, tile.statements(index * high, depth))
    found = [each] if regular > 1 else [tile.statements(op.const(0), depth)]
    found += [tile.statements(op.const(start), depth) for start in starts[regular:]]
    return tir.Allocate(tile.partial, tir.Allocate(tile.wide, tir.seq(*found)))


class _Tile:
    """The sums of `high` rows by all columns."""

    def __init__(self, data: tir.Buffer, weight: tir.Buffer, sums: tir.Buffer, high: int, lanes: int) -> None:
        self.data, self.weight, self.sums, self.high, self.lanes = data, weight, sums, high, lanes
        (columns,) = [extent.value for extent in sums.shape[1:] if isinstance(extent, tir.IntImm)]
        self.width = _PAIR * columns
        self.partial = tir.Buffer("partial", (high * self.width,), "float16", "local")
        self.wide = tir.Buffer("wide", (high * self.width,), "float32", "local")

    def statements(self, first: tir.Expr, depth: int) -> tir.Stmt:
        """The sums of the rows from `first` on, over so many pairs of the depth."""
        blocks, rest = divmod(depth, _ADDED)
        block = tir.Var("block", "int32")
        made = [self._each(lambda at: tir.BufferStore(self.wide, self._zero("float32"), self._at(at)))]
        if blocks:
            body = self._block(first, block * _ADDED, _ADDED)
            made.append(tir.For(block, op.const(0), op.const(blocks), tir.ForKind.SERIAL, body))
        if rest:
            made.append(self._block(first, op.const(blocks * _ADDED), rest))
        return tir.seq(*made, self._each(lambda at: self._result(first, at)))

    def _block(self, first: tir.Expr, start: tir.Expr, pairs: int) -> tir.Stmt:
        """Add the products of `pairs` from `start` on to the sums in float32."""
        pair = tir.Var("pair", "int32")
        zeros = self._each(lambda at: tir.BufferStore(self.partial, self._zero("float16"), self._at(at)))
        products = self._each(lambda at: self._multiply(first, start + pair, at))
        loop = tir.For(pair, op.const(0), op.const(pairs), tir.ForKind.SERIAL, products)
        return tir.seq(zeros, loop, self._each(self._widen))

    def _multiply(self, first: tir.Expr, pair: tir.Expr, at: int) -> tir.Stmt:
        kind, (row, column) = f"float16x{self.lanes}", divmod(at, self.width)
        if self.data.dtype == "int32":
            words = tir.Ramp(op.const(column // _PAIR), op.const(1), self.lanes // _PAIR)
            word = tir.Broadcast(tir.BufferLoad(self.data, (first + row, pair)), self.lanes // _PAIR)
            spread, weights = (
                op.call_intrin(kind, "reinterpret", x) for x in (word, tir.BufferLoad(self.weight, (pair, words)))
            )
        else:
            group = tir.Ramp(pair * _PAIR, op.const(1), _PAIR)
            both = tir.BufferLoad(self.data, (first + row, group))
            spread = tir.Shuffle((both,), [*range(_PAIR)] * (self.lanes // _PAIR))
            lane = tir.Ramp(op.const(0), op.const(1), self.lanes)
            weights = tir.BufferLoad(self.weight, (pair, op.const(column // _PAIR), lane))
        total = op.call_intrin(kind, "half_fma", spread, weights, tir.BufferLoad(self.partial, self._at(at)))
        return tir.BufferStore(self.partial, total, self._at(at))

    def _widen(self, at: int) -> tir.Stmt:
        more = tir.BufferLoad(self.partial, self._at(at)).astype(f"float32x{self.lanes}")
        return tir.BufferStore(self.wide, tir.BufferLoad(self.wide, self._at(at)) + more, self._at(at))

    def _result(self, first: tir.Expr, at: int) -> tir.Stmt:
        row, column = divmod(at, self.width)
        wide, count = tir.BufferLoad(self.wide, self._at(at)), self.lanes // _PAIR
        even, odd = (tir.Shuffle((wide,), [_PAIR * i + half for i in range(count)]) for half in range(_PAIR))
        where = (first + row, tir.Ramp(op.const(column // _PAIR), op.const(1), count))
        return tir.BufferStore(self.sums, even + odd, where)

    def _each(self, statement: Callable[[int], tir.Stmt]) -> tir.Stmt:
        """`statement` for each vector of the tile, by its first element."""
        return tir.seq(*(statement(at) for at in range(0, self.high * self.width, self.lanes)))

    def _at(self, first: int) -> tuple[tir.Expr, ...]:
        return (tir.Ramp(op.const(first), op.const(1), self.lanes),)

    def _zero(self, dtype: str) -> tir.Expr:
        return tir.Broadcast(op.const(0, dtype), self.lanes)
