"""Gain of tuning on the benchmark's networks, each for a stated time, in parts: a run goes on where the last ended.

    python bench/autotvm/tuned_networks.py OUT.json [--minutes 10] [--only resnet18,mlp] [--portion 190] [--threads 2]
                                     [--records FOLDER] [--smoke]

Those networks that have had the least time are tuned first, `--at-once` seconds at a time, until `--portion` seconds
have passed, but for those with nothing left to do. Each keeps its records in a file of `--records`, which its next turn
takes up. OUT.json has for each network the seconds that it was tuned in all, and of the last turn the times of the
default and the tuned network.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from networks import NETWORKS, ROOT, model_file
from report import geometric_mean, machine, table

from tilewright.autotvm.network.tune import TuneOptions, tune
from tilewright.frontend.formats.import_model import import_model
from tilewright.target import Target


def one_turn(name: str, args: argparse.Namespace, seconds: float, before: Mapping[str, Any]) -> dict[str, Any]:
    """Tune a network for so many seconds; what is known of it then."""
    path, shapes = model_file(name, args.folder)
    records = args.records / f"{name}.{args.threads}.jsonl"
    target = Target(f"cpu -cores={args.threads}")
    options = TuneOptions(seconds, trials=2 if args.smoke else None)
    result = tune(import_model(str(path), shapes), target, options, records)
    verdict = result.verdict
    return {
        "seconds": before.get("seconds", 0.0) + result.seconds,
        "trials": before.get("trials", 0) + result.trials,
        "default_ms": 1e3 * verdict.default_seconds,
        "tuned_ms": 1e3 * verdict.tuned_seconds,
        "speedup": verdict.speedup,
        "kept": len(verdict.kept),
        "rolled_back": len(verdict.rolled_back),
        "finished": all(tuner.finished for tuner in result.tuners),
    }


def wants_time(known: Mapping[str, Any], args: argparse.Namespace) -> bool:
    """False for a network that has had its minutes, or has nothing left to do."""
    over = known.get("finished", False) or known.get("seconds", 0.0) >= 60 * args.minutes
    return not (over or (args.smoke and known))


def markdown(found: Mapping[str, Mapping[str, Any]]) -> str:
    """The table, and the geometric mean."""
    rows = [
        [name, f"{one['seconds'] / 60:.1f}", str(one["trials"]), f"{one['default_ms']:.2f}", f"{one['tuned_ms']:.2f}",
         f"{one['speedup']:.3f}", f"{one['kept']}/{one['kept'] + one['rolled_back']}"]
        for name, one in found.items()
    ]  # fmt: skip
    heading = ["network", "minutes", "trials", "default ms", "tuned ms", "times as fast", "kernels kept"]
    speeds = [one["speedup"] for one in found.values()]
    summary = f"Geometric mean of {len(speeds)}: {geometric_mean(speeds):.3f}; lowest {min(speeds):.3f}."
    return f"{machine()}\n\n{table(heading, rows)}\n{summary}\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Tune for a portion, keep the outcome, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0, help="of each network, in all")
    parser.add_argument("--at-once", type=float, default=60.0, help="seconds of a network in one turn")
    parser.add_argument("--portion", type=float, default=190.0, help="seconds of this run")
    parser.add_argument("--only", default=",".join(NETWORKS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "networks", help="of filled networks")
    parser.add_argument("--records", type=Path, default=ROOT / "build" / "tuned")
    parser.add_argument("--smoke", action="store_true", help="the smallest network, hardly tuned")
    args = parser.parse_args(arguments)
    args.records.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, Any]] = json.loads(args.out.read_text()) if args.out.exists() else {}
    names = ["mlp"] if args.smoke else args.only.split(",")
    end = time.monotonic() + args.portion
    at_once = 3.0 if args.smoke else args.at_once
    while time.monotonic() + at_once < end:
        left = [name for name in names if wants_time(found.get(name, {}), args)]
        if not left:
            break
        name = min(left, key=lambda one: found.get(one, {}).get("seconds", 0.0))
        before = found.get(name, {})
        found[name] = one_turn(name, args, at_once, before)
        args.out.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{name}: {found[name]['speedup']:.3f} after {found[name]['seconds']:.0f} s", flush=True)
    print(markdown({name: found[name] for name in names if name in found}))


if __name__ == "__main__":
    main()
