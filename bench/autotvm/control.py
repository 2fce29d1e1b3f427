"""False "faster" verdicts on identical networks, beside 0 to 30 busy processes.

    python bench/autotvm/control.py [--pairs 100] [--seconds 2] [--busy 0 1 2 8 30]

Pairs of identical executables are compared as `tilewright tune` compares the tuned network with the default one. At
most 2 of 100 may be declared faster. `--gain` compares with a network that does a third less, which should be found.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from contention import busy

import tilewright as tw
from tilewright import relay
from tilewright.autotvm.network.compare import compare
from tilewright.target import Target


def network(layers: int) -> relay.IRModule:
    """A chain of 3x3 convolutions of 64 channels at 28x28."""
    generator = np.random.default_rng(0)
    value = x = relay.var("x", shape=(1, 64, 28, 28))
    for _ in range(layers):
        weight = relay.const(generator.standard_normal((64, 64, 3, 3)).astype("float32"))
        value = relay.nn.relu(relay.nn.conv2d(value, weight, padding=(1, 1)))
    return relay.IRModule.from_expr(relay.Function([x], value))


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare, and print a line for each number of busy processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100, help="in all")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a comparison")
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2, 8, 30])
    parser.add_argument("--gain", action="store_true", help="compare with a network that is faster")
    args = parser.parse_args(arguments)
    print(Target("cpu"), platform.processor())
    inputs = {"x": np.ones((1, 64, 28, 28), np.float32)}
    declared = 0
    for count in args.busy:
        with busy(count):
            found = []
            for _ in range(max(1, args.pairs // len(args.busy))):
                layers = (6, 4 if args.gain else 6, 6)
                a, b, copy = (tw.compile(network(n), cache=False) for n in layers)
                found.append(compare(a, b, copy, inputs, args.seconds))
        faster = sum(one.faster for one in found)
        declared += faster
        medians = np.quantile([one.gain.median for one in found], (0.0, 0.5, 1.0))
        print(f"{count:3} busy: {faster} of {len(found)} faster; medians of the ratio {medians.round(3)}", flush=True)
    print(f"{declared} declared faster")


if __name__ == "__main__":
    main()
