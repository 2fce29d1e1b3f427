"""A model's C source as a static library (.a) or object (.o) for a board's processor, made by its compiler."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tilewright.board.boards import BOARDS, FLAGS
from tilewright.board.image import OPTIONS
from tilewright.driver.build_source import Exported
from tilewright.errors import EnvironmentError_, InputError, UnsupportedError
from tilewright.runtime.export import move_into_place


def write_library(written: Exported, path: Path, cpu: str) -> list[Path]:
    """Compile exported models to `path` (.a or .o), with their header beside it; both paths.

    Raises `InputError` for a processor without a compiler of its own, `EnvironmentError_` where that is not installed,
    `UnsupportedError` for models whose weights are in a file of their own.
    """
    if cpu not in FLAGS:
        raise InputError(f"{path}: a library is code of one processor; name it, as in --target 'c -mcpu=cortex-m4'")
    if len(written) > 2:
        raise UnsupportedError(f"{path}: the weights are in a file of their own; write the C source (-o model.c)")
    prefix = next(board.prefix for board in BOARDS.values() if board.cpu[:6] == cpu[:6])
    if shutil.which(f"{prefix}gcc") is None:
        raise EnvironmentError_(f"{path} needs {prefix}gcc (Debian: apt install {'gcc-' + prefix.removesuffix('-')})")
    header = path.with_name(written[1].name)
    with tempfile.TemporaryDirectory(prefix="tilewright-library-") as folder:
        made = Path(folder) / "model.o"
        _run([f"{prefix}gcc", *FLAGS[cpu], *OPTIONS, "-c", str(written[0]), "-o", str(made)])
        if path.suffix == ".a":
            _run([f"{prefix}ar", "rcsD", str(made.with_suffix(".a")), str(made)])
            made = made.with_suffix(".a")
        move_into_place([(made, path), (written[1], header)])
    return [path, header]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = "\n".join(done.stderr.strip().splitlines()[-8:])
        raise EnvironmentError_(f"building the library failed ({command[0]}); it says:\n{words}")
