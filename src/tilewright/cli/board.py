"""`--board NAME`: models on a board under qemu, for the verbs that run, compare and count."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.outputs import write_file
from tilewright.errors import InputError
from tilewright.runtime.model import Model

if TYPE_CHECKING:
    from tilewright.board import BoardModel


def open_on_board(path: str, board_name: str, target_name: str | None, **compiled: Any) -> BoardModel:
    """The model at `path` compiled to C, without a library, and built for a board; `compiled` is for `export_source`.

    Without a target it is that of the board's processor.
    """
    # only for boards: `tilewright --help` reads this module
    from tilewright.board import BoardModel, BoardProgram, board_named
    from tilewright.board.image import require_tools
    from tilewright.compile import export_source
    from tilewright.target import Target

    board = board_named(board_name)
    require_tools(board)
    target = Target(target_name or f"c -mcpu={board.cpu}")
    board.flags(getattr(target, "cpu", ""))
    with tempfile.TemporaryDirectory(prefix="tilewright-board-") as folder:
        files = export_source(path, Path(folder) / "model.c", target=target, freestanding=True, **compiled)
        if len(files) > 2:
            raise InputError(f"{path} has more weights than a board has memory")
        (model,) = files.models
        program = BoardProgram(model.name, model.c_model.interface, files[0].read_text(), files[1].read_text())
    return BoardModel(program, board, getattr(target, "cpu", ""), str(target), model.manifest.tilewright_version)


def count_on_board(executable: Model, model: str, sets: Sequence[Mapping[str, Any]], json_path: str | None) -> None:
    """Print the instructions of a run on each set of inputs, and the model's bytes; also as JSON."""
    # only for boards
    from tilewright.board import BoardModel

    assert isinstance(executable, BoardModel)
    counts = []
    for arrays in sets:
        executable.run(arrays)
        assert executable.last is not None
        counts.append(executable.last)
        click.echo(f"{model}: {executable.note}")
    if json_path:
        runs = [{"instructions": run.instructions, "stack": run.stack} for run in counts]
        record = {"model": model, "board": executable.board.name, "runs": runs, "sizes": asdict(executable.sizes)}
        write_file(json_path, lambda path: path.write_text(json.dumps(record, indent=2) + "\n"))
