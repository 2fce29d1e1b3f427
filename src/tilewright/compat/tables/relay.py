"""`tvm.relay`: what its top level holds."""

from tilewright.compat.tables.table import Table, leads_to

_CLASSIC = "tilewright.compat.classic"

EXPR = {
    **leads_to(
        "tilewright.relay.expr",
        "Call",
        "Constant",
        "Expr",
        "Function",
        "GlobalVar",
        "If",
        "Let",
        "RefCreate",
        "RefRead",
        "RefWrite",
        "Tuple",
        "TupleGetItem",
        "Var",
        RelayExpr="Expr",
    ),
    **leads_to(f"{_CLASSIC}.expr", "TupleWrapper", "bind", "const", "var"),
}
TYPES = leads_to(
    "tilewright.relay.type",
    "Any",
    "FuncType",
    "GlobalTypeVar",
    "IncompleteType",
    "RefType",
    "TensorType",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeData",
    "TypeVar",
    "scalar_type",
)
TYPES |= leads_to(f"{_CLASSIC}.kinds", "TypeKind")
ADT = leads_to(
    "tilewright.relay.adt",
    "Clause",
    "Constructor",
    "Match",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
)
#: Builders whose classic results unpack into fields.
TUPLE_VALUED = leads_to(f"{_CLASSIC}.expr", "split")

_ABSENT = {
    "TypeRelation": "type rules are functions of an operator: relay.op.registry.register(type_rule=...)",
    "build_config": "use tvm.transform.PassContext(opt_level=..., ...)",
}

TABLES = (
    Table(
        "tvm.relay",
        "The graph language.",
        names={
            **EXPR,
            **TYPES,
            **ADT,
            **TUPLE_VALUED,
            **leads_to(f"{_CLASSIC}.executor", "build", "create_executor", "optimize"),
            **leads_to(f"{_CLASSIC}.params", "save_param_dict", "load_param_dict"),
            **leads_to(f"{_CLASSIC}.functor", "ExprFunctor", "ExprMutator", "ExprVisitor"),
            **leads_to("tilewright.relay.scope_builder", "ScopeBuilder"),
            **leads_to(f"{_CLASSIC}.module", Module="IRModule"),
            **leads_to(f"{_CLASSIC}.text", "astext", "fromtext", parse="parse"),
        },
        open=("tilewright.relay.op",),
        absent=_ABSENT,
    ),
)
