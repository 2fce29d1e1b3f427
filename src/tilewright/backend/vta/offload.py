"""A network for an accelerator and the processor beside it: quantized, divided, and the accelerator's part compiled.

float network -> integers and shifts -> pieces by pattern -> regions -> programs, called from what stays on the host
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tilewright.backend.vta.layers import takes_piece
from tilewright.backend.vta.lower import codegen, compile_region
from tilewright.backend.vta.patterns import PATTERNS
from tilewright.backend.vta.settings import Settings
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Call, Function, GlobalVar
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import post_order
from tilewright.relay.transform.partition.annotate_target import annotate_target
from tilewright.relay.transform.partition.external import is_external
from tilewright.relay.transform.partition.lower_external import lower_external
from tilewright.relay.transform.partition.merge_compiler_regions import merge_compiler_regions
from tilewright.relay.transform.partition.merge_composite import merge_composite
from tilewright.relay.transform.partition.partition_graph import partition_graph
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
from tilewright.target import VtaTarget
from tilewright.vta.network.network import Compiled

#: Of the passes for processors, those that what is quantized becomes plain integers by, in their order.
_TO_INTEGERS = (
    fake_quantization_to_integer, dequantized_products, expand_operators, fold_empty, simplify_inference, simplify_expr,
    fold_constant,
)  # fmt: skip


def offload(mod: IRModule, settings: Settings, run: Run) -> IRModule:
    """The module with calls of the accelerator's programs in it; `run` computes a function while it is quantized.

    Raises `UnsupportedError` where nothing of it runs on the accelerator.
    """
    divided = partition(mod, settings, run)
    if not any(is_external(func) for func in divided.functions.values()):
        raise UnsupportedError(
            "nothing of this model runs on VTA, which takes convolutions and dense layers of constant weights with "
            'what follows them (docs/vta.md); compile it for "cpu"'
        )
    with trace.span("programs for VTA"):
        return lower_external(divided, codegen(settings))


def integers(mod: IRModule, run: Run) -> IRModule:
    """The module in integers and shifts."""
    with trace.span("quantize for VTA"):
        return _integers(mod) if is_quantized(mod) else quantize_to_shifts(mod, run=run)


def partition(mod: IRModule, settings: Settings, run: Run) -> IRModule:
    """The module in integers, the regions for the accelerator as functions of their own."""
    mod, takes = integers(mod, run), partial(takes_piece, settings)
    with trace.span("partition for VTA"):
        mod = merge_composite(mod, [(name, pattern, takes) for name, pattern in PATTERNS.items()])
        return infer_type(partition_graph(merge_compiler_regions(annotate_target(mod, [codegen(settings)]))))


def is_quantized(mod: IRModule) -> bool:
    """True for a model that was quantized elsewhere, with scales of its own."""
    nodes = (node for func in mod.functions.values() if isinstance(func, Function) for node in post_order(func.body))
    return any(isinstance(node, Call) and getattr(node.op, "name", "").startswith("qnn.") for node in nodes)


def _integers(mod: IRModule) -> IRModule:
    """The integers that such a model means, as on the host, its products ones of bytes."""
    for graph_pass in _TO_INTEGERS:
        mod = graph_pass(infer_type(mod))
    return int8_products(mod)


def programs(mod: IRModule, target: VtaTarget, run: Run) -> Iterator[tuple[GlobalVar, Compiled]]:
    """The programs for the accelerator, by the names of their regions: for looking at."""
    settings = Settings.of(target)
    for gvar, func in partition(mod, settings, run).functions.items():
        compiled = compile_region(func, settings) if is_external(func) else None
        if compiled is not None:
            yield gvar, compiled
