"""Let the last block that ends do what a second kernel would: add up the parts of sums that blocks computed."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Call, Expr, IntImm, Var
from tilewright.tir.stmt import Allocate, Evaluate, For, ForKind, IfThenElse, PrimFunc, SeqStmt, Stmt, seq
from tilewright.tir.transform.bind_threads import THREAD_AXES, is_thread_loop, thread_extents
from tilewright.tir.visitor import StmtRewriter, substitute

#: The annotation of a thread loop of a kernel that adds up so many parts, which blocks along blockIdx.z of the kernel
#: before it computed.
PARTS = "parts_joined"
#: The scope of counters in the memory of the device: zero when the code is loaded, and again after each launch.
COUNTER = "counter"


def join_parts(func: PrimFunc) -> PrimFunc:
    """`func` with each kernel that adds up parts made the end of the kernel before it.

        for z in blockIdx.z(8): S[z, …] = …              for z in blockIdx.z(8):
        for z in blockIdx.z(2) [parts_joined=4]:     =>      S[z, …] = …
            B[z, …] = S[4 z, …] + … + S[4 z + 3, …]          if the last of its four blocks:
                                                                 B[z // 4, …] = S[z // 4 * 4, …] + …

    The parts are added in their order whichever block is last, so that results have the same bits in every run. Both
    kernels need the same threads, and blocks along x and y; where they differ, or sizes are symbolic, both stay. Runs
    after barriers were placed; a kernel that adds up parts has none.
    """
    return _Joiner()(func)


class _Joiner(StmtRewriter):
    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        """Kernels one after the other."""
        made: list[Stmt] = []
        for stmt in node.stmts:
            joined = _joined(made[-1], stmt) if made and is_thread_loop(made[-1]) and is_thread_loop(stmt) else None
            if joined is None:
                made.append(self(stmt))
            else:
                made[-1] = joined
        return seq(*made)


def _joined(first: Stmt, second: Stmt) -> Stmt | None:
    """The kernel `first` whose last blocks do the work of `second`; None where they do not fit."""
    (loops, body), (others, end) = thread_extents(first), thread_extents(second)
    counts = [loop.annotations[PARTS] for loop in others.values() if PARTS in loop.annotations]
    sizes, wanted = ({tag: _extent(loop) for tag, loop in found.items()} for found in (loops, others))
    if not counts or None in (*sizes.values(), *wanted.values()):
        return None
    z, parts = "blockIdx.z", counts[0]
    axes = [axis for axis in THREAD_AXES if axis != z]
    if any(sizes.get(axis, 1) != wanted.get(axis, 1) for axis in axes) or sizes.get(z, 1) != parts * wanted.get(z, 1):
        return None
    positions = {axis: loops[axis].var if axis in loops else op.const(0) for axis in THREAD_AXES}
    product = op.floordiv(positions[z], op.const(parts))
    values: dict[Var, Expr] = {loop.var: product if tag == z else positions[tag] for tag, loop in others.items()}
    number = op.convert(product)
    for axis in ("blockIdx.y", "blockIdx.x"):
        number = number * (sizes.get(axis) or 1) + positions[axis]
    tiles = (sizes.get("blockIdx.x") or 1) * (sizes.get("blockIdx.y") or 1) * (wanted.get(z) or 1)
    made: Stmt = seq(body, _when_last(number, tiles, parts, substitute(end, values)))
    for tag, loop in reversed(loops.items()):
        made = For(loop.var, loop.min, loop.extent, ForKind.THREAD_BINDING, made, tag, loop.annotations)
    return made


def _when_last(number: Expr, tiles: int, parts: int, end: Stmt) -> Stmt:
    """`end` by the block that is the last of `parts` to come here, of those with the same number below `tiles`."""
    arrived, last = Buffer("arrived", [tiles], "uint32", COUNTER), Buffer("last", [1], "int32", "local")
    here = Evaluate(Call("int32", "arrive", (last[0], arrived[number], op.const(parts))))
    return Allocate(arrived, Allocate(last, seq(here, IfThenElse(last[0] > 0, end))))


def _extent(loop: For) -> int | None:
    return loop.extent.value if isinstance(loop.extent, IntImm) else None
