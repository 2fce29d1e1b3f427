"""Measure samples of search spaces here, into files of records that other programs of this folder replay.

    python bench/autotvm/spaces.py OUT.jsonl [--layers C1,C2 | --networks resnet50,mobilenet_v2] [--sample 32]
                                   [--target "cpu -cores=1"] [--seconds 55]

Of each task the first ten of the analytic ranking are measured and an even sample of the rest, `--sample 0` all. What
stands in the file already is not measured again, so that a long recording can be made in parts, whose times compare by
those of the default, which each part measures. `--smoke` measures two configurations of a small layer.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from layers import LAYERS, SMOKE
from networks import ROOT, model_file

from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.autotvm.task.task import KernelTask
from tilewright.autotvm.tuner.task_tuner import entry_of
from tilewright.frontend.formats.import_model import import_model
from tilewright.records.database import Database
from tilewright.records.file import RecordFile

#: Of each ranking the first so many are measured.
_FIRST = 10

#: Configurations built at a time.
_BATCH = 8


def layer_tasks(names: Sequence[str], target: str) -> Iterator[tuple[str, KernelTask]]:
    """The kernels of single layers (bench/layers.py) that have a search space."""
    for name in names:
        layer = LAYERS[name] if name in LAYERS else SMOKE[name]
        for task in extract_from_program(import_model(layer.model().SerializeToString(), None), target):
            yield name, task


def network_tasks(names: Sequence[str], target: str, folder: Path) -> Iterator[tuple[str, KernelTask]]:
    """The kernels of networks that have a search space."""
    for name in names:
        path, shapes = model_file(name, folder)
        for task in extract_from_program(import_model(str(path), shapes), target):
            yield name, task


def sample_of(size: int, count: int) -> list[int]:
    """The points to measure of a space of `size`: the first ones, and others evenly; `count` in all, 0 for all."""
    if count <= 0 or count >= size:
        return list(range(size))
    rest = max(0, count - _FIRST)
    step = (size - _FIRST) / max(1, rest)
    return list(dict.fromkeys([*range(min(count, _FIRST)), *(int(_FIRST + i * step) for i in range(rest))]))


def record(tasks: Sequence[tuple[str, KernelTask]], path: Path, sample: int, seconds: float) -> tuple[int, int]:
    """Measure what the file lacks until `seconds` have passed: trials made, and those still to make."""
    end, done, left = time.monotonic() + seconds, 0, 0
    with RecordFile(path) as file, Measurer([task for _, task in tasks], MeasureOptions()) as measurer:
        known = Database(file.entries)
        for name, task in tasks:
            entries = known.of(task.key, task.processor)
            have = {task.points.find(entry.config) for entry in entries}
            before = next((e.seconds for e in entries if task.points.find(e.config) == task.default), None)
            scale = 1.0
            missing = [point for point in sample_of(len(task.points), sample) if point not in have]
            first = [] if task.default is None else [task.default]
            while missing and time.monotonic() < end:
                batch = list(dict.fromkeys([*first, *missing[:_BATCH]]))
                missing, first = missing[_BATCH:], []
                for trial in measurer.measure(task, batch):
                    if trial.point == task.default and before and trial.seconds:
                        scale = before / trial.seconds
                    entry = entry_of(task, trial)
                    seconds = None if entry.seconds is None else entry.seconds * scale
                    file.append(replace(entry, seconds=seconds, more={"model": name}))
                    done += 1
            left += len(missing)
    return done, left


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and say how many configurations of how many tasks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", default=",".join(name for name in LAYERS if name.startswith("C")))
    parser.add_argument("--networks", help="instead of layers")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench_models", help="of filled networks")
    parser.add_argument("--sample", type=int, default=32)
    parser.add_argument("--target", default="cpu -cores=1")
    parser.add_argument("--seconds", type=float, default=55.0)
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args(arguments)
    if args.networks:
        tasks = list(network_tasks(args.networks.split(","), args.target, args.folder))
    else:
        tasks = list(layer_tasks(["C"] if args.smoke else args.layers.split(","), args.target))
    begun = time.monotonic()
    done, left = record(tasks, args.out, 2 if args.smoke else args.sample, args.seconds)
    taken = time.monotonic() - begun
    print(f"{done} trials of {len(tasks)} tasks in {taken:.0f} s, {done / taken:.1f} a second; {left} left")


if __name__ == "__main__":
    main()
