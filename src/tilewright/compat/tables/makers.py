"""Namespaces of v0.6 and before, which later versions named otherwise."""

from tilewright.compat.tables.table import Table, leads_to

_COMPAT = "tilewright.compat"
_OLDEST = f"{_COMPAT}.driver.top_level"
_NODES = leads_to(_OLDEST, "Block", "Call", "For", "UIntImm") | leads_to("tilewright.tir", StringImm="StringImm")

TABLES = (
    Table(
        "tvm.ir_pass",
        "Passes as functions of a statement or expression.",
        names={
            **leads_to(
                _OLDEST,
                Simplify="simplify",
                CanonicalSimplify="simplify",
                Equal="equal",
                ExprUseVar="uses_variable",
                AttrsEqual="attributes_equal",
                IRTransform="transform",
                MakeAPI="make_api",
                **{
                    name: name
                    for name in (
                        *("LoopPartition", "VectorizeLoop", "UnrollLoop", "HoistIfThenElse", "RemoveNoOp"),
                        *("InjectVirtualThread", "InjectDoubleBuffer", "InjectPrefetch", "StorageRewrite"),
                        *("LowerTVMBuiltin", "ThreadSync", "LowerWarpMemory"),
                    )
                },
            ),
            **leads_to(f"{_COMPAT}.tir.stmt_functor", PostOrderVisit="post_order_visit", Substitute="substitute"),
        },
        refused={
            name: advice
            for names, advice in (
                (("StorageFlatten",), "tvm.lower(schedule, args) gives loops over buffers"),
                (("SplitHostDevice", "LowerIntrin", "CombineContextCall"), "tvm.build does it by itself"),
                (("VerifySSA", "VerifyMemory", "VerifyGPUCode"), "functions are checked as they are lowered"),
                (("InjectCopyIntrin", "CoProcSync", "LiftAttrScope"), "see docs/vta.md for the accelerator's pragmas"),
                (("Inline", "ConvertSSA", "RewriteUnsafeSelect", "DecorateDeviceScope"), "it is not needed here"),
            )
            for name in names
        },
    ),
    Table(
        "tvm.make",
        "Nodes by their makers.",
        names={
            **leads_to(_OLDEST, "Block", "Call", "For", "range_by_min_extent"),
            **leads_to(f"{_COMPAT}.tir.makers", node="make_node"),
            **leads_to(f"{_COMPAT}.tir.stmt_functor", "stmt_list"),
        },
        open=(f"{_COMPAT}.tir.nodes", "tilewright.tir.expr", "tilewright.tir.stmt"),
    ),
    Table("tvm.expr", "Expressions.", names=_NODES, open=(f"{_COMPAT}.tir.nodes", "tilewright.tir.expr")),
    Table("tvm.stmt", "Statements.", names=_NODES, open=(f"{_COMPAT}.tir.nodes", "tilewright.tir.stmt")),
    Table(
        "tvm.tensor",
        "Tensors and operations.",
        open=("tilewright.te.tensor", "tilewright.te.operation"),
        names=leads_to("tilewright.te.scan", "ScanOp")
        | leads_to("tilewright.te.extern", "ExternOp")
        | leads_to(f"{_COMPAT}.tir.layout", "BijectiveLayout", "Layout"),
    ),
    Table(
        "tvm.codegen",
        "The code generator.",
        names={
            **leads_to(f"{_COMPAT}.driver.build", build_module="build"),
            **leads_to(f"{_COMPAT}.target.target", "llvm_version_major"),
        },
    ),
    Table("tvm.api", "What the top of the package has."),
    Table("tvm.relay.module", "Modules.", names=leads_to(f"{_COMPAT}.ir.module", Module="IRModule")),
    Table("tvm.relay.parser", "Programs as text.", names=leads_to(f"{_COMPAT}.ir.text", "fromtext")),
    Table(
        "tvm.relay.feature",
        "Parts of the language.",
        names=leads_to(f"{_COMPAT}.relay.features", "Feature", "detect_feature"),
    ),
    Table("tvm.relay.testing.config", "Targets of tests.", names=leads_to(_OLDEST, "ctx_list")),
    Table(
        "tvm.contrib.debugger.debug_runtime",
        "The graph executor with looking inside.",
        names=leads_to(
            f"{_COMPAT}.relay.debug_executor", "GraphModuleDebug", "create", GraphModuleDebug="GraphModuleDebug"
        ),
    ),
)
