"""A model on a board under qemu as a `Model`: `run` and calls work as on this machine, the last run is kept."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tilewright.board.boards import Board
from tilewright.board.device import BoardDevice, EmulatedBoard
from tilewright.board.image import BoardProgram
from tilewright.board.run import BoardRun
from tilewright.errors import UnsupportedError
from tilewright.runtime.memory import Array
from tilewright.runtime.model import Model
from tilewright.runtime.profile import KernelTime
from tilewright.runtime.signature import TensorSpec, bind
from tilewright.runtime.types import Value


class BoardModel(Model):
    """A model built for a board; `sizes` are its bytes there, `last` its latest run.

    It runs under qemu on this machine, or on the board of a `device`.
    """

    executor: ClassVar[str] = "board"

    def __init__(
        self,
        program: BoardProgram,
        board: Board,
        cpu: str,
        target: str,
        version: str,
        device: BoardDevice | None = None,
    ) -> None:
        """Build the image and bring it to the board."""
        self._loaded = (device or EmulatedBoard(board)).load(program, cpu)
        self.sizes = self._loaded.sizes
        self.program, self.board = program, board
        self.inputs, self.outputs = program.interface.inputs, program.interface.outputs
        self.target, self.version, self.threads = target, version, 1
        self.last: BoardRun | None = None

    @property
    def note(self) -> str:
        """The counts of the last run, and the bytes of the model, in a sentence."""
        if self.last is None:
            return ""
        sizes = self.sizes
        timeline = f"; {self.last.timeline.note}" if self.last.timeline is not None else ""
        return (
            f"{self.last.instructions:,} instructions on {self.board.name}, stack {self.last.stack:,} bytes, workspace "
            f"{sizes.workspace:,}, code {sizes.code:,}, constants {sizes.constants:,}{timeline}"
        )

    def set_threads(self, threads: int | None = None) -> None:
        """A board has one."""

    def _bind(self, value: Any, spec: TensorSpec, specs: Sequence[TensorSpec] = ()) -> Any:
        return bind(value, spec, specs)

    def _infer(self, arrays: list[Any], outputs: Sequence[Array] | None) -> list[Any]:
        self.last = self._loaded.run(arrays)
        if outputs is not None:
            for given, array in zip(outputs, self.last.outputs, strict=True):
                given[...] = array
            return list(outputs)
        return list(self.last.outputs)

    def time(self, inputs: Mapping[str, Value], repeat: int = 10, warmup: int = 1) -> list[float]:
        """Instructions of a run, each of `repeat` times: runs are all alike."""
        self.run(inputs)
        assert self.last is not None
        return [float(self.last.instructions)] * repeat

    def profile(self, inputs: Mapping[str, Value], repeat: int = 1) -> list[KernelTime]:
        """Beside VTA its programs, the processor's work and its waiting; else raise `UnsupportedError`."""
        if self.board.vta:
            self.run(inputs)
            assert self.last is not None and self.last.timeline is not None
            timeline = self.last.timeline
            rows = [KernelTime("processor", "", timeline.processor), KernelTime("waits for VTA", "", timeline.waiting)]
            return rows + [KernelTime("VTA", s.name, s.seconds) for s in timeline.spans if s.track == "VTA"]
        raise UnsupportedError("kernels are not timed one by one on a board; --report of tilewright compile has sizes")

    def save(self, path: str | os.PathLike[str], durable: bool = True) -> None:
        """Raise `UnsupportedError`: a model for boards is saved as C source."""
        raise UnsupportedError("a model for a board is written as C: tilewright compile MODEL -o model.c")

    def __repr__(self) -> str:
        return f"BoardModel({self.program.name} on {self.board.name})"
