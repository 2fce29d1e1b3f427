"""`tvm.tir`: the names of this package's own `tir`."""

from tilewright.compat.tables.table import Table

TABLES = (Table("tvm.tir", "The loop language.", open=("tilewright.tir",)),)
