"""An image on a board under qemu: inputs in, outputs and counts out."""

from __future__ import annotations

import math
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tilewright.board.boards import Board
from tilewright.board.debugger import Debugger
from tilewright.board.image import BoardProgram
from tilewright.board.timeline import Timeline
from tilewright.board.vta_device import Clocks, VtaDevice, configuration, memory_of
from tilewright.errors import EnvironmentError_, InputError
from tilewright.runtime.memory import Array

#: Seconds after which an emulation is given up; it runs some 100 million instructions in one.
MOST_SECONDS = 300.0
_QEMU = ("-nographic", "-monitor", "none", "-serial", "null", "-semihosting-config", "enable=on,target=native")


@dataclass(frozen=True)
class BoardRun:
    """One run of a model on a board: outputs, instructions, bytes of stack; beside VTA what was when.

    `kernels` has the instructions of each kernel by name, of an image that counts them.
    """

    outputs: list[Array]
    instructions: int
    stack: int
    timeline: Timeline | None = None
    kernels: Mapping[str, int] = field(default_factory=dict)


def run_image(
    image: bytes,
    program: BoardProgram,
    board: Board,
    inputs: Sequence[Array],
    seconds: float = MOST_SECONDS,
    files: dict[str, bytes] | None = None,
) -> BoardRun:
    """Run an image that `build_image` made on arrays for its inputs; all files that it wrote go to `files`.

    The count is exact on RISC-V, and to a tick of the timer (25 to 50 instructions) on Arm; the same on every machine.
    Raises `InputError` with the model's own words where it stops, `EnvironmentError_` where the board does.
    """
    with tempfile.TemporaryDirectory(prefix="tilewright-board-") as folder:
        work = Path(folder)
        (work / "image.elf").write_bytes(image)
        (work / "inputs.bin").write_bytes(b"".join(np.ascontiguousarray(array).tobytes() for array in inputs))
        command = [*board.emulator, *_QEMU, "-icount", "shift=0", "-kernel", "image.elf"]
        try:
            words, device = _emulated(command, work, program, board, seconds)
        except subprocess.TimeoutExpired:
            raise EnvironmentError_(f"the board {board.name} did not finish within {seconds:g} s") from None
        if not (work / "figures.bin").exists():
            raise EnvironmentError_(f"the board {board.name} stopped with a fault: {words}")
        code, count, stack, intact, first = np.fromfile(work / "figures.bin", np.uint64).tolist()
        if code:
            raise InputError(f"the model stopped on the board: {program.interface.errors[code - 1]}")
        if not intact:
            raise EnvironmentError_("the model wrote outside of its workspace; please report it with the model")
        if files is not None:
            files.update({path.name: path.read_bytes() for path in work.glob("*.bin")})
        results = outputs_of((work / "outputs.bin").read_bytes(), program)
    timeline = device.timeline(first, count) if device is not None else None
    return BoardRun(results, board.instructions(count), stack, timeline)


def _emulated(
    command: list[str], work: Path, program: BoardProgram, board: Board, seconds: float
) -> tuple[str, VtaDevice | None]:
    """Run the emulator to its end; its last words, and the device that it ran beside."""
    if not board.vta:
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False, timeout=seconds)
        return (done.stderr or done.stdout).strip()[-500:] or str(done.returncode), None
    (work / "ram").write_bytes(b"")
    os.truncate(work / "ram", board.shared)
    ram = f"memory-backend-file,id=ram,size={board.shared},mem-path=ram,share=on"
    stub = ["-S", "-chardev", "socket,path=debugger,server=on,wait=off,id=debugger", "-gdb", "chardev:debugger"]
    shared = [*command, "-object", ram, "-machine", "memory-backend=ram", *stub]
    (code, _), memory = board.code, memory_of(str(work / "ram"), board.shared)
    device = VtaDevice(configuration(program.vta), memory, code, board.vta, Clocks(), program.launches)
    with subprocess.Popen(shared, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as emulator:
        try:
            debugger = Debugger(work / "debugger", seconds)
            device.run(debugger)
            debugger.close()
            words, _ = emulator.communicate(timeout=seconds)
        except BaseException:
            emulator.kill()
            raise
    return words.strip()[-500:] or str(emulator.returncode), device


def outputs_of(data: bytes, program: BoardProgram) -> list[Array]:
    """The outputs of a program out of their bytes, one behind the other."""
    results, offset = [], 0
    for spec in program.interface.outputs:
        count = math.prod(spec.static_shape)
        results.append(np.frombuffer(data, spec.numpy, count, offset).reshape(spec.static_shape).copy())
        offset += results[-1].nbytes
    return results
