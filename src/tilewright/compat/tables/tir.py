"""`tvm.tir`: the names of this package's own `tir`, with the classic walkers and passes."""

from tilewright.compat.tables.table import Table, leads_to
from tilewright.compat.tables.te import MORE_MATH

_COMPAT = "tilewright.compat"
_NAMES = {
    **leads_to(f"{_COMPAT}.te.ops", "div", "indexdiv", "indexmod", "max_value", "min_value"),
    **leads_to(f"{_COMPAT}.te.decl_buffer", "decl_buffer"),
    **leads_to(
        f"{_COMPAT}.tir.math",
        *MORE_MATH,
        "call_intrin",
        "call_llvm_intrin",
        "call_llvm_pure_intrin",
        "call_pure_extern",
    ),
    **leads_to(f"{_COMPAT}.tir.intrinsic_rules", "CallEffectKind"),
    **leads_to("tilewright.relay.ir.type", "Any"),
    **leads_to("tilewright.te", "IterVar"),
    **leads_to(f"{_COMPAT}.tir.schedule", "Schedule"),
    **leads_to("tilewright.errors", "ScheduleError"),
    **leads_to("tilewright.tir", PrimExpr="Expr", max="maximum", min="minimum", stmt_seq="seq"),
    **leads_to(f"{_COMPAT}.tir.stmt_functor", "stmt_list"),
}

TABLES = (
    Table(
        "tvm.tir.data_layout",
        "Layouts.",
        names=leads_to(f"{_COMPAT}.tir.layout", "BijectiveLayout", "Layout", "bijective_layout", "layout"),
    ),
    Table(
        "tvm.tir",
        "The loop language.",
        names={
            **_NAMES,
            **leads_to(f"{_COMPAT}.tir.layout", "BijectiveLayout", "Layout", "bijective_layout", "layout"),
        },
        open=(f"{_COMPAT}.tir.nodes", "tilewright.tir"),
        absent={
            "Prefetch": "use Stage.prefetch of a schedule",
            "ProducerRealize": "memory is an Allocate of a Buffer from the start",
        },
        refused={"TensorIntrin": "Schedule.tensorize takes an intrinsic of te.decl_tensor_intrin"},
    ),
    Table(
        "tvm.tir.expr",
        "Expressions.",
        names=leads_to("tilewright.tir.operators", "EqualOp"),
        open=(f"{_COMPAT}.tir.nodes", "tilewright.tir.expr"),
    ),
    Table("tvm.tir.stmt", "Statements.", open=(f"{_COMPAT}.tir.nodes", "tilewright.tir.stmt")),
    Table(
        "tvm.tir.schedule",
        "Schedules of functions by their blocks.",
        names={
            **leads_to(f"{_COMPAT}.tir.schedule", "BlockRV", "LoopRV", "Schedule"),
            **leads_to("tilewright.errors", "ScheduleError"),
        },
    ),
    Table(
        "tvm.tir.schedule.testing",
        "Checks of schedules.",
        names=leads_to(f"{_COMPAT}.ir.structure", "assert_structural_equal_ignore_global_symbol"),
        refused={"verify_trace_roundtrip": "Schedule.trace is text to read; run the steps again to repeat them"},
    ),
    Table(
        "tvm.tir.buffer",
        "Buffers.",
        names=leads_to("tilewright.tir", "Buffer") | leads_to(f"{_COMPAT}.te.decl_buffer", "decl_buffer"),
    ),
    Table("tvm.tir.function", "Functions.", names=leads_to(f"{_COMPAT}.tir.nodes", "PrimFunc")),
    Table("tvm.tir.op", "Functions of expressions.", names=_NAMES, open=("tilewright.tir.op",)),
    Table(
        "tvm.tir.stmt_functor",
        "Walking and rewriting.",
        names=leads_to(f"{_COMPAT}.tir.stmt_functor", "ir_transform", "post_order_visit", "substitute"),
    ),
    Table(
        "tvm.tir.analysis",
        "Questions about functions.",
        names=leads_to(f"{_COMPAT}.arith.analyzer", "expr_deep_equal"),
    ),
    Table(
        "tvm.tir.transform",
        "Passes over loop functions.",
        names=leads_to(f"{_COMPAT}.tir.passes", "Apply", "prim_func_pass"),
        open=(f"{_COMPAT}.tir.transform",),
        absent={"SplitHostDevice": "tvm.build separates kernels from the host's part by itself"},
    ),
)
