"""The tensor intrinsics of products and convolutions in matrix registers (AMX, `tir/matrix_tiles.py`).

A step multiplies up to 16 rows of up to 64 bytes of data by as many bytes of the depth of 16 columns. Rows that are no
multiple of 16 are cut into tiles of one height, the last of which overlaps the one before: its rows are computed twice,
to the same bits. Of a convolution a row is a pixel of the result, whose bytes begin `stride` pixels behind those of its
neighbour; taps that are neighbours in memory are one run of the depth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tilewright import te, tir
from tilewright.backend.cpu.schedule.half_intrin import half_statements
from tilewright.tir import op
from tilewright.tir.dot_product import GROUP, SUMS
from tilewright.tir.matrix_tiles import PRODUCTS, ROW_BYTES, ROWS, tile_load, tile_product, tile_store, tile_zero
from tilewright.tir.visitor import substitute

#: Registers by what they hold: sums, data, weights.
_SUMS, _DATA, _WEIGHTS = range(4), (4, 5), (6, 7)

#: An index that is known, or computed in a loop; the line and the first pixel of a tile.
Number = tir.Expr | int
Position = tuple[Number, Number]


def tile_starts(rows: int, most: int = ROWS) -> tuple[int, list[int]]:
    """The height of the tiles of `most` rows or fewer that `rows` are cut into, and the first row of each."""
    count = -(-rows // most)
    high = -(-rows // count)
    return high, [min(i * high, rows - high) for i in range(count)]


def step_bytes(run: int) -> int:
    """Bytes of one step of a run of so many bytes of the depth: the most of which it is a multiple."""
    return max(size for size in range(GROUP, ROW_BYTES + 1, GROUP) if run % size == 0)


class Group(NamedTuple):
    """`times` the sums of `down` tiles of rows by `across` panels of 16 columns, from tile `first` on."""

    first: int
    times: int
    down: int
    across: int


def tile_groups(tiles: int, regular: int, panels: int) -> list[Group]:
    """The tiles whose sums are in registers at once: equal groups of the `regular` ones, then those left."""
    across = next(n for n in (2, 1) if panels % n == 0)
    down = len(_SUMS) // across
    count = regular // down
    left = tiles - count * down
    wide = len(_SUMS) if left == 1 and panels % len(_SUMS) == 0 else across
    groups = Group(0, count, down, across), Group(count * down, 1, left, wide)
    return [group for group in groups if group.times and group.down]


def tile_intrin(
    rows: int, columns: int, depth: int, data_dtype: str, weight_dtype: str, halves: tuple[int, int] = (0, 0)
) -> te.TensorIntrin:
    """c[i, j] = sum over k < `depth` of data[i, k] * weight[k / g, j, k % g] in matrix registers (AMX).

    `columns` are a multiple of 16, `depth` one of g, of which 4 bytes are made. Of float16 it is in vectors of so many
    `halves`, for tiles of as many rows at most (`half_intrin`).
    """
    size, wide = SUMS[data_dtype]
    data = te.placeholder((rows, depth), data_dtype, name="data")
    weight = te.placeholder((depth // size, columns, size), weight_dtype, name="weight")
    outer, inner = _axes((depth // size, "outer"), (size, "inner"))

    def element(i: tir.Expr, j: tir.Expr) -> tir.Expr:
        row, group = (0 if rows == 1 else i), _value(outer)
        value = data[row, group * size + inner].astype(wide) * weight[group, j, inner].astype(wide)
        return te.sum(value, axis=[axis for axis in (outer, inner) if isinstance(axis, te.IterVar)])

    c = te.compute((rows, columns), element, name="tile")
    high, starts = tile_starts(rows)
    step = step_bytes(depth * GROUP // size) // GROUP * size

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tuple[tir.Stmt, None, None]:
        (data, weight), (sums,) = ins, outs
        if data_dtype == "float16":
            lanes, most = halves
            tall, tops = tile_starts(rows, most)
            return half_statements(data, weight, sums, (depth // size, lanes), tops, tall), None, None
        k = tir.Var("k", "int32")
        product = _Product(
            PRODUCTS[data_dtype, weight_dtype],
            high,
            columns // ROWS,
            step // size * GROUP,
            lambda position, row, _: tir.BufferLoad(data, _index(position[1] + row, k * step)),
            lambda group, column, _: tir.BufferLoad(weight, _index(k * (step // size) + group, column, 0)),
            lambda position, row, column: tir.BufferLoad(sums, _index(position[1] + row, column)),
            [(k, depth // step)],
        )
        return product.statements(1, starts), None, None

    return te.decl_tensor_intrin(c.op, statements, name=f"tile_{rows}x{columns}x{depth}_{data_dtype}_{weight_dtype}")


def matrix_statements(
    data: tir.Buffer, weight: tir.Buffer, sums: tir.Buffer, sizes: tuple[int, int, int], dtype: str
) -> tir.Stmt:
    """`sums` of data [rows, words] by weights [words, columns], int32 of which each holds several of `dtype`."""
    rows, columns, words = sizes
    high, starts = tile_starts(rows)
    step, k = step_bytes(words * GROUP) // GROUP, tir.Var("k", "int32")
    product = _Product(
        PRODUCTS[dtype, dtype],
        high,
        columns // ROWS,
        step * GROUP,
        lambda position, row, _: tir.BufferLoad(data, _index(position[1] + row, k * step)),
        lambda group, column, _: tir.BufferLoad(weight, _index(k * step + group, column)),
        lambda position, row, column: tir.BufferLoad(sums, _index(position[1] + row, column)),
        [(k, words // step)],
    )
    return product.statements(1, starts)


@dataclass(frozen=True)
class Window:
    """The sums of a tile of a convolution: [height, width, columns] of `blocks` of input channels and all taps.

    `block` channels of a pixel lie side by side.
    """

    height: int
    width: int
    columns: int
    blocks: int
    block: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]

    def reach(self, axis: int) -> int:
        """Rows or columns of the image that are read."""
        outputs = (self.height, self.width)[axis]
        return (outputs - 1) * self.strides[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1

    def runs(self) -> tuple[int, int]:
        """The elements of a run of the depth that lie side by side for one row of taps, and the number of runs."""
        joined = self.kernel[1] if self.dilation[1] == 1 else 1
        return joined * self.block, self.kernel[1] // joined

    def tiles(self, flat: bool) -> tuple[int, int, list[int]]:
        """The number of lines of pixels, the height of the tiles that each is cut into, and the first pixel of each.

        `flat` says that the pixels of all rows lie side by side in the image, so that they are one line.
        """
        lines, pixels = (1, self.height * self.width) if flat else (self.height, self.width)
        return lines, *tile_starts(pixels)


def window_intrin(window: Window, flat: bool, data_dtype: str, weight_dtype: str) -> te.TensorIntrin:
    """The sums of `window` in matrix registers (AMX): data [blocks, rows, columns, block] by weights
    [blocks, taps down, taps across, block / g, columns, g], g elements of 4 bytes.
    """
    size, wide = SUMS[data_dtype]
    (down, across), groups = window.kernel, window.block // size
    shape = (window.blocks, window.reach(0), window.reach(1), window.block)
    data = te.placeholder(shape, data_dtype, name="data")
    weight = te.placeholder((window.blocks, down, across, groups, window.columns, size), weight_dtype, name="weight")
    axes = _axes((window.blocks, "block"), (down, "ry"), (across, "rx"), (groups, "group"), (size, "inner"))

    def element(i: tir.Expr, j: tir.Expr, lane: tir.Expr) -> tir.Expr:
        block, ry, rx, group, inner = map(_value, axes)
        row = (0 if window.height == 1 else i) * window.strides[0] + ry * window.dilation[0]
        column = (0 if window.width == 1 else j) * window.strides[1] + rx * window.dilation[1]
        value = data[block, row, column, group * size + inner].astype(wide)
        value = value * weight[block, ry, rx, group, lane, inner].astype(wide)
        return te.sum(value, axis=[axis for axis in axes if isinstance(axis, te.IterVar)])

    c = te.compute((window.height, window.width, window.columns), element, name="window")

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tuple[tir.Stmt, None, None]:
        kind = PRODUCTS[data_dtype, weight_dtype]
        return _window_statements(window, flat, kind, size, ins, outs[0]), None, None

    facts = (*shape, *window.kernel, window.height, window.width, *window.strides, *window.dilation, window.columns)
    name = f"window_{'x'.join(map(str, facts))}{'_flat' * flat}_{data_dtype}_{weight_dtype}"
    return te.decl_tensor_intrin(c.op, statements, name=name)


def _window_statements(
    window: Window, flat: bool, kind: str, size: int, ins: Sequence[tir.Buffer], sums: tir.Buffer
) -> tir.Stmt:
    (data, weight), groups = ins, window.block // size
    lines, high, starts = window.tiles(flat)
    run, runs = window.runs()
    step = step_bytes(run * GROUP // size) // GROUP * size
    block, ry, rx = (tir.Var(name, "int32") for name in ("block", "ry", "rx"))

    def element(position: Position, row: int, part: int) -> tir.BufferLoad:
        (y, x), (tap, channel) = position, divmod(part * step, window.block)
        line = y * window.strides[0] + ry * window.dilation[0]
        column = (x + row) * window.strides[1] + (rx * window.dilation[1] if runs > 1 else tap)
        return tir.BufferLoad(data, _index(block, line, column, channel))

    def weights(group: int, column: Number, part: int) -> tir.BufferLoad:
        tap, group = divmod(part * (step // size) + group, groups)
        return tir.BufferLoad(weight, _index(block, ry, rx if runs > 1 else tap, group, column, 0))

    def sum_of(position: Position, row: int, column: Number) -> tir.BufferLoad:
        return tir.BufferLoad(sums, _index(position[0], position[1] + row, column))

    loops = [(block, window.blocks), (ry, window.kernel[0]), (rx, runs)]
    panels, width = window.columns // ROWS, step // size * GROUP
    return _Product(kind, high, panels, width, element, weights, sum_of, loops, run // step).statements(lines, starts)


@dataclass(frozen=True)
class _Product:
    """A product as steps of matrix registers: tiles of `high` rows by `panels` of 16 columns, `step` bytes deep.

    `data(position, row, part)` and `weights(group of 4 bytes, column, part)` are the elements that rows of registers
    begin with in one of the `parts` of the depth that `loops` (variables and extents, outermost first) leave;
    `sums(position, row, column)` are those of the result. A position is a line and the first pixel of a tile in it.
    """

    kind: str
    high: int
    panels: int
    step: int
    data: Callable[[Position, int, int], tir.BufferLoad]
    weights: Callable[[int, Number, int], tir.BufferLoad]
    sums: Callable[[Position, int, Number], tir.BufferLoad]
    loops: Sequence[tuple[tir.Var, int]]
    parts: int = 1

    def statements(self, lines: int, starts: Sequence[int]) -> tir.Stmt:
        """The sums of all tiles; where a line is one tile, neighbouring lines are in registers at once."""
        if len(starts) == 1:
            return self._line(lines, lines, lambda tile: (tile, 0))
        y = tir.Var("line", "int32")
        regular = sum(start == tile * self.high for tile, start in enumerate(starts))
        body = self._line(
            len(starts), regular, lambda tile: (y, starts[tile] if isinstance(tile, int) else tile * self.high)
        )
        return _loops([(y, lines)], body)

    def _line(self, tiles: int, regular: int, position: Callable[[Number], Position]) -> tir.Stmt:
        """All sums of `tiles`, the `regular` ones of which follow one another evenly."""
        found = []
        for group in tile_groups(tiles, regular, self.panels):
            index, panel = tir.Var("group", "int32"), tir.Var("panel", "int32")
            first: Number = index * group.down if group.times > 1 else group.first
            rows = [position(first + i) for i in range(group.down)]
            columns = [(panel * group.across + j) * ROWS for j in range(group.across)]
            around = [(index, group.times), (panel, self.panels // group.across)]
            found.append(_loops(around, self._sums(rows, columns)))
        return tir.seq(*found)

    def _sums(self, rows: Sequence[Position], columns: Sequence[tir.Expr]) -> tir.Stmt:
        registers = {(i, j): _SUMS[i * len(columns) + j] for i in range(len(rows)) for j in range(len(columns))}
        body = tir.seq(*(self._step(registers, rows, columns, part) for part in range(self.parts)))
        second = min(1, self.high - 1)
        stores = [
            tile_store(register, self.high, self.sums(rows[i], 0, columns[j]), self.sums(rows[i], second, columns[j]))
            for (i, j), register in registers.items()
        ]
        zeros = [tile_zero(register, self.high) for register in registers.values()]
        return tir.seq(*zeros, _loops(self.loops, body), *stores)

    def _step(
        self,
        registers: Mapping[tuple[int, int], int],
        rows: Sequence[Position],
        columns: Sequence[tir.Expr],
        part: int,
    ) -> tir.Stmt:
        """The products of one step; what does not fit its registers all at once is loaded before each product."""
        kept = [self._load_data(i, row, part) for i, row in enumerate(rows)] if len(rows) <= len(_DATA) else []
        found = kept
        for j, column in enumerate(columns):
            found = [*found, self._load_weights(j, column, part)]
            for i, row in enumerate(rows):
                found += [] if kept else [self._load_data(i, row, part)]
                found += [tile_product(registers[i, j], _of(_DATA, i), _of(_WEIGHTS, j), self.kind)]
        return tir.seq(*found)

    def _load_data(self, i: int, position: Position, part: int) -> tir.Stmt:
        first, second = (self.data(position, row, part) for row in (0, min(1, self.high - 1)))
        return tile_load(_of(_DATA, i), self.high, first, second, self.step)

    def _load_weights(self, j: int, column: tir.Expr, part: int) -> tir.Stmt:
        groups = self.step // GROUP
        first, second = (self.weights(group, column, part) for group in (0, min(1, groups - 1)))
        return tile_load(_of(_WEIGHTS, j), groups, first, second)


def _loops(variables: Sequence[tuple[tir.Var, int]], body: tir.Stmt) -> tir.Stmt:
    """`body` in loops, outermost first, without those of one iteration."""
    for var, extent in reversed(variables):
        if extent == 1:
            body = substitute(body, {var: op.const(0)})
        else:
            body = tir.For(var, op.const(0), op.const(extent), tir.ForKind.SERIAL, body)
    return body


def _of(registers: tuple[int, ...], number: int) -> int:
    return registers[number % len(registers)]


def _axes(*extents: tuple[int, str]) -> list[te.IterVar | int]:
    """Reduction axes; 0 for an extent of 1, of which an intrinsic has no axis."""
    return [te.reduce_axis((0, extent), name) if extent > 1 else 0 for extent, name in extents]


def _value(axis: te.IterVar | int) -> tir.Expr:
    return op.const(axis) if isinstance(axis, int) else axis.var


def _index(*parts: Number) -> tuple[tir.Expr, ...]:
    return tuple([op.const(part) if isinstance(part, int) else part for part in parts])
