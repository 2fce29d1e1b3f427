"""`write_project`: a model's C source as a project of a build system, in a folder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tilewright.board.project.arduino import arduino_project
from tilewright.board.project.cmake import cmake_project
from tilewright.board.project.platformio import platformio_project
from tilewright.board.project.sources import Sources
from tilewright.board.project.zephyr import zephyr_project
from tilewright.driver.build_source import Exported
from tilewright.errors import EnvironmentError_, InputError, UnsupportedError
from tilewright.runtime.export import move_into_place
from tilewright.target.microcontrollers import MICROCONTROLLERS

#: The layouts by name: functions from sources to the files of a project.
LAYOUTS: Mapping[str, Callable[[Sources], dict[str, str]]] = {
    "cmake": cmake_project,
    "zephyr": zephyr_project,
    "arduino": arduino_project,
    "platformio": platformio_project,
}
#: Folders whose files are the user's once they are there.
_EXAMPLES = ("examples", "samples")


def write_project(written: Exported, directory: Path, layout: str, cpu: str = "") -> list[Path]:
    """Write models, exported as C source for the processor `cpu`, to `directory` as a project; the files.

    Examples that are there stay as they are; other files are replaced. Raises `InputError` for an unknown layout,
    `UnsupportedError` for models of symbolic sizes or with weights in a file of their own.
    """
    if layout not in LAYOUTS:
        raise InputError(f"there is no layout {layout!r}; known: {', '.join(LAYOUTS)}")
    if len(written) > 2:
        other = "" if written[2].suffix == ".sealed" else ", or quantize the model"
        raise UnsupportedError(
            f"the weights are in a file of their own ({written[2].name}), which no project builds: write the C source "
            f"alone (-o model.c){other}"
        )
    if any(model.c_model.interface.is_symbolic for model in written.models):
        raise UnsupportedError("projects have models of fixed sizes: fix them, as by --input-shapes")
    cpu = cpu if cpu in MICROCONTROLLERS else ""
    source, header = (file.read_text() for file in written[:2])
    files = LAYOUTS[layout](Sources(written[1].stem, written.models, source, header, cpu))
    return _write(directory, files)


def _write(directory: Path, files: Mapping[str, str]) -> list[Path]:
    kept = {path for path in files if path.split("/")[0] in _EXAMPLES and (directory / path).exists()}
    wanted = [path for path in files if path not in kept]
    with tempfile.TemporaryDirectory(prefix="tilewright-project-") as folder:
        pairs = []
        for index, path in enumerate(wanted):
            made = Path(folder) / str(index)
            made.write_text(files[path])
            pairs.append((made, directory / path))
        try:
            for _, target in pairs:
                target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EnvironmentError_(f"cannot write {directory}: {error.strerror or error}") from None
        move_into_place(pairs)
    return [target for _, target in pairs]
