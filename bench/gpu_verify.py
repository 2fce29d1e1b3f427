"""Whole models on a device beside onnxruntime, within the bounds of `tilewright verify`: one table.

    python bench/gpu_verify.py [--target opencl] [--set benchmark|zoo|brought|small] [--only mlp,dqn] [--minutes 20]
                               [--out FILE.jsonl] [--again] [--markdown FILE]

Each model runs in a process of its own, smallest first, which is ended after `--minutes`. Rows go to a file as they are
known, so that a run that was ended goes on where it stopped; `--again` repeats those that failed. Compile seconds are
those of the compiler and of the device's own, which some drivers put off to the first run; the run is a second one.
A model may also be a path, of any format that has a reference. Exit status 1 where one failed or differed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import zoo
from networks import ROOT, SETS, model_file
from report import table

#: By size of what is computed, as devices without a GPU take minutes for the largest.
SMALL = ("mlp", "dqn", "lstm_lm", "dcgan", "squeezenet1_1")


def _found(name: str, folder: Path) -> tuple[Path, dict[str, tuple[int, ...]], dict[str, np.ndarray[Any, Any]]]:
    """The file of a model, the shapes of its inputs, and inputs that it needs."""
    if Path(name).exists():
        return Path(name), {}, {}
    path, shapes = model_file(name, folder)
    return path, shapes, zoo.BROUGHT[name]()[1] if name in zoo.BROUGHT else {}


def verified(name: str, target: str, folder: Path) -> dict[str, Any]:
    """The row of one model."""
    import tilewright as tw
    from tilewright.cli.inputs import random_inputs
    from tilewright.cli.reference import check_against, reference_of
    from tilewright.frontend.bounds import bounds_of
    from tilewright.frontend.formats.table import frontend_of

    path, shapes, given = _found(name, folder)
    shapes |= {key: value.shape for key, value in given.items()}
    start = time.perf_counter()
    model = tw.compile(str(path), target=target, input_shapes=shapes or None, cache=False)
    states = dict(frontend_of(str(path)).first_states(str(path))) | given
    limits = frontend_of(str(path)).index_limits(str(path))
    specs = [spec for spec in model.inputs if spec.name not in states]
    inputs = random_inputs(specs, 0, limits) | states
    compiled = time.perf_counter() - start
    model.run(inputs)
    first = time.perf_counter() - start - compiled
    start = time.perf_counter()
    ours = model.run(inputs)
    second = time.perf_counter() - start
    reference = reference_of(str(path))
    theirs = reference.open(check_against(reference, None), inputs, 1).run()
    bounds = bounds_of(reference, None, None)
    found = [
        one
        for spec, mine, other in zip(model.outputs, ours, theirs, strict=True)
        for one in _differences(spec.name, mine, other, bounds)
    ]
    wrong = [one.line() for one in found if not one.passed]
    worst = max((one for one in found if one.compared), key=lambda one: one.error / (one.scale or 1), default=None)
    return {
        "kernels": len({call.name for plan in model.manifest.plans for call in plan.kernels}),
        "calls": sum(len(plan.kernels) for plan in model.manifest.plans),
        "error": None if worst is None else worst.error / (worst.scale or 1),
        "bound": "" if worst is None else str(worst.bound),
        "compile": compiled + max(0.0, first - second),
        "run": second,
        "failed": wrong[0] if wrong else "nothing compared" if worst is None else "",
    }


def _differences(name: str, ours: Any, theirs: Any, bounds: Any) -> list[Any]:
    """The differences of one output; where that lies within the absolute bound, by the relative bound alone."""
    from tilewright.frontend.comparison import compare, compare_values

    found = list(compare_values(name, ours, theirs, bounds))
    if len(found) == 1 and not found[0].compared and found[0].scale:
        found = [compare(name, np.asarray(ours), np.asarray(theirs), found[0].bound.rtol, 0.0)]
    return found


def in_own_process(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """`verified`, where a process that dies or takes too long is a row that failed."""
    command = [sys.executable, __file__, "--child", name, "--target", options.target, "--folder", str(options.folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 * options.minutes)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {options.minutes:g} minutes"}
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        return {"failed": f"exit status {done.returncode}: {' '.join(lines[-3:])[-1500:]}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def cells(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    if "error" not in row:
        return [row["model"], row["target"], "", "", "", "", "", row["failed"]]
    error = "–" if row["error"] is None else f"{row['error']:.1e}"
    counts = f"{row['kernels']} / {row['calls']}"
    seconds = (f"{row['compile']:.0f}", f"{row['run']:.2f}")
    return [row["model"], row["target"], counts, error, row["bound"], *seconds, row["failed"] or "ok"]


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table."""
    heading = ["model", "device", "kernels / calls", "largest error", "bound", "compile s", "run s", ""]
    return table(heading, map(cells, rows))


def main() -> None:
    """Verify the models that the file lacks, and print the table of all."""
    sets = {**SETS, "small": SMALL}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="opencl")
    parser.add_argument("--set", choices=sets, default="benchmark")
    parser.add_argument("--only", help="names or paths, separated by commas, instead of a whole set")
    parser.add_argument("--minutes", type=float, default=20.0, help="of each model")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu_verify.jsonl")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "networks")
    parser.add_argument("--again", action="store_true", help="repeat what failed")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(verified(options.child, options.target, options.folder)))
        return
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    known = {(row["model"], row["target"]): row for row in map(json.loads, lines)}  # the last of several counts
    names = options.only.split(",") if options.only else list(sets[options.set])
    sizes = {name: _found(name, options.folder)[0].stat().st_size for name in names}
    rows = []
    for name in sorted(names, key=lambda name: sizes[name]):
        row = known.get((name, options.target))
        if row is None or (options.again and row["failed"]):
            row = {"model": name, "target": options.target, **in_own_process(name, options)}
            options.out.parent.mkdir(parents=True, exist_ok=True)
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(" | ".join(cells(row)), flush=True)
        rows.append(row)
    print(markdown(rows))
    if options.markdown:
        options.markdown.write_text(markdown(rows))
    sys.exit(any(row["failed"] for row in rows))


if __name__ == "__main__":
    main()
