"""Boards that programs are loaded on and run by: one under qemu here; others are in `board/serial` and `rpc`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tilewright.board.boards import Board
from tilewright.board.image import BoardProgram, Sizes, build_image
from tilewright.board.kernel_counts import kernel_counts
from tilewright.board.run import BoardRun, run_image
from tilewright.runtime.memory import Array


class LoadedProgram(Protocol):
    """A program on a board."""

    @property
    def sizes(self) -> Sizes:
        """Its bytes there."""

    def run(self, inputs: Sequence[Array]) -> BoardRun:
        """One run on arrays for the inputs of its models. Raises `InputError`, `EnvironmentError_`."""


class BoardDevice(Protocol):
    """A board, here or elsewhere."""

    def load(self, program: BoardProgram, cpu: str = "", kernels: bool = False) -> LoadedProgram:
        """Build a program and bring it to the board; with `kernels` its runs count each kernel.

        `cpu` is the processor that its code is for. Raises `EnvironmentError_`, or `UnsupportedError` where it does
        not fit.
        """


@dataclass(frozen=True)
class EmulatedBoard:
    """A board under qemu on this machine."""

    board: Board

    def load(self, program: BoardProgram, cpu: str = "", kernels: bool = False) -> EmulatedProgram:
        """As of every board."""
        return EmulatedProgram(program, self.board, *build_image(program, self.board, cpu, kernels), kernels)


@dataclass(frozen=True)
class EmulatedProgram:
    """An image that a new emulator runs each time."""

    program: BoardProgram
    board: Board
    image: bytes
    sizes: Sizes
    kernels: bool = False

    def run(self, inputs: Sequence[Array]) -> BoardRun:
        """As of every board; see `run_image`."""
        files: dict[str, bytes] = {}
        run = run_image(self.image, self.program, self.board, inputs, files=files)
        if not self.kernels:
            return run
        return replace(run, kernels=kernel_counts(files["kernels.bin"], self.image, self.board))
