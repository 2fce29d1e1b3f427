"""Put allocations that need memory beyond the stack into the two workspaces the caller provides."""

from __future__ import annotations

from tilewright.errors import UnsupportedError
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.arith.int_set import eval_interval
from tilewright.tir.arith.range import Range
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Add, BufferLoad, Call, Expr, FloorDiv, IntImm, Max, Min, Mul, Sub, Var
from tilewright.tir.stmt import Allocate, BufferStore, DeclBuffer, For, LetStmt, PrimFunc, Stmt, seq
from tilewright.tir.transform.lower_parallel import WORKER_SHARE
from tilewright.tir.visitor import StmtRewriter, collect, collect_vars, substitute

STACK_BYTES = 64 * 1024  # the largest allocation kept on a worker's stack
ALIGNMENT = 64


def plan_allocations(func: PrimFunc) -> PrimFunc:
    """`func` with large and shared allocations turned into views of workspaces; runs after `lower_parallel`.

    A "global" allocation outside a worker's share is shared: a view of the parameter `workspace`. One within a share
    is private to the worker, as a "local" one always is: up to 64 KiB on the stack, above that a view of the
    parameter `worker_workspace`. Both are byte buffers, appended as the last two parameters if either is needed;
    the attributes "workspace_bytes" and "worker_workspace_bytes" hold their sizes: integers, or int64 expressions of
    the scalar parameters where an allocation has a symbolic size (`workspace_size` makes them a function).

        t = allocate(float32[1000000])              t = view(float32[1000000], address_of(workspace[0]))
        t[0] = 1                           =>       t[0] = 1

    Private allocations side by side share their position; shared ones do not, as no barrier may lie between them.
    Raises UnsupportedError where a size depends on more than parameters and the ranges of loops.
    """
    planner = _Planner([p for p in func.params if isinstance(p, Var)])
    body = planner(func.body)
    attrs = {**func.attrs, "workspace_bytes": planner.shared_bytes, "worker_workspace_bytes": planner.private_bytes}
    if planner.shared_bytes == 0 and planner.private_bytes == 0:
        return PrimFunc(func.name, func.params, body, attrs)
    workspaces = [
        Buffer("workspace", [planner.shared_bytes], "uint8"),
        Buffer("worker_workspace", [planner.private_bytes], "uint8"),
    ]
    body = substitute(body, {}, dict(zip((planner.shared, planner.private), workspaces, strict=True)))
    return PrimFunc(func.name, [*func.params, *workspaces], body, attrs)


Bytes = int | Expr  # an int64 expression where it is not a constant


class _Planner(StmtRewriter):
    def __init__(self, scalars: list[Var]) -> None:
        super().__init__()
        self.shared = Buffer("workspace", [1], "uint8")  # stand-ins until the sizes are known
        self.private = Buffer("worker_workspace", [1], "uint8")
        self.shared_bytes: Bytes = 0
        self.private_bytes: Bytes = 0
        self.private_top: Bytes = 0
        self.in_share = False
        self.scalars = frozenset(scalars)
        self.analyzer = Analyzer()
        self.loops: dict[Var, Range] = {}  # of the loops around, from outermost to innermost
        self.lets: dict[Var, Expr] = {}

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        """The statement; what the variable is may tell a size."""
        self.lets[stmt.var] = stmt.value
        return self.rebuild(stmt)

    def visit_For(self, loop: For) -> Stmt:
        """The loop; a share's allocations are the worker's own."""
        before, self.in_share = self.in_share, self.in_share or WORKER_SHARE in loop.annotations
        self.loops[loop.var] = Range(loop.min, loop.extent)
        result: Stmt = self.rebuild(loop)
        del self.loops[loop.var]
        self.in_share = before
        return result

    def visit_Allocate(self, stmt: Allocate) -> Stmt:
        """The allocation, or the view in place of it."""
        size = self._bytes(stmt.buffer)
        if stmt.buffer.scope == "global" and not self.in_share:
            offset = self.shared_bytes
            self.shared_bytes = self._aligned(offset, size)
            return DeclBuffer(stmt.buffer, _address(self.shared, offset), self(stmt.body))
        if not isinstance(size, int) or size > STACK_BYTES:
            return self._private_view(stmt, size)
        if stmt.buffer.scope == "global":
            stmt = _on_stack(stmt)
        return self.rebuild(stmt)

    def _private_view(self, stmt: Allocate, size: Bytes) -> Stmt:
        offset = self.private_top
        self.private_top = self._aligned(offset, size)
        self.private_bytes = self._larger(self.private_bytes, self.private_top)
        body = self(stmt.body)
        self.private_top = offset
        return DeclBuffer(stmt.buffer, _address(self.private, offset), body)

    # ------------------------------------------------------------------------------------------------ sizes
    def _bytes(self, buffer: Buffer) -> Bytes:
        """Bytes of `buffer`: where its shape varies within loops, as many as it ever needs."""
        element = buffer.dtype.itemsize * buffer.dtype.lanes
        count = buffer.constant_size()
        if count is not None:
            return count * element
        size: Expr = op.const(element, "int64")
        for dimension in buffer.shape:
            size = size * _wide(self._largest(buffer, dimension))
        return self.analyzer.simplify(size)

    def _largest(self, buffer: Buffer, dimension: Expr) -> Expr:
        while any(v in self.lets for v in collect_vars(dimension)):
            dimension = substitute(dimension, self.lets)
        for var, span in reversed(self.loops.items()):
            used = collect_vars(dimension)
            if var in used:
                top = eval_interval(dimension, {var: span}, self.analyzer).max
                dimension = dimension if top is None else top
        if collect(dimension, BufferLoad, Call) or any(v not in self.scalars for v in collect_vars(dimension)):
            raise UnsupportedError(
                f"temporary {buffer!r} has a size that only the loops around it know; compute it outside of them, or "
                "make its shape depend on scalar parameters alone"
            )
        return dimension

    def _aligned(self, offset: Bytes, size: Bytes) -> Bytes:
        """The first aligned position behind `size` bytes at `offset`."""
        if isinstance(offset, int) and isinstance(size, int):
            return (offset + size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        return self.analyzer.simplify(op.floordiv(_expr(offset) + size + (ALIGNMENT - 1), ALIGNMENT) * ALIGNMENT)

    def _larger(self, a: Bytes, b: Bytes) -> Bytes:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.analyzer.simplify(op.maximum(_expr(a), _expr(b)))


def workspace_size(func: PrimFunc) -> PrimFunc | None:
    """The function `<name>__workspace` that stores the bytes of the two workspaces of `func` to `sizes: int64[2]`.

    It takes the parameters of `func` with `sizes` in place of the workspaces. None where both sizes are constants.
    """
    needs = [func.attrs.get("workspace_bytes", 0), func.attrs.get("worker_workspace_bytes", 0)]
    if all(isinstance(n, int) for n in needs):
        return None
    sizes = Buffer("sizes", [2], "int64")
    stores = [BufferStore(sizes, _expr(n), (op.const(i),)) for i, n in enumerate(needs)]
    return PrimFunc(f"{func.name}__workspace", [*func.params[:-2], sizes], seq(*stores), {"noalias": False})


def _wide(x: Expr) -> Expr:
    """`x` computed as int64 throughout: the product of dimensions may need it."""
    if isinstance(x, (Add, Sub, Mul, FloorDiv, Min, Max)):
        return type(x)(_wide(x.a), _wide(x.b))
    return x.astype("int64")


def _expr(size: Bytes) -> Expr:
    return op.const(size, "int64") if isinstance(size, int) else size


def _address(workspace: Buffer, offset: Bytes) -> Expr:
    index = IntImm("int32" if offset < 2**31 else "int64", offset) if isinstance(offset, int) else offset
    return Call("handle", "address_of", (BufferLoad(workspace, (index,)),))


def _on_stack(stmt: Allocate) -> Allocate:
    old = stmt.buffer
    local = Buffer(old.name, old.shape, old.dtype, "local", old.strides, old.alignment)
    return Allocate(local, substitute(stmt.body, {}, {old: local}))
