"""`tvm.te`: the names of this package's own `te`."""

from tilewright.compat.tables.table import Table

TABLES = (Table("tvm.te", "The tensor language.", open=("tilewright.te",)),)
