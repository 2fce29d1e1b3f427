"""An image on a board under qemu: inputs in, outputs and counts out."""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilewright.board.boards import Board
from tilewright.board.image import BoardProgram
from tilewright.errors import EnvironmentError_, InputError
from tilewright.runtime.memory import Array

#: Seconds after which an emulation is given up; it runs some 100 million instructions in one.
MOST_SECONDS = 300.0
_QEMU = ("-nographic", "-monitor", "none", "-serial", "null", "-semihosting-config", "enable=on,target=native")


@dataclass(frozen=True)
class BoardRun:
    """One run of a model on a board: outputs, instructions, bytes of stack."""

    outputs: list[Array]
    instructions: int
    stack: int


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
            done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise EnvironmentError_(f"the board {board.name} did not finish within {seconds:g} s") from None
        if not (work / "figures.bin").exists():
            words = (done.stderr or done.stdout).strip()[-500:]
            raise EnvironmentError_(f"the board {board.name} stopped with a fault: {words or done.returncode}")
        code, count, stack, intact = np.fromfile(work / "figures.bin", np.uint64).tolist()
        if code:
            raise InputError(f"the model stopped on the board: {program.interface.errors[code - 1]}")
        if not intact:
            raise EnvironmentError_("the model wrote outside of its workspace; please report it with the model")
        if files is not None:
            files.update({path.name: path.read_bytes() for path in work.glob("*.bin")})
        results = _outputs((work / "outputs.bin").read_bytes(), program)
    return BoardRun(results, board.instructions(count), stack)


def _outputs(data: bytes, program: BoardProgram) -> list[Array]:
    results, offset = [], 0
    for spec in program.interface.outputs:
        count = math.prod(spec.static_shape)
        results.append(np.frombuffer(data, spec.numpy, count, offset).reshape(spec.static_shape).copy())
        offset += results[-1].nbytes
    return results
