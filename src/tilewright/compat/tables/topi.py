"""`tvm.topi`: the names of this package's own `topi`."""

from tilewright.compat.tables.table import Table

TABLES = (
    Table("tvm.topi", "The operator library.", open=("tilewright.topi",)),
    Table("tvm.topi.nn", "Operators of neural networks.", open=("tilewright.topi.nn",)),
    Table("tvm.topi.image", "Operators of images.", open=("tilewright.topi.image",)),
)
