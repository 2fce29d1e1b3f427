"""Programs of the accelerator under the methods of compiled modules."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.compat.runtime.array import to_numpy
from tilewright.compat.runtime.compiled_module import CompiledModule
from tilewright.compat.vta.environment import DRIVERS, get_env
from tilewright.compat.vta.simulator import note
from tilewright.errors import InputError
from tilewright.tir.stmt import PrimFunc
from tilewright.vta.te.program import ScheduledProgram, compile_lowered


def program_of(functions: Sequence[PrimFunc]) -> VtaModule:
    """The program of a lowered function. Raises `InputError` for several."""
    if len(functions) != 1:
        raise InputError(f"vta.build takes one schedule or function, not {len(functions)}")
    return VtaModule(compile_lowered(get_env().machine, functions[0]))


class VtaModule(CompiledModule):
    """A program of the accelerator under the methods of a compiled module."""

    type_key = "vta"
    target = "vta"

    def __init__(self, program: ScheduledProgram) -> None:
        super().__init__([program.name], {program.name: program})
        self.program = program

    def get_function(self, name: str, query_imports: bool = False) -> VtaFunction:
        """The program, by its name or as "main"."""
        if name not in (self.program.name, "main"):
            raise InputError(f"the module has no function {name!r}; it has: {self.program.name}")
        return VtaFunction(self.program)

    def get_source(self, fmt: str = "") -> str:
        """The instructions, a line each."""
        return self.program.listing()

    def save(self, file_name: str | os.PathLike[str], fmt: str = "") -> None:
        """Write the program; whatever the name ends with, the file is one that `tvm.runtime.load_module` reads."""
        self.program.save(Path(file_name))

    def export_library(self, file_name: str | os.PathLike[str], *_: Any, **options: Any) -> None:
        """As `save`: no compiler is run."""
        self.program.save(Path(file_name))


class VtaFunction:
    """The program as a function of arrays."""

    def __init__(self, program: ScheduledProgram) -> None:
        self.program, self.name = program, program.name

    def __call__(self, *args: Any) -> None:
        """Run once on the environment's simulator; results are written to arrays among `args`."""
        given = [to_numpy(arg) for arg in args]
        values = [np.ascontiguousarray(value) for value in given]
        note(self.program.run(values, DRIVERS.get(get_env().TARGET, "native")))
        for arg, value, before in zip(args, values, given):
            if value is not before or not hasattr(arg, "numpy"):
                arg[...] = value
