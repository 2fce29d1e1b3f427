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
    from tilewright.board import BoardDevice, BoardModel


def open_on_board(
    path: str, board_name: str, target_name: str | None, device: BoardDevice | None = None, **compiled: Any
) -> BoardModel:
    """The model at `path` compiled to C, without a library, and built for a board; `compiled` is for `export_source`.

    Without a target it is that of the board's processor. It runs under qemu here, or on the board of a `device`.
    """
    # only for boards: `tilewright --help` reads this module
    from tilewright.board import BoardModel, BoardProgram, board_named
    from tilewright.board.image import require_tools
    from tilewright.compile import export_source
    from tilewright.target import Target, VtaTarget

    board = board_named(board_name)
    if device is None:
        require_tools(board)
    target = Target(target_name or board.target)
    cpu = getattr(target.processor if isinstance(target, VtaTarget) else target, "cpu", "")
    if isinstance(target, VtaTarget) and not board.vta:
        raise InputError(f"the board {board_name} has no VTA; virt+vta has one")
    board.flags(cpu)
    with tempfile.TemporaryDirectory(prefix="tilewright-board-") as folder:
        files = export_source(path, Path(folder) / "model.c", target=target, freestanding=True, **compiled)
        if len(files) > 2:
            raise InputError(f"{path} has more weights than a board has memory")
        (model,) = files.models
        program = BoardProgram.of(files, target)
    return BoardModel(program, board, cpu, str(target), model.manifest.tilewright_version, device)


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


def profile_on_board(executable: Model, arrays: Mapping[str, Any], trace: str | None) -> None:
    """Print the parts of a run beside VTA and its timeline; `trace` is a file for it, a picture if it ends in .svg."""
    # only for boards
    from tilewright.board import BoardModel

    assert isinstance(executable, BoardModel)
    for row in executable.profile(arrays):
        click.echo(f"{row.seconds * 1e3:>10.3f} ms  {row.kernel:<14}{row.source}")
    assert executable.last is not None and executable.last.timeline is not None
    timeline = executable.last.timeline
    click.echo(f"{timeline.text()}\n{executable.note}")
    if trace is not None:
        text = timeline.svg() if trace.endswith(".svg") else timeline.perfetto()
        write_file(trace, lambda path: path.write_text(text, encoding="utf-8"))
