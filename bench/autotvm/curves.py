"""The paper's curve: how fast the best configuration found is after so many trials, by explorer, for layers C1-C12.

    python bench/autotvm/curves.py OUT.svg --records FILE.jsonl [--layers C2,C6] [--peers layers.json] [--seeds 5]
                                   [--explorers random,genetic,xgb,gru,ours] [--trials 64] [--json FILE]
    python bench/autotvm/curves.py OUT.svg --live [--seconds 50] ...

Replayed, an explorer's search space are the points that bench/autotvm/spaces.py has recorded of a layer, so that seeds
cost nothing; live, each explorer tunes each layer by measuring. Speed is that of the best recorded point, or with
`--peers` (what `bench/layers.py --json` wrote, of the same machine and threads) that of the faster of the peers.

random, genetic   baselines
xgb               boosted trees on knobs that begin at random and know no analytic model, as in the paper
gru               the network over trees of loops, likewise
ours              boosted trees on the residual of the analytic model, which they begin with, and its neighbours
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from replay import Replay, own_replays
from report import geometric_mean, table
from spaces import layer_tasks

from tilewright.autotvm.feature.samples import Features, Samples
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.model.gru_model import GruModel
from tilewright.autotvm.model.trees_model import TreesModel
from tilewright.autotvm.task.points import Points, Position
from tilewright.autotvm.task.task import KernelTask
from tilewright.autotvm.tuner.explorer import Explorer, GeneticExplorer, RandomExplorer
from tilewright.autotvm.tuner.model_explorer import ModelExplorer, View

_BATCH = 4
_COLOURS = {"random": "#9b9a97", "genetic": "#64473a", "xgb": "#0b6e99", "gru": "#d9730d", "ours": "#ad1a72"}
_WIDTH, _HEIGHT, _COLUMNS, _EDGE = 300, 200, 3, 36


class Part(Points):
    """Some points of a space as a space of their own; without the analytic model if `blind`."""

    def __init__(self, whole: Points, which: Sequence[int], blind: bool) -> None:
        self.whole, self.which, self.blind, self.knobs = whole, list(which), blind, whole.knobs
        self._place = {point: place for place, point in enumerate(self.which)}

    def __len__(self) -> int:
        return len(self.which)

    def config(self, point: int) -> Any:
        return self.whole.config(self.which[point])

    def plain(self, point: int) -> Mapping[str, Any]:
        return self.whole.plain(self.which[point])

    def position(self, point: int) -> Position:
        return self.whole.position(self.which[point])

    def at(self, position: Position) -> int | None:
        point = self.whole.at(position)
        return None if point is None else self._place.get(point)

    def find(self, config: Any) -> int | None:
        point = self.whole.find(config)
        return None if point is None else self._place.get(point)

    def expected(self, point: int) -> float:
        return 0.0 if self.blind else self.whole.expected(self.which[point])

    def best_expected(self, count: int) -> list[int]:
        order = sorted(range(len(self)), key=self.expected)
        return [] if self.blind else order[:count]


def _explorer(name: str, points: Part, features: Features, seed: int) -> Explorer:
    generator = Random(seed)
    if name == "random":
        return RandomExplorer(points, generator)
    if name == "genetic":
        return GeneticExplorer(points, generator)

    def loops(which: Sequence[int]) -> Samples:
        found = features.of([points.which[point] for point in which])
        return found.with_prior(np.zeros_like(found.prior)) if points.blind else found

    view = View.knobs(points) if name == "xgb" else View(loops)
    model = GruModel(seed) if name == "gru" else TreesModel(seed)
    return ModelExplorer(points, generator, model=model, view=view)


def curve(
    name: str, points: Part, features: Features, seed: int, trials: int, measure: Callable[[list[int]], list[float]]
) -> NDArray[np.float64]:
    """The least seconds after each trial."""
    explorer = _explorer(name, points, features, seed)
    seconds: list[float] = []
    while len(seconds) < trials and (batch := explorer.propose(min(_BATCH, trials - len(seconds)))):
        taken = measure(batch)
        explorer.learn(Trial(point, {}, seconds=value) for point, value in zip(batch, taken) if np.isfinite(value))
        seconds += taken
    seconds += [float("inf")] * (trials - len(seconds))
    return np.minimum.accumulate(np.array(seconds))


def replayed(one: Replay, names: Sequence[str], seeds: int, trials: int) -> dict[str, NDArray[np.float64]]:
    """By explorer, a curve for each seed."""
    features = Features(one.task)
    found = {}
    for name in names:
        points = Part(one.task.points, one.points, blind=name != "ours")
        look = lambda batch: [float(one.seconds[point]) for point in batch]  # noqa: E731
        found[name] = np.stack([curve(name, points, features, seed, trials, look) for seed in range(seeds)])
    return found


def live(task: KernelTask, names: Sequence[str], seeds: int, trials: int, end: float) -> dict[str, NDArray[np.float64]]:
    """The same by measuring, for as many seeds as there is time for until `end`."""
    features, found = Features(task), dict[str, list[NDArray[np.float64]]]()
    with Measurer([task]) as measurer:
        measurer.measure(task, [task.default or 0])
        for seed in range(seeds):
            for name in names:
                if time.monotonic() > end:
                    break
                points = Part(task.points, range(len(task.points)), blind=name != "ours")
                run = lambda batch: [t.seconds or float("inf") for t in measurer.measure(task, batch)]  # noqa: E731
                found.setdefault(name, []).append(curve(name, points, features, seed, trials, run))
    return {name: np.stack(curves) for name, curves in found.items()}


def peer_seconds(path: Path | None) -> dict[str, float]:
    """Seconds of the faster peer by layer, of one thread, from the figures of bench/layers.py."""
    if path is None:
        return {}
    (record,) = [one for one in json.loads(path.read_text())["threads"] if one["machine"]["threads"] == 1]
    results = {one["name"]: one["minimum_ms"] for one in record["results"]}
    return {name: min(v for k, v in times.items() if k != "tilewright") / 1e3 for name, times in results.items()}


def svg(title: str, curves: Mapping[str, Mapping[str, NDArray[np.float64]]]) -> str:
    """A small picture for each layer: speed (1: the reference) against trials, each explorer's mean."""
    rows = -(-len(curves) // _COLUMNS)
    width, height = _COLUMNS * _WIDTH, rows * _HEIGHT + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="11"><rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="20" font-size="14">{escape(title)}</text>',
    ]
    for place, name in enumerate(next(iter(curves.values()))):
        parts.append(f'<text x="{10 + 90 * place}" y="40" fill="{_COLOURS[name]}">{escape(name)}</text>')
    for number, (layer, speeds) in enumerate(curves.items()):
        left, top = number % _COLUMNS * _WIDTH, 50 + number // _COLUMNS * _HEIGHT
        parts += _picture(layer, speeds, left, top)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _picture(layer: str, speeds: Mapping[str, NDArray[np.float64]], left: float, top: float) -> Iterator[str]:
    wide, high = _WIDTH - 2 * _EDGE, _HEIGHT - 2 * _EDGE
    most = max(1.05, max(float(values.max()) for values in speeds.values()))
    x0, y0 = left + _EDGE, top + _EDGE + high
    yield f'<text x="{x0}" y="{top + _EDGE - 6}" font-weight="bold">{escape(layer)}</text>'
    yield f'<path d="M{x0} {top + _EDGE}V{y0}H{x0 + wide}" fill="none" stroke="#555"/>'
    one = y0 - high / most
    yield f'<path d="M{x0} {one:.1f}H{x0 + wide}" stroke="#bbb" stroke-dasharray="3"/>'
    yield f'<text x="{x0 - 4}" y="{one + 4:.1f}" text-anchor="end">1</text>'
    for name, values in speeds.items():
        steps = [
            f"{x0 + wide * (i + 1) / len(values):.1f} {y0 - high * float(v) / most:.1f}" for i, v in enumerate(values)
        ]
        yield f'<polyline points="{" ".join(steps)}" fill="none" stroke="{_COLOURS[name]}" stroke-width="1.5"/>'
    yield f'<text x="{x0 + wide}" y="{y0 + 14}" text-anchor="end">{len(next(iter(speeds.values())))} trials</text>'


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw, and print what stands after 8, 16, 32 and 64 trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("svg", type=Path)
    parser.add_argument("--records", type=Path)
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--seconds", type=float, default=50.0, help="of a live run")
    parser.add_argument("--layers", default=",".join(f"C{number}" for number in range(1, 13)))
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--explorers", default=",".join(_COLOURS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--target", default="cpu -cores=1")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(arguments)
    names, layers = args.explorers.split(","), args.layers.split(",")
    if args.live == (args.records is not None):
        parser.error("give either --records or --live")
    tasks = list(layer_tasks(layers, args.target))
    end = time.monotonic() + args.seconds
    if args.live:
        found = {layer: live(task, names, args.seeds, args.trials, end) for layer, task in tasks}
    else:
        replays = own_replays(args.records, tasks)
        found = {one.model: replayed(one, names, args.seeds, args.trials) for one in replays}
    peers = peer_seconds(args.peers)
    curves = {}
    for layer, runs in found.items():
        base = peers.get(layer, min((float(v.min()) for v in runs.values()), default=1.0))
        curves[layer] = {name: (base / values).mean(axis=0) for name, values in runs.items()}
    args.svg.write_text(svg(f"speed over the {'faster peer' if peers else 'best found'}, {args.target}", curves))
    rows = []
    for name in names:
        every = [speeds[name] for speeds in curves.values() if name in speeds]
        after = [n for n in (8, 16, 32, 64) if n <= args.trials]
        rows.append([name, *(f"{geometric_mean([float(v[n - 1]) for v in every]):.3f}" for n in after)])
    print(table(["explorer", *(f"after {n}" for n in (8, 16, 32, 64) if n <= args.trials)], rows))
    if args.json:
        plain = {layer: {name: list(map(float, v)) for name, v in runs.items()} for layer, runs in curves.items()}
        args.json.write_text(json.dumps(plain) + "\n")


if __name__ == "__main__":
    main()
