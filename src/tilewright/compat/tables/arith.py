"""`tvm.arith`: classic results from this package's own `arith`."""

from tilewright.compat.tables.table import Table, leads_to

_NAMES = leads_to(
    "tilewright.compat.classic.arith",
    "Analyzer",
    "ConstIntBound",
    "IntSet",
    "IntervalSet",
    "ModularSet",
    "deduce_bound",
    "detect_clip_bound",
    "detect_linear_equation",
)

TABLES = (
    Table("tvm.arith", "Integer analysis.", names=_NAMES, open=("tilewright.arith",)),
    Table("tvm.arith.analyzer", "The analyzer.", names=_NAMES),
    Table("tvm.arith.int_set", "Sets of integers.", names=leads_to("tilewright.compat.classic.arith", "IntSet")),
)
