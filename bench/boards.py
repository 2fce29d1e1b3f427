"""Models on all boards under qemu: instructions, a multiply-accumulate, bytes and differences, as rows of a table.

    python bench/boards.py MODEL … [--boards NAME[:CPU] …] [--json FILE]

Outputs are compared with the reference kernels of the model's own format: integers bit for bit, floats by the largest
difference beside the largest value. `virt:riscv32-imafc` is the board `virt` with code for that processor.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.cli.board import open_on_board
from tilewright.cli.inputs import random_inputs
from tilewright.cli.reference import reference_of
from tilewright.errors import EnvironmentError_, UnsupportedError

BOARDS = ("mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547", "virt", "virt:riscv32-imafc")


def measured(path: str, name: str, shapes: Mapping[str, list[int]]) -> dict[str, Any]:
    """One model on one board: a row's figures."""
    board, _, cpu = name.partition(":")
    model = open_on_board(path, board, f"c -mcpu={cpu}" if cpu else None, input_shapes=shapes or None)
    inputs = random_inputs(model.inputs, 1)
    if any(array.dtype == np.int8 for array in inputs.values()):
        generator = np.random.default_rng(1)
        inputs = {key: generator.integers(-128, 128, array.shape, np.int8) for key, array in inputs.items()}
    outputs = model.run(inputs)
    found = [np.asarray(value) for value in (outputs.values() if isinstance(outputs, Mapping) else outputs)]
    reference = reference_of(path)
    wanted = reference.open(reference.engines[0], inputs, 1).run()
    assert model.last is not None
    return {
        "model": Path(path).stem if Path(path).stem != "model" else Path(path).parent.name, "board": name,
        "instructions": model.last.instructions, "rom": model.sizes.rom, "ram": model.sizes.workspace,
        "stack": model.last.stack, "difference": max(map(difference, found, wanted)),
    }  # fmt: skip


def difference(found: np.ndarray, wanted: Any) -> float:
    """The largest difference beside the largest value; of integers the largest difference."""
    wide, other = found.astype(np.float64), np.asarray(wanted).astype(np.float64)
    most = np.abs(wide - other).max()
    return float(most if found.dtype.kind in "iu" else most / np.abs(other).max())


def rows(paths: list[str], boards: list[str], shapes: Mapping[str, list[int]]) -> Iterator[dict[str, Any]]:
    """The figures of each model on each board; none where it does not fit or takes minutes."""
    for path in paths:
        for name in boards:
            try:
                yield measured(path, name, shapes)
            except (EnvironmentError_, UnsupportedError) as error:
                print(f"{path} on {name}: {error}", flush=True)


def main() -> None:
    """Print a row of Markdown for each model and board."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--boards", nargs="+", default=list(BOARDS))
    parser.add_argument("--input-shapes", type=json.loads, default={}, help='of a model of any size: {"x": [1, 8]}')
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = []
    print(
        "| model | board | instructions, M | ROM, kB | RAM, kB | stack, B | difference |\n|---|---|---|---|---|---|---|"
    )
    for row in rows(given.models, given.boards, given.input_shapes):
        found.append(row)
        cells = row["model"], row["board"], f"{row['instructions'] / 1e6:.3f}", f"{row['rom'] / 1e3:.0f}"
        rest = f"{row['ram'] / 1e3:.1f}", f"{row['stack']:,}", f"{row['difference']:.1e}"
        print(f"| {' | '.join([*cells, *rest])} |", flush=True)
        if given.json:
            given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
