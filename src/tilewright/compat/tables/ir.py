"""`tvm.ir`, `tvm.transform`, `tvm.instrument` and `tvm.parser`."""

from tilewright.compat.tables.table import Table, leads_to

_COMPAT = "tilewright.compat"
_TRANSFORM = {
    **leads_to(f"{_COMPAT}.ir.pass_config", "PassContext"),
    **leads_to("tilewright.relay.transform.manager.pass_manager", "Pass"),
    **leads_to("tilewright.relay.transform.manager.pass_info", "PassInfo"),
    **leads_to(
        f"{_COMPAT}.ir.passes", "PrintIR", "Sequential", "function_pass", "module_pass", ModulePass="ClassicPass"
    ),
}
_INSTRUMENT = leads_to(
    "tilewright.relay.transform.manager.instrument",
    "PassInstrument",
    PassTimingInstrument="PassTiming",
    PassPrintingInstrument="PrintPasses",
) | leads_to(f"{_COMPAT}.ir.passes", "pass_instrument")
_TYPES = leads_to(
    "tilewright.relay.ir.type",
    "Type",
    "TensorType",
    "TupleType",
    "FuncType",
    "TypeVar",
    "GlobalTypeVar",
    "TypeCall",
    "RelayRefType",
    "IncompleteType",
    RelayRefType="RefType",
)

_TYPES |= leads_to(f"{_COMPAT}.ir.kinds", "TypeKind")

_NODES = leads_to(
    f"{_COMPAT}.tir.makers",
    *("EnvFunc", "Op", "PointerType", "PrimType", "SourceName", "Span", "make_node", "register_op_attr"),
)

_NODES |= leads_to(f"{_COMPAT}.tir.intrinsic_rules", "register_intrin_lowering")

TABLES = (
    Table(
        "tvm.ir",
        "Modules, types, structural equality.",
        names={
            **leads_to(f"{_COMPAT}.ir.module", "IRModule"),
            **leads_to(f"{_COMPAT}.ir.structure", "structural_equal", "structural_hash", "assert_structural_equal"),
            **_TYPES,
            **leads_to("tilewright.relay.ir.expr", "GlobalVar", RelayExpr="Expr", BaseFunc="Function"),
            **leads_to("tilewright.relay.ir.adt", "Constructor", "TypeData"),
            **leads_to("tilewright.tir", PrimExpr="Expr"),
            **leads_to(f"{_COMPAT}.arith.analyzer", "Range"),
            **leads_to(f"{_COMPAT}.ir.text", "save_json", "load_json"),
            **_NODES,
        },
    ),
    Table(
        "tvm.ir.supply", "Names given out once.", names=leads_to(f"{_COMPAT}.ir.names", "GlobalVarSupply", "NameSupply")
    ),
    Table("tvm.ir.expr", "Ranges.", names=leads_to(f"{_COMPAT}.arith.analyzer", "Range")),
    Table("tvm.ir.op", "Operators.", names=_NODES),
    Table(
        "tvm.ir.base",
        "Nodes: comparing, saving, their positions in texts.",
        names={
            **leads_to(f"{_COMPAT}.ir.structure", "structural_equal", "structural_hash", "assert_structural_equal"),
            **leads_to(f"{_COMPAT}.ir.text", "save_json", "load_json"),
            **leads_to(f"{_COMPAT}.tir.makers", "EnvFunc", "SourceName", "Span", "make_node"),
        },
    ),
    Table(
        "tvm.parser",
        "Programs as text.",
        names=leads_to(f"{_COMPAT}.ir.text", "parse", "parse_expr", "fromtext"),
        refused={"SpanCheck": "errors show the program's text; parse raises where it has none"},
    ),
    Table(
        "tvm.ir.diagnostics",
        "How errors are shown.",
        names=leads_to(f"{_COMPAT}.ir.structure", get_renderer="no_renderer"),
        refused=dict.fromkeys(
            ("DiagnosticRenderer", "override_renderer"),
            "errors are exceptions: their message shows the program's text",
        ),
    ),
    Table("tvm.ir.transform", "Passes.", names=_TRANSFORM),
    Table("tvm.ir.instrument", "Instruments of passes.", names=_INSTRUMENT),
    Table("tvm.ir.module", "Modules.", names=leads_to(f"{_COMPAT}.ir.module", "IRModule")),
    Table("tvm.transform", "Passes.", names=_TRANSFORM),
    Table("tvm.instrument", "Instruments of passes.", names=_INSTRUMENT),
)
