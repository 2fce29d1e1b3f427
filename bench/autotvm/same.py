"""Rate at which a kernel is found faster than itself: false acceptances of tuned configurations.

    python bench/autotvm/same.py [--comparisons 200] [--blocks 20]

A convolution is compared with itself as the tuner compares a candidate with the incumbent, on one worker and then on
all. `--smoke` makes two comparisons. What is expected is at most 1 % of declared wins.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from tilewright import relay
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.autotvm.task.task import KernelTask
from tilewright.target import Target


def task(target: str) -> KernelTask:
    """A 3x3 convolution of 64 channels at 28x28."""
    x = relay.var("x", shape=(1, 64, 28, 28))
    weight = relay.const(np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype("float32"))
    (found,) = extract_from_program(relay.Function([x], relay.nn.conv2d(x, weight, padding=(1, 1))), target)
    return found


def wins(target: str, comparisons: int, blocks: int) -> tuple[int, list[float]]:
    """Declared wins of so many comparisons, and the ratios that were measured."""
    one = task(target)
    point = one.default or 0
    with Measurer([one], MeasureOptions(blocks=blocks)) as measurer:
        measurer.measure(one, [point])
        trials = [trial for _ in range(comparisons) for trial in measurer.measure(one, [point])]
    return sum(trial.accepted for trial in trials), [trial.ratio for trial in trials]


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare, and print a line for each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=200)
    parser.add_argument("--blocks", type=int, default=MeasureOptions.blocks)
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args(arguments)
    count = 2 if args.smoke else args.comparisons
    print(Target("cpu"))
    for target in ("cpu -cores=1", "cpu"):
        won, ratios = wins(target, count, args.blocks)
        low, middle, high = np.quantile(ratios, (0.05, 0.5, 0.95))
        print(f"{target:14} {won} wins of {count}; ratios 5 % {low:.3f}, 50 % {middle:.3f}, 95 % {high:.3f}")


if __name__ == "__main__":
    main()
