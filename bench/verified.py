"""A folder of models, each compiled at several levels, compared with onnxruntime and timed beside it: one table.

    python bench/verified.py FOLDER ... [--levels 0,2,3,4] [--seeds 2] [--seconds 3] [--markdown FILE]

Every `.onnx` under the folders is verified as `tilewright verify` does it, on `--seeds` sets of random inputs at each
level of the graph passes, and timed at the usual level on one thread. A model whose inputs have symbolic dimensions or
need particular values has a line in `inputs.json` of its folder, `{"model.onnx": {"x": "normal(0,1)[1,3,48,192]"}}`:
what `--input` takes. Each runs in a process of its own. A folder that is absent is skipped with a line that says so;
the exit status is 1 where a model failed or differed."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
from report import OURS, geometric_mean, machine, table, versions

from tilewright.cli.inputs import InputOptions, InputSet
from tilewright.cli.options import ModelOptions
from tilewright.cli.timing import measure
from tilewright.cli.values import parse_inputs
from tilewright.errors import TilewrightError
from tilewright.frontend.bounds import bounds_of
from tilewright.frontend.comparison import Difference, compare_values
from tilewright.frontend.formats.table import frontend_of
from tilewright.frontend.onnx.reference.engines import open_engine
from tilewright.frontend.onnx.reference.exact import open_reference
from tilewright.relay.transform.manager.pass_manager import DEFAULT_OPT_LEVEL, PassContext

#: How many kinds of operators a row names: the most frequent.
_NAMED = 5


def models_in(folders: Sequence[Path]) -> Iterator[Path]:
    """The models under the folders, by name; what is absent is named on stderr."""
    for folder in folders:
        if not folder.is_dir():
            print(f"{folder} is absent: skipped", file=sys.stderr)
        yield from sorted(folder.rglob("*.onnx"))


def inputs_of(path: Path, seeds: int) -> InputOptions:
    """The inputs that the nearest `inputs.json` above a model has for it, and as many seeds."""
    for folder in path.parents:
        listing = folder / "inputs.json"
        if listing.is_file():
            texts = json.loads(listing.read_text()).get(path.name, {})
            return InputOptions(
                parse_inputs(tuple(f"{name}={text}" for name, text in texts.items())), tuple(range(seeds))
            )
    return InputOptions({}, tuple(range(seeds)))


def described(path: Path) -> dict[str, Any]:
    """Who wrote a model, in which opset, of how many nodes and which operators, those of branches and functions too."""
    model = onnx.load(str(path), load_external_data=False)
    kinds: Counter[str] = Counter()
    graphs: list[Any] = [model.graph, *model.functions]
    while graphs:
        for node in graphs.pop().node:
            kinds[node.op_type] += 1
            graphs += [a.g for a in node.attribute if a.HasField("g")]
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    writer = f"{model.producer_name} {model.producer_version}".strip()
    return {"writer": writer or "unnamed", "opset": opset, "kinds": dict(kinds.most_common())}


def worst(path: Path, inputs: InputOptions, levels: Sequence[int]) -> tuple[list[Difference], InputSet, Any]:
    """Every difference at every level; the last inputs and the executable of the usual level, for timing."""
    found: list[Difference] = []
    bounds = bounds_of(frontend_of(str(path)).reference(str(path)), None, None)
    kept = None
    for level in levels:
        with PassContext(opt_level=level):
            executable = inputs.open(str(path), ModelOptions(None, None, 1, no_cache=True))
        for given in inputs.sets(executable, str(path)):
            ours = executable.run(given.arrays)
            theirs = open_reference("onnxruntime", str(path), given.arrays, 1).run()
            for spec, mine, other in zip(executable.outputs, ours, theirs, strict=True):
                found += compare_values(spec.name, mine, other, bounds)
        if kept is None or level == DEFAULT_OPT_LEVEL:
            kept = executable
    return found, given, kept


def verified(path: Path, levels: Sequence[int], seeds: int, seconds: float) -> dict[str, Any]:
    """One model's row: the largest ratio of difference to largest value, whether all passed, the times of a call."""
    row: dict[str, Any] = {"name": path.stem, **described(path)}
    try:
        found, given, executable = worst(path, inputs_of(path, seeds), levels)
        wrong = [one for one in found if not one.passed]
        row["difference"] = max((one.error / one.scale if one.scale else one.error for one in found), default=0.0)
        row["failed"] = wrong[0].line() if wrong else "" if any(one.compared for one in found) else "nothing compared"
        theirs = open_engine("onnxruntime", str(path), given.arrays, 1)
        times = measure({OURS: lambda: executable.run(given.arrays), "onnxruntime": theirs.run}, seconds, 1000).times
        row["milliseconds"] = {engine: min(taken) * 1e3 for engine, taken in times.items()}
    except TilewrightError as error:
        row["failed"] = f"{type(error).__name__}: {error}"
    return row


def in_a_process(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """`verified`, where a process that dies is a row that failed."""
    command = [sys.executable, __file__, "--one", str(path), "--levels", ",".join(map(str, options.levels))]
    command += ["--seeds", str(options.seeds), "--seconds", str(options.seconds)]
    ended = subprocess.run(command, capture_output=True, text=True)
    try:
        return json.loads(ended.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        reason = (ended.stderr.strip().splitlines() or ["no word"])[-1]
        return {"name": path.stem, **described(path), "failed": f"exit status {ended.returncode}: {reason}"}


def speed(row: dict[str, Any]) -> float | None:
    """onnxruntime's time over ours."""
    times = row.get("milliseconds")
    return times["onnxruntime"] / times[OURS] if times else None


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The table, one row a model, and the geometric mean of the speeds."""
    cells = []
    for row in rows:
        kinds = row["kinds"]
        named = ", ".join(list(kinds)[:_NAMED])
        operators = f"{sum(kinds.values())} of {len(kinds)} kinds: {named}"
        difference = row["failed"] or f"{row['difference']:.1e}"
        faster = speed(row)
        written = f"{row['writer']}, opset {row['opset']}"
        cells.append([row["name"], written, operators, difference, f"{faster:.2f}" if faster else "–"])
    heading = ["model", "written by", "nodes", "largest difference", "speed"]
    ratios = [ratio for row in rows if (ratio := speed(row)) is not None]
    mean = (
        f"\nGeometric mean of the speeds: {geometric_mean(ratios):.2f}, lowest {min(ratios):.2f}.\n" if ratios else ""
    )
    return table(heading, cells) + mean


def numbers(text: str) -> tuple[int, ...]:
    """`"0,2"` as (0, 2), for `argparse`."""
    return tuple(int(word) for word in text.split(","))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--one", type=Path, help="a single model, in this process; prints its row as JSON")
    parser.add_argument("--levels", type=numbers, default=(0, 2, 3, 4))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3.0, help="of timing, a model")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(verified(options.one, options.levels, options.seeds, options.seconds)))
        return
    rows = []
    for path in models_in(options.folders):
        rows.append(in_a_process(path, options))
        print(f"{path.stem}: {rows[-1]['failed'] or 'ok'}", file=sys.stderr, flush=True)
    text = f"{machine()}; {versions()}; one thread; levels {options.levels}\n\n{markdown(rows)}"
    print(text)
    if options.markdown is not None:
        options.markdown.write_text(text)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    sys.exit(any(row["failed"] for row in rows))


if __name__ == "__main__":
    main()
