"""The compiler's half of the toy: kernels are Relay functions as text, which its runtime interprets in NumPy."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tilewright.backend import Backend
from tilewright.backend.kernels import CompiledKernels, Task
from tilewright.errors import TargetError, UnsupportedError
from tilewright.relay.ir.json import save_json
from tilewright.relay.ir.symbolic import size_vars
from tilewright.target.target import Target, made, spelled


@spelled
class ToyTarget(Target):
    """`Target("toy")`, without options."""

    __slots__ = ()
    KINDS = ("toy",)

    @classmethod
    def parse(cls, spec: str) -> ToyTarget:
        """The one target there is."""
        if spec != "toy":
            raise TargetError(f"target {spec!r}: a toy has no options")
        return made(cls, spelling=spec, kind=spec)


class ToyBackend(Backend):
    """Plain layouts, the passes that any device has, and fused functions as they are."""

    device = "toy"
    alignment = 256

    def compile(self, tasks: Sequence[Task]) -> CompiledKernels:
        """The functions by the names of their kernels."""
        for task in tasks:
            if size_vars(task.function):
                raise UnsupportedError(f"{task.name}: a toy has no symbolic sizes; fix them with input_shapes")
        return CompiledKernels(json.dumps({task.name: save_json(task.function) for task in tasks}).encode())
