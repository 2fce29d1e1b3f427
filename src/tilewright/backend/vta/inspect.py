"""The stages of a model on its way to the accelerator as text: integers, regions, tiles, instructions."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.backend.vta.integers import integers
from tilewright.backend.vta.offload import partition, programs
from tilewright.backend.vta.settings import Settings
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.quantize.quantize_to_shifts import Run
from tilewright.target import VtaTarget
from tilewright.vta.isa import Isa
from tilewright.vta.network.listing import instruction_lines, schedule_lines

#: The stages, in their order.
STAGES = ("integers", "partition", "schedule", "instructions")


def stage_texts(mod: IRModule, target: VtaTarget, stage: str, kernel: str | None, run: Run) -> Iterator[str]:
    """The texts of a stage; with `kernel`, instructions of the layers whose name contains it.

    Raises `InputError` where there is no such layer.
    """
    settings = Settings.of(target)
    if stage == "integers":
        yield str(integers(mod, run))
        return
    if stage == "partition":
        yield str(partition(mod, settings, run))
        return
    for name, compiled in programs(mod, target, run):
        yield f"# {name.name}, on {settings.config.name} by {settings.threads} virtual threads"
        if stage == "schedule":
            yield from schedule_lines(compiled)
        else:
            yield from instruction_lines(compiled, Isa(settings.config), kernel)
