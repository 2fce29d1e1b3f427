"""The tables of classic names, one file a namespace; `TABLES` has them all by dotted name."""

from tilewright.compat.tables import (
    arith,
    autotvm,
    contrib,
    ir,
    relay,
    relay_parts,
    relay_testing,
    root,
    runtime,
    target,
    te,
    testing,
    tir,
    topi,
)
from tilewright.compat.tables.table import Table

#: Top-level packages that the tables stand for.
ROOTS = ("tvm",)

TABLES: dict[str, Table] = {
    table.name: table
    for module in (
        *(root, ir, runtime, target, testing, contrib),
        *(relay, relay_parts, relay_testing, te, tir, topi, arith, autotvm),
    )
    for table in module.TABLES
}

__all__ = ["ROOTS", "TABLES", "Table"]
