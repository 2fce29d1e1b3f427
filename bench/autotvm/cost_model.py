"""How well cost models rank configurations of layers that they have not seen, and what transfer saves, by replay.

    python bench/autotvm/cost_model.py [--records FILE --networks resnet18,resnet50] [--layers FILE]
                                       [--models analytic,trees,gru] [--folds 5] [--json FILE] [--smoke]

Nothing is measured: the times are those of ../shared/machines (one thread of a Skylake-SP), or of files that
bench/autotvm/spaces.py has written: `--records` of networks, `--layers` of C1-C12. Of each the tasks are dealt into
folds, and a model trained on the others ranks those of one. By TenSet's definitions (NeurIPS 2021 Datasets and
Benchmarks track):

top-k      the sum of the tasks' best times over the sum of the best among the k that the model ranks first
pairs      the share of pairs of one task's configurations that stand in the right order

Transfer: trials until one within 2 % of the best that was recorded is measured, in batches of 4, by a model that knows
nothing of other tasks and begins at random ("cold"), begins with the analytic model ("analytic"), and knows the other
layers ("layers") or another processor's records ("machine"). The mean over tasks is given, at least one trial each.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from networks import ROOT
from ranking import RECORDED, RECORDS
from replay import Replay, given_replays, own_replays
from report import machine, table
from spaces import layer_tasks, network_tasks

from tilewright.autotvm.feature.samples import Features, Samples, concatenate
from tilewright.autotvm.model.cost_model import CostModel, Transferred
from tilewright.autotvm.model.models import MODELS, make_model
from tilewright.autotvm.model.trees_model import TreesModel, has_xgboost

#: A trial is good enough within this share of the best; trials of a batch; tasks of the transfer, and their seeds.
_NEAR, _BATCH, _SEEDS = 0.02, 4, 5

#: A model learns again when there are so many times as many trials.
_AGAIN = 1.1

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


def trials_needed(samples: Samples, model: CostModel, seed: int, at_random: bool = False) -> int:
    """Trials until one is near the best; the model learns after batches, and decides from the first one on unless
    that is `at_random`."""
    generator = np.random.default_rng(seed)
    left = [int(number) for number in generator.permutation(len(samples))]
    done: list[int] = []
    learned = 0
    aim = (1 + _NEAR) * float(samples.seconds.min())
    while left:
        if done or not at_random:
            score, _ = model.score(samples.take(np.array(left)))
            left = [left[i] for i in np.argsort(-score, kind="stable")]
        for number in left[:_BATCH]:
            done.append(number)
            if samples.seconds[number] <= aim:
                return len(done)
        left = left[_BATCH:]
        if len(done) >= max(2 * _BATCH, _AGAIN * learned):
            learned = len(done)
            model.fit(samples.take(np.array(done)))
    return len(done)


def transfer(every: Set, other: Set | None, folds: int) -> dict[str, float]:
    """Mean trials needed, by what is known beforehand."""
    needed: dict[str, list[float]] = {}
    order = np.random.default_rng(1).permutation(len(every))
    abroad = None if other is None else _trained(other)
    for fold in range(folds):
        test = {int(number) for number in order[fold::folds]}
        near = _trained([one for number, one in enumerate(every) if number not in test])
        for number in sorted(test):
            samples = every[number][1]
            blind = replace(samples, prior=np.zeros_like(samples.prior))
            kinds: dict[str, tuple[Samples, CostModel | None]] = {
                "cold": (blind, None), "analytic": (samples, None), "layers": (samples, near),
            }  # fmt: skip
            if abroad is not None:
                kinds["machine"] = samples, abroad
            for kind, (given, general) in kinds.items():
                counts = [trials_needed(given, _local(general, seed), seed, kind == "cold") for seed in range(_SEEDS)]
                needed.setdefault(kind, []).append(float(np.mean(counts)))
    return {kind: float(np.mean(counts)) for kind, counts in needed.items()}


def _local(general: CostModel | None, seed: int) -> CostModel:
    """A new model of one task, on top of a general one where there is one."""
    own = TreesModel(seed)
    return own if general is None else Transferred(general, own)


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
        rows = [[kind, f"{count:.1f}", f"{count / needed['cold']:.2f}"] for kind, count in needed.items()]
        print(table(["known beforehand", "trials to within 2 %", "of a cold start"], rows), flush=True)
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
