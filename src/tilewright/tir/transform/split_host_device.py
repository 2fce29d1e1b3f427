"""Separate a function with hardware threads into kernels, and what the host does around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tilewright.errors import ScheduleError
from tilewright.support.recursion import nested
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Let, StringImm, Var
from tilewright.tir.stmt import (
    Allocate,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
)
from tilewright.tir.tensor_core import RESIDENT
from tilewright.tir.transform.bind_threads import THREAD_AXES, is_thread_loop, thread_extents
from tilewright.tir.transform.statements import walk
from tilewright.tir.visitor import collect, collect_vars, substitute
from tilewright.tir.warp_matrix import is_fragment_call, written_position


@dataclass(frozen=True)
class Launch:
    """One kernel and its threads: `grid` blocks of `block` threads, each as (x, y, z).

    `kernel` takes buffers, then scalars; its body stands within the kernel's thread loops, outermost axis first.
    """

    kernel: PrimFunc
    grid: tuple[Expr, Expr, Expr]
    block: tuple[int, int, int]

    @property
    def shared_bytes(self) -> int:
        """Bytes of the shared memory whose size the launch says."""
        made = [s.buffer for s in walk(self.kernel.body) if isinstance(s, Allocate) and s.buffer.scope == "shared.dyn"]
        return sum((buffer.constant_size() or 0) * buffer.dtype.itemsize for buffer in made)


@dataclass(frozen=True)
class HostLoop:
    """`body` for each value of `var` from `min` on, one after the other."""

    var: Var
    min: Expr
    extent: Expr
    body: tuple[Step, ...]


@dataclass(frozen=True)
class HostBranch:
    """`then_steps` where the condition holds, else `else_steps`."""

    condition: Expr
    then_steps: tuple[Step, ...]
    else_steps: tuple[Step, ...]


@dataclass(frozen=True)
class HostCall:
    """A call of the Python function registered as `name`; `args` are those of `call_packed`."""

    name: str
    args: tuple[Expr, ...]


Step = Launch | HostLoop | HostBranch | HostCall


@dataclass(frozen=True)
class DeviceProgram:
    """The execution of a function's call on a device: it makes the `temporaries`, then takes the steps in order."""

    func: PrimFunc
    temporaries: tuple[Buffer, ...]
    steps: tuple[Step, ...]

    @property
    def launches(self) -> tuple[Launch, ...]:
        """All launches, those within loops and branches too, in order."""
        return tuple(_launches(self.steps))


@nested
def _launches(steps: Iterable[Step]) -> Iterator[Launch]:
    for step in steps:
        if isinstance(step, Launch):
            yield step
        elif isinstance(step, HostLoop):
            yield from _launches(step.body)
        elif isinstance(step, HostBranch):
            yield from _launches((*step.then_steps, *step.else_steps))


def split_host_device(func: PrimFunc) -> DeviceProgram:
    """The kernels of `func` (after `bind_threads`) in order, each a function of what it reads and writes.

        T = allocate(float32[32])                            temporaries: T
        for b in thread("blockIdx.x", 4): … T …      =>      f_kernel0(A, T)        grid (4, 1, 1)
        for b in thread("blockIdx.x", 8): … T … B …          f_kernel1(T, B)        grid (8, 1, 1)

    Loops and conditions around kernels, and calls of packed functions, are the host's.
    Raises ScheduleError where a stage is computed outside of all threads: the host does not compute.
    """
    split = _Split(func)
    steps = split.steps(func.body)
    return DeviceProgram(func, tuple(split.temporaries), steps)


class _Split:
    """State of one `split_host_device`: what is made, and how many kernels there are so far."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.temporaries: list[Buffer] = []
        self.kernels = 0

    @nested
    def steps(self, stmt: Stmt) -> tuple[Step, ...]:
        """The host's steps for a statement."""
        if is_thread_loop(stmt):
            self.kernels += 1
            return (_launch(self.func, stmt, self.kernels - 1),)
        if isinstance(stmt, SeqStmt):
            return tuple(step for part in stmt.stmts for step in self.steps(part))
        if isinstance(stmt, Allocate):
            self.temporaries.append(stmt.buffer)
            return self.steps(stmt.body)
        if isinstance(stmt, LetStmt):
            return self.steps(substitute(stmt.body, {stmt.var: stmt.value}))
        if isinstance(stmt, For):
            return (HostLoop(stmt.var, stmt.min, stmt.extent, self.steps(stmt.body)),)
        if isinstance(stmt, IfThenElse):
            otherwise = () if stmt.else_case is None else self.steps(stmt.else_case)
            return (HostBranch(stmt.condition, self.steps(stmt.then_case), otherwise),)
        if isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.op == "call_packed":
            name, *args = stmt.value.args
            assert isinstance(name, StringImm)
            return (HostCall(name.value, tuple(args)),)
        stored = sorted({s.buffer.name for s in collect(stmt, BufferStore)})
        raise ScheduleError(
            f"{self.func.name}: {', '.join(stored) or 'a statement'} is computed outside of all device threads; bind a "
            "loop of that stage to blockIdx or threadIdx, or compute it inside of a stage that is bound"
        )


def _launch(func: PrimFunc, stmt: Stmt, number: int) -> Launch:
    loops, _ = thread_extents(stmt)
    one = op.const(1)
    grid = tuple(loops[tag].extent if tag in loops else one for tag in reversed(THREAD_AXES[:3]))
    block = tuple(_constant(loops[tag].extent) if tag in loops else 1 for tag in reversed(THREAD_AXES[3:]))
    params = _parameters(stmt)
    stored = {s.buffer for s in collect(stmt, BufferStore)}
    stored |= {written_position(call).buffer for call in collect(stmt, Call) if is_fragment_call(call)}
    attrs = {"written": tuple(p in stored for p in params)}
    if RESIDENT in func.attrs:
        attrs[RESIDENT] = func.attrs[RESIDENT]
    kernel = PrimFunc(f"{func.name}_kernel{number}", params, stmt, attrs)
    return Launch(kernel, grid, block)  # type: ignore[arg-type]


def _constant(extent: Expr) -> int:
    assert isinstance(extent, IntImm)
    return extent.value


def _parameters(stmt: Stmt) -> list[Buffer | Var]:
    """Buffers and variables that a kernel uses and does not make itself, in order of first use."""
    own = {made.buffer for made in collect(stmt, Allocate, DeclBuffer)}  # type: ignore[attr-defined]
    loads = [load.buffer for load in collect(stmt, BufferLoad)]
    stores = [store.buffer for store in collect(stmt, BufferStore)]
    buffers = [buffer for buffer in dict.fromkeys([*loads, *stores]) if buffer not in own]
    loops = {loop.var for loop in collect(stmt, For)}
    lets = {let.var for let in collect(stmt, LetStmt)} | {let.var for let in collect(stmt, Let)}
    return [*buffers, *[v for v in collect_vars(stmt) if v not in loops | lets]]
