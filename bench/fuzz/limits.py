"""Random networks of bytes within random limits of memory: C of this machine's compiler beside NumPy.

    python -m bench.fuzz.limits --count 300 [--seed 0] [--minutes 9] [--cpu cortex-m3]

Each seed is a graph of convolutions (depthwise ones too), sums with earlier values, pools and dense layers of bytes,
written without limits and then within a share of that workspace, of that code and constants, or of both. What is
written has to be within its limits, compute the integers of the interpreter, and leave the bytes around tensors and
workspace alone. What is refused has to say so with a figure above a limit and leave no file; what was refused for one
limit has to be written for the figure that was reached. Exits with status 1 otherwise.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from tilewright import relay
from tilewright.board.report import model_sizes
from tilewright.codegen.source.compile_c import SEMANTICS
from tilewright.compile import export_source
from tilewright.driver.build_source import Exported
from tilewright.errors import UnsupportedError
from tilewright.relay import op
from tilewright.relay.transform.simplify.expand_operators import expand_operators

_GUARD, _PAINT = 256, 0xA5


class Network:
    """A graph as it grows; `module` is the finished one, `x` its input."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        shape = (1, self.below(1, 5), self.below(4, 33), self.below(4, 33))
        self.x = self.codes(shape)
        first = relay.var("x", shape=shape, dtype="int8")
        self.values: list[tuple[relay.Expr, tuple[int, ...]]] = [(first, shape)]
        grown = 0
        while grown < self.below(1, 8):
            grown += self.grow()
        outputs = [self.finished() if self.rng.random() < 0.5 else self.values[-1][0]]
        if self.rng.random() < 0.2:
            outputs.append(self.values[self.below(0, len(self.values))][0])
        body = outputs[0] if len(outputs) == 1 else relay.Tuple(outputs)
        self.module = relay.IRModule.from_expr(relay.Function([first], body))

    def below(self, low: int, high: int) -> int:
        """An integer from low on and below high."""
        return int(self.rng.integers(low, high))

    def codes(self, shape: tuple[int, ...], least: int = -128) -> np.ndarray:
        """Random bytes."""
        return self.rng.integers(least, 128, shape).astype(np.int8)

    def scaled(self, sums: relay.Expr, channels: int, products: int) -> relay.Expr:
        """Sums times a factor for each channel, rounded as TensorFlow Lite does, as bytes of a good range."""
        shape = (1, channels, 1, 1) if len(op.common.dims(sums)) == 4 else (1, channels)
        exponent = int(max(np.log2(products) // 2 + 6, 1)) + self.rng.integers(0, 3, shape)
        factor = relay.const(self.rng.integers(1 << 30, (1 << 31) - 1, shape))
        high = op.right_shift(op.cast(sums, "int64") * factor + (1 << 30), relay.const(np.int64(31)))
        negative = op.right_shift(high, relay.const(np.int64(63)))
        rounded = high + relay.const((1 << exponent) >> 1) + negative
        zero = relay.const(np.int32(self.below(-20, 20)))
        narrow = op.cast(op.right_shift(rounded, relay.const(exponent)), "int32") + zero
        return op.cast(op.clip(narrow, self.below(-128, 0), 127), "int8")

    def shifted(self, value: relay.Expr) -> relay.Expr:
        """Bytes without their zero point."""
        return op.cast(value, "int32") - relay.const(np.int32(self.below(-128, 128)))

    def grow(self) -> bool:
        """Add a layer behind the last value; false where it does not fit."""
        last, (_, channels, height, width) = self.values[-1]
        kind = self.rng.choice(["conv", "conv", "conv", "depthwise", "add", "pool"])
        if kind == "add":
            same = [value for value, shape in self.values[:-1] if shape == self.values[-1][1]]
            if not same:
                return False
            total = self.shifted(last) + self.shifted(same[self.below(0, len(same))])
            self.values.append((op.cast(op.clip(total, -128, 127), "int8"), self.values[-1][1]))
            return True
        rows, columns = self.below(1, 6), self.below(1, 6)
        strides = (self.below(1, 3), self.below(1, 3))
        padding = tuple(self.below(0, size) for size in (rows, columns, rows, columns))
        if kind == "pool":
            padding = padding[:2] * 2
        after = (
            (height + padding[0] + padding[2] - rows) // strides[0] + 1,
            (width + padding[1] + padding[3] - columns) // strides[1] + 1,
        )
        if min(after) < 1 or rows > height + padding[0] + padding[2] or columns > width + padding[1] + padding[3]:
            return False
        if kind == "pool":
            made = op.nn.max_pool2d(last, (rows, columns), strides, padding=padding[:2])
            outs = channels
        else:
            deep = kind == "depthwise"
            outs, depth = (channels, 1) if deep else (self.below(1, 13), channels)
            weight = relay.const(self.codes((outs, depth, rows, columns), -127).astype(np.int32))
            groups = {"groups": channels} if deep else {}
            sums = op.nn.conv2d(self.shifted(last), weight, strides=strides, padding=padding, **groups)
            bias = relay.const(self.rng.integers(-3000, 3000, outs).astype(np.int32))
            made = self.scaled(op.nn.bias_add(sums, bias, axis=1), outs, depth * rows * columns)
        self.values.append((made, (1, outs, *after)))
        return True

    def finished(self) -> relay.Expr:
        """A dense layer behind the last value."""
        last, shape = self.values[-1]
        width, outs = int(np.prod(shape)), self.below(1, 11)
        weight = relay.const(self.codes((outs, width), -127).astype(np.int32))
        return self.scaled(op.nn.dense(self.shifted(op.reshape(last, (1, width))), weight), outs, width)


def run(written: Exported, x: np.ndarray, wanted: list[np.ndarray]) -> str:
    """The fault in the results of C source on `x`, or an empty text."""
    made = written[0].with_suffix(".so")
    options = ["-std=c99", "-O1", *SEMANTICS, "-fno-strict-aliasing", "-shared", "-fPIC"]
    subprocess.run(["cc", *options, str(written[0]), "-o", str(made), "-lm"], check=True)
    interface = written.models[0].c_model.interface
    sizes = [x.nbytes, *(array.nbytes for array in wanted), interface.workspace_size]
    rooms = [np.full(size + 2 * _GUARD + 64, _PAINT, np.uint8) for size in sizes]
    starts = [_GUARD + -(room.ctypes.data + _GUARD) % 64 for room in rooms]
    rooms[0][starts[0] : starts[0] + x.nbytes] = x.view(np.uint8).reshape(-1)
    addresses = [room.ctypes.data + start for room, start in zip(rooms, starts, strict=True)]
    pointers = (ctypes.c_void_p * 1)(addresses[0]), (ctypes.c_void_p * len(wanted))(*addresses[1:-1])
    call = getattr(ctypes.CDLL(str(made)), f"tilewright_{written.models[0].name}_run")
    code = call(*pointers, ctypes.c_void_p(addresses[-1]), ctypes.c_size_t(sizes[-1]))
    if code:
        return f"code {code}"
    for room, start, size in zip(rooms, starts, sizes, strict=True):
        if (room[:start] != _PAINT).any() or (room[start + size :] != _PAINT).any():
            return "bytes around a tensor or the workspace are changed"
    for room, start, array in zip(rooms[1:], starts[1:], wanted, strict=False):
        found = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        if not np.array_equal(found, array):
            return f"{(found != array).sum()} of {array.size} integers differ"
    return ""


def judged(seed: int, cpu: str) -> str:
    """The outcome of a seed: "right" with what was traded, "refused", or what is wrong."""
    network, target = Network(seed), f"c -mcpu={cpu}"
    wanted = [np.asarray(one) for one in relay.interpret(expand_operators(network.module), [network.x])]
    with tempfile.TemporaryDirectory(prefix="limits-") as folder:
        (work := Path(folder) / "within").mkdir()
        free = export_source(network.module, Path(folder) / "net.c", target=target, freestanding=True)
        sizes = model_sizes(free, target)
        assert sizes is not None
        ram = free.models[0].c_model.interface.workspace_size
        kind = network.below(0, 3)
        ram_limit = int(ram * network.rng.uniform(0.5, 1.0)) + 1 if kind != 1 else None
        rom_limit = int(sizes.rom * network.rng.uniform(0.7, 1.0)) if kind != 0 else None
        limits = {"ram_limit": ram_limit, "rom_limit": rom_limit}
        try:
            tight = export_source(network.module, work / "net.c", target=target, freestanding=True, **limits)
        except UnsupportedError as error:
            figures = re.findall(r"reached is ([\d,]+) bytes, and \S+ is ([\d,]+)", str(error))
            over = any(int(a.replace(",", "")) > int(b.replace(",", "")) for a, b in figures)
            alone = len(figures) == 1 or over  # of two limits each may be met by a way of its own
            if not (figures and alone) or list(work.iterdir()):
                return f"refused in these words: {error}"
            if len(figures) == 2:
                return run(free, network.x, wanted) or "refused"
            reached = int(figures[0][0].replace(",", ""))
            ram_limit, rom_limit = (reached, None) if ram_limit else (None, reached)
            limits = {"ram_limit": ram_limit, "rom_limit": rom_limit}
            tight = export_source(network.module, work / "net.c", target=target, freestanding=True, **limits)
        found, after = tight.models[0].c_model.interface.workspace_size, model_sizes(tight, target)
        if (ram_limit and found > ram_limit) or (rom_limit and after is not None and after.rom > rom_limit):
            return f"workspace {found}, limits {limits}, code and constants {after.rom if after else None}"
        trade = "bands" if "bands" in tight.traded[0] else "tiles" if "tiles" in tight.traded[0] else "nothing"
        return run(free, network.x, wanted) or run(tight, network.x, wanted) or f"right, traded {trade}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--cpu", default="cortex-m3")
    given = parser.parse_args()
    outcomes, deadline = Counter[str](), time.monotonic() + 60 * given.minutes
    for seed in range(given.seed, given.seed + given.count):
        if time.monotonic() > deadline:
            break
        try:
            found = judged(seed, given.cpu)
        except Exception as error:  # any error of ours is a finding
            found = f"{type(error).__name__}: {str(error)[:300]}"
        right = found == "refused" or found.startswith("right")
        outcomes[found if right else "WRONG"] += 1
        if not right:
            print(f"seed {seed}: {found}", flush=True)
    print(", ".join(f"{count} {name}" for name, count in sorted(outcomes.items())), f"of {outcomes.total()} graphs")
    return int(outcomes["WRONG"] > 0)


if __name__ == "__main__":
    sys.exit(main())
