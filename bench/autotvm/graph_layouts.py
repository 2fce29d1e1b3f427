"""Gain of layouts and algorithms chosen over the whole graph over each convolution's own best, on networks here.

    python bench/autotvm/graph_layouts.py [--networks mobilenet_v2,inception_v3] [--seconds 60] [--records FILE]
                                    [--target cpu] [--json FILE] [--smoke]

Every way of every convolution is measured for `--seconds` a network; records make a second run take up where the first
ended. Then a network is compiled with three plans, and the three are run in turns:

greedy      each convolution as it was measured fastest by itself, changes of layout wherever that needs them
compiler    the plan of the cost model, as without records
measured    the plan of least cost by the measured prices

Of each the cost by these prices is given, and the time, both relative to greedy.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from networks import ROOT, model_file
from report import geometric_mean, table

from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.network.inputs import timing_inputs
from tilewright.autotvm.network.layouts import (
    Ways,
    graph_before_layouts,
    measured_ways,
    priced_plan,
    prices_of,
    ways_of,
)
from tilewright.backend import backend_of
from tilewright.driver.model.build import build_model
from tilewright.frontend.formats.import_model import import_model
from tilewright.records.database import Database, processor_of
from tilewright.records.entry import VERDICT, Entry
from tilewright.records.file import RecordFile
from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.layout.layout_plan import (
    LayoutPlan,
    Planner,
    follow_texts,
    plan_layouts,
)
from tilewright.relay.transform.layout.recorded_layouts import CHOICES, layouts_key
from tilewright.target import Target

#: Rounds in which all networks run once.
_ROUNDS = 30


def plans(planner: Planner, ways: Mapping[Call, Ways]) -> dict[str, LayoutPlan]:
    """The three plans, each at the measured prices."""
    priced = Planner(planner.root, planner.backend, prices_of(planner, ways))
    cheapest = {
        call: min((one for one in options if one is not None), key=lambda one: one.cost)
        for call, options in priced.problem().options.items()
        if isinstance(call, Call) and sum(one is not None and one.cost > 0 for one in options) > 1
    }
    own = follow_texts(priced, plan_layouts(planner.root, planner.backend).texts)
    measured = follow_texts(priced, priced_plan(planner, ways)[0].texts)
    assert own is not None and measured is not None
    return {
        "greedy": priced.simulate(cheapest),
        "compiler": own,
        "measured": measured,
    }


def timed(mod: IRModule, target: Target, found: Mapping[str, LayoutPlan], rounds: int) -> dict[str, float]:
    """Seconds of a run with each plan: the tenth percentile over rounds in which all run in turns."""
    planner = Planner(graph_before_layouts(mod, target)["main"].body, backend_of(target))
    key = layouts_key(planner)
    models = {}
    for name, plan in found.items():
        entry = Entry(key, processor_of(target), {CHOICES: plan.texts}, kind=VERDICT)
        models[name] = build_model(mod, target, records=Database([entry]))
        models[name].set_threads(min(models[name].threads, target.cores))
    inputs = timing_inputs(models["greedy"].inputs)
    times: dict[str, list[float]] = {name: [] for name in models}
    for done in range(rounds):
        for name in sorted(models, reverse=bool(done % 2)):
            times[name].append(min(models[name].time(inputs, repeat=2, warmup=0)))
    return {name: float(np.quantile(taken, 0.1)) for name, taken in times.items()}


def one_network(mod: IRModule, target: Target, file: RecordFile, seconds: float, rounds: int) -> dict[str, Any]:
    """Measure the ways of a network, and run it with each plan."""
    planner = Planner(graph_before_layouts(mod, target)["main"].body, backend_of(target))
    ways = ways_of(planner)
    distinct: list[Ways] = list(dict.fromkeys(ways.values()))
    trials = measured_ways(
        distinct, target, lambda tasks: Measurer(tasks, MeasureOptions()), seconds, file.append, Database(file.entries)
    )
    found = plans(planner, ways)
    whole, known = sum(len(one.choices) for one in distinct), sum(len(one.seconds) for one in distinct)
    times = timed(mod, target, found, rounds)
    return {
        "trials": trials, "ways": whole, "measured": known, "seconds": times,
        "cost": {name: plan.cost for name, plan in found.items()},
        "changes": {name: len(plan.transforms) for name, plan in found.items()},
        "differ": sum(a != b for a, b in zip(found["compiler"].texts, found["measured"].texts)),
    }  # fmt: skip


def row(name: str, one: Mapping[str, Any]) -> list[str]:
    """A line of the table: how many times as fast, and as cheap, as greedy."""
    times, costs = one["seconds"], one["cost"]
    speed = [f"{times['greedy'] / times[plan]:.3f}" for plan in ("compiler", "measured")]
    cheap = [f"{costs['greedy'] / costs[plan]:.3f}" for plan in ("compiler", "measured")]
    counts = "/".join(str(one["changes"][plan]) for plan in ("greedy", "compiler", "measured"))
    return [name, f"{1e3 * times['greedy']:.2f}", *speed, *cheap, counts, f"{one['measured']}/{one['ways']}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="mobilenet_v2,mobilenet_v3_large,efficientnet_b0,inception_v3")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "networks", help="of filled networks")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--records", type=Path, default=ROOT / "build" / "layouts.jsonl")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--smoke", action="store_true", help="a small network, hardly measured")
    args = parser.parse_args(arguments)
    names = ["dqn"] if args.smoke else args.networks.split(",")
    target, found, rows = Target(args.target), {}, []
    args.records.parent.mkdir(parents=True, exist_ok=True)
    heading = ["network", "greedy ms", "compiler", "measured", "cost compiler", "measured", "changes", "ways"]
    with RecordFile(args.records) as file:
        for name in names:
            path, shapes = model_file(name, args.folder)
            mod = import_model(str(path), shapes)
            seconds, rounds = (2.0, 3) if args.smoke else (args.seconds, _ROUNDS)
            found[name] = one_network(mod, target, file, seconds, rounds)
            rows.append(row(name, found[name]))
            print(" | ".join(rows[-1]), flush=True)
    gain = [one["seconds"]["greedy"] / one["seconds"]["measured"] for one in found.values()]
    print(f"\n{table(heading, rows)}\nmeasured over greedy, geometric mean: {geometric_mean(gain):.3f}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
