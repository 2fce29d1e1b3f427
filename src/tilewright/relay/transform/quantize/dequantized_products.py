"""Products of two dequantized values are products of the integers, scaled: what quantized graphs leave in real numbers.

Before: %0 = qnn.dequantize(%x, 0.5f, 3); %1 = qnn.dequantize(w, 0.25f, 0); nn.dense(%0, %1)
After:  %0 = qnn.dense(%x, w, 3, 0, 0.5f, 0.25f);                                                              (int32)
        multiply(cast(%0, "float32"), 0.125f)

It takes what `fake_quantization_to_integer` left, whose products lead to a `quantize`. Sums of integers are exact, so
the result differs from that of floats by the rounding of the float sum. Other weights that are stored as bytes become
floats here, once.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.tensor import cast, multiply
from tilewright.relay.transform.quantize.fake_quantization_to_integer import Known, integers_of, rule_for
from tilewright.relay.transform.simplify.fold_constant import ANY_SIZE, fold_call
from tilewright.relay.transform.simplify.make import along_axis, is_call


def dequantized_products(mod: IRModule) -> IRModule:
    """Multiply integers where both operands are dequantized; see the module's docstring."""
    rule = partial(_rule, memo={})
    mod = infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, rule)))
    return infer_type(mod.map_functions(lambda func: func.with_body(rewrite(func.body, _as_floats))))


def _rule(node: Expr, memo: Known) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Op) or not node.op.quantized:
        return None
    rule = rule_for(node.op)
    if rule is None or tensor_type_of(node).dtype != "float32":
        return None
    operands = [integers_of(arg, memo) for arg in node.args]
    known: Known = {arg: operand for arg, operand in zip(node.args, operands, strict=True) if operand is not None}
    found = rule(node, known)
    if found is None:
        return None
    scale: Expr = Constant(np.asarray(found.scale, np.float32).reshape(-1 if found.scale.size > 1 else ()))
    if found.scale.size > 1:
        scale = along_axis(scale, found.axis, tensor_type_of(node).ndim)
    return multiply(cast(found.expr, "float32"), scale)


def _as_floats(node: Expr) -> Expr | None:
    """Dequantized constants that no product of integers takes, as floats, whatever their size."""
    return fold_call(node, ANY_SIZE) if isinstance(node, Call) and is_call(node, "qnn.dequantize") else None
