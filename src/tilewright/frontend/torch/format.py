"""PyTorch among the formats: exported programs, in memory and as `.pt2` archives. Imports torch only to read one."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Frontend, Shapes
from tilewright.frontend.source import Source
from tilewright.frontend.torch import from_pytorch
from tilewright.frontend.torch.load import is_program
from tilewright.relay.ir.module import IRModule


class TorchFrontend(Frontend):
    """What `torch.export.export` gives and `torch.export.save` writes."""

    name = "torch"
    kind = "a program of torch.export (.pt2)"
    in_memory = "a torch.export.ExportedProgram"

    def recognizes(self, source: Source) -> bool:
        """An archive with the entry that names its format and a graph as JSON, under one folder."""
        return is_program(source)

    def takes(self, model: object) -> bool:
        """A `torch.export.ExportedProgram`."""
        kind = type(model)
        return kind.__name__ == "ExportedProgram" and kind.__module__.startswith("torch.export")

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        """As `from_pytorch`."""
        return from_pytorch(model, input_shapes)
