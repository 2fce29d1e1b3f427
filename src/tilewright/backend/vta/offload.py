"""Offloading to VTA: quantization, partitioning, and compilation of the accelerator's regions.

float network -> integers and shifts -> pieces by pattern -> regions -> programs, called from what stays on the host
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tilewright.backend.vta.integers import integers
from tilewright.backend.vta.layers import takes_piece
from tilewright.backend.vta.lower import codegen, compile_region
from tilewright.backend.vta.patterns import PATTERNS
from tilewright.backend.vta.settings import Settings
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import GlobalVar
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.functional.repeat_main import repeat_main
from tilewright.relay.transform.partition.annotate_target import annotate_target
from tilewright.relay.transform.partition.external import is_external
from tilewright.relay.transform.partition.lower_external import lower_external
from tilewright.relay.transform.partition.merge_compiler_regions import merge_compiler_regions
from tilewright.relay.transform.partition.merge_composite import merge_composite
from tilewright.relay.transform.partition.partition_graph import partition_graph
from tilewright.relay.transform.quantize.quantize_to_shifts import Run
from tilewright.support import trace
from tilewright.target import VtaTarget
from tilewright.vta.network.network import Compiled


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
        return repeat_main(lower_external(divided, codegen(settings)), settings.runs)


def partition(mod: IRModule, settings: Settings, run: Run) -> IRModule:
    """The module in integers, the regions for the accelerator as functions of their own."""
    mod, takes = integers(mod, run), partial(takes_piece, settings)
    with trace.span("partition for VTA"):
        mod = merge_composite(mod, [(name, pattern, takes) for name, pattern in PATTERNS.items()])
        return infer_type(partition_graph(merge_compiler_regions(annotate_target(mod, [codegen(settings)]))))


def programs(mod: IRModule, target: VtaTarget, run: Run) -> Iterator[tuple[GlobalVar, Compiled]]:
    """The programs by the names of their regions, for inspection."""
    settings = Settings.of(target)
    for gvar, func in partition(mod, settings, run).functions.items():
        compiled = compile_region(func, settings) if is_external(func) else None
        if compiled is not None:
            yield gvar, compiled
