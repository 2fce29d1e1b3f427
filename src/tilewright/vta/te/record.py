"""A lowered schedule as a program: its loops are run once, and what units are asked to do is recorded.

Sizes are fixed, so all addresses are known: loops around instructions of the matrix unit and those of the vector unit
become loops and micro-ops of one instruction where they can, all others are written out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from tilewright.errors import UnsupportedError
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Call, Expr, IntImm, StringImm, Var
from tilewright.tir.stmt import Allocate, AttrStmt, Evaluate, For, IfThenElse, LetStmt, PrimFunc, SeqStmt, Stmt
from tilewright.tir.transform.coproc_sync import KEY, UNITS
from tilewright.tir.transform.statements import walk
from tilewright.tir.visitor import collect_vars
from tilewright.vta.commands import Commands
from tilewright.vta.schedule import loops
from tilewright.vta.te.indices import Axis, Form, in_tiles, load_form, number
from tilewright.vta.te.machine import Machine
from tilewright.vta.te.transfers import Side, transfers
from tilewright.vta.te.vector import Vector

_UNIT_NAMES = {number: name for name, number in UNITS.items()}
_PRODUCTS = ("vta.gemm", "vta.reset")


def record(machine: Machine, func: PrimFunc, commands: Commands, positions: Mapping[Buffer, int]) -> None:
    """Record a function lowered for `machine.accelerator`; `positions` are the first bytes of its parameters in DRAM.

    Raises `UnsupportedError` for what no instruction does, and where memories on the chip are too small.
    """
    _Recorder(machine, commands, positions).run(func.body)


class _Recorder:
    def __init__(self, machine: Machine, commands: Commands, positions: Mapping[Buffer, int]) -> None:
        self.machine, self.commands, self.positions = machine, commands, positions
        self.isa = machine.isa
        self.values: dict[Var, int] = {}
        self.sram: dict[Buffer, int] = {}
        self.used = dict.fromkeys(machine.scopes, 0)
        self.vector = Vector(commands, self.first_tile)
        self.forms: dict[tuple[Expr, tuple[Var, ...]], Form | None] = {}

    # ------------------------------------------------------------------------------------------------ statements
    def run(self, stmt: Stmt) -> None:
        """Record a statement at the present values of the loops around it."""
        if isinstance(stmt, SeqStmt):
            for one in stmt.stmts:
                self.run(one)
        elif isinstance(stmt, Allocate):
            self._allocate(stmt.buffer)
            self.run(stmt.body)
        elif isinstance(stmt, For):
            self._loop(stmt, self.run)
        elif isinstance(stmt, IfThenElse):
            if number(stmt.condition, self.values):
                self.run(stmt.then_case)
            elif stmt.else_case is not None:
                self.run(stmt.else_case)
        elif isinstance(stmt, LetStmt):
            self.values[stmt.var] = number(stmt.value, self.values)
            self.run(stmt.body)
        elif isinstance(stmt, AttrStmt):
            self._instruction(stmt) if stmt.key == KEY else self.run(stmt.body)
        elif isinstance(stmt, Evaluate):
            self._evaluate(stmt.value)
        else:
            raise UnsupportedError(
                f"{_first_line(stmt)} is computed by no unit of VTA; mark its stage with the pragma dma_copy or alu, "
                "or tensorize it with gemm"
            )

    def _loop(self, loop: For, record_body: Callable[[Stmt], None]) -> None:
        first = number(loop.min, self.values)
        for value in range(first, first + number(loop.extent, self.values)):
            self.values[loop.var] = value
            record_body(loop.body)

    def _instruction(self, stmt: AttrStmt) -> None:
        if not any(isinstance(one, Evaluate) for one in walk(stmt.body)):
            self.vector.record(stmt.body, self.values)
        else:
            self._products(stmt.body)

    def _call(self, call: Call) -> None:
        name, *args = call.args
        assert isinstance(name, StringImm)
        if _is_product(call):
            self._gemm((), call)
        else:
            self._transfer(name.value, args)

    def _evaluate(self, value: Expr) -> None:
        if isinstance(value, Call) and value.op in ("dep_push", "dep_pop"):
            first, second = (_UNIT_NAMES[number(arg, {})] for arg in value.args)
            if value.op == "dep_push":
                self.commands.signal(first, second)
            else:
                self.commands.wait(second, first)
        elif isinstance(value, Call) and str(getattr(value.args[0], "value", "")).startswith("vta."):
            self._call(value)
        elif not isinstance(value, IntImm):
            raise UnsupportedError(f"the call {value!r} is no instruction of VTA")

    # ---------------------------------------------------------------------------------------------------- memory
    def _allocate(self, buffer: Buffer) -> None:
        memory = self.machine.memories.get(buffer.scope)
        if memory is None:
            raise UnsupportedError(
                f"{buffer!r} lies in no memory of VTA; set its scope to one of {', '.join(self.machine.memories)}"
            )
        if buffer in self.sram:
            return
        tiles, kind = -(-(buffer.constant_size() or 0) // self._tile(memory)), self.isa.memories[memory]
        self.sram[buffer] = self.used[memory]
        self.used[memory] += tiles
        if self.used[memory] > kind.depth:
            held = ", ".join(b.name for b in self.sram if b.scope == buffer.scope)
            raise UnsupportedError(
                f"{held} together need {self.used[memory]} tiles of {memory}, which has {kind.depth}; "
                "take smaller tiles"
            )

    def _tile(self, memory: str) -> int:
        kind = self.isa.memories[memory]
        return kind.element_bytes // kind.dtype.itemsize

    def first_tile(self, buffer: Buffer) -> int:
        """The offset of a buffer on the chip."""
        if buffer not in self.sram:
            raise UnsupportedError(f"{buffer!r} is no memory on the chip; load it with a copy first")
        return self.sram[buffer]

    # ------------------------------------------------------------------------------------------------- transfers
    def _transfer(self, name: str, args: Sequence[Expr]) -> None:
        memory, (target, source) = args[0], (_load_of(pointer) for pointer in args[1:3])
        assert isinstance(memory, StringImm)
        count = (len(args) - 3) // 5
        figures = [number(arg, self.values) for arg in args[3:]]
        shape, from_steps, to_steps, before, after = (figures[n * count : (n + 1) * count] for n in range(5))
        stores = name == "vta.store"
        inside, outside = (source, target) if stores else (target, source)
        there, here = (to_steps, from_steps) if stores else (from_steps, to_steps)
        kind = self.isa.memories[memory.value]
        tile, what = self._tile(memory.value), f"the copy of {source.buffer.name} to {target.buffer.name}"
        padded = [n for n in range(count) if before[n] or after[n]]
        plain = [Axis(shape[n], (there[n], here[n])) for n in range(count) if n not in padded]
        sides = [Side(axis.rounds, *axis.steps) for axis in in_tiles(plain, tile, what)]
        for n in padded:
            if there[n] % tile or here[n] % tile:
                raise UnsupportedError(f"{what} pads within a tile of {tile} numbers")
            sides.append(Side(shape[n], there[n] // tile, here[n] // tile, before[n], after[n]))
        sram = self._at(inside, tile, what) + self.first_tile(inside.buffer)
        if outside.buffer not in self.positions:
            raise UnsupportedError(f"{what}: {outside.buffer.name} is no argument of the program, and so not in DRAM")
        dram = self._at(outside, tile, what) + self.positions[outside.buffer] // kind.element_bytes
        for one in transfers(sides, sram, dram, what):
            if stores:
                self.commands.store(one.sram, one.dram, one.size, one.stride)
            else:
                self.commands.load(memory.value, one.sram, one.dram, one.size, one.stride, one.pad)

    def _at(self, load: Expr, tile: int, what: str) -> int:
        form = self._form(load, ())
        assert form is not None, "without loops every index is one"
        first = form.at(self.values)
        if first % tile:
            raise UnsupportedError(f"{what} begins within a tile of {tile} numbers")
        return first // tile

    def _form(self, load: Expr, own: tuple[Var, ...]) -> Form | None:
        key = load, own
        if key not in self.forms:
            self.forms[key] = load_form(load, own)
        return self.forms[key]

    # ------------------------------------------------------------------------------------------------ the matrix unit
    def _products(self, stmt: Stmt) -> None:
        """Record loops around instructions of the matrix unit; those around one become its own, if they can."""
        nest: list[For] = []
        inner = stmt
        while (
            isinstance(inner, For) and not {loop.var for loop in nest} & collect_vars([inner.min, inner.extent]).keys()
        ):
            nest.append(inner)
            inner = inner.body
        if isinstance(inner, Evaluate) and _is_product(inner.value) and self._gemm(nest, inner.value):
            return
        if isinstance(stmt, For):
            self._loop(stmt, self._products)
        else:
            self.run(stmt)

    def _gemm(self, nest: Sequence[For], call: Call) -> bool:
        """GEMM over the loops of `nest`; False where they are too many micro-ops, or not sums of multiples."""
        name, *pointers = call.args
        own = tuple(loop.var for loop in nest)
        columns: list[tuple[int, dict[Var, int]]] = []
        firsts = {**self.values, **{loop.var: number(loop.min, self.values) for loop in nest}}
        for pointer, memory in zip(pointers, ("ACC", "INP", "WGT")):
            load, tile = _load_of(pointer), self._tile(memory)
            form = self._form(load, own)
            if form is None:
                return False
            first = form.at(self.values) + sum(step * firsts[var] for var, step in form.steps.items())
            if first % tile or any(step % tile for step in form.steps.values()):
                raise UnsupportedError(
                    f"gemm on a part of {load.buffer.name} that is not a whole tile of {tile} numbers"
                )
            steps = {var: step // tile for var, step in form.steps.items()}
            columns.append((first // tile + self.first_tile(load.buffer), steps))
        columns += [(0, {})] * (3 - len(columns))
        walks = tuple(
            (number(loop.extent, self.values), *(steps.get(loop.var, 0) for _, steps in columns)) for loop in nest
        )
        reset = getattr(name, "value", "") == "vta.reset"
        if reset:
            walks = tuple(walk for walk in walks if walk[1])
        plan = loops.plan(walks, self.isa.memories["UOP"].depth // 4)
        if plan is None:
            return False
        words = plan.words(self.isa, *(first for first, _ in columns))
        self.commands.gemm(self.commands.uops(words), plan.outer, plan.inner, reset)
        return True


def _is_product(value: Expr) -> TypeGuard[Call]:
    return isinstance(value, Call) and getattr(value.args[0], "value", None) in _PRODUCTS


def _load_of(pointer: Expr) -> Any:
    """The first element of the box that a pointer names."""
    assert isinstance(pointer, Call)
    return pointer.args[1] if pointer.op == "access_region" else pointer.args[0]


def _first_line(stmt: Stmt) -> str:
    inner = next((one for one in walk(stmt) if not isinstance(one, For)), stmt)
    return str(inner).strip().splitlines()[0]
