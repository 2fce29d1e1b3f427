"""Sorting along an axis: which positions the elements come from, by radix sort, or by keeping the best of a few.

Elements become unsigned keys whose order is the one wanted: NaN above all numbers, -0 and 0 equal. Pairs of a key and
its position are dealt into buckets by one digit of the key after another, from the last on, which leaves equal keys in
order (radix sort: Knuth, The Art of Computer Programming 3, 5.2.5). Digits that all keys share are skipped. Few pairs
are sorted by insertion. Where few positions are wanted, a row is read once: what is better than the worst one kept is
collected, and sorted together with those kept whenever it is many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import te, tir
from tilewright.support.dtype import DType
from tilewright.te import Tensor, index_dtype
from tilewright.tir.buffer import Buffer
from tilewright.tir.ir_builder import IRBuilder
from tilewright.tir.size_hint import size_hint
from tilewright.tir.stmt import Stmt
from tilewright.topi import tag
from tilewright.topi.rows import Rows
from tilewright.topi.util import normalize_axis

#: Pairs up to which insertion is faster than dealing into buckets.
_INSERTED = 32
#: Bits of a digit: 256 buckets. With 2048 a million elements take twice as long, as buckets leave the caches.
_DIGIT = 8
#: A row of at least this many times the positions wanted is searched for them, not sorted.
_SEARCHED = 4
#: Lanes of the comparison that finds blocks without anything better.
_LANES = 16

Key = Callable[[Any], Any]


def argsort(
    x: Tensor, axis: int = -1, is_ascend: bool = True, dtype: str = "int32", count: int | None = None
) -> Tensor:
    """The first `count` (default: all) positions that sort x along `axis`; equal elements in order, NaN the greatest.

    An axis of symbolic size must have `count` elements; whoever runs the kernel checks it.
    """
    rows = Rows(x.shape, normalize_axis(axis, x.ndim))
    kept = rows.size if count is None else tir.const(count, index_dtype())
    few = count is not None and size_hint(rows.size) >= _SEARCHED * count

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = tir.ir_builder.create()
        source, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, rows.count, name="row", kind="parallel") as row:
            position = rows.positions(ib, row)

            def key(i: Any) -> Any:
                return sort_key(source[position(i)], is_ascend)

            pairs = _best(ib, key, rows, count) if few and count is not None else _all(ib, key, rows.size)
            with ib.for_range(0, kept, name="rank") as rank:
                result[position(rank)] = pairs.position(rank).astype(dtype)
        return ib.get()

    shape = (*x.shape[: rows.axis], kept, *x.shape[rows.axis + 1 :])
    facts = {"axis": rows.axis, "is_ascend": is_ascend, "count": count}
    return te.extern(shape, [x], body, name="T_argsort", dtype=dtype, tag=tag.SORT, attrs=facts)


# ----------------------------------------------------------------------------------------------------------- keys
def sort_key(x: Any, ascending: bool) -> Any:
    """An unsigned integer that is less where `x` sorts before; NaN is above infinity, and both zeros are equal."""
    if x.dtype.is_float and x.dtype.bits < 32:
        x = x.astype("float32")
    if x.dtype.is_bool or x.dtype.is_narrow:
        x = x.astype("uint8" if x.dtype.is_bool else "int8" if "int" in x.dtype else "float32")
    bits = x.dtype.bits
    dtype = f"uint{bits}"
    top, every = tir.const(1 << (bits - 1), dtype), tir.const((1 << bits) - 1, dtype)
    if not x.dtype.is_float:
        key = x if x.dtype.code == "uint" else _xor(tir.reinterpret(dtype, x), top)
        return key if ascending else _xor(key, every)
    zero = tir.const(0, x.dtype)
    pattern = tir.reinterpret(dtype, tir.select(tir.eq(x, zero), zero, x))
    key = _xor(pattern, tir.select(tir.less(pattern, top), top, every))
    key = tir.select(tir.isnan(x), every, key)
    return key if ascending else _xor(key, every)


def _xor(a: Any, b: Any) -> Any:
    return tir.call_intrin(a.dtype, "bitwise_xor", a, b)


# ---------------------------------------------------------------------------------------------------------- pairs
class _Pairs:
    """Up to `capacity` pairs of a key and a position, with room to deal them into, under construction's hands."""

    def __init__(self, ib: IRBuilder, dtype: str, capacity: Any) -> None:
        self.ib, self.capacity, self.dtype = ib, capacity, dtype
        self.digits, self.buckets = DType(dtype).bits // _DIGIT, 1 << _DIGIT
        self.keys = ib.allocate(dtype, capacity * 2, "keys")
        self.order = ib.allocate(index_dtype(), capacity * 2, "order")
        self.ends = ib.allocate(index_dtype(), self.digits * self.buckets, "ends")
        self.start = ib.allocate(index_dtype(), 1, "start", scope="local")  # of the half that holds the pairs
        self.start[0] = 0

    def position(self, rank: Any) -> Any:
        """The position of the pair number `rank`."""
        return self.order[self.start[0] + rank]

    def sort(self, size: Any) -> None:
        """Sort the first `size` pairs, equal keys by the order they are in."""
        with self.ib.if_scope(size <= _INSERTED):
            self._insert(size)
        with self.ib.else_scope():
            self._count(size)
            for digit in range(self.digits):
                self._deal(size, digit)

    def gather(self, size: Any) -> None:
        """Move the first `size` pairs to the first half, where more can be added."""
        ib = self.ib
        with ib.if_scope(self.start[0] > 0):
            with ib.for_range(0, size, name="i") as i:
                self.keys[i] = self.keys[self.capacity + i]
                self.order[i] = self.order[self.capacity + i]
            self.start[0] = 0

    def _insert(self, size: Any) -> None:
        ib, keys, order = self.ib, self.keys, self.order
        hole = ib.allocate(index_dtype(), 1, "hole", scope="local")
        with ib.for_range(1, size, name="i") as i:
            key, position = ib.let("key", keys[i]), ib.let("position", order[i])
            hole[0] = i
            self.insert(hole, key, position)

    def insert(self, hole: Any, key: Any, position: Any) -> None:
        """Put a pair where it belongs among those before position hole[0], which move up; `hole` is used up."""
        keys, order = self.keys, self.order
        with self.ib.while_loop(tir.all(hole[0] > 0, key < keys[tir.maximum(hole[0] - 1, 0)])):
            keys[hole[0]] = keys[hole[0] - 1]
            order[hole[0]] = order[hole[0] - 1]
            hole[0] = hole[0] - 1
        keys[hole[0]] = key
        order[hole[0]] = position

    def _digit(self, key: Any, digit: int) -> Any:
        """The position, among all buckets, of the one that a key's digit names."""
        shifted = tir.call_intrin(self.dtype, "shift_right", key, tir.const(digit * _DIGIT, self.dtype))
        own = tir.call_intrin(self.dtype, "bitwise_and", shifted, tir.const(self.buckets - 1, self.dtype))
        return own.astype(index_dtype()) + digit * self.buckets

    def _count(self, size: Any) -> None:
        """Count the keys of each digit."""
        ib = self.ib
        with ib.for_range(0, self.digits * self.buckets, name="bucket") as bucket:
            self.ends[bucket] = 0
        with ib.for_range(0, size, name="i") as i:
            key = ib.let("key", self.keys[i])
            for digit in range(self.digits):
                position = ib.let("position", self._digit(key, digit))
                self.ends[position] = self.ends[position] + 1

    def _deal(self, size: Any, digit: int) -> None:
        """Deal the pairs by one digit into the other half, unless all of them have the same."""
        ib, ends = self.ib, self.ends
        total = ib.allocate(index_dtype(), 1, "total", scope="local")
        with ib.if_scope(ends[self._digit(self.keys[self.start[0]], digit)] < size):
            total[0] = 0
            with ib.for_range(0, self.buckets, name="bucket") as bucket:
                here = ib.let("here", ends[digit * self.buckets + bucket])
                ends[digit * self.buckets + bucket] = total[0]
                total[0] = total[0] + here
            source = ib.let("source", self.start[0])
            target = ib.let("target", self.capacity - source)
            with ib.for_range(0, size, name="i") as i:
                key = ib.let("key", self.keys[source + i])
                position = ib.let("position", self._digit(key, digit))
                end = ib.let("end", ends[position])
                ends[position] = end + 1
                self.keys[target + end] = key
                self.order[target + end] = self.order[source + i]
            self.start[0] = target


# ---------------------------------------------------------------------------------------------------------- rows
def _all(ib: IRBuilder, key: Key, size: Any) -> _Pairs:
    """All pairs of a row, sorted."""
    pairs = _Pairs(ib, key(0).dtype, size)
    with ib.for_range(0, size, name="i") as i:
        pairs.keys[i] = key(i)
        pairs.order[i] = i
    pairs.sort(size)
    return pairs


def _best(ib: IRBuilder, key: Key, rows: Rows, count: int) -> _Pairs:
    """The `count` first pairs of a row, sorted: blocks of it that hold anything better are added to those kept."""
    block = 128 if rows.contiguous and size_hint(rows.size) >= 1024 else _LANES
    kept = (_Sorted if count <= _INSERTED else _Collected)(ib, key(0).dtype, count, block)
    with ib.for_range(0, (rows.size + (block - 1)) // block, name="block") as number:
        first = ib.let("first", number * block)
        end = ib.let("end", tir.minimum(first + block, rows.size))
        with (
            ib.if_scope(_holds_better(ib, key, first, rows, block, kept)),
            ib.for_range(0, end - first, name="i") as i,
        ):
            candidate = ib.let("candidate", key(first + i))
            with ib.if_scope(tir.any(kept.full[0] < 1, candidate < kept.limit[0])):
                kept.add(candidate, first + i)
        kept.end_block(end >= rows.size)
    return kept.pairs


class _Sorted:
    """The few best pairs so far, always sorted: one more is inserted."""

    def __init__(self, ib: IRBuilder, dtype: str, count: int, block: int) -> None:
        self.ib, self.count = ib, count
        self.pairs = _Pairs(ib, dtype, tir.const(count, index_dtype()))
        self.fill, self.full, self.hole = (
            ib.allocate(index_dtype(), 1, name, scope="local") for name in ("fill", "full", "hole")
        )
        self.limit = ib.allocate(dtype, 1, "limit", scope="local")
        self.fill[0], self.full[0], self.limit[0] = 0, 0, 0

    def add(self, key: Any, position: Any) -> None:
        """Insert a pair that is among the best."""
        self.hole[0] = tir.minimum(self.fill[0], self.count - 1)
        self.pairs.insert(self.hole, key, position)
        self.fill[0] = self.fill[0] + 1
        with self.ib.if_scope(self.fill[0] >= self.count):
            self.full[0] = 1
            self.limit[0] = self.pairs.keys[self.count - 1]

    def end_block(self, last: Any) -> None:
        """Nothing is left to do behind a block."""


class _Collected(_Sorted):
    """The best pairs so far, sorted, and behind them what may be better: sorted with them when it is many."""

    def __init__(self, ib: IRBuilder, dtype: str, count: int, block: int) -> None:
        super().__init__(ib, dtype, count, block)
        self.pairs = _Pairs(ib, dtype, tir.const(2 * count + block, index_dtype()))

    def add(self, key: Any, position: Any) -> None:
        """Put a pair behind the others."""
        self.pairs.keys[self.fill[0]] = key
        self.pairs.order[self.fill[0]] = position
        self.fill[0] = self.fill[0] + 1

    def end_block(self, last: Any) -> None:
        """Sort where there is no room for a block more, and at the end."""
        with self.ib.if_scope(tir.any(self.fill[0] > 2 * self.count, last)):
            self.pairs.sort(self.fill[0])
            self.pairs.gather(self.count)
            self.fill[0], self.full[0] = self.count, 1
            self.limit[0] = self.pairs.keys[self.count - 1]


def _holds_better(ib: IRBuilder, key: Key, first: Any, rows: Rows, block: int, kept: _Sorted) -> Any:
    """The condition that a block may hold a key below the limit: tested in vectors if its elements are neighbours."""
    better = ib.allocate("int32", 1, "better", scope="local")
    better[0] = 1
    if block == _LANES:
        return better[0] > 0
    least = ib.allocate(kept.limit.dtype, _LANES, "least", scope="local")
    with ib.if_scope(tir.all(kept.full[0] > 0, first + block <= rows.size)):
        with ib.for_range(0, _LANES, name="lane", kind="vectorized") as lane:
            least[lane] = key(first + lane)
        with (
            ib.for_range(1, block // _LANES, name="vector") as vector,
            ib.for_range(0, _LANES, name="lane", kind="vectorized") as lane,
        ):
            least[lane] = tir.minimum(least[lane], key(first + vector * _LANES + lane))
        better[0] = 0
        with ib.for_range(0, _LANES, name="lane") as lane, ib.if_scope(least[lane] < kept.limit[0]):
            better[0] = 1
    return better[0] > 0


# --------------------------------------------------------------------------------------------------- searchsorted
def searchsorted(rows: Tensor, values: Tensor, right: bool = False, dtype: str = "int32") -> Tensor:
    """The number of elements of the sorted last axis of `rows` that lie before each value (with `right`, or are equal
    to it).

    By halving the stretch that holds the position.
    """

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = tir.ir_builder.create()
        elements, wanted, result = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
        queries = Rows((*values.shape, tir.const(1, index_dtype())), values.ndim)
        with ib.for_range(0, queries.count, name="query", kind="parallel") as query:
            *position, _ = queries.positions(ib, query)(0)
            row = position[:-1] if rows.ndim > 1 else []
            value = ib.let("value", wanted[tuple(position)])
            low, high = (ib.allocate(index_dtype(), 1, name, scope="local") for name in ("low", "high"))
            low[0], high[0] = 0, rows.shape[-1]
            with ib.while_loop(low[0] < high[0]):
                middle = ib.let("middle", (low[0] + high[0]) // 2)
                element = ib.let("element", elements[(*row, middle)])
                before = element <= value if right else element < value
                if values.dtype.is_float:  # NaN is the greatest
                    last = tir.isnan(value)
                    before = tir.any(before, last if right else tir.all(last, tir.eq(element, element)))
                with ib.if_scope(before):
                    low[0] = middle + 1
                with ib.else_scope():
                    high[0] = middle
            result[tuple(position)] = low[0].astype(dtype)
        return ib.get()

    return te.extern(values.shape, [rows, values], body, name="T_searchsorted", dtype=dtype, tag=tag.EXTERN)
