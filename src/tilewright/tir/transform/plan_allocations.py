"""Place allocations that need memory beyond the stack in the two workspaces the caller provides."""

from __future__ import annotations

from tilewright.errors import UnsupportedError
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm
from tilewright.tir.stmt import Allocate, DeclBuffer, For, PrimFunc, Stmt
from tilewright.tir.transform.accesses import replace_buffers
from tilewright.tir.transform.lower_parallel import WORKER_SHARE
from tilewright.tir.transform.statements import map_stmt

STACK_BYTES = 64 * 1024  # the largest allocation kept on a worker's stack
ALIGNMENT = 64


def plan_allocations(func: PrimFunc) -> PrimFunc:
    """`func` with large and shared allocations turned into views of workspaces; runs after `lower_parallel`.

    A "global" allocation outside a worker's share is shared: a view of the parameter `workspace`. One within a share
    is private to the worker, as a "local" one always is: up to 64 KiB on the stack, above that a view of the
    parameter `worker_workspace`. Both are byte buffers, appended as the last two parameters if either is needed;
    the attributes "workspace_bytes" and "worker_workspace_bytes" hold their sizes.

        t = allocate(float32[1000000])              t = view(float32[1000000], address_of(workspace[0]))
        t[0] = 1                           =>       t[0] = 1

    Private allocations side by side share their place; shared ones do not, as no barrier may lie between them.
    """
    planner = _Planner()
    body = planner.stmt(func.body)
    attrs = {**func.attrs, "workspace_bytes": planner.shared_bytes, "worker_workspace_bytes": planner.private_bytes}
    if not planner.shared_bytes and not planner.private_bytes:
        return PrimFunc(func.name, func.params, body, attrs)
    sized = [
        Buffer("workspace", [planner.shared_bytes], "uint8"),
        Buffer("worker_workspace", [planner.private_bytes], "uint8"),
    ]
    body = replace_buffers(body, dict(zip((planner.shared, planner.private), sized, strict=True)))
    return PrimFunc(func.name, [*func.params, *sized], body, attrs)


class _Planner:
    def __init__(self) -> None:
        self.shared = Buffer("workspace", [1], "uint8")  # stand-ins until the sizes are known
        self.private = Buffer("worker_workspace", [1], "uint8")
        self.shared_bytes = self.private_bytes = 0
        self.private_top = 0
        self.in_share = False

    def stmt(self, stmt: Stmt) -> Stmt:
        if type(stmt) is Allocate:
            return self._allocate(stmt)
        if type(stmt) is For and WORKER_SHARE in stmt.annotations:
            self.in_share = True
            result = map_stmt(stmt, self.stmt, _same)
            self.in_share = False
            return result
        return map_stmt(stmt, self.stmt, _same)

    def _allocate(self, stmt: Allocate) -> Stmt:
        buffer = stmt.buffer
        size = buffer.constant_size()
        if size is None:
            raise UnsupportedError(
                f"temporary {buffer!r} has a symbolic size; fix the dimensions it depends on, or make it an output"
            )
        size *= buffer.dtype.itemsize * buffer.dtype.lanes
        if buffer.scope == "global" and not self.in_share:
            offset = self.shared_bytes
            self.shared_bytes = _aligned(offset + size)
            return DeclBuffer(buffer, _address(self.shared, offset), self.stmt(stmt.body))
        if size > STACK_BYTES:
            return self._private_view(stmt, size)
        if buffer.scope == "global":
            stmt = _on_stack(stmt)
        return map_stmt(stmt, self.stmt, _same)

    def _private_view(self, stmt: Allocate, size: int) -> Stmt:
        offset = self.private_top
        self.private_top = _aligned(offset + size)
        self.private_bytes = max(self.private_bytes, self.private_top)
        body = self.stmt(stmt.body)
        self.private_top = offset
        return DeclBuffer(stmt.buffer, _address(self.private, offset), body)


def _same(x: Expr) -> Expr:
    return x


def _aligned(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def _address(workspace: Buffer, offset: int) -> Expr:
    index = IntImm("int32" if offset < 2**31 else "int64", offset)
    return Call("handle", "address_of", (BufferLoad(workspace, (index,)),))


def _on_stack(stmt: Allocate) -> Allocate:
    old = stmt.buffer
    local = Buffer(old.name, old.shape, old.dtype, "local", old.strides, old.alignment)
    return Allocate(local, replace_buffers(stmt.body, {old: local}))
