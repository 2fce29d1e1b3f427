"""`vta.build`, `vta.lower` and `vta.build_config`: schedules for the accelerator as modules that its simulators run."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import te
from tilewright.compat.classic import build as host
from tilewright.compat.classic.array import to_numpy
from tilewright.compat.classic.compiled_module import CompiledModule
from tilewright.compat.classic.module import IRModule
from tilewright.compat.classic.pass_config import PassContext
from tilewright.compat.classic.target import Target
from tilewright.compat.classic.vta_environment import DRIVERS, get_env
from tilewright.compat.classic.vta_simulator import note
from tilewright.errors import InputError, UnsupportedError
from tilewright.target import VtaTarget
from tilewright.vta.te.program import ScheduledProgram, compile_lowered, lower_schedule


def build_config(debug_flag: int = 0, config: Mapping[str, Any] | None = None, **kwargs: Any) -> PassContext:
    """A context to build in. Which passes run follows from the target alone, and `debug_flag` shows nothing."""
    return PassContext(config=config, **kwargs)


def lower(
    inp: Any, args: Any = None, name: str = "main", binds: Mapping[Any, Any] | None = None, simple_mode: bool = False
) -> IRModule:
    """The function of a schedule with the units' calls and the tokens between them."""
    if not isinstance(inp, te.Schedule):
        return host.lower(inp, args, name, binds, simple_mode)
    if binds:
        raise UnsupportedError("vta.lower(binds=…): arguments are compact buffers, one for each tensor")
    return IRModule({name: lower_schedule(get_env().machine, inp, args or (), name)})


def build(
    inputs: Any,
    args: Any = None,
    target: Any = None,
    target_host: Any = None,
    runtime: Any = None,
    name: str = "main",
    binds: Mapping[Any, Any] | None = None,
) -> CompiledModule:
    """A schedule, or what `lower` made of one, for the accelerator; for another target what `tvm.build` makes.

    Without `target` it is the environment's.
    """
    chosen = Target(get_env().target if target is None else target)
    if not isinstance(chosen, VtaTarget):
        return host.build(inputs, args, chosen, target_host, runtime, name, binds)
    functions = lower(inputs, args, name, binds).prim_funcs
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

    def get_function(self, name: str, query_imports: bool = False) -> VtaFunction:  # type: ignore[override]
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

    def time(self, *args: Any, number: int, repeat: int) -> list[float]:
        """Seconds a call takes on the simulator: `repeat` times the mean of `number` calls."""
        found = []
        for _ in range(repeat):
            start = time.perf_counter()
            for _ in range(number):
                self(*args)
            found.append((time.perf_counter() - start) / number)
        return found


def module_loader(bitstream: Any = None) -> Any:
    """What prepares a device before measurements: nothing, as simulators need no bitstream."""
    if bitstream is not None:
        raise UnsupportedError("module_loader(bitstream=…): programs run on simulators, which take no bitstream")
    return lambda *args, **kwargs: None
