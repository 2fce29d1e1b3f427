"""The paper's curve: how fast the best configuration found is after so many trials, by explorer, for layers C1-C12.

    python bench/autotvm/curves.py OUT.svg --records FILE.jsonl [--layers C2,C6] [--peers layers.json] [--seeds 5]
                                   [--explorers random,genetic,xgb,gru,ours] [--trials 64] [--json FILE]
                                   [--curves FILE.jsonl]
    python bench/autotvm/curves.py OUT.svg --live --records FILE.jsonl [--seconds 50] ...

Replayed, an explorer's search space are the points that bench/autotvm/spaces.py has recorded of a layer; live, all of
its points, of which those that the records lack are measured, and added, as explorers ask for them: none is measured
twice, and all explorers and seeds see the same number of it. With `--curves` what was made is kept, so that a long
campaign can be made in parts. Speed is over that of the best point found, or with `--peers` (what `bench/layers.py
--json` wrote, of the same machine and threads) over a call of the faster peer; ours is then that of a call too, the
kernel, as many times its default as it was here, and what a call takes beside it. Shades are the worst and best seed.

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
from dataclasses import replace
from html import escape
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from replay import Replay, own_replays
from report import OURS, geometric_mean, table
from spaces import layer_tasks

from tilewright.autotvm.feature.samples import Features, Samples
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.model.gru_model import GruModel
from tilewright.autotvm.model.trees_model import TreesModel
from tilewright.autotvm.task.points import Points, Position
from tilewright.autotvm.tuner.explorer import Explorer, GeneticExplorer, RandomExplorer
from tilewright.autotvm.tuner.model_explorer import ModelExplorer, View
from tilewright.autotvm.tuner.task_tuner import entry_of
from tilewright.records.file import RecordFile

_BATCH = 4

#: What curves are kept under beside explorers: the seconds of the default.
_DEFAULT = "default"
_COLOURS = {"random": "#9b9a97", "genetic": "#64473a", "xgb": "#0b6e99", "gru": "#d9730d", "ours": "#ad1a72"}
_WIDTH, _HEIGHT, _COLUMNS, _EDGE = 300, 200, 3, 36


class Part(Points):
    """Some points of a space as a space of their own; without the analytic model if `blind`."""

    def __init__(self, whole: Points, which: Sequence[int], blind: bool) -> None:
        self.whole, self.which, self.blind, self.knobs = whole, list(which), blind, whole.knobs
        self._position = {point: position for position, point in enumerate(self.which)}

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
        return None if point is None else self._position.get(point)

    def find(self, config: Any) -> int | None:
        point = self.whole.find(config)
        return None if point is None else self._position.get(point)

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


class Table:
    """Seconds of a layer's points: those of a file of records, and where `measurer` is given what it measures.

    All explorers and seeds see the same number of a point. Raises `Late` where something is to be measured after `end`.
    """

    def __init__(self, one: Replay, file: RecordFile | None, measurer: Measurer | None, end: float) -> None:
        self.task, self.file, self.measurer, self.end = one.task, file, measurer, end
        self.known = dict(zip(one.points, map(float, one.seconds)))
        self.points = list(one.points) if measurer is None else list(range(len(one.task.points)))
        self._scale = 0.0

    def default(self) -> float:
        """Seconds of the default."""
        default = self.task.default or 0
        return self.known[default] if default in self.known else self.look([self.points.index(default)])[0]

    def look(self, batch: Sequence[int]) -> list[float]:
        """Seconds of some of `points` by their position; infinite for those that do not run."""
        which = [self.points[position] for position in batch]
        missing = [point for point in which if point not in self.known]
        if missing:
            self._measure(missing)
        return [self.known[point] for point in which]

    def _measure(self, missing: Sequence[int]) -> None:
        assert self.measurer is not None and self.file is not None
        if time.monotonic() > self.end:
            raise Late
        default = self.task.default or 0
        if not self._scale:
            (now,) = self.measurer.measure(self.task, [default])
            assert now.seconds is not None, f"{self.task.name}: {now.reason}"
            self._scale = self.known.setdefault(default, now.seconds) / now.seconds
            self._keep(now)
        for trial in self.measurer.measure(self.task, [point for point in missing if point != default]):
            self._keep(trial)

    def _keep(self, trial: Trial) -> None:
        assert self.file is not None
        seconds = None if trial.seconds is None else trial.seconds * self._scale
        self.known.setdefault(trial.point, float("inf") if seconds is None else seconds)
        self.file.append(replace(entry_of(self.task, trial), seconds=seconds))


class Late(Exception):
    """The time for measuring is over."""


class Kept:
    """Curves that were made before, in a file of JSON lines."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self.curves = {(layer, name, seed): values for layer, name, seed, values in map(json.loads, lines)}

    def add(self, layer: str, name: str, seed: int, values: NDArray[np.float64]) -> None:
        """One curve more."""
        self.curves[layer, name, seed] = list(map(float, values))
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps([layer, name, seed, self.curves[layer, name, seed]]) + "\n")


def run_layer(layer: str, looked: Table, names: Sequence[str], seeds: int, trials: int, kept: Kept) -> None:
    """The curves of a layer that are not kept yet."""
    features = Features(looked.task)
    if (layer, _DEFAULT, 0) not in kept.curves:
        kept.add(layer, _DEFAULT, 0, np.array([looked.default()]))
    for seed in range(seeds):
        for name in names:
            if (layer, name, seed) not in kept.curves:
                points = Part(looked.task.points, looked.points, blind=name != "ours")
                kept.add(layer, name, seed, curve(name, points, features, seed, trials, looked.look))


def record_curves(args: argparse.Namespace, names: Sequence[str], layers: Sequence[str], kept: Kept) -> bool:
    """Make the curves that are not kept yet; False where the time is over before all are there."""
    every = [(layer, name, seed) for layer in layers for name in names for seed in range(args.seeds)]
    wanted = {layer for layer, name, seed in every if (layer, name, seed) not in kept.curves}
    tasks = list(layer_tasks([layer for layer in layers if layer in wanted], args.target))
    if not tasks:
        return True
    end = time.monotonic() + args.seconds
    if not args.live:
        for one in own_replays(args.records, tasks):
            run_layer(one.model, Table(one, None, None, end), names, args.seeds, args.trials, kept)
        return True
    with RecordFile(args.records) as file, Measurer([task for _, task in tasks]) as measurer:
        known = {one.model: one for one in own_replays(args.records, tasks)}
        for layer, task in tasks:
            one = known.get(layer, Replay(layer, task, (), np.zeros(0)))
            try:
                run_layer(layer, Table(one, file, measurer, end), names, args.seeds, args.trials, kept)
            except Late:
                return False
    return True


def runs_of(kept: Kept, layer: str, name: str, trials: int) -> NDArray[np.float64]:
    """A row for each seed that is there."""
    found = [v[:trials] for (where, who, _), v in kept.curves.items() if (where, who) == (layer, name)]
    return np.array([values for values in found if len(values) == trials]).reshape(-1, trials)


def peer_seconds(path: Path | None) -> dict[str, tuple[float, float, float]]:
    """By layer, of one thread, from the figures of bench/layers.py: seconds of a call of the faster peer, of our
    default kernel, and of what a call of ours takes beside it."""
    if path is None:
        return {}
    (record,) = [one for one in json.loads(path.read_text())["threads"] if one["machine"]["threads"] == 1]
    found = {}
    for one in record["results"]:
        times = one["minimum_ms"]
        kernel = one["kernel_ms"]
        beside = max(0.0, times[OURS] - kernel)
        found[one["name"]] = min(v for k, v in times.items() if k != OURS) / 1e3, kernel / 1e3, beside / 1e3
    return found


def speeds_of(
    runs: Mapping[str, NDArray[np.float64]], peer: tuple[float, float, float] | None, default: Sequence[float] | None
) -> dict[str, NDArray[np.float64]]:
    """Speeds over the best of all runs, or over a peer: the kernel as many times its default's time of then as now."""
    if peer is None or default is None:
        best = min(float(values.min()) for values in runs.values())
        return {name: best / values for name, values in runs.items()}
    base, kernel, beside = peer
    return {name: base / (beside + kernel * values / default[0]) for name, values in runs.items()}


def svg(title: str, curves: Mapping[str, Mapping[str, NDArray[np.float64]]]) -> str:
    """A small picture for each layer: speed (1: the reference) against trials, each explorer's mean and range."""
    rows = -(-len(curves) // _COLUMNS)
    width, height = _COLUMNS * _WIDTH, rows * _HEIGHT + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="11"><rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="20" font-size="14">{escape(title)}</text>',
    ]
    for position, name in enumerate(next(iter(curves.values()))):
        parts.append(f'<text x="{10 + 90 * position}" y="40" fill="{_COLOURS[name]}">{escape(name)}</text>')
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
    trials = next(iter(speeds.values())).shape[1]

    def steps(values: NDArray[np.float64]) -> list[str]:
        ends = [True, *(values[1:-1] != values[:-2]) | (values[1:-1] != values[2:]), True]  # of level parts both ends
        kept = [(i, float(v)) for i, v in enumerate(values) if ends[i]]
        return [f"{x0 + wide * (i + 1) / trials:.0f} {y0 - high * v / most:.0f}" for i, v in kept]

    for name, runs in speeds.items():
        around = " ".join([*steps(runs.min(axis=0)), *reversed(steps(runs.max(axis=0)))])
        yield f'<polygon points="{around}" fill="{_COLOURS[name]}" fill-opacity="0.12"/>'
    for name, runs in speeds.items():
        line = " ".join(steps(runs.mean(axis=0)))
        yield f'<polyline points="{line}" fill="none" stroke="{_COLOURS[name]}" stroke-width="1.5"/>'
    yield f'<text x="{x0 + wide}" y="{y0 + 14}" text-anchor="end">{trials} trials</text>'


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw, and print what stands after 8, 16, 32 and 64 trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("svg", type=Path)
    parser.add_argument("--records", type=Path)
    parser.add_argument("--live", action="store_true", help="measure points that the records lack, and add them")
    parser.add_argument("--seconds", type=float, default=50.0, help="of a live run")
    parser.add_argument("--curves", type=Path, help="a file of curves, in which those made are kept")
    parser.add_argument("--layers", default=",".join(f"C{number}" for number in range(1, 13)))
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--explorers", default=",".join(_COLOURS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--target", default="cpu -cores=1")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(arguments)
    names, layers = args.explorers.split(","), args.layers.split(",")
    kept = Kept(args.curves)
    whole = record_curves(args, names, layers, kept) if args.records else True
    if not whole:
        print("the time is over: run it again for the rest")
    peers = peer_seconds(args.peers)
    curves: dict[str, dict[str, NDArray[np.float64]]] = {}
    for layer in layers:
        runs = {name: runs_of(kept, layer, name, args.trials) for name in names}
        runs = {name: values for name, values in runs.items() if len(values)}
        if runs:
            curves[layer] = speeds_of(runs, peers.get(layer), kept.curves.get((layer, _DEFAULT, 0)))
    args.svg.write_text(svg(f"speed over the {'faster peer' if peers else 'best found'}, {args.target}", curves))
    rows = []
    for name in names:
        every = [speeds[name].mean(axis=0) for speeds in curves.values() if name in speeds]
        after = [n for n in (8, 16, 32, 64) if n <= args.trials]
        rows.append([name, *(f"{geometric_mean([float(v[n - 1]) for v in every]):.3f}" for n in after)])
    print(table(["explorer", *(f"after {n}" for n in (8, 16, 32, 64) if n <= args.trials)], rows))
    if args.json:
        plain = {layer: {name: v.tolist() for name, v in runs.items()} for layer, runs in curves.items()}
        args.json.write_text(json.dumps(plain) + "\n")


if __name__ == "__main__":
    main()
