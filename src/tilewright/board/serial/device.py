"""A board on a serial line as a device: built, flashed by a command or started under qemu, then asked run after run."""

from __future__ import annotations

import os
import re
import select
import shlex
import subprocess
import tempfile
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilewright.board.boards import Board
from tilewright.board.image import BoardProgram, Sizes, build_image, compiled_sizes, require_compiler
from tilewright.board.kernel_counts import kernel_counts
from tilewright.board.run import MOST_SECONDS, BoardRun
from tilewright.board.serial.conversation import KERNELS, Conversation
from tilewright.board.serial.firmware import fingerprint, firmware, offsets, write_sources
from tilewright.board.serial.line import SerialLine
from tilewright.errors import EnvironmentError_, InputError, UnsupportedError
from tilewright.runtime.memory import Array

#: The name of a line that is a pseudoterminal of qemu's.
QEMU = "qemu"
_KERNEL_TABLE = 512 * 16
_QEMU = ("-display", "none", "-monitor", "none", "-serial", "pty", "-icount", "shift=0", "-kernel")
#: Seconds for qemu to open its line, and for a command that flashes.
_START_SECONDS, _FLASH_SECONDS = 20.0, 120.0


@dataclass(frozen=True)
class SerialBoard:
    """A board at the other end of `line`, a device of this machine or `QEMU`.

    `flash` is a command that brings a program to it, with {image} for the file of its image, or {folder} for one with
    C source (`write_sources`) that it builds itself; without a command the program must be there already.
    """

    board: Board
    line: str
    flash: str = ""
    baud: int = 115200

    def load(self, program: BoardProgram, cpu: str = "", kernels: bool = False) -> SerialProgram:
        """As of every board. Raises `EnvironmentError_` where the board does not answer as this program."""
        if kernels and not self.board.serial:
            raise UnsupportedError(f"kernels of {self.board.name} are not counted: its firmware is built elsewhere")
        if program.interface.is_symbolic:
            raise UnsupportedError("a board runs models of fixed sizes: fix them, as by --input-shapes")
        with tempfile.TemporaryDirectory(prefix="tilewright-serial-") as folder:
            work = Path(folder)
            image, sizes = self._built(program, cpu, kernels, work)
            line, emulator = self._started(work)
            try:
                conversation = Conversation(SerialLine(line, self.baud), self.board.name)
                if conversation.fingerprint != fingerprint(program):
                    raise EnvironmentError_(
                        f"the board {self.board.name} runs another program than this: flash it, as by --flash COMMAND"
                    )
            except BaseException:
                _end(emulator)
                raise
        return SerialProgram(program, self.board, conversation, image, sizes, kernels, emulator)

    def _built(self, program: BoardProgram, cpu: str, kernels: bool, work: Path) -> tuple[bytes, Sizes]:
        """The image, empty where a command builds it, and sizes; the files for the command in a folder."""
        if not self.board.serial:
            require_compiler(self.board)
            write_sources(program, work)
            flags = self.board.flags(cpu)
            return b"", compiled_sizes(work, self.board.prefix, flags, program.interface.workspace_size)
        image, sizes = build_image(program, self.board, cpu, kernels, firmware(program, self.board, kernels))
        (work / "image.elf").write_bytes(image)
        return image, sizes

    def _started(self, work: Path) -> tuple[str, subprocess.Popen[bytes] | None]:
        """The path of the line to the board, which runs the program, and its emulator."""
        if self.line == QEMU:
            return _emulated([*self.board.emulator, *_QEMU, str(work / "image.elf")])
        if self.flash:
            words = [word.format(image=work / "image.elf", folder=work) for word in shlex.split(self.flash)]
            try:
                done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_FLASH_SECONDS)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise EnvironmentError_(f"flashing {self.board.name} failed: {error}") from None
            if done.returncode:
                last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
                raise EnvironmentError_(f"flashing {self.board.name} failed ({words[0]}); it says:\n{last}")
        return self.line, None


def _emulated(command: Sequence[str]) -> tuple[str, subprocess.Popen[bytes]]:
    """Start qemu; the path of its pseudoterminal, and its process, once it has read the image."""
    emulator = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert emulator.stdout is not None
    printed, deadline = b"", time.monotonic() + _START_SECONDS
    while select.select([emulator.stdout], [], [], max(deadline - time.monotonic(), 0))[0]:
        part = os.read(emulator.stdout.fileno(), 4096)
        printed += part
        found = re.search(rb"redirected to (\S+)", printed)
        if found:
            return found[1].decode(), emulator
        if not part:
            break
    emulator.kill()
    emulator.wait()
    raise EnvironmentError_(f"the emulator did not open its line: {printed.decode(errors='replace').strip()[-300:]}")


class SerialProgram:
    """A program that a board runs as often as it is asked."""

    def __init__(
        self,
        program: BoardProgram,
        board: Board,
        conversation: Conversation,
        image: bytes,
        sizes: Sizes,
        kernels: bool,
        emulator: subprocess.Popen[bytes] | None,
    ) -> None:
        self.program, self.board, self.sizes = program, board, sizes
        self._conversation, self._image, self._kernels = conversation, image, kernels
        weakref.finalize(self, _end, emulator)

    def run(self, inputs: Sequence[Array]) -> BoardRun:
        """As of every board, on what is flashed."""
        ran, data = self._conversation.run(_joined(inputs, self.program), MOST_SECONDS)
        errors = self.program.interface.errors
        if ran.code:
            raise InputError(f"the model stopped on the board: {errors[min(ran.code, len(errors)) - 1]}")
        if not ran.intact:
            raise EnvironmentError_("the model wrote outside of its workspace; please report it with the model")
        outputs = []
        specs = self.program.interface.outputs
        for spec, start in zip(specs, offsets(specs), strict=False):
            array = np.frombuffer(data, spec.numpy, spec.nbytes // spec.numpy.itemsize, start)
            outputs.append(array.reshape(spec.static_shape).copy())
        counts = {}
        if self._kernels:
            counts = kernel_counts(self._conversation.read(KERNELS, _KERNEL_TABLE), self._image, self.board)
        return BoardRun(outputs, self.board.instructions(ran.ticks), ran.stack, kernels=counts)


def _joined(inputs: Sequence[Array], program: BoardProgram) -> bytes:
    """The bytes of all inputs as they lie on the board."""
    starts = offsets(program.interface.inputs)
    data = bytearray(starts[-1])
    for array, start in zip(inputs, starts, strict=False):
        text = np.ascontiguousarray(array).tobytes()
        data[start : start + len(text)] = text
    return bytes(data)


def _end(emulator: subprocess.Popen[bytes] | None) -> None:
    if emulator is not None:
        emulator.kill()
        emulator.wait()
