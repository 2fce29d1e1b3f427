"""Loops of stores as instructions of the vector unit: each operation of a value is one, its result in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.errors import UnsupportedError
from tilewright.tir import expr as e
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Var
from tilewright.tir.stmt import BufferStore, For, SeqStmt, Stmt
from tilewright.tir.visitor import collect, collect_vars
from tilewright.vta.commands import Commands
from tilewright.vta.schedule import loops
from tilewright.vta.te.indices import Axis, Form, Values, form_of, in_tiles, number

_BINARY = {e.Add: "ADD", e.Mul: "MUL", e.Min: "MIN", e.Max: "MAX"}
_LEAST, _MOST = -(1 << 15), (1 << 15) - 1


class Vector:
    """Records with `commands`; `first_tile` says where a buffer is."""

    def __init__(self, commands: Commands, first_tile: Callable[[Buffer], int]) -> None:
        self.commands, self.first_tile = commands, first_tile
        self.isa = commands.isa
        acc = self.isa.memories["ACC"]
        self.tile = acc.element_bytes // acc.dtype.itemsize

    def record(self, stmt: Stmt, values: Values) -> None:
        """The stores of one stage, within their loops."""
        stores = _stores(stmt, ())
        if len({store.buffer for store, _ in stores}) != 1:
            raise UnsupportedError(
                "loops under the pragma alu make "
                + (", ".join(store.buffer.name for store, _ in stores) or "nothing")
                + "; they are one stage's, others must be computed outside of them"
            )
        for store, nest in stores:
            _Store(self, store, nest, values).record()


def starts(value: Expr) -> list[BufferLoad]:
    """The loads that the result's memory may hold at the beginning, every operation of `value` being done in place."""
    left, right = _operands(_plain(value))
    if left is None:
        return [load for load in (_plain(value),) if isinstance(load, BufferLoad)]
    if right is None:
        return []
    if left is right:
        return starts(left) if isinstance(left, BufferLoad) else []
    found = [(one, other) for one, other in ((left, right), (right, left)) if isinstance(other, IntImm | BufferLoad)]
    if isinstance(_plain(value), Call):
        found = found[:1] if isinstance(right, IntImm | BufferLoad) else []
    return [load for one, other in found for load in starts(one) if not _reads(other, load.buffer)]


def _operands(value: Expr) -> tuple[Expr | None, Expr | None]:
    """The operands of a binary operation, both None for a value that is none."""
    if isinstance(value, e.BinaryExpr):
        return _plain(value.a), _plain(value.b)
    if isinstance(value, Call) and value.op in ("shift_right", "shift_left"):
        return _plain(value.args[0]), _plain(value.args[1])
    return None, None


def _reads(value: Expr, buffer: Buffer) -> bool:
    return any(load.buffer is buffer for load in collect(value, BufferLoad))


def _stores(stmt: Stmt, nest: tuple[For, ...]) -> list[tuple[BufferStore, tuple[For, ...]]]:
    """The stores with the loops around each, which are independent of those of the others at other elements."""
    if isinstance(stmt, For):
        return _stores(stmt.body, (*nest, stmt))
    if isinstance(stmt, SeqStmt):
        return [found for one in stmt.stmts for found in _stores(one, nest)]
    if not isinstance(stmt, BufferStore):
        raise UnsupportedError(
            f"loops under the pragma alu hold {str(stmt).strip().splitlines()[0]!r}; split by factors that divide, and "
            "choose nothing but maxima and minima"
        )
    return [(stmt, nest)]


class _Store:
    """One store, with the values of the loops outside of its own."""

    def __init__(self, unit: Vector, store: BufferStore, nest: Sequence[For], values: Values) -> None:
        self.unit, self.store, self.nest, self.values = unit, store, nest, values
        self.own = tuple(loop.var for loop in nest)
        self.dst = self._form(store.buffer, store.indices)

    def record(self) -> None:
        """The instructions, in the order of the operations."""
        self._into(self.store.value)

    def _form(self, buffer: Buffer, indices: Sequence[Expr]) -> Form:
        form = form_of(buffer, indices, self.own)
        if form is None or any(set(self.own) & collect_vars(loop.extent).keys() for loop in self.nest):
            raise self._refused(f"the index {indices} of {buffer.name} is no sum of multiples of its loops")
        return form

    def _refused(self, why: str) -> UnsupportedError:
        return UnsupportedError(f"the vector unit cannot compute {self.store.buffer.name}: {why}")

    # ------------------------------------------------------------------------------------------------ operations
    def _into(self, value: Expr) -> None:
        """Bring `value` to the position of the result."""
        value = _plain(value)
        if self._is_result(value):
            return
        if isinstance(value, IntImm):
            self._step("MUL", 0)
            if value.value:
                self._step("ADD", value.value)
        elif isinstance(value, BufferLoad):
            self._step("MUL", 0)
            self._step("ADD", value)
        else:
            self._operation(*self._parts(value))

    def _operation(self, op: str, left: Expr, right: Expr) -> None:
        if op != "SHR" and (isinstance(left, IntImm) or self._is_result(right)):
            left, right = right, left
        if not isinstance(right, IntImm | BufferLoad):
            if op == "SHR" or not isinstance(left, IntImm | BufferLoad):
                raise self._refused(f"{right!r} needs memory of its own; compute it in a stage of its own")
            left, right = right, left
        if _reads(right, self.store.buffer) and not (left is right and self._is_result(left)):
            raise self._refused(f"{right!r} is overwritten before it is read; compute it in a stage of its own")
        self._into(left)
        assert isinstance(right, IntImm | BufferLoad)
        self._step(op, right.value if isinstance(right, IntImm) else right)

    def _parts(self, value: Expr) -> tuple[str, Expr, Expr]:
        """The operation of ALU, and its operands."""
        if isinstance(value, e.Sub) and isinstance(right := _plain(value.b), IntImm):
            return "ADD", _plain(value.a), IntImm(right.dtype, -right.value)
        if isinstance(value, e.BinaryExpr) and type(value) in _BINARY:
            return _BINARY[type(value)], _plain(value.a), _plain(value.b)
        if isinstance(value, Call) and value.op in ("shift_right", "shift_left"):
            left, right = (_plain(arg) for arg in value.args)
            if value.op == "shift_right":
                return "SHR", left, right
            if isinstance(right, IntImm):
                return "SHR", left, IntImm(right.dtype, -right.value)
        raise self._refused(f"it has no operation for {value!r}; there are +, *, min, max, shifts, and - of a constant")

    def _is_result(self, value: Expr) -> bool:
        return isinstance(value, BufferLoad) and self._same_position(value)

    def _same_position(self, load: BufferLoad) -> bool:
        if load.buffer is not self.store.buffer:
            return False
        form = self._form(load.buffer, load.indices)
        return form.steps == self.dst.steps and form.at(self.values) == self.dst.at(self.values)

    def _step(self, op: str, right: int | BufferLoad) -> None:
        """One instruction on the result, with an immediate or other accumulators on its right."""
        src = None if isinstance(right, int) else self._form(right.buffer, right.indices)
        if isinstance(right, int) and not _LEAST <= right <= _MOST:
            raise self._refused(f"the constant {right} has more than 16 bits; load it as a tensor")
        forms = [self.dst] if src is None else [self.dst, src]
        axes = [
            Axis(number(loop.extent, self.values), tuple(form.steps.get(loop.var, 0) for form in forms))
            for loop in self.nest
        ]
        walked = in_tiles(axes, self.unit.tile, f"the vector unit's {self.store.buffer.name}")
        bases = [self._base(self.store.buffer, self.dst)]
        if src is not None:
            assert isinstance(right, BufferLoad)
            bases.append(self._base(right.buffer, src))
        walks = tuple((axis.rounds, axis.steps[0], axis.steps[1] if src is not None else 0, 0) for axis in walked)
        if src is None:
            walks = tuple(walk for walk in walks if walk[1]) if op in ("MIN", "MAX") else walks
        self._emit(op, walks, bases, right if isinstance(right, int) else None)

    def _base(self, buffer: Buffer, form: Form) -> int:
        firsts = sum(step * number(self._loop(var).min, self.values) for var, step in form.steps.items())
        first = form.at(self.values) + firsts
        if first % self.unit.tile:
            raise self._refused(f"{buffer.name} is reached within a tile of {self.unit.tile} numbers")
        return first // self.unit.tile + self.unit.first_tile(buffer)

    def _loop(self, var: Var) -> For:
        return next(loop for loop in self.nest if loop.var is var)

    def _emit(self, op: str, walks: tuple[tuple[int, int, int, int], ...], bases: list[int], imm: int | None) -> None:
        commands, isa = self.unit.commands, self.unit.isa
        plan = loops.plan(walks, isa.memories["UOP"].depth // 4)
        if plan is None:
            (rounds, dst, src, _), *rest = sorted(walks, reverse=True)
            for n in range(rounds):
                moved = [base + n * step for base, step in zip(bases, (dst, src))]
                self._emit(op, tuple(rest), moved, imm)
            return
        words = plan.words(isa, bases[0], bases[1] if len(bases) > 1 else 0)
        commands.alu(op, commands.uops(words), plan.outer, plan.inner, imm)


def _plain(value: Expr) -> Expr:
    """A value without casts that change nothing of 32-bit numbers."""
    while isinstance(value, e.Cast) and str(value.dtype) == "int32" and str(value.value.dtype) == "int32":
        value = value.value
    return value
