"""The accelerator VTA beside a processor: it takes parts of a graph, and the processor runs the rest and calls it."""

from __future__ import annotations

from tilewright.backend.backend import Backend, Run
from tilewright.backend.vta.offload import offload
from tilewright.relay.ir.module import IRModule
from tilewright.target import Target, VtaTarget


class VtaBackend(Backend):
    """VTA; what is compiled after `offload` is for the processor."""

    target: VtaTarget

    def offload(self, mod: IRModule, run: Run) -> tuple[IRModule, Target]:
        """The module with calls of the accelerator's programs, for the processor beside it."""
        processor = self.target.processor
        return offload(mod, self.target, lambda function, inputs: run(function, processor, inputs)), processor
