"""How well the cost model ranks configurations: the one it puts first against the best that was measured.

    python bench/ranking.py --records FILE [--target "llvm -mcpu=skylake-avx512"]     against recorded measurements
    python bench/ranking.py [--only resnet18,mlp] [--sample 12] [--seconds 0.1]       measured here, on one thread

For each task, a kernel of a network, the configurations are ranked by their costs, and the time of the first is divided
by the shortest time of all: 1.05 says that a search would gain five hundredths. Records are those of
../shared/machines: the tasks' shapes, today's knobs, and times with the operands as the run before left them (`hot_us`)
and from memory (`cold_us`), of which the shorter counts. `--smoke` measures two configurations of the smallest network.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from networks import NETWORKS, ROOT, model_file
from report import geometric_mean, table

from tilewright import codegen
from tilewright.cli.timing import measure
from tilewright.compile import import_model, optimize
from tilewright.driver.build import extract_tasks
from tilewright.driver.lower import lower_function, search_space
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.type import tensor_types
from tilewright.relay.transform.memory.plan_memory import plan_memory
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cpu.registry import REGISTRY
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.workload import Conv2DWorkload

#: The machine of the given records, one of its cores.
RECORDED = "llvm -mcpu=skylake-avx512 -l3=34603008 -cores=1"
RECORDS = ROOT.parent / "shared" / "machines" / "skylake-sp" / "records.jsonl.gz"

#: Windows of filtered convolutions by the points of one dimension: m, taps, stride.
_FILTERS = {4: (2, 3, 1), 5: (2, 3, 2), 6: (4, 3, 1), 9: (4, 3, 2)}


@dataclass(frozen=True)
class Ranked:
    """One task: its template, microseconds of the configuration ranked first, expected of it, and of the best."""

    name: str
    template: str
    first: float
    predicted: float
    best: float

    @property
    def loss(self) -> float:
        """What the ranking loses: 1 where it finds the best."""
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
            place = cycles.index(min(cycles))
            predicted = target.machine.seconds(cycles[place]) * 1e6
            yield Ranked(f"{model} {name}", template, _microseconds(records[place]), predicted, best)


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


def measured(names: Iterable[str], folder: Path, sample: int, seconds: float) -> Iterator[Ranked]:
    """The tasks of networks that have a search space: the first configuration and an even `sample` of others, run."""
    target = Target("cpu -cores=1")
    for name in names:
        path, shapes = model_file(name, folder)
        tasks, _ = extract_tasks(plan_memory(optimize(import_model(str(path), shapes), target)).order)
        for task in tasks:
            space = search_space(task.function, target)
            if space is not None and len(space.ranked) > 1:
                times, cost = _measured_task(task.function, space, target, sample, seconds)
                tag = task.function.body.op.name if hasattr(task.function.body, "op") else task.name
                yield Ranked(f"{name} {task.name}", tag, times[0], target.machine.seconds(cost) * 1e6, min(times))


def _measured_task(
    function: Function, space: ConfigSpace, target: Target, sample: int, seconds: float
) -> tuple[list[float], float]:
    """Microseconds of the sample, the first of the ranking first, and the cycles expected of that one."""
    types = [t for value in (*function.params, function.body) for t in tensor_types(value.checked_type)]
    arrays = [np.random.default_rng(0).standard_normal(t.concrete_shape).astype(str(t.dtype)) for t in types]
    every = space.ranked
    chosen = dict.fromkeys([0, *range(1, len(every), max(1, len(every) // sample))])
    funcs = [lower_function(function, f"k{place}", target, every[place][1].to_json()) for place in chosen]
    built = codegen.build(funcs, target, threads=1)
    calls = {func.name: (lambda kernel=built[func.name]: kernel(*arrays)) for func in funcs}
    times = measure(calls, seconds * len(calls), 1000)
    return [min(times[func.name]) * 1e6 for func in funcs], every[0][0].cycles


def summary(ranked: Sequence[Ranked]) -> str:
    """A table, one row a template: what the ranking loses, and the predicted time against the measured one."""
    rows = []
    for template in dict.fromkeys(one.template for one in ranked):
        own = [one for one in ranked if one.template == template]
        losses, ratios = [one.loss for one in own], [one.predicted / one.first for one in own]
        mean = geometric_mean(ratios)
        spread = math.exp(math.sqrt(sum(math.log(ratio / mean) ** 2 for ratio in ratios) / len(ratios)))
        rows.append(
            [
                template,
                str(len(own)),
                f"{geometric_mean(losses):.3f}",
                f"{max(losses):.2f}",
                f"{mean:.2f}",
                f"{spread:.2f}",
            ]
        )
    return table(["template", "tasks", "first / best", "worst", "predicted / measured", "spread"], rows)


def main() -> None:
    """Rank, and print the table and the tasks that lose most."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, help="a file of recorded measurements")
    parser.add_argument("--target", default=RECORDED, help="the machine of the records")
    parser.add_argument("--only", default=",".join(NETWORKS), help="networks to measure")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "bench_models", help="where filled networks are kept"
    )
    parser.add_argument("--sample", type=int, default=12, help="configurations of each space to measure")
    parser.add_argument("--seconds", type=float, default=0.1, help="for each configuration")
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    if args.records is not None:
        ranked = list(recorded(args.records, Target(args.target)))
    elif args.smoke:
        ranked = list(measured(["mlp"], args.folder, 1, 0.001))
    else:
        ranked = list(measured(args.only.split(","), args.folder, args.sample, args.seconds))
    print(summary(ranked))
    for one in sorted(ranked, key=lambda r: -r.loss)[:10]:
        print(f"{one.loss:6.2f}  {one.first:9.1f} µs, predicted {one.predicted:9.1f}, best {one.best:9.1f}  {one.name}")


if __name__ == "__main__":
    main()
