"""False "faster" verdicts on identical networks, beside 0 to 30 busy processes.

    python bench/autotvm/control.py [--pairs 100] [--seconds 2] [--busy 0 1 2 8 30]

Pairs of identical executables are compared as `tilewright tune` compares the tuned network with the default one. At
most 2 of 100 may be declared faster. `--gain` compares with a network that does a third less, which should be found.
Each is compiled once, before the machine is busy, and every comparison loads files of its own: other memory each time.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from contention import busy

import tilewright as tw
from tilewright import relay
from tilewright.autotvm.network.compare import Comparison, compare
from tilewright.target import Target


def network(layers: int) -> relay.IRModule:
    """A chain of 3x3 convolutions of 64 channels at 28x28."""
    generator = np.random.default_rng(0)
    value = x = relay.var("x", shape=(1, 64, 28, 28))
    for _ in range(layers):
        weight = relay.const(generator.standard_normal((64, 64, 3, 3)).astype("float32"))
        value = relay.nn.relu(relay.nn.conv2d(value, weight, padding=(1, 1)))
    return relay.IRModule.from_expr(relay.Function([x], value))


def compared(folder: Path, names: Sequence[str], seconds: float) -> Comparison:
    """The comparison of three of the saved networks, each loaded from a file of its own."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        files = [shutil.copy(folder / name, Path(own) / f"{i}.tw") for i, name in enumerate(names)]
        a, b, copy = (tw.load(file) for file in files)
        return compare(a, b, copy, {"x": np.ones((1, 64, 28, 28), np.float32)}, seconds)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare, and print a line for each number of busy processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100, help="in all")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a comparison")
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2, 8, 30])
    parser.add_argument("--gain", action="store_true", help="compare with a network that is faster")
    args = parser.parse_args(arguments)
    print(Target("cpu"), platform.processor())
    names = ["6.tw", "4.tw" if args.gain else "6.tw", "6.tw"]
    declared = 0
    with tempfile.TemporaryDirectory() as made:
        for name in dict.fromkeys(names):
            tw.compile(network(int(Path(name).stem)), cache=False).save(Path(made) / name)
        for count in args.busy:
            load = os.getloadavg()[0]
            with busy(count):
                found = [compared(Path(made), names, args.seconds) for _ in range(max(1, args.pairs // len(args.busy)))]
            faster = sum(one.faster for one in found)
            declared += faster
            medians = np.quantile([one.gain.median for one in found], (0.0, 0.5, 1.0)).round(3)
            verdicts = f"{faster} of {len(found)} faster; medians of the ratio {medians}"
            print(f"{count:3} busy, load {load:.0f} before: {verdicts}", flush=True)
    print(f"{declared} declared faster")


if __name__ == "__main__":
    main()
