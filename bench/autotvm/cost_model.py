"""Quality of cost models on layers that they have not seen, and the gain of transfer, by replay.

    python bench/autotvm/cost_model.py [--records FILE --networks resnet18,resnet50] [--layers FILE]
                                       [--models analytic,trees,gru] [--folds 5] [--json FILE] [--smoke]

Nothing is measured: the times are those of ../shared/machines (one thread of a Skylake-SP), or of files that
bench/autotvm/spaces.py has written: `--records` of networks, `--layers` of C1-C12. Of each the tasks are dealt into
folds, and a model trained on the others ranks those of one. By TenSet's definitions (NeurIPS 2021 Datasets and
Benchmarks track):

top-k      the sum of the tasks' best times over the sum of the best among the k that the model ranks first
pairs      the share of pairs of one task's configurations that stand in the right order

Transfer: trials until one within 2, 3 and 5 % of the best that was recorded is measured, in batches of 4 by the tuner's
explorer and boosted trees that know nothing and begin at random ("cold"), begin with the analytic model ("analytic"),
and know the other layers ("layers") or another processor's records ("machine"). The mean over tasks is given.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from curves import Part
from networks import ROOT
from ranking import RECORDED, RECORDS
from replay import Replay, given_replays, own_replays
from report import machine, table
from spaces import layer_tasks, network_tasks

from tilewright.autotvm.feature.samples import Features, Samples, concatenate
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.model.cost_model import CostModel
from tilewright.autotvm.model.models import MODELS, make_model
from tilewright.autotvm.model.trees_model import TreesModel, has_xgboost
from tilewright.autotvm.tuner.model_explorer import ModelExplorer, View

#: A trial is good enough within one of these shares of the best: single times are no more exact than the first, and the
#: best of a space of hundreds is the luckiest of them. Trials of a batch; seeds of each task.
_NEAR, _BATCH, _SEEDS = (0.02, 0.03, 0.05), 4, 5

Set = list[tuple[Replay, Samples]]


def with_features(replays: Sequence[Replay]) -> Set:
    """Each replay with its features and times."""
    return [(one, Features(one.task).of(one.points).timed(one.seconds)) for one in replays]


def tenset(samples: Sequence[Samples], scores: Sequence[NDArray[np.floating]]) -> dict[str, float]:
    """Top-1, top-5 and the accuracy on pairs."""
    best, first, five, pairs = 0.0, 0.0, 0.0, []
    for one, score in zip(samples, scores, strict=True):
        order = np.argsort(-score, kind="stable")
        best += float(one.seconds.min())
        first += float(one.seconds[order[0]])
        five += float(one.seconds[order[:5]].min())
        a, b = np.triu_indices(len(one), 1)
        pairs.append(float(((score[a] > score[b]) == (one.seconds[a] < one.seconds[b])).mean()))
    return {"top1": best / first, "top5": best / five, "pairs": float(np.mean(pairs))}


def held_out(every: Set, name: str, folds: int, seed: int = 0) -> tuple[dict[str, float], float]:
    """The figures of a model on tasks that it was not trained on, and milliseconds that a prediction took."""
    order = np.random.default_rng(seed).permutation(len(every))
    scores: dict[int, NDArray[np.floating]] = {}
    spent = 0.0
    for fold in range(folds):
        test = [int(number) for number in order[fold::folds]]
        model = make_model(name)
        model.fit(concatenate([samples for number, (_, samples) in enumerate(every) if number not in test]))
        begun = time.perf_counter()
        scores |= {number: model.score(every[number][1])[0] for number in test}
        spent += time.perf_counter() - begun
    samples = [one for _, one in every]
    return tenset(samples, [scores[n] for n in range(len(every))]), 1e3 * spent / sum(map(len, samples))


def trials_needed(one: Replay, samples: Samples, seed: int, general: CostModel | None, cold: bool) -> NDArray[np.int64]:
    """Trials until the tuner's own explorer has one as near the best as each of `_NEAR` says; `cold` it begins at
    random and knows no analytic model."""
    points = Part(one.task.points, one.points, blind=cold)
    samples = samples.with_prior(np.zeros_like(samples.prior)) if cold else samples
    view = View(lambda which: samples.take(np.array(which, np.intp)))
    explorer = ModelExplorer(points, Random(seed), model=TreesModel(seed), view=view, general=lambda: general)
    best: list[float] = []
    while (not best or best[-1] > (1 + min(_NEAR)) * one.best) and (batch := explorer.propose(_BATCH)):
        seconds = [float(one.seconds[point]) for point in batch]
        explorer.learn(Trial(point, {}, seconds=taken) for point, taken in zip(batch, seconds, strict=True))
        best += np.minimum.accumulate([*best[-1:], *seconds])[-len(seconds) :].tolist()
    return np.array([1 + np.argmax(np.array(best) <= (1 + near) * one.best) for near in _NEAR])


def transfer(every: Set, other: Set | None, folds: int) -> dict[str, list[float]]:
    """Mean trials needed for each of `_NEAR`, by what is known beforehand."""
    needed: dict[str, list[NDArray[np.int64]]] = {}
    order = np.random.default_rng(1).permutation(len(every))
    abroad = None if other is None else _trained(other)
    for fold in range(folds):
        test = {int(number) for number in order[fold::folds]}
        near = _trained([one for number, one in enumerate(every) if number not in test])
        kinds = {"cold": None, "analytic": None, "layers": near, **({} if abroad is None else {"machine": abroad})}
        for (number, (kind, general)), seed in itertools.product(
            itertools.product(sorted(test), kinds.items()), range(_SEEDS)
        ):
            counts = trials_needed(*every[number], seed, general, kind == "cold")
            needed.setdefault(kind, []).append(counts)
    return {kind: np.mean(counts, axis=0).tolist() for kind, counts in needed.items()}


def _trained(every: Set) -> CostModel:
    model = TreesModel()
    model.fit(concatenate([samples for _, samples in every]))
    return model


def report(name: str, every: Set, models: Sequence[str], folds: int, other: Set | None) -> dict[str, Any]:
    """The figures of one set of recordings, printed and as data."""
    trials = sum(len(samples) for _, samples in every)
    print(f"{name}: {len(every)} tasks, {trials} configurations\n")
    found: dict[str, Any] = {"tasks": len(every), "configurations": trials, "models": {}}
    rows = []
    for model in models:
        figures, milliseconds = held_out(every, model, folds)
        found["models"][model] = {**figures, "milliseconds": milliseconds}
        rows.append([model, *(f"{value:.3f}" for value in figures.values()), f"{milliseconds:.3f}"])
    print(table(["model", "top-1", "top-5", "pairs", "ms a prediction"], rows), flush=True)
    if "trees" in models:
        found["transfer"] = needed = transfer(every, other, folds)
        cells = {kind: zip(counts, needed["cold"], strict=True) for kind, counts in needed.items()}
        rows = [[kind, *(f"{n:.1f} ({n / cold:.2f})" for n, cold in pairs)] for kind, pairs in cells.items()]
        headings = [f"trials to within {near:.0%} (of a cold start)" for near in _NEAR]
        print(table(["known beforehand", *headings], rows), flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Report on every set of recordings there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--given", type=Path, default=RECORDS)
    parser.add_argument("--records", type=Path, help="what spaces.py recorded of networks")
    parser.add_argument("--networks", default="resnet18,resnet50,mobilenet_v2", help="those")
    parser.add_argument("--layers", type=Path, help="what spaces.py recorded of C1 to C12")
    parser.add_argument("--target", default="cpu -cores=1", help="the processor of your own recordings")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench_models")
    parser.add_argument("--models", default=",".join(["analytic", *(["trees"] if has_xgboost() else []), "gru"]))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--smoke", action="store_true", help="a few tasks, two folds")
    args = parser.parse_args(arguments)
    models = [name for name in args.models.split(",") if name in MODELS]
    sets: dict[str, Set] = {}
    given = given_replays(args.given) if args.given.exists() else []
    if given:
        sets[f"given, {RECORDED}"] = with_features(given[:6] if args.smoke else given)
    if args.records:
        tasks = network_tasks(args.networks.split(","), args.target, args.folder)
        sets[f"networks, {machine()}"] = with_features(own_replays(args.records, tasks))
    if args.layers:
        layers = layer_tasks([f"C{number}" for number in range(1, 13)], args.target)
        sets[f"C1-C12, {machine()}"] = with_features(own_replays(args.layers, layers))
    first = next(iter(sets.values()), None)
    found = {
        name: report(name, every, models, 2 if args.smoke else args.folds, None if every is first else first)
        for name, every in sets.items()
    }
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
