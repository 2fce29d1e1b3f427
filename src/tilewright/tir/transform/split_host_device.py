"""Separate a function with hardware threads into kernels, and what the host does around them."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import ScheduleError
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, Let, Var
from tilewright.tir.stmt import Allocate, BufferStore, For, LetStmt, PrimFunc, SeqStmt, Stmt
from tilewright.tir.transform.bind_threads import THREAD_AXES, is_thread_loop, thread_extents
from tilewright.tir.visitor import collect, collect_vars
from tilewright.tir.warp_matrix import is_fragment_call, written_place


@dataclass(frozen=True)
class Launch:
    """One kernel and its threads: `grid` blocks of `block` threads, each as (x, y, z).

    `kernel` takes buffers, then scalars; its body stands within the kernel's thread loops, outermost axis first.
    """

    kernel: PrimFunc
    grid: tuple[Expr, Expr, Expr]
    block: tuple[int, int, int]


@dataclass(frozen=True)
class DeviceProgram:
    """What a call of a function does on a device: makes the `temporaries`, then runs the launches in order."""

    func: PrimFunc
    temporaries: tuple[Buffer, ...]
    launches: tuple[Launch, ...]


def split_host_device(func: PrimFunc) -> DeviceProgram:
    """The kernels of `func` (after `bind_threads`) in order, each a function of what it reads and writes.

        T = allocate(float32[32])                            temporaries: T
        for b in thread("blockIdx.x", 4): … T …      =>      f_kernel0(A, T)        grid (4, 1, 1)
        for b in thread("blockIdx.x", 8): … T … B …          f_kernel1(T, B)        grid (8, 1, 1)

    Raises ScheduleError where a stage is computed outside of all threads: the host does not compute.
    """
    temporaries: list[Buffer] = []
    kernels: list[Stmt] = []
    _host(func.body, func, temporaries, kernels)
    launches = [_launch(func, stmt, i) for i, stmt in enumerate(kernels)]
    return DeviceProgram(func, tuple(temporaries), tuple(launches))


def _host(stmt: Stmt, func: PrimFunc, temporaries: list[Buffer], kernels: list[Stmt]) -> None:
    if is_thread_loop(stmt):
        kernels.append(stmt)
    elif isinstance(stmt, SeqStmt):
        for part in stmt.stmts:
            _host(part, func, temporaries, kernels)
    elif isinstance(stmt, Allocate):
        temporaries.append(stmt.buffer)
        _host(stmt.body, func, temporaries, kernels)
    else:
        stored = sorted({s.buffer.name for s in collect(stmt, BufferStore)})
        raise ScheduleError(
            f"{func.name}: {', '.join(stored) or 'a statement'} is computed outside of all device threads; bind a loop "
            "of that stage to blockIdx or threadIdx, or compute it inside of a stage that is bound"
        )


def _launch(func: PrimFunc, stmt: Stmt, number: int) -> Launch:
    loops, _ = thread_extents(stmt)
    one = op.const(1)
    grid = tuple(loops[tag].extent if tag in loops else one for tag in reversed(THREAD_AXES[:3]))
    block = tuple(_constant(loops[tag].extent) if tag in loops else 1 for tag in reversed(THREAD_AXES[3:]))
    params = _parameters(stmt)
    stored = {s.buffer for s in collect(stmt, BufferStore)}
    stored |= {written_place(call).buffer for call in collect(stmt, Call) if is_fragment_call(call)}
    attrs = {"written": tuple(p in stored for p in params)}
    kernel = PrimFunc(f"{func.name}_kernel{number}", params, stmt, attrs)
    return Launch(kernel, grid, block)  # type: ignore[arg-type]


def _constant(extent: Expr) -> int:
    assert isinstance(extent, IntImm)
    return extent.value


def _parameters(stmt: Stmt) -> list[Buffer | Var]:
    """Buffers and variables that a kernel uses and does not make itself, in order of first use."""
    own = {made.buffer for made in collect(stmt, Allocate)}
    loads = [load.buffer for load in collect(stmt, BufferLoad)]
    stores = [store.buffer for store in collect(stmt, BufferStore)]
    buffers = [buffer for buffer in dict.fromkeys([*loads, *stores]) if buffer not in own]
    loops = {loop.var for loop in collect(stmt, For)}
    lets = {let.var for let in collect(stmt, LetStmt)} | {let.var for let in collect(stmt, Let)}
    return [*buffers, *[v for v in collect_vars(stmt) if v not in loops | lets]]
