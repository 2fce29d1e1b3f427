"""The operators named compute in another element type: operands cast before, results cast back.

Before: nn.conv2d(%x, %w)                                                              (dtype="int8", out_dtype="int32")
After:  cast(nn.conv2d(cast(%x, "int8"), cast(%w, "int8"), out_dtype="int32"), "float32")

Nothing is scaled, so values are cut hard: it is for measuring an operator in that type, not for quantizing a model.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import post_order, rewrite
from tilewright.relay.op.tensor import cast


def recast(
    mod: IRModule, dtype: str, out_dtype: str, ops: Sequence[str] = ("nn.conv2d",), skip_layers: Sequence[int] = ()
) -> IRModule:
    """Recast the calls of `ops` in every function, but those whose number among them is in `skip_layers`.

    Negative numbers count from the last call.
    """
    mod = infer_type(mod)
    return infer_type(
        mod.map_functions(lambda func: func.with_body(_recast(func.body, dtype, out_dtype, ops, skip_layers)))
    )


def _recast(root: Expr, dtype: str, out_dtype: str, ops: Sequence[str], skip_layers: Sequence[int]) -> Expr:
    named = [n for n in post_order(root) if isinstance(n, Call) and isinstance(n.op, Op) and n.op.name in ops]
    skipped = {named[i] for i in skip_layers if -len(named) <= i < len(named)}
    fresh: dict[Expr, Expr] = {}
    for call in named:
        if call in skipped:
            continue
        args = [cast(rewrite(arg, lambda _node: None, fresh), dtype) for arg in call.args]
        attrs = call.attrs.replace(out_dtype=out_dtype) if "out_dtype" in call.attrs else call.attrs
        fresh[call] = cast(Call(call.op, args, attrs, call.span), str(tensor_type_of(call).dtype))
    return rewrite(root, lambda _node: None, fresh)
