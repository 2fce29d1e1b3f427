"""The integers that a network is computed in on the accelerator: those of its quantizer, or powers of two as scales."""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.transform.quantize.dequantized_products import dequantized_products
from tilewright.relay.transform.quantize.fake_quantization_to_integer import fake_quantization_to_integer
from tilewright.relay.transform.quantize.int8_products import int8_products
from tilewright.relay.transform.quantize.quantize_to_shifts import Run, quantize_to_shifts
from tilewright.relay.transform.simplify.expand_operators import expand_operators
from tilewright.relay.transform.simplify.fold_constant import fold_constant
from tilewright.relay.transform.simplify.fold_empty import fold_empty
from tilewright.relay.transform.simplify.simplify_expr import simplify_expr
from tilewright.relay.transform.simplify.simplify_inference import simplify_inference
from tilewright.support import trace

#: Of the passes for processors, those that what is quantized becomes plain integers by, in their order.
_TO_INTEGERS = (
    fake_quantization_to_integer, dequantized_products, expand_operators, fold_empty, simplify_inference, simplify_expr,
    fold_constant,
)  # fmt: skip


def integers(mod: IRModule, run: Run) -> IRModule:
    """The module in integers: as on the host where it was quantized elsewhere, its products ones of bytes."""
    with trace.span("quantize for VTA"):
        if not is_quantized(mod):
            return quantize_to_shifts(mod, run=run)
        for graph_pass in _TO_INTEGERS:
            mod = graph_pass(infer_type(mod))
        return int8_products(mod)


def is_quantized(mod: IRModule) -> bool:
    """True for a model that was quantized elsewhere, with scales of its own."""
    nodes = (node for func in mod.functions.values() if isinstance(func, Function) for node in post_order(func.body))
    return any(isinstance(node, Call) and getattr(node.op, "name", "").startswith("qnn.") for node in nodes)
