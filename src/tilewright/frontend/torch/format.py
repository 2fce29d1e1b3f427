"""PyTorch among the formats: archives of `torch.export.save`, and programs in memory."""

from __future__ import annotations

from typing import Any

from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Frontend, Shapes
from tilewright.frontend.source import Source
from tilewright.frontend.torch import from_pytorch
from tilewright.relay.ir.module import IRModule


class TorchFrontend(Frontend):
    """Programs of `torch.export`."""

    name = "torch"
    kind = "a program of torch.export (.pt2)"
    in_memory = "a torch.export.ExportedProgram"

    def recognizes(self, source: Source) -> bool:
        """An archive that names its format, and has a model in JSON."""
        names = source.members
        return any(name.rpartition("/")[2] == "archive_format" for name in names) and any(
            "models/" in name and name.endswith(".json") for name in names
        )

    def takes(self, model: object) -> bool:
        """An `ExportedProgram`."""
        return type(model).__name__ == "ExportedProgram"

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        """As `from_pytorch`."""
        return from_pytorch(model, input_shapes)
