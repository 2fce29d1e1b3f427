"""TorchScript among the formats: scripted and traced modules, in memory and as `torch.jit.save` writes them."""

from __future__ import annotations

import sys
from typing import Any

from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Frontend, Shapes
from tilewright.frontend.source import Source
from tilewright.frontend.torch import need_torch
from tilewright.relay.ir.module import IRModule


class ScriptFrontend(Frontend):
    """The results of `torch.jit.script` and `torch.jit.trace`. Its shapes come from `input_shapes` or example
    inputs.
    """

    name = "torchscript"
    kind = "a TorchScript archive"
    in_memory = "a torch.jit.ScriptModule"

    def recognizes(self, source: Source) -> bool:
        """An archive with code and its constants, under one folder."""
        names = source.members
        return any(name.endswith("/constants.pkl") for name in names) and any("/code/" in name for name in names)

    def takes(self, model: object) -> bool:
        """A `torch.jit.ScriptModule`."""
        torch = sys.modules.get("torch")
        return torch is not None and hasattr(torch, "jit") and isinstance(model, torch.jit.ScriptModule)

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        """For float32 inputs of these shapes."""
        need_torch()
        # the importer needs the optional package; above is the message for who has none
        from tilewright.frontend.torch.script.convert import convert_script, examples_by_shape, load_script

        module = load_script(model)
        return convert_script(module, examples_by_shape(module, input_shapes))

    def by_example(self, model: Any, example_inputs: Any, input_shapes: Shapes | None) -> IRModule:
        """For inputs like the examples; values that are no tensors are fixed."""
        need_torch()
        from tilewright.frontend.torch.script.convert import bound, convert_script, load_script  # as above

        module = load_script(model)
        return convert_script(module, bound(module, example_inputs))[0]
