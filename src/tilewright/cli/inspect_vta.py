"""`tilewright inspect MODEL --target vta`: what the accelerator runs of a model, its tiles and its instructions."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.cli.options import parse_shapes
from tilewright.errors import UnsupportedError

#: The stages of a model on its way to the accelerator, in their order.
VTA_STAGES = ("integers", "partition", "schedule", "instructions")


def vta_texts(model: str, stage: str, kernel: str | None, target_name: str, shapes: str | None) -> Iterator[str]:
    """The texts of a stage; with `kernel`, instructions of the layers whose name contains it.

    Raises `UnsupportedError` for an unknown stage, `InputError` where there is no such layer.
    """
    # only when it runs: `tilewright --help` reads this module, and the compiler is slow to import
    from tilewright.backend.vta.offload import partition, programs
    from tilewright.backend.vta.settings import Settings, using
    from tilewright.compile import compile
    from tilewright.frontend.formats.import_model import import_model
    from tilewright.relay.ir.module import IRModule
    from tilewright.relay.transform.quantize.quantize_to_shifts import quantize_to_shifts
    from tilewright.target import VtaTarget
    from tilewright.vta.isa import Isa
    from tilewright.vta.network.listing import instruction_lines, schedule_lines

    if stage not in VTA_STAGES:
        raise UnsupportedError(f"there is no stage {stage!r} for VTA; known: {', '.join(VTA_STAGES)}")
    target = VtaTarget.parse(target_name)
    mod = import_model(model, parse_shapes(shapes))
    run = lambda function, inputs: compile(IRModule.from_expr(function)).run(inputs)  # noqa: E731
    if stage == "integers":
        yield str(quantize_to_shifts(mod, run=run))
        return
    settings = Settings.of(target)
    if stage == "partition":
        with using(settings):
            yield str(partition(mod, run))
        return
    for name, compiled in programs(mod, target, run):
        yield f"# {name.name}, on {settings.config.name} by {settings.threads} virtual threads"
        if stage == "schedule":
            yield from schedule_lines(compiled)
        else:
            yield from instruction_lines(compiled, Isa(settings.config), kernel)
