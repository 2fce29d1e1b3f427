"""`tvm.target`."""

from tilewright.compat.tables.table import Table, leads_to

TABLES = (
    Table(
        "tvm.target",
        "What code is made for.",
        names=leads_to("tilewright.compat.classic.target", "Target", "create", "llvm", "arm_cpu", "cuda"),
    ),
)
