"""The tables of classic names, one file a namespace; `TABLES` has them all by dotted name."""

from tilewright.compat.tables import (
    arith,
    auto_scheduler,
    autotvm,
    contrib,
    ir,
    makers,
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
    vta,
)
from tilewright.compat.tables.table import Table

#: Top-level packages that the tables stand for.
ROOTS = ("tvm", "topi", "vta")

TABLES: dict[str, Table] = {
    table.name: table
    for module in (
        *(root, ir, runtime, target, testing, contrib, makers),
        *(relay, relay_parts, relay_testing, te, tir, topi, arith, autotvm, auto_scheduler, vta),
    )
    for table in module.TABLES
}
#: Until v0.6 the operator library was a package of its own: `topi.nn` is `tvm.topi.nn`.
TABLES |= {name.removeprefix("tvm."): table for name, table in TABLES.items() if name.startswith("tvm.topi")}

__all__ = ["ROOTS", "TABLES", "Table"]
