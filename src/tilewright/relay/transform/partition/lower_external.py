"""Calls of the functions of external code generators become what those code generators made of them.

Before: def @host_0(%i0, Compiler="host", …) { nn.relu(nn.dense(%i0, w)) }    def @main(%x) { @host_0(%x) }
After:  def @main(%x) { external.host(%x, w, steps=[["nn.dense", …], ["nn.relu", …]], …) }

The compiler runs it first, so that its own passes see no function that is not theirs. Composite functions that no code
generator took are put back in place.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Expr, GlobalVar
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.transform.partition.external import ExternalCodegen, find_external, in_place, is_external


def lower_external(mod: IRModule, codegen: ExternalCodegen | None = None) -> IRModule:
    """Replace calls of functions with the attribute `Compiler` or `Composite`; `mod` itself if it has none.

    Those of `codegen` are its own, which need not be registered. Raises `UnsupportedError` where no code generator has
    that name.
    """
    external = {gvar: func for gvar, func in infer_type(mod).functions.items() if is_external(func)}

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not isinstance(node.op, GlobalVar) or node.op not in external:
            return None
        func = external[node.op]
        own = codegen if codegen is not None and func.attrs.Compiler == codegen.name else None
        return (own or find_external(func.attrs.Compiler)).lower(func, node.args)

    rest = {gvar: func for gvar, func in mod.functions.items() if gvar not in external}
    if external:
        mod = mod.with_functions(rest).map_functions(lambda func: func.with_body(rewrite(func.body, rule)))
    return infer_type(mod.map_functions(lambda func: func.with_body(in_place(func.body))))
