"""Distance of a short tuning of a network from a long one: each begins with nothing, and the results run in turns.

    python bench/autotvm/budgets.py [--network resnet18] [--seconds 120,600] [--threads 2] [--rounds 40]
                                    [--records FOLDER] [--smoke]

The default network and those tuned for each of the times run in turns; of each the tenth percentile is given, and how
many times as fast as the default that is. Records are kept in FOLDER, one file a time, and a run that finds one takes
what it says and does not tune again: so the times may be tuned for one by one, and compared at the end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from networks import NETWORKS, ROOT, model_file
from report import machine, table

from tilewright.autotvm.network.inputs import timing_inputs
from tilewright.autotvm.network.tune import TuneOptions, tune
from tilewright.driver.model.build import build_model
from tilewright.frontend.formats.import_model import import_model
from tilewright.records.database import Database
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.model import Model
from tilewright.target import Target


def tuned(mod: IRModule, target: Target, seconds: float, path: Path, trials: int | None) -> Database:
    """The records of so many seconds of tuning, made now unless they are there; a run that was cut off begins anew."""
    if not path.exists():
        begun = path.with_suffix(".begun")
        begun.unlink(missing_ok=True)
        result = tune(mod, target, TuneOptions(seconds, trials), begun)
        begun.rename(path)
        print(f"{path.name}: {result.trials} trials in {result.seconds:.0f} s", flush=True)
    return Database.load(path)


def in_turns(models: Sequence[Model], rounds: int) -> list[float]:
    """Seconds of a run of each: the tenth percentile of `rounds`, in each of which all have a turn."""
    inputs = timing_inputs(models[0].inputs)
    times: list[list[float]] = [[] for _ in models]
    for done in range(rounds):
        order = range(len(models)) if done % 2 else reversed(range(len(models)))
        for which in order:
            times[which].append(min(models[which].time(inputs, repeat=2, warmup=1)))
    return [float(np.quantile(taken, 0.1)) for taken in times]


def main(arguments: Sequence[str] | None = None) -> None:
    """Tune for each time, compare, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet18", choices=list(NETWORKS))
    parser.add_argument("--seconds", default="120,600")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "networks", help="of filled networks")
    parser.add_argument("--records", type=Path, default=ROOT / "build" / "budgets")
    parser.add_argument("--smoke", action="store_true", help="the smallest network, hardly tuned")
    args = parser.parse_args(arguments)
    name, budgets = ("mlp", [2.0, 3.0]) if args.smoke else (args.network, list(map(float, args.seconds.split(","))))
    args.records.mkdir(parents=True, exist_ok=True)
    path, shapes = model_file(name, args.folder)
    mod, target = import_model(str(path), shapes), Target(f"cpu -cores={args.threads}")
    trials = 2 if args.smoke else None
    files = [args.records / f"{name}.{args.threads}.{seconds:.0f}.jsonl" for seconds in budgets]
    records = [tuned(mod, target, seconds, file, trials) for seconds, file in zip(budgets, files, strict=True)]
    models = [build_model(mod, target, records=known) for known in (None, *records)]
    for model in models:
        model.set_threads(args.threads)
    taken = in_turns(models, 3 if args.smoke else args.rounds)
    rows = [
        [what, f"{1e3 * one:.3f}", f"{taken[0] / one:.3f}"]
        for what, one in zip(["default", *(f"{seconds:.0f} s" for seconds in budgets)], taken, strict=True)
    ]
    print(f"{machine()}, {name}\n\n{table(['tuned for', 'ms', 'times as fast'], rows)}")
    print(f"the shortest takes {taken[1] / taken[-1]:.3f} times what the longest does")


if __name__ == "__main__":
    main()
