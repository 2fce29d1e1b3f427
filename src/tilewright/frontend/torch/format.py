"""PyTorch among the formats: exported programs, in memory and as `.pt2` archives. Imports torch only to read one."""

from __future__ import annotations

import sys
from typing import Any

from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Frontend, Shapes
from tilewright.frontend.reference import Reference
from tilewright.frontend.source import Source
from tilewright.frontend.torch import from_pytorch, need_torch
from tilewright.frontend.torch.core import missing_core
from tilewright.frontend.torch.families import supported_operators
from tilewright.frontend.torch.load import is_program
from tilewright.relay.ir.module import IRModule


class TorchFrontend(Frontend):
    """The results of `torch.export.export` and the files of `torch.export.save`."""

    name = "torch"
    kind = "a program of torch.export (.pt2)"
    in_memory = "a torch.export.ExportedProgram or (with example inputs) a torch.nn.Module"

    def recognizes(self, source: Source) -> bool:
        """An archive with the entry that names its format and a graph as JSON, under one folder."""
        return is_program(source)

    def takes(self, model: object) -> bool:
        """A `torch.export.ExportedProgram`, or a `torch.nn.Module`, which needs examples."""
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "nn") and isinstance(model, torch.nn.Module):
            return True
        kind = type(model)
        return kind.__name__ == "ExportedProgram" and kind.__module__.startswith("torch.export")

    def operators(self) -> dict[str, list[str]]:
        """ATen operators, and overloads where those are converted each in a way of its own."""
        return {"ATen operators": [name.removeprefix("aten.") for name in supported_operators()]}

    def missing(self) -> list[str]:
        """Overloads of core ATen that nothing takes."""
        return missing_core()

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        """As `from_pytorch`."""
        return from_pytorch(model, input_shapes)

    def by_example(self, model: Any, example_inputs: Any, input_shapes: Shapes | None) -> IRModule:
        """A module exported by `torch.export`, with the axes symbolic that `input_shapes` names."""
        need_torch()
        # needs the optional package; above is the message for who has none
        from tilewright.frontend.torch.export import exported

        return from_pytorch(exported(model, example_inputs, input_shapes), None)[0]

    def reference(self, model: Any) -> Reference:
        """PyTorch itself."""
        need_torch()
        from tilewright.frontend.torch.reference import TorchReference  # as above

        return TorchReference(model, lambda shapes: from_pytorch(model, shapes)[0])
