"""Let buffers that are not needed at the same time share one position in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Expr, IntImm, Var
from tilewright.tir.stmt import Allocate, BufferStore, DeclBuffer, Evaluate, For, PrimFunc, SeqStmt, Stmt, While
from tilewright.tir.transform.accesses import accesses_of
from tilewright.tir.transform.injective import injective
from tilewright.tir.transform.statements import walk
from tilewright.tir.visitor import StmtRewriter, collect, substitute

#: Bytes from which on a buffer of each scope is worth a position: smaller ones in "global" end up in registers or on
#: the stack, where the compiler behind the code generator does better.
SMALLEST = {"global": 4096, "shared": 0, "shared.dyn": 0}


def storage_rewrite(func: PrimFunc) -> PrimFunc:
    """`func` with allocations of one scope and element type merged where their uses do not overlap.

        t = allocate(float32[4096])              t = allocate(float32[4096])
        u = allocate(float32[4096])              for i in range(4096):
        for i in range(4096):                        t[i] = a[i] + 1.0
            t[i] = a[i] + 1.0            =>      for j in range(4096):
        for j in range(4096):                        t[j] = t[j] * 2.0
            u[j] = t[j] * 2.0                    …
        …

    A buffer lives from the first statement beside its allocation that touches it to the last. One that is made, element
    by element, by the statement that reads another for the last time reuses its memory (as above) if each element
    depends on the one at the same index alone. Buffers of different sizes share the larger one; symbolic sizes must be
    the same expression. Runs on flat buffers, before the passes that insert barriers: these see one buffer.
    """
    return func.with_body(_Merger()(func.body))


@dataclass
class _Slot:
    """Memory that buffers have one after the other; the last of them lives until the statement number `until`."""

    buffers: list[Buffer]
    until: int
    size: Expr = field(init=False)

    def __post_init__(self) -> None:
        self.size = self.buffers[0].shape[0]

    def fits(self, buffer: Buffer) -> bool:
        """True if `buffer` may be put here, once nothing else is."""
        first, size = self.buffers[0], buffer.shape[0]
        if first.dtype is not buffer.dtype or first.scope != buffer.scope:
            return False
        return size is self.size or (isinstance(size, IntImm) and isinstance(self.size, IntImm))

    def waste(self, buffer: Buffer) -> int:
        """By how many elements the larger of the position and `buffer` exceeds the other."""
        size = buffer.shape[0]
        both = isinstance(size, IntImm) and isinstance(self.size, IntImm)
        return abs(size.value - self.size.value) if both else 0  # type: ignore[attr-defined]

    def take(self, buffer: Buffer, until: int) -> None:
        """Put `buffer` here."""
        size = buffer.shape[0]
        if isinstance(size, IntImm) and isinstance(self.size, IntImm) and size.value > self.size.value:
            self.size = size
        self.buffers.append(buffer)
        self.until = until


class _Merger(StmtRewriter):
    def visit_Allocate(self, node: Allocate) -> Stmt:
        """The allocations just inside each other, merged; then what is inside of them."""
        buffers, body = [node.buffer], node.body
        while isinstance(body, Allocate):
            buffers.append(body.buffer)
            body = body.body
        positions = _positions(
            [b for b in buffers if _is_large(b)], body.stmts if isinstance(body, SeqStmt) else (body,)
        )
        shared: dict[Buffer, Buffer] = {}
        for position in positions:
            if len(position.buffers) > 1:
                shared.update(dict.fromkeys(position.buffers, _merged(position)))
        body = self(substitute(body, {}, shared) if shared else body)
        made = list(dict.fromkeys(shared.get(b, b) for b in buffers))
        if not shared and body is _innermost(node):
            return node
        for buffer in reversed(made):
            body = Allocate(buffer, body)
        return body


def _innermost(stmt: Stmt) -> Stmt:
    while isinstance(stmt, Allocate):
        stmt = stmt.body
    return stmt


def _is_large(buffer: Buffer) -> bool:
    least, size = SMALLEST.get(buffer.scope), buffer.constant_size()
    if least is None or len(buffer.shape) != 1 or buffer.strides is not None:
        return False
    return size is None or size * buffer.dtype.itemsize * buffer.dtype.lanes >= least


def _positions(buffers: Sequence[Buffer], parts: Sequence[Stmt]) -> list[_Slot]:
    """The offset of each of `buffers`, each used within `parts`; a slot is free after its last use."""
    used = [accesses_of(part) for part in parts] if len(buffers) > 1 else []
    lives = []
    for buffer in buffers:
        at = [i for i, found in enumerate(used) if buffer in found.reads or buffer in found.writes]
        if at:
            lives.append((at[0], at[-1], buffer))
    positions: list[_Slot] = []
    for first, last, buffer in sorted(lives, key=lambda life: life[0]):
        free = [
            p
            for p in positions
            if p.fits(buffer)
            and (p.until < first or (p.until == first and _in_place(parts[first], p.buffers[-1], buffer)))
        ]
        if free:
            min(free, key=lambda p: p.waste(buffer)).take(buffer, last)
        else:
            positions.append(_Slot([buffer], last))
    return positions


def _merged(position: _Slot) -> Buffer:
    """The buffer that stands for all of a position."""
    first = position.buffers[0]
    if position.size is first.shape[0]:
        return first
    return Buffer(
        first.name, [position.size], first.dtype, first.scope, None, max(b.alignment for b in position.buffers)
    )


def _in_place(part: Stmt, old: Buffer, new: Buffer) -> bool:
    """True if `part` makes each element of `new` once, from the element of `old` at the same index and no other."""
    inside = list(walk(part))
    stores = [s for s in inside if isinstance(s, BufferStore) and s.buffer is new]
    loads = [x for x in collect(part, BufferLoad) if x.buffer is old or x.buffer is new]
    if len(stores) != 1 or any(isinstance(s, BufferStore) and s.buffer is old for s in inside):
        return False
    if any(isinstance(s, DeclBuffer | Evaluate | While) for s in inside):  # addresses, and what is done again
        return False
    (store,) = stores
    if any(x.buffer is new or x.indices != store.indices for x in loads):
        return False
    if sum(x.buffer is old for s in inside if s is not store for x in _own_loads(s)):
        return False
    loops = [s for s in inside if isinstance(s, For) and any(t is store for t in walk(s))]
    ranges = {loop.var: loop.extent.value if isinstance(loop.extent, IntImm) else 2**62 for loop in loops}
    return len(store.indices) == 1 and injective(store.indices[0], ranges)


def _own_loads(stmt: Stmt) -> list[BufferLoad]:
    """The loads in the expressions of `stmt` itself."""
    return collect([x for x in stmt.fields() if isinstance(x, Expr) and not isinstance(x, Var)], BufferLoad)
