"""C source of the verbs that write it: alone, as a project of a build system, or as a library for a board."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.errors import InputError
from tilewright.runtime.export import KINDS, move_into_place

if TYPE_CHECKING:
    from tilewright.driver.build_source import Exported

#: The projects that `--layout` writes; those for boards alone are made for no particular processor by default.
_LAYOUTS = ("cmake", "zephyr", "arduino", "platformio")
_FOR_BOARDS = _LAYOUTS[1:]

layout_option = click.option(
    "--layout", type=click.Choice(_LAYOUTS), help="C source as a project of this build system, in the folder OUTPUT"
)
freestanding_option = click.option(
    "--freestanding", is_flag=True, help="C source that needs no library but memcpy and memset"
)


def is_source(output: str, layout: str | None, target: str | None) -> bool:
    """True if C source, or what is made of it, is to be written; raise `InputError` where a project is no folder."""
    kind = Path(output).suffix
    if layout is not None:
        if Path(output).is_file() or kind in (".c", ".tw", ".onnx", *KINDS):
            raise InputError(f"{output}: --layout writes a folder; name one")
        return True
    return kind == ".c" or _is_board_library(kind, target)


def source_target(layout: str | None, target: str | None) -> str | None:
    """The target of C source where the user names none."""
    return target or ("c -mcpu=generic" if layout in _FOR_BOARDS else None)


def _is_board_library(kind: str, target: str | None) -> bool:
    """True for a library for a board's processor, which its own compiler makes of C source."""
    if kind not in (".a", ".o") or target is None:
        return False
    # an artifact of this machine needs no targets yet
    from tilewright.target import Target
    from tilewright.target.microcontrollers import WITHOUT_SYSTEM

    return Target(target).architecture in WITHOUT_SYSTEM


def write_source(
    export: Callable[[str], Exported],
    output: str,
    target: str | None,
    layout: str | None,
    report: bool = False,
) -> Sequence[str]:
    """Write what `export` writes at a path to `output`, or what is made of it; what there is to report of it.

    That is what limits of memory led to, and with `report` memory by layer.
    """
    # a user of artifacts need not wait for the table of boards
    from tilewright.board.report import memory_report

    final = Path(output).resolve()
    if layout is None and final.suffix == ".c":
        written = export(output)
        return [*written.traded, *(memory_report(written, target) if report else ())]
    with tempfile.TemporaryDirectory(prefix="tilewright-source-") as folder:  # what is refused replaces nothing
        written = export(str(Path(folder) / final.with_suffix(".c").name))
        tables = [*written.traded, *(memory_report(written, target) if report else ())]
        _finish(written, final, layout, target)
    return tables


def _finish(written: Exported, final: Path, layout: str | None, target: str | None) -> None:
    """Write exported models to `final`: as a project, a library, or as they are."""
    # only for C source
    from tilewright.board.library import write_library
    from tilewright.board.project import write_project
    from tilewright.target import Target

    cpu = getattr(Target(target), "cpu", "") if target else ""
    if layout is not None:
        write_project(written, final, layout, cpu)
    elif final.suffix in KINDS:
        write_library(written, final, cpu)
    else:
        move_into_place([(file, final.parent / file.name) for file in written])
