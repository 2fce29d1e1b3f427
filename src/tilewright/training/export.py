"""A training step as an artifact: it trains on a machine or a board that has no compiler, and no Python where it is C.

    export_step(step, parameters, "step.tw")    # and step.safetensors, the values: Trainer.load("step.tw")
    export_step(step, parameters, "step.c", target="c -mcpu=cortex-m7", freestanding=True)    # and step.h
    export_step(step, parameters, "libstep.so")    # and step.h

In C the caller owns one struct of parameters and state, which a step updates in place: `tilewright_step_init` sets the
first ones, `tilewright_step_step` takes the inputs of a batch and the addresses of the loss and the outputs
(`runtime/c_stream.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tilewright.compile import compile, export_source
from tilewright.errors import InputError
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.memory.in_place import UPDATES
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.c_source import checked_declaration, checked_text
from tilewright.runtime.c_stream import states_of, stream_declarations, stream_text
from tilewright.runtime.export import c_name
from tilewright.target import Target
from tilewright.training.checkpoint import Array, Checkpoint, write_checkpoint
from tilewright.training.step import TrainingStep


def export_step(
    step: TrainingStep,
    parameters: Mapping[str, Array],
    path: str | Path,
    *,
    target: str | Target | None = None,
    freestanding: bool = False,
) -> tuple[Path, ...]:
    """Write a step with the first values of its parameters and state to `path` (.tw, .so or .c); the files.

    `target` is this machine by default, for C source any processor; `freestanding` as in `export_source`. Raises
    `InputError` for another kind of file and for parameters without a value, and what compiling raises.
    """
    file = Path(path)
    missing = [parameter.name for parameter in step.parameters if parameter.name not in parameters]
    if missing:
        raise InputError(f"no initial value for the parameters {', '.join(missing)}")
    own = {parameter.name: parameters[parameter.name] for parameter in step.parameters}
    values, pairs = {**own, **step.state}, {name: name for name in (*own, *step.state)}
    if file.suffix == ".c":
        written = export_source(
            _updating(step), file, target=target or "c", freestanding=freestanding, states=pairs, first=values
        )
        return tuple(written)
    if freestanding:
        raise InputError(f"freestanding code is C source; name a file that ends in .c, not {file.name}")
    if file.suffix not in (".so", ".tw"):
        raise InputError(f"a training step is written as .tw, .so or .c; {file.name!r} ends in none of them")
    made = compile(step.module if file.suffix == ".tw" else _updating(step), target=target or "cpu")
    if file.suffix == ".tw":
        beside = file.with_suffix(".safetensors")
        write_checkpoint(beside, Checkpoint(own, step.state))
        made.save(file)
        return file, beside
    interface, name = CInterface.of(made.manifest), c_name(file, None)
    states = states_of(interface, pairs, given=values, in_place=True)
    declared = checked_declaration(name, interface) + stream_declarations(name, interface, states)
    defined = checked_text(name, interface) + stream_text(name, interface, states)
    return made.export_library(file, declared=declared, after=defined)


def _updating(step: TrainingStep) -> IRModule:
    """The step's module, whose parameters and state are updated in place (`relay/transform/memory/in_place.py`)."""
    main = step.module["main"]
    own = len(step.parameters) + len(step.state)
    first, result = len(main.params) - own, 1 + step.num_outputs
    pairs = tuple([(first + i, result + i) for i in range(own)])
    return step.module.with_function("main", main.with_attr(UPDATES, pairs))
