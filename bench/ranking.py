"""Quality of the cost model's ranking of configurations: the one it puts first against the best that was measured.

    python bench/ranking.py --records FILE [--target "llvm -mcpu=skylake-avx512"]     against recorded measurements
    python bench/ranking.py [--only resnet18,mlp] [--sample 12] [--seconds 0.1]       measured here, on one thread
                            [--json FILE] [--kernels FOLDER] [--portion 190 | --make]

For each task, a kernel of a network, the configurations are ranked by their costs, and the time of the first is divided
by the shortest time of all: 1.05 says that a search would gain five hundredths. Records are those of
../shared/machines: the tasks' shapes, today's knobs, and times with the operands as the run before left them (`hot_us`)
and from memory (`cold_us`), of which the shorter counts. `--smoke` measures two configurations of the smallest network.

Where the machine is quiet for minutes at a time, `--make` makes code for the samples of all tasks beforehand, and each
run with `--portion` measures for so many seconds what `--json` has no times of yet.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from networks import NETWORKS, ROOT
from ranked_kernels import ONE_CORE, Known, make, measure_all
from report import geometric_mean, table

from tilewright.backend.cpu.schedule.registry import REGISTRY
from tilewright.backend.cpu.schedule.task_key import space_of_key
from tilewright.records.entry import TaskKey
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.workload import Conv2DWorkload

#: The machine of the given records, one of its cores.
RECORDED = "llvm -mcpu=skylake-avx512 -l3=34603008 -cores=1"
RECORDS = ROOT.parent / "shared" / "machines" / "skylake-sp" / "records.jsonl.gz"

#: Windows of filtered convolutions by the points of one dimension: m, taps, stride.
_FILTERS = {4: (2, 3, 1), 5: (2, 3, 2), 6: (4, 3, 1), 9: (4, 3, 2)}


@dataclass(frozen=True)
class Ranked:
    """One task: its template, microseconds of the configuration ranked first, expected of it, and of the best.

    `differs` are the knobs by which the best differs from the first.
    """

    name: str
    template: str
    first: float
    predicted: float
    best: float
    differs: str = ""

    @property
    def loss(self) -> float:
        """The loss of the ranking as a ratio of times: 1 where it finds the best."""
        return self.first / self.best


def recorded(path: Path, target: Target, least: float = 0.0) -> Iterator[Ranked]:
    """The tasks of convolutions in a file of records that take `least` microseconds or more."""
    tasks: dict[tuple[str, str], list[dict[str, Any]]] = {}
    with gzip.open(path, "rt") as lines:
        for record in map(json.loads, lines):
            tasks.setdefault((record["model"], record["task"]), []).append(record)
    for (model, name), records in tasks.items():
        template = records[0]["template"]
        best = min(map(_microseconds, records))
        if "conv2d" in template and best >= least:
            cost, workload = REGISTRY[template].cost, _workload(records[0])
            configs = [Config(tuple(record["config"].items())) for record in records]
            cycles = [cost(workload, config, target).cycles for config in configs]
            position = cycles.index(min(cycles))
            predicted = target.machine.seconds(cycles[position]) * 1e6
            yield Ranked(f"{model} {name}", template, _microseconds(records[position]), predicted, best)


def _microseconds(record: dict[str, Any]) -> float:
    return min(record["hot_us"], record["cold_us"])


def _shape(text: str) -> tuple[int, ...]:
    """(1, 3, 224, 224) of "Tensor p0: float32[1, 3, 224, 224]"."""
    return tuple(int(size) for size in re.findall(r"\d+", text[text.index("[") :]))


def _workload(record: dict[str, Any]) -> Conv2DWorkload:
    """The facts of a recorded convolution."""
    (data, kernel, *others), result = map(_shape, record["inputs"]), _shape(record["outputs"][0])
    in_block, out_block = (shape[4] if len(shape) == 5 else 1 for shape in (data, result))
    facts = {"other_inputs": others.count(result), "epilogue": (record["task"].count("sigmoid"),) * 2}
    if record["template"] == "conv2d_winograd_NCHWc":
        (m, taps, stride) = _FILTERS[kernel[1]]
        facts |= {"tile_size": m, "kernel_size": (taps, taps), "strides": (stride, stride)}
    else:
        window = {name: _numbers(record["attrs"][name]) for name in ("strides", "dilation", "padding")}
        # Small blocked images have no rows of padding, depthwise ones none at all.
        pads = window["padding"][1::2] if len(result) == 5 and result[2] <= 14 else window["padding"]
        facts |= {"kernel_size": kernel[2:4], "strides": window["strides"], "dilation": window["dilation"]}
        facts |= {"groups": record["attrs"]["groups"]}
        facts |= {"padded": any(pads) and record["template"] != "depthwise_conv2d_NCHWc"}
    channels = (data[1] * in_block, result[1] * out_block)
    return Conv2DWorkload(data[0], *channels, *data[2:4], *result[2:4], in_block, out_block, **facts)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))


def measured(known: Known, target: Target) -> Iterator[Ranked]:
    """The tasks of `ranked_kernels`, by their times: what is chosen today against the fastest."""
    for key, task in known.items():
        times, chosen = task["microseconds"], task["chosen"]
        space = space_of_key(TaskKey.from_json(json.loads(key)), target)
        predicted = 0.0
        if space is not None:
            cycles = space.cost(space.config(json.loads(chosen))).cycles
            predicted = target.machine.seconds(cycles) * 1e6
        best = min(times, key=times.__getitem__)
        differs = _difference(json.loads(chosen), json.loads(best))
        name = f"{','.join(task['networks'])} {task['name']}"
        yield Ranked(name, task["template"], times[chosen], predicted, times[best], differs)


def _difference(chosen: Mapping[str, int], best: Mapping[str, int]) -> str:
    """The knobs that differ, as "tile_rows 2 -> 4"."""
    return ", ".join(f"{name} {value} -> {best[name]}" for name, value in chosen.items() if best[name] != value)


def summary(ranked: Sequence[Ranked]) -> str:
    """A table, one row a template: what the ranking loses, and the predicted time against the measured one."""
    rows = []
    for template in dict.fromkeys(one.template for one in ranked):
        own = [one for one in ranked if one.template == template]
        losses, ratios = [one.loss for one in own], [one.predicted / one.first for one in own if one.predicted]
        mean = geometric_mean(ratios) if ratios else math.nan
        spread = math.exp(math.sqrt(sum(math.log(ratio / mean) ** 2 for ratio in ratios) / max(1, len(ratios))))
        rows.append([template, str(len(own)), f"{geometric_mean(losses):.3f}", f"{max(losses):.2f}"])
        rows[-1] += [f"{mean:.2f}", f"{spread:.2f}"] if ratios else ["–", "–"]
    losses = [one.loss for one in ranked]
    rows.append(["all", str(len(ranked)), f"{geometric_mean(losses):.3f}", f"{max(losses):.2f}", "", ""])
    return table(["template", "tasks", "first / best", "worst", "predicted / measured", "spread"], rows)


def main() -> None:
    """Rank, and print the table and the tasks that lose most."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, help="a file of recorded measurements")
    parser.add_argument("--target", default=RECORDED, help="the machine of the records")
    parser.add_argument("--only", default=",".join(NETWORKS), help="networks to measure")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "networks", help="of filled networks")
    parser.add_argument("--kernels", type=Path, default=ROOT / "build" / "ranking", help="of their code")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "ranking.json", help="of times")
    parser.add_argument("--sample", type=int, default=12, help="configurations of each space to measure")
    parser.add_argument("--seconds", type=float, default=0.1, help="for each configuration")
    parser.add_argument("--portion", type=float, help="seconds of measuring, of kernels that --make has made")
    parser.add_argument("--make", action="store_true", help="make code, measure nothing")
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    if args.records is not None:
        ranked = list(recorded(args.records, Target(args.target)))
    elif args.smoke:
        with tempfile.TemporaryDirectory() as folder:
            args.only, args.sample, args.seconds, args.kernels, args.json = "mlp", 1, 0.001, Path(folder), None
            ranked = measure(args)
    else:
        ranked = measure(args)
    print(summary(ranked))
    for one in sorted(ranked, key=lambda r: -r.loss)[:10]:
        times = f"{one.first:9.1f} µs, predicted {one.predicted:9.1f}, best {one.best:9.1f}"
        print(f"{one.loss:6.2f}  {times}  {one.name}  {one.differs}")


def measure(args: argparse.Namespace) -> list[Ranked]:
    """Make or measure, or both, what the options say; the tasks of which there are times."""
    known: Known = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    if args.portion is None:
        make(args.only.split(","), args.folder, args.kernels, args.sample, known)
    if not args.make:
        done = measure_all(args.kernels, known, args.seconds, args.portion or math.inf)
        print("all tasks are measured\n" if done else "tasks are left to measure\n")
        if args.json:
            args.json.write_text(json.dumps(known, indent=1) + "\n")
    return list(measured(known, Target(ONE_CORE)))


if __name__ == "__main__":
    main()
