"""Hold kernels to the figures of a device, before its compiler or its driver refuses them with a number."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tilewright.errors import ScheduleError
from tilewright.support.dtype import DType
from tilewright.support.recursion import nested
from tilewright.target import Target
from tilewright.tir.expr import BufferLoad, IntImm
from tilewright.tir.stmt import Allocate, BufferStore, PrimFunc, Stmt
from tilewright.tir.transform.bind_threads import is_thread_loop, thread_extents
from tilewright.tir.transform.statements import child_stmts, walk
from tilewright.tir.visitor import collect
from tilewright.tir.warp_matrix import FRAGMENT_SCOPES, WARP


def verify_gpu_code(func: PrimFunc, target: Target) -> PrimFunc:
    """`func` itself, where each of its kernels keeps within the limits of `target`.

        for t in thread("threadIdx.x", 2048):     =>      ScheduleError: f_kernel0 has 2048 threads in a block
            B[t] = A[t]                                   (threadIdx.x 2048); opencl allows 1024 …

    Held to their limits are the threads of a block, the bytes of its shared memory, the bytes of a thread's own arrays
    (where the kind of device has such a limit) and the bytes of the widest vector loaded or stored. Runs on flat
    buffers, after `bind_threads`. Raises ScheduleError naming the kernel, the figure and the limit.
    """
    kernels = [stmt for stmt in _outermost(func.body) if is_thread_loop(stmt)]
    for number, kernel in enumerate(kernels):
        _verify(f"{func.name}_kernel{number}", kernel, target)
    return func


@nested
def _outermost(stmt: Stmt) -> Iterable[Stmt]:
    """The statements of `stmt` down to the kernels, but not inside of them."""
    yield stmt
    if not is_thread_loop(stmt):
        for child in child_stmts(stmt):
            yield from _outermost(child)


def _verify(name: str, kernel: Stmt, target: Target) -> None:
    def hold(figure: int, limit: int, option: str, what: str, advice: str) -> None:
        if figure > limit > 0:
            raise ScheduleError(
                f"{name} has {what}; {target.kind} allows {limit} (-{option}={limit} of the target). {advice}"
            )

    loops, body = thread_extents(kernel)
    extents = {
        tag: loop.extent.value
        for tag, loop in loops.items()
        if tag.startswith("threadIdx") and isinstance(loop.extent, IntImm)
    }
    threads, listed = prod(extents.values()), ", ".join(f"{tag} {n}" for tag, n in extents.items())
    option = "max_threads_per_block"
    hold(threads, target.max_threads_per_block, option, f"{threads} threads in a block ({listed})",
         "Split the loops that are bound to threadIdx by smaller factors")  # fmt: skip
    shared = {stmt.buffer: _bytes(stmt) for stmt in walk(body) if isinstance(stmt, Allocate) and _is_shared(stmt)}
    listed = ", ".join(f"{buffer.name} {size}" for buffer, size in shared.items())
    total, option = sum(shared.values()), "max_shared_memory_per_block"
    hold(total, target.max_shared_memory_per_block, option, f"{total} bytes of shared memory in a block ({listed})",
         "Make the tiles that are kept in shared memory smaller")  # fmt: skip
    dynamic = sum(_bytes(stmt) for stmt in walk(body) if isinstance(stmt, Allocate) and _is_dynamic(stmt))
    if dynamic > target.max_dynamic_shared_memory:
        raise ScheduleError(
            f"{name} requires {dynamic} bytes of shared memory in a block at its launch; {target} has "
            f"{target.max_dynamic_shared_memory}. Make the tiles smaller or take fewer stages"
        )
    local, option = _local_bytes(body), "max_local_memory_per_thread"
    hold(local, target.max_local_memory_per_thread, option, f"{local} bytes of local arrays in a thread",
         "Let each thread compute less, or use more threads")  # fmt: skip
    widest = max([_width(access) for access in collect(body, BufferLoad, BufferStore)], default=0)  # type: ignore[arg-type]
    hold(widest, target.max_vector_bytes, "max_vector_bytes", f"a vector of {widest} bytes",
         "Vectorize a loop of fewer steps")  # fmt: skip


def _is_shared(stmt: Allocate) -> bool:
    return stmt.buffer.scope == "shared"


def _is_dynamic(stmt: Allocate) -> bool:
    return stmt.buffer.scope == "shared.dyn"


def _bytes(stmt: Allocate) -> int:
    """The size of what `stmt` makes; 0 where it is no constant, which code generation refuses by itself."""
    return (stmt.buffer.constant_size() or 0) * _size(stmt.buffer.dtype)


@nested
def _local_bytes(stmt: Stmt) -> int:
    """The most that a thread's own arrays take at any one position."""
    inside = max([_local_bytes(child) for child in child_stmts(stmt)], default=0)
    if not isinstance(stmt, Allocate) or _is_shared(stmt) or _is_dynamic(stmt):
        return inside
    return inside + _bytes(stmt) // (WARP if stmt.buffer.scope in FRAGMENT_SCOPES else 1)


def _width(access: BufferLoad | BufferStore) -> int:
    """The bytes that a vector access moves; 0 for a scalar."""
    dtype = access.dtype if isinstance(access, BufferLoad) else access.value.dtype
    return dtype.lanes * _size(dtype) if dtype.lanes > 1 else 0


def _size(dtype: DType) -> int:
    return (dtype.bits + 7) // 8
