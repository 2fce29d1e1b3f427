"""Several models in one image: bytes of workspace, constants and code beside those of each model alone.

    python bench/image.py MODEL MODEL … [--target "c -mcpu=cortex-m4"]

Each number of models from two on is written as one file, in the order given; a model that is named twice shares all.
Bytes are those of the object that the board's compiler makes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tilewright.board.boards import BOARDS
from tilewright.board.image import Sizes, compiled_sizes
from tilewright.compile import export_image
from tilewright.target import Target


def sizes_of(models: Mapping[str, str], target: Target) -> Sizes:
    """The bytes of models in one image."""
    board = next(board for board in BOARDS.values() if board.cpu == target.cpu)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        files = export_image(models, work / "model.c", target=target, freestanding=True)
        workspace = max(model.c_model.interface.workspace_size for model in files.models)
        return compiled_sizes(work, board.prefix, board.flags(), workspace)


def main() -> None:
    """Print a line a model and a line an image."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--target", default="c -mcpu=cortex-m4")
    given = parser.parse_args()
    target = Target(given.target)
    names = {f"m{number}_{Path(path).stem}": path for number, path in enumerate(given.models)}
    alone = {}
    for name, path in names.items():
        alone[name] = sizes_of({name: path}, target)
        print(f"{name}: workspace {alone[name].workspace:,}, constants {alone[name].constants:,}, code "
              f"{alone[name].code:,}", flush=True)  # fmt: skip
    for count in range(2, len(names) + 1):
        some = list(names)[:count]
        found = sizes_of({name: names[name] for name in some}, target)
        parts = []
        for what in ("workspace", "constants", "code"):
            of_each = [getattr(alone[name], what) for name in some]
            total, most = sum(of_each), max(of_each)
            value = getattr(found, what)
            parts.append(f"{what} {value:,} ({value / most:.3f} × the largest, {value / total:.3f} × the sum)")
        print(f"{count} models: {', '.join(parts)}", flush=True)


if __name__ == "__main__":
    main()
