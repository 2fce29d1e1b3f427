"""Instructions of each kernel of a model on a board, from one run: GCC calls a function as a kernel begins and ends."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import numpy as np

from tilewright.board.boards import Board


def kernel_counts(table: bytes, image: bytes, board: Board) -> dict[str, int]:
    """The instructions that all calls of each kernel took, by name, of the table that an image with `kernels` fills.

    Each call has some 40 instructions of counting in its figure, and those of the whole run have all of them.
    """
    found = np.frombuffer(table, np.dtype([("address", "<u8"), ("ticks", "<u8")]))
    names = _functions(image, board)
    return {names[int(address) & ~1]: board.instructions(int(ticks)) for address, ticks in found if address}


def _functions(image: bytes, board: Board) -> dict[int, str]:
    """The functions of an image by address."""
    with tempfile.NamedTemporaryFile(suffix=".elf") as file:
        Path(file.name).write_bytes(image)
        listed = subprocess.run([f"{board.prefix}nm", file.name], capture_output=True, text=True, check=True).stdout
    lines = (line.split() for line in listed.splitlines())
    return {int(words[0], 16): words[2].split(".")[0] for words in lines if len(words) == 3 and words[1] in "tT"}
