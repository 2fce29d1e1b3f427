"""`tvm.te`: the names of this package's own `te`, math of `tir`, and what classic schedules were looked at with."""

from tilewright.compat.tables.table import Table, leads_to

_COMPAT = "tilewright.compat"
#: Functions of expressions that the classic `te` has from `tir`.
MATH = (
    *("abs", "all", "any", "ceil", "cos", "erf", "exp", "floor", "floordiv", "floormod", "if_then_else", "isnan"),
    *("log", "power", "round", "rsqrt", "sigmoid", "sin", "sqrt", "tan", "tanh", "trunc", "truncdiv", "truncmod"),
    "const",
)
MORE_MATH = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cosh", "exp10", "exp2", "fmod"),
    *("hypot", "log10", "log1p", "log2", "popcount", "sinh", "clz", "ldexp", "nearbyint", "nextafter"),
)

#: Schedules, and the steps of lowering them.
SCHEDULE = {
    **leads_to(f"{_COMPAT}.te.ops", "InferBound", "ScheduleOps"),
    **leads_to(
        "tilewright.te",
        AutoInlineBroadcast="auto_inline_broadcast",
        AutoInlineElemWise="auto_inline_elemwise",
        AutoInlineInjective="auto_inline_injective",
    ),
    **leads_to("tilewright.te", "Schedule", "Stage", "IterVar", "create_schedule"),
    **leads_to("tilewright.te.loop_relation", "Fuse", "Singleton", "Split"),
    **leads_to("tilewright.tir", "Buffer"),
}

TABLES = (
    Table(
        "tvm.te",
        "The tensor language.",
        names={
            **leads_to(
                f"{_COMPAT}.te.ops",
                "comm_reducer",
                "div",
                "indexdiv",
                "indexmod",
                "max",
                "max_value",
                "min",
                "min_value",
            ),
            **leads_to(f"{_COMPAT}.te.tensor_intrin", "decl_tensor_intrin"),
            **leads_to(f"{_COMPAT}.te.tensor_function", "create_prim_func"),
            **leads_to("tilewright.tir", *MATH),
            **leads_to(f"{_COMPAT}.tir.math", *MORE_MATH),
        },
        open=("tilewright.te",),
    ),
    Table(
        "tvm.te.hybrid",
        "Functions of Python as computations.",
        names=leads_to("tilewright.te.hybrid", "script"),
        refused=dict.fromkeys(
            ("HybridModule", "build"), "loops are not written as Python: print tvm.lower(schedule, args) to read them"
        ),
    ),
    Table(
        "tvm.te.schedule",
        "Schedules, and the steps of lowering them.",
        names=SCHEDULE,
    ),
    Table("tvm.te.tensor", "Tensors and operations.", open=("tilewright.te.tensor", "tilewright.te.operation")),
    Table("tvm.te.operation", "Operations.", open=("tilewright.te",)),
)
