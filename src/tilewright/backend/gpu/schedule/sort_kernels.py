"""Sorting rows on a device: merge sort within blocks, then by blocks that merge runs in memory.

    a row of at most a tile           one launch: the tile in shared memory, merged in rounds
    longer rows                       tiles are sorted, then runs merged two by two, a launch for each doubling
    few positions of longer rows      the first of each sorted tile are kept, until one tile holds what is left

An element's rank in two runs is its position in its own and the number of elements of the other that sort before it,
found by halving: those of the left run before their equals of the right, which keeps equal elements in order. Where
runs lie in memory, each block finds by halving where its part of the merged run begins in both ("merge path": Green,
McColl and Bader, ICS 2012).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright import tir
from tilewright.backend.gpu.schedule.attention_problem import quotient
from tilewright.backend.gpu.schedule.written_loops import bit_and, halved, kernel, power
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, IntImm, Var
from tilewright.tir.ir_builder import IRBuilder
from tilewright.tir.stmt import Allocate, BufferStore, For, ForKind, IfThenElse, Stmt, seq
from tilewright.tir.transform.thread_sync import DISTINCT
from tilewright.topi.rows import Rows
from tilewright.topi.sort import sort_key

#: What a tile is filled with, in blocks of the row: the key and the position of an element.
Pair = Callable[[IRBuilder, Any, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class SortTiling:
    """A block has `threads`, each of `elements` pairs."""

    threads: int
    elements: int

    @property
    def tile(self) -> int:
        """Pairs of a block."""
        return self.threads * self.elements


def longest_run(size: Any, tile: int) -> int:
    """Pairs that the rows in a tile have room for: a power of two, up to the tile."""
    return min(tile, 1 << max(size - 1, 0).bit_length()) if isinstance(size, int) else tile


def is_selected(count: int | None, tile: int) -> bool:
    """True if so few positions are wanted that keeping the first of each tile leaves a quarter at most."""
    return count is not None and 0 < 4 * count <= tile


class DeviceSort:
    """The kernels of one argsort of `source` along the axis of `rows`, its first `count` positions into `result`."""

    def __init__(
        self, source: Buffer, result: Buffer, axis: int, is_ascend: bool, count: int | None, tiling: SortTiling
    ) -> None:
        self.source, self.result, self.is_ascend, self.tiling = source, result, is_ascend, tiling
        self.rows = Rows(source.shape, axis)
        size = self.rows.size
        self.size: Any = size.value if isinstance(size, IntImm) else size
        self.count, self.kept = count, self.size if count is None else count
        self.key_type = sort_key(tir.const(0, source.dtype), is_ascend).dtype
        self.greatest = tir.const((1 << self.key_type.bits) - 1, self.key_type)

    def statement(self) -> Stmt:
        """All kernels in order."""
        tile = self.tiling.tile
        whole = self._tiles(longest_run(self.size, tile), self.size, self._read, self._show)
        if isinstance(self.size, int):
            return whole if self.size <= tile else self._long()
        return IfThenElse(op.convert(self.size) <= tile, whole, self._merged())

    def _long(self) -> Stmt:
        return self._selected() if is_selected(self.count, self.tiling.tile) else self._merged()

    # ------------------------------------------------------------------------------------------------ what is moved
    def _read(self, ib: IRBuilder, row: Any, number: Any) -> tuple[Any, Any]:
        position = self.rows.positions(ib, row)(number)
        return sort_key(ib.buffer_ptr(self.source)[position], self.is_ascend), number

    def _show(self, ib: IRBuilder, row: Any, rank: Any, key: Any, order: Any) -> None:
        """An entry of the result, as far as it is wanted."""
        with ib.if_scope(rank < self.kept):
            position = self.rows.positions(ib, row)(rank)
            ib.buffer_ptr(self.result)[position] = order.astype(self.result.dtype)

    def _pairs(self, name: str, *shape: Any) -> tuple[Buffer, Buffer]:
        """Memory of keys and of positions."""
        return Buffer(f"{name}_keys", shape, self.key_type), Buffer(f"{name}_order", shape, "int32")

    # ----------------------------------------------------------------------------------------------- within a block
    def _tiles(self, run: int, size: Any, read: Pair, write: Callable[..., None], filled: Any = None) -> Stmt:
        """A kernel that sorts tiles: of several rows of up to `run` pairs, or a part of one of `size`.

        `write(ib, row, rank, key, order)` takes each pair of a row, up to `filled` of them; where a row has several
        tiles, a rank counts from the tile's first element.
        """
        filled = size if filled is None else filled
        tile, several = self.tiling.tile, run < self.tiling.tile
        of_row = 1 if several else quotient(size, tile)

        def body(ib: IRBuilder, block: Expr, thread: Expr) -> None:
            memory = _Tile(ib, self, thread)

            def where(i: Any) -> tuple[Any, Any]:
                if several:
                    return block * (tile // run) + i // run, i % run
                return block // of_row, block % of_row * tile + i

            def load(i: Any) -> tuple[Any, Any]:
                row, number = where(i)
                inside = tir.all(number < size, *([row < self.rows.count] if several else []))
                found = ib.allocate(self.key_type, 1, "key", scope="local")
                order = ib.allocate("int32", 1, "order", scope="local")
                found[0], order[0] = self.greatest, 0
                with ib.if_scope(inside):
                    found[0], order[0] = read(ib, row, number)
                return found[0], order[0]

            memory.fill(load)
            memory.sort(run)

            def store(i: Any, key: Any, order: Any) -> None:
                row, number = where(i)
                with ib.if_scope(tir.all(number < filled, *([row < self.rows.count] if several else []))):
                    write(ib, row, number, key, order)

            memory.drain(store)

        count = quotient(self.rows.count, tile // run) if several else self.rows.count * of_row
        return kernel(count if not isinstance(count, IntImm) else count.value, self.tiling.threads, body)

    # --------------------------------------------------------------------------------------------- runs in memory
    def _merged(self) -> Stmt:
        """Tiles sorted, then runs merged two by two; the last launch writes the result."""
        tile, size = self.tiling.tile, self.size
        keys, order = self._pairs("runs", 2, self.rows.count, size)

        def keep(ib: IRBuilder, row: Any, number: Any, key: Any, position: Any) -> None:
            ib.buffer_ptr(keys)[0, row, number] = key
            ib.buffer_ptr(order)[0, row, number] = position

        passes = _doublings(size, tile)
        turn = Var("turn")
        doubled = self._merge(keys, order, turn, False)
        loop = For(turn, op.const(0), op.convert(passes - 1), ForKind.SERIAL, doubled, "", {})
        last = self._merge(keys, order, op.convert(passes - 1), True)
        return Allocate(keys, Allocate(order, seq(self._tiles(tile, size, self._read, keep), loop, last)))

    def _merge(self, keys: Buffer, order: Buffer, turn: Expr, last: bool) -> Stmt:
        """The launch number `turn` of those that merge runs: each block a tile of what they become."""
        tile, size = self.tiling.tile, op.convert(self.size)
        of_row = quotient(self.kept if last else self.size, tile)

        def body(ib: IRBuilder, block: Expr, thread: Expr) -> None:
            row, first = ib.let("row", block // of_row), ib.let("first", block % of_row * tile)
            half, run = ib.let("half", bit_and(turn, 1)), ib.let("run", power(turn) * tile)
            source, orders = ib.buffer_ptr(keys), ib.buffer_ptr(order)
            start = ib.let("start", first - bit_and(first, run * 2 - 1))
            middle = ib.let("middle", tir.minimum(start + run, size))
            end = ib.let("end", tir.minimum(start + run * 2, size))
            splits = ib.allocate("int32", 2, "splits", scope="shared")
            with ib.if_scope(thread < 2):
                diagonal = ib.let("diagonal", tir.minimum(first - start + thread * tile, end - start))
                splits[thread] = _split(ib, lambda i: source[half, row, i], start, middle, end, diagonal)
            total = ib.let("total", tir.minimum(tile, end - first))
            left = ib.let("left", splits[0])
            lefts = ib.let("lefts", splits[1] - left)
            rights = ib.let("rights", middle + (first - start) - left)
            memory = _Tile(ib, self, thread)

            def load(i: Any) -> tuple[Any, Any]:
                number = tir.select(i < lefts, start + left + i, rights + i - lefts)
                number = ib.let("number", tir.minimum(number, size - 1))
                return source[half, row, number], orders[half, row, number]

            memory.fill(load)
            memory.merge(lefts, total)

            def store(i: Any, key: Any, position: Any) -> None:
                with ib.if_scope(i < total):
                    if last:
                        self._show(ib, row, first + i, key, position)
                    else:
                        source[1 - half, row, first + i] = key
                        orders[1 - half, row, first + i] = position

            memory.drain(store)

        return kernel(self.rows.count * of_row, self.tiling.threads, body)

    # ------------------------------------------------------------------------------------------------ a few of many
    def _selected(self) -> Stmt:
        """The first of each tile, of those again, until a tile holds all that may be wanted.

        What fills the last tile up is behind all elements, and stays so, as it comes last.
        """
        tile, count = self.tiling.tile, self.count
        assert count is not None
        sizes, kernels = [self.size], list[Stmt]()
        made: list[tuple[Buffer, Buffer]] = []
        read: Pair = self._read
        while sizes[-1] > tile:
            tiles = -(-sizes[-1] // tile)
            keys, order = self._pairs(f"best{len(made)}", self.rows.count, tiles * count)
            made.append((keys, order))
            keep = _keeper(keys, order, count, tile)
            kernels.append(self._tiles(tile, sizes[-1], read, keep, filled=tiles * tile))
            read = _reader(keys, order)
            sizes.append(tiles * count)
        kernels.append(self._tiles(longest_run(sizes[-1], tile), sizes[-1], read, self._show))
        body = seq(*kernels)
        for keys, order in made:
            body = Allocate(keys, Allocate(order, body))
        return body


def _keeper(keys: Buffer, order: Buffer, count: int, tile: int) -> Callable[..., None]:
    """The store of the first `count` pairs of each tile."""

    def keep(ib: IRBuilder, row: Any, number: Any, key: Any, position: Any) -> None:
        with ib.if_scope(number % tile < count):
            at = number // tile * count + number % tile
            ib.buffer_ptr(keys)[row, at] = key
            ib.buffer_ptr(order)[row, at] = position

    return keep


def _reader(keys: Buffer, order: Buffer) -> Pair:
    return lambda ib, row, number: (ib.buffer_ptr(keys)[row, number], ib.buffer_ptr(order)[row, number])


def _doublings(size: Any, tile: int) -> Any:
    """The number of times that runs of a tile are merged two by two until one is the row."""
    if isinstance(size, int):
        return max(size - 1, 0).bit_length() - (tile.bit_length() - 1)
    steps = range(31 - tile.bit_length())  # as far as an index reaches
    return sum((tir.select(size > (tile << step), op.const(1), op.const(0)) for step in steps), start=op.const(0))


def _split(ib: IRBuilder, key: Callable[[Any], Any], start: Any, middle: Any, end: Any, diagonal: Any) -> Any:
    """The number of the first `diagonal` pairs of two merged runs that come from the left one."""
    low, high = (ib.allocate("int32", 1, name, scope="local") for name in ("low", "high"))
    low[0] = tir.maximum(diagonal - (end - middle), 0)
    high[0] = tir.minimum(diagonal, middle - start)
    with ib.while_loop(low[0] < high[0]):
        half = ib.let("center", (low[0] + high[0]) // 2)
        with ib.if_scope(key(start + half) <= key(middle + diagonal - 1 - half)):
            low[0] = half + 1
        with ib.else_scope():
            high[0] = half
    return low[0]


class _Tile:
    """The pairs of a block in shared memory, and those that a thread holds while all move."""

    def __init__(self, ib: IRBuilder, sort: DeviceSort, thread: Expr) -> None:
        self.ib, self.thread, self.tiling = ib, thread, sort.tiling
        tile, own = sort.tiling.tile, sort.tiling.elements
        self.keys = ib.allocate(sort.key_type, tile, "keys", scope="shared")
        self.order = ib.allocate("int32", tile, "order", scope="shared")
        self.key = ib.allocate(sort.key_type, own, "own_key", scope="local")
        self.position = ib.allocate("int32", own, "own_order", scope="local")
        self.target = ib.allocate("int32", own, "target", scope="local")

    def _each(self, body: Callable[[Any, Any], None]) -> None:
        """`body(element, index)` for each of the thread's pairs."""
        with self.ib.for_range(0, self.tiling.elements, name="element", kind="unrolled") as element:
            body(element, self.thread + element * self.tiling.threads)

    def fill(self, load: Callable[[Any], tuple[Any, Any]]) -> None:
        """Bring the pairs."""

        def one(_: Any, i: Any) -> None:
            self.keys[i], self.order[i] = load(i)

        self._each(one)

    def drain(self, store: Callable[[Any, Any, Any], None]) -> None:
        """Pass on the pairs, in the order they are in."""
        self._each(lambda _, i: store(i, self.keys[i], self.order[i]))

    def _moved(self, rank: Callable[[Any, Any], Any], moves: Callable[[Any], Any] | None = None) -> None:
        """Move each pair to its rank; only those for which `moves` holds."""

        def take(element: Any, i: Any) -> None:
            key = self.ib.let("key", self.keys[i])
            self.key[element], self.position[element] = key, self.order[i]
            self.target[element] = rank(i, key)

        self._each(take)
        element = Var("element")
        self.ib.emit(self._put(element, moves))

    def _put(self, element: Var, moves: Callable[[Any], Any] | None) -> Stmt:
        """The loop that stores what a thread holds: no two pairs have one rank."""
        at = (self.target[element],)
        body = seq(
            BufferStore(self.keys.buffer, self.key[element], at),
            BufferStore(self.order.buffer, self.position[element], at),
        )
        if moves is not None:
            body = IfThenElse(moves(self.thread + element * self.tiling.threads), body)
        count = op.const(self.tiling.elements)
        return For(element, op.const(0), count, ForKind.UNROLLED, body, "", {DISTINCT: True})

    def _before(self, key: Any, first: Any, length: Any, steps: Any, longest: Any, is_left: Any) -> Any:
        """The number of `length` sorted pairs from `first` on before `key`: equal ones are unless `is_left`."""
        ib = self.ib
        count = ib.allocate("int32", 1, "count", scope="local")
        count[0] = 0
        with ib.for_range(0, steps, name="step") as step:
            probe = ib.let("probe", count[0] + halved(longest, step))
            other = ib.let("other", self.keys[tir.maximum(first + tir.minimum(probe, length) - 1, 0)])
            found = tir.any(other < key, tir.all(op.logical_not(is_left), tir.eq(other, key)))
            count[0] = tir.select(tir.all(probe <= length, found), probe, count[0])
        return count[0]

    def sort(self, longest: int) -> None:
        """Sort the parts of `longest` pairs, a power of two, each for itself."""
        with self.ib.for_range(0, longest.bit_length() - 1, name="round") as turn:
            run = self.ib.let("run", power(turn))

            def rank(i: Any, key: Any) -> Any:
                inside = bit_and(i, run - 1)
                is_left = tir.eq(bit_and(i, run), 0)
                start = self.ib.let("own", i - inside)
                other = tir.select(is_left, start + run, start - run)
                before = self._before(key, other, run, turn + 1, run, is_left)
                return tir.minimum(start, other) + inside + before

            self._moved(rank)

    def merge(self, lefts: Any, total: Any) -> None:
        """Merge the first `lefts` of `total` pairs with the others."""
        tile = self.tiling.tile

        def rank(i: Any, key: Any) -> Any:
            is_left = i < lefts
            first, length = tir.select(is_left, lefts, 0), tir.select(is_left, total - lefts, lefts)
            before = self._before(key, first, length, tile.bit_length(), tile, is_left)
            return tir.select(is_left, i, i - lefts) + before

        self._moved(rank, lambda i: i < total)
