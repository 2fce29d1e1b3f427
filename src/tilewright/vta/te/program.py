"""Compiled schedules: a program with positions for its arguments in DRAM, run on any driver, saved and loaded."""

from __future__ import annotations

import io
import json
import os
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import te
from tilewright.errors import ArtifactError, InputError, UnsupportedError
from tilewright.tir.buffer import Buffer
from tilewright.tir.stmt import PrimFunc
from tilewright.vta.codec import listing, unpack
from tilewright.vta.commands import Commands
from tilewright.vta.config import Config
from tilewright.vta.dram import Dram, largest_element
from tilewright.vta.driver import Driver, open_driver
from tilewright.vta.isa import Isa
from tilewright.vta.te.machine import Machine
from tilewright.vta.te.record import record

_MAGIC = b"tilewright vta program\n"
_ROOM = 1 << 30


@dataclass(frozen=True)
class Argument:
    """An array in DRAM: its name, shape and type, and its first byte."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    address: int


class ScheduledProgram:
    """A program and its arguments. `run` takes arrays in their order and writes results into them."""

    def __init__(
        self, name: str, config: Config, arguments: Sequence[Argument], base: int, program: tuple[int, int], image: Any
    ) -> None:
        self.name, self.config, self.arguments = name, config, tuple(arguments)
        self.base, self.program, self.image = base, program, np.asarray(image, np.uint8)
        self._drivers: dict[str, Driver] = {}
        self._lock = threading.Lock()

    def listing(self) -> str:
        """The instructions as text."""
        isa, (address, count) = Isa(self.config), self.program
        first = address - self.base
        return listing(isa, unpack(isa, self.image[first : first + count * isa.instruction_bits // 8].tobytes()))

    def run(self, arrays: Sequence[Any], driver: str = "native") -> Counter[str]:
        """Run once on NumPy arrays, one for each argument; what the driver counted."""
        if len(arrays) != len(self.arguments):
            raise InputError(f"{self.name} takes {len(self.arguments)} arrays, not {len(arrays)}")
        for argument, array in zip(self.arguments, arrays):
            if (tuple(array.shape), str(array.dtype)) != (argument.shape, argument.dtype):
                raise InputError(
                    f"argument {argument.name} of {self.name} is {argument.dtype}{list(argument.shape)}, not "
                    f"{array.dtype}{list(array.shape)}"
                )
        with self._lock:
            chip = self._driver(driver)
            for argument, array in zip(self.arguments, arrays):
                self._view(chip, argument)[...] = array
            counted = chip.run(*self.program)
            for argument, array in zip(self.arguments, arrays):
                if array.flags.writeable:
                    array[...] = self._view(chip, argument)
        return counted

    def _driver(self, kind: str) -> Driver:
        if kind not in self._drivers:
            isa = Isa(self.config)
            dram = Dram(isa, self.base + len(self.image))
            dram.data[self.base :] = self.image
            self._drivers[kind] = open_driver(kind, isa, dram)
        return self._drivers[kind]

    @staticmethod
    def _view(chip: Driver, argument: Argument) -> Any:
        size = int(np.prod(argument.shape, dtype=int)) * np.dtype(argument.dtype).itemsize
        return chip.dram.data[argument.address : argument.address + size].view(argument.dtype).reshape(argument.shape)

    # ----------------------------------------------------------------------------------------------------- files
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file."""
        head = {
            "name": self.name,
            "config": json.loads(self.config.to_json()),
            "arguments": [asdict(argument) for argument in self.arguments],
            "base": self.base,
            "program": self.program,
        }
        held = io.BytesIO()
        np.savez_compressed(held, head=np.array(json.dumps(head)), image=self.image)
        Path(path).write_bytes(_MAGIC + held.getvalue())

    @staticmethod
    def is_saved(path: str | os.PathLike[str]) -> bool:
        """True for a file that `save` wrote; not for one that is not there."""
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ScheduledProgram:
        """Read what `save` wrote. `ArtifactError` for any other file."""
        data = Path(path).read_bytes()
        if not data.startswith(_MAGIC):
            raise ArtifactError(f"{os.fspath(path)} is no program for VTA; save one with ScheduledProgram.save")
        with np.load(io.BytesIO(data[len(_MAGIC) :])) as found:
            head, image = json.loads(str(found["head"])), found["image"]
        arguments = [Argument(a["name"], tuple(a["shape"]), a["dtype"], a["address"]) for a in head["arguments"]]
        address, count = head["program"]
        config = Config.from_json(json.dumps(head["config"]))
        return cls(head["name"], config, arguments, head["base"], (address, count), image)


def lower_schedule(machine: Machine, schedule: te.Schedule, args: Sequence[Any], name: str = "main") -> PrimFunc:
    """The loops of a schedule with the units' calls and the tokens between them."""
    return te.lower(schedule, args, name, target=machine.accelerator)


def compile_schedule(
    machine: Machine, schedule: te.Schedule, args: Sequence[Any], name: str = "main"
) -> ScheduledProgram:
    """A schedule as a program. Raises `ScheduleError` or `UnsupportedError` for what the units cannot do."""
    return compile_lowered(machine, lower_schedule(machine, schedule, args, name))


def compile_lowered(machine: Machine, func: PrimFunc) -> ScheduledProgram:
    """The result of `lower_schedule` as a program."""
    isa = machine.isa
    arena, arguments, positions = Dram(isa, _ROOM), list[Argument](), dict[Buffer, int]()
    for param in func.params:
        if not isinstance(param, Buffer):
            raise UnsupportedError(f"{func.name} takes the number {param!r}; programs for VTA take arrays")
        shape = param.constant_shape()
        if shape is None:
            raise UnsupportedError(f"{func.name}: {param!r} has no constant shape; programs for VTA have fixed sizes")
        dtype = np.dtype(str(param.dtype))
        positions[param] = arena.allocate(int(np.prod(shape, dtype=int)) * dtype.itemsize, largest_element(isa))
        arguments.append(Argument(param.name, shape, dtype.name, positions[param]))
    base = -(-arena.most // largest_element(isa)) * largest_element(isa)
    dram = Dram(isa, _ROOM)
    dram.allocate(base)
    commands = Commands(isa, dram)
    record(machine, func, commands, positions)
    address, count = commands.finish()
    return ScheduledProgram(
        func.name, isa.config, arguments, base, (address, count), dram.data[base : dram.most].copy()
    )
