"""The buffers that a statement reads and writes."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr
from tilewright.tir.intrinsics import written_through
from tilewright.tir.stmt import BufferStore, Stmt
from tilewright.tir.visitor import collect


@dataclass(frozen=True)
class Accesses:
    """The buffers that are read and written, in order of first use."""

    reads: dict[Buffer, None]
    writes: dict[Buffer, None]


def accesses_of(*parts: Stmt | Expr) -> Accesses:
    """The buffers that `parts` read and write; memory whose address is taken to write counts as both."""
    found = Accesses({}, {})
    for node in collect(parts, BufferStore, BufferLoad, Call):
        if isinstance(node, BufferLoad):
            found.reads[node.buffer] = None
        elif isinstance(node, BufferStore):
            found.writes[node.buffer] = None
        elif isinstance(node, Call) and node.op == "address_of" and written_through(node):
            found.writes[node.args[0].buffer] = None  # type: ignore[attr-defined]
    return found
