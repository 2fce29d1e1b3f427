"""A compiled network as text: its layers with their tiles, and its instructions with the tokens between the units."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.errors import InputError
from tilewright.vta.codec import Instruction, disassemble, unpack
from tilewright.vta.isa import FLAGS, Isa
from tilewright.vta.network.network import Compiled
from tilewright.vta.order import UNITS, unit_of


def schedule_lines(compiled: Compiled) -> Iterator[str]:
    """A line for each layer: its instructions, its name, its geometry and tiles."""
    plan = compiled.plan
    used = f"{len(compiled.image)} bytes of weights and program, {plan['dram']} bytes of DRAM"
    yield f"{plan['program'][1]} instructions, {used}"
    for layer in plan["layers"]:
        last = layer["first"] + layer["count"] - 1
        yield f"{layer['first']:6}–{last:<6} {layer['name']}: {layer['layer']}"


def instruction_lines(compiled: Compiled, isa: Isa, name: str | None = None) -> Iterator[str]:
    """A line for each instruction of the layers whose name contains `name`: tokens taken, what is done, tokens given.

    Raises `InputError` where there is no such layer.
    """
    program = _program(compiled, isa)
    layers = [layer for layer in compiled.plan["layers"] if name is None or name in layer["name"]]
    if not layers:
        known = ", ".join(layer["name"] for layer in compiled.plan["layers"])
        raise InputError(f"no layer on the accelerator is called {name!r}; there are: {known}")
    for layer in layers:
        yield f"# {layer['name']}"
        for position in range(layer["first"], layer["first"] + layer["count"]):
            yield _line(isa, position, program[position])


def _program(compiled: Compiled, isa: Isa) -> list[Instruction]:
    address, count = compiled.plan["program"]
    first = address - compiled.plan["base"]
    return unpack(isa, compiled.image[first : first + count * isa.instruction_bits // 8].tobytes())


def _line(isa: Isa, position: int, instruction: Instruction) -> str:
    unit = unit_of(isa, instruction)
    taken, given = (_partners(unit, instruction, verb) for verb in ("pop", "push"))
    text = " ".join(word for word in disassemble(isa, instruction).split() if word not in FLAGS)
    before = f"<- {taken}" if taken else ""
    return f"{position:6}  {unit:8}{before:19}{text}{f'  -> {given}' if given else ''}"


def _partners(unit: str, instruction: Instruction, verb: str) -> str:
    """The units that tokens are taken from or given to."""
    sides = (("prev", -1), ("next", 1))
    return ", ".join(UNITS[UNITS.index(unit) + step] for side, step in sides if instruction[f"{verb}_{side}"])
