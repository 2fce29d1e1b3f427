"""A block's tile of one operand of a product: its form in shared memory, and the copies that bring it there.

The tile is a matrix of `lines`, each `length` elements long: the operand's rows along the depth, or its depths along
the rows where only these are neighbours in memory ("transposed"). A chunk of 16 bytes is the unit of `ldmatrix`; the
chunks of a line are permuted by the line's number, so that eight lines that are loaded at once lie in different banks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.arith.linear import Linear, conjuncts
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Var
from tilewright.tir.stmt import Allocate, BufferStore, For, ForKind, IfThenElse, Stmt, seq
from tilewright.tir.tensor_core import CHUNK, effect
from tilewright.tir.visitor import collect_vars, substitute

#: The widths of an asynchronous copy in bytes.
WIDTHS = (16, 8, 4)


@dataclass(frozen=True)
class Operand:
    """One factor: `value` for each `row` and `depth`, zero where a condition fails or `depth` is not below `extent`."""

    value: Expr
    row: Var
    depth: Var
    extent: Expr
    conditions: tuple[Expr, ...]

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.value.dtype.itemsize

    def source(self) -> tuple[BufferLoad, tuple[Expr, ...]] | None:
        """The load that the value is, and the conditions that it has; None where it is computed from loads."""
        value, conditions = self.value, list(self.conditions)
        while isinstance(value, Call) and value.op == "if_then_else" and op.is_const(value.args[2], 0):
            conditions += conjuncts(value.args[0])
            value = value.args[1]
        return (value, tuple(conditions)) if isinstance(value, BufferLoad) else None


@dataclass(frozen=True)
class TileForm:
    """`rows` x `depth` elements of an operand, copied `width` elements at a time; 0: computed element by element."""

    operand: Operand
    rows: int
    depth: int
    width: int
    transposed: bool

    @property
    def lines(self) -> int:
        """The lines of the tile in shared memory."""
        return self.depth if self.transposed else self.rows

    @property
    def length(self) -> int:
        """The elements of a line."""
        return self.rows if self.transposed else self.depth

    @property
    def chunk(self) -> int:
        """The elements of a chunk."""
        return CHUNK // self.operand.itemsize

    def offset(self, line: Expr, chunk: Expr, analyzer: Analyzer) -> Expr:
        """The element in the tile at which a chunk of a line lies."""
        moving = math.gcd(self.length // self.chunk, 8)  # neighbouring chunks that change their order
        turn = analyzer.simplify(op.floormod(op.floordiv(line, op.const(8 // moving)), op.const(moving)))
        moved = Call("int32", "bitwise_xor", (chunk, turn)) if moving > 1 else chunk
        return line * self.length + moved * self.chunk


def tile_form(operand: Operand, rows: int, depth: int, analyzer: Analyzer, transposes: bool = True) -> TileForm:
    """The widest copies that are possible: along the depth, else (`transposes`) along the rows, else none."""
    itemsize = operand.itemsize
    for transposed in (False, True) if itemsize == 2 and transposes else (False,):
        for size in WIDTHS:
            width = size // itemsize
            extent = rows if transposed else depth
            if extent % width == 0 and _contiguous(operand, transposed, width, analyzer):
                return TileForm(operand, rows, depth, width, transposed)
    return TileForm(operand, rows, depth, 0, False)


def _contiguous(operand: Operand, transposed: bool, width: int, analyzer: Analyzer) -> bool:
    """True if the elements from a multiple of `width` to the next are neighbours, aligned, and exist all or none."""
    found = operand.source()
    if found is None:
        return False
    load, conditions = found
    running = operand.row if transposed else operand.depth
    if not transposed and not _multiple(operand.extent, width, analyzer):
        return False
    piece, step = Var("piece", running.dtype), Var("step", running.dtype)
    most = analyzer.const_int_bound(running)[1]
    analyzer.bind(step, (0, width))
    analyzer.set_bound(piece, 0, None if most is None else most // width)
    moved = {running: piece * width + step}
    form = Linear.of(analyzer.simplify(substitute(_flat(load), moved)))
    first = form.minus(Linear({step: 1}))
    if form.terms.get(step) != 1 or any(step in collect_vars(atom) for atom in first.terms):
        return False
    if not _multiple_form(first, width, analyzer):
        return False
    return all(step not in collect_vars(analyzer.simplify(substitute(c, moved))) for c in conditions)


def _flat(load: BufferLoad) -> Expr:
    """The index of the element in memory order."""
    buffer = load.buffer
    total: Expr = op.const(0)
    for position, index in enumerate(load.indices):
        step: Expr = op.const(1)
        if buffer.strides is not None:
            step = buffer.strides[position]
        else:
            for size in buffer.shape[position + 1 :]:
                step = op.multiply(step, size)
        total = total + index * step
    return total


def _multiple(x: Expr, width: int, analyzer: Analyzer) -> bool:
    return width == 1 or _multiple_form(analyzer.linear(x), width, analyzer)


def _multiple_form(form: Linear, width: int, analyzer: Analyzer) -> bool:
    """True if the sum is a multiple of `width` whatever its atoms are."""
    if form.constant % width:
        return False
    for atom, coefficient in form.terms.items():
        step, base = analyzer.modular_set(atom)
        if coefficient * step % width or coefficient * base % width:
            return False
    return True


@dataclass
class TileCopy:
    """The statements that bring tiles of one operand to `memory`, which has room for several."""

    form: TileForm
    memory: Buffer
    threads: int
    analyzer: Analyzer = field(repr=False)

    def statement(self, thread: Expr, slot: Expr, step: Expr) -> Stmt:
        """The copy of the tile number `step` along the depth to slot number `slot`, by all threads of a block."""
        form = self.form
        width = form.width or form.chunk
        pieces = form.length // width
        total = form.lines * pieces
        times = -(-total // self.threads)
        turn = Var("turn")
        analyzer = self.analyzer
        analyzer.bind(turn, (0, times))
        number = thread + turn * self.threads
        line = analyzer.simplify(op.floordiv(number, op.const(pieces)))
        piece = analyzer.simplify(op.floormod(number, op.const(pieces)))
        column = piece * width
        offset = form.offset(line, op.floordiv(column, op.const(form.chunk)), analyzer)
        offset = offset + slot * (form.lines * form.length) + op.floormod(column, op.const(form.chunk))
        row, depth = (column, line) if form.transposed else (line, column)
        values = {form.operand.row: row, form.operand.depth: step * form.depth + depth}
        body = self._asynchronous(offset, values) if form.width else self._by_element(offset, values)
        if total % self.threads:
            body = IfThenElse(number < total, body)
        if times == 1:
            return substitute(body, {turn: op.const(0)})
        return unrolled(turn, times, body, hint=bool(form.width))  # chunks that are computed would take all registers

    def _within(self, conditions: Sequence[Expr], depth: Expr) -> Expr:
        """The conditions as one, with that of the depth where its last tile is not whole."""
        form = self.form
        limited = not _multiple(form.operand.extent, form.depth, self.analyzer)
        return op.all(*conditions, *([depth < form.operand.extent] if limited else []), op.const(True))

    def _asynchronous(self, offset: Expr, values: dict[Var, Expr]) -> Stmt:
        found = self.form.operand.source()
        assert found is not None
        load, conditions = found
        moved = [substitute(c, values) for c in conditions]
        condition = self._within(moved, values[self.form.operand.depth])
        size = self.form.width * self.form.operand.itemsize
        source = substitute(load, values)
        return effect("ptx_cp_async", self.memory[offset], source, size, self.analyzer.simplify(condition))

    def _by_element(self, offset: Expr, values: dict[Var, Expr]) -> Stmt:
        """A chunk computed element by element and stored whole, for operands that do not lie in memory as such."""
        form, element = self.form, Var("element")
        self.analyzer.bind(element, (0, form.chunk))
        depth = values[form.operand.depth] + element
        there = {**values, form.operand.depth: depth}
        value = substitute(form.operand.value, there)
        condition = self._within([substitute(c, there) for c in form.operand.conditions], depth)
        condition = self.analyzer.simplify(condition)
        if not op.is_const(condition, 1):
            zero = op.const(0, value.dtype)
            value = Call(value.dtype, "if_then_else", (condition, value, zero))
        held = Buffer("chunk", [form.chunk], str(value.dtype), "local")
        fill = unrolled(element, form.chunk, BufferStore(held, value, (element,)))
        return Allocate(held, seq(fill, effect("copy_vector", self.memory[offset], held[0], CHUNK)))


def unrolled(var: Var, extent: int, body: Stmt, hint: bool = True) -> Stmt:
    """A loop that the compiler of the device shall write out; with a `hint` of False one that it shall not."""
    return For(var, op.const(0), IntImm("int32", extent), ForKind.SERIAL, body, "", {"unroll_hint": hint})
