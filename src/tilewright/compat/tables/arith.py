"""`tvm.arith`: the names of this package's own `arith`."""

from tilewright.compat.tables.table import Table

TABLES = (Table("tvm.arith", "Integer analysis.", open=("tilewright.arith",)),)
