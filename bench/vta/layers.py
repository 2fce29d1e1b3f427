"""The convolutions C2 to C12 of ResNet on VTA: cycles and use of GEMM with one and two threads, on both simulators.

    python bench/vta/layers.py [--version 2] [--rtl] [--layers C2,C3] [--trace FOLDER] [--json FILE]

Every result is compared with NumPy. `--rtl` runs the RTL beside the cycle simulator.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.vta import Config, Isa
from tilewright.vta.cycle.chip import simulate
from tilewright.vta.dram import Dram
from tilewright.vta.driver import Driver
from tilewright.vta.explore.convs import Conv, Tiling, blocked, blocked_weights, conv_stream, reference
from tilewright.vta.hardware import Hardware

#: Layer: the convolution, the tiling that was best on the cycle simulator, how often resnet18 has it.
LAYERS = {
    "C2": (Conv(56, 56, 64, 64, 3, 1, 1), Tiling(5, 2, 1, parts=1, early=True), 4),
    "C3": (Conv(56, 56, 64, 64, 1, 1, 0), Tiling(3, 4, 2, parts=2), 0),
    "C4": (Conv(56, 56, 64, 128, 3, 2, 1), Tiling(5, 2, 1, parts=1, early=True), 1),
    "C5": (Conv(56, 56, 64, 128, 1, 2, 0), Tiling(2, 8, 4, parts=2), 1),
    "C6": (Conv(28, 28, 128, 128, 3, 1, 1), Tiling(14, 1, 1, parts=1, early=True), 3),
    "C7": (Conv(28, 28, 128, 256, 3, 2, 1), Tiling(7, 2, 1, parts=1, early=True), 1),
    "C8": (Conv(28, 28, 128, 256, 1, 2, 0), Tiling(4, 16, 4, parts=3, early=True), 1),
    "C9": (Conv(14, 14, 256, 256, 3, 1, 1), Tiling(14, 1, 1, parts=1, early=True), 3),
    "C10": (Conv(14, 14, 256, 512, 3, 2, 1), Tiling(7, 4, 1, parts=2, early=True), 1),
    "C11": (Conv(14, 14, 256, 512, 1, 2, 0), Tiling(7, 16, 2, parts=3, early=True), 1),
    "C12": (Conv(7, 7, 512, 512, 3, 1, 1), Tiling(7, 2, 1, parts=1, early=True), 3),
}
#: The same for version 2 of the instructions, where ALU moves the bias and clips.
EXTENDED = {
    "C3": Tiling(3, 4, 1, parts=3, early=True),
    "C5": Tiling(3, 8, 2, parts=3, early=True),
    "C6": Tiling(7, 2, 1, parts=2, early=True),
    "C8": Tiling(4, 16, 2, parts=3, early=True),
    "C11": Tiling(7, 16, 1, parts=3, early=True),
}
_DRAM = 1 << 23


def measure(isa: Isa, conv: Conv, tiling: Tiling, kinds: dict[str, type[Driver]], trace: Path | None) -> dict[str, Any]:
    """Cycles by kind of driver; `SystemExit` where a result is wrong."""
    chance = np.random.default_rng(0)
    block = isa.config.block
    inputs = chance.integers(-128, 128, (conv.channels, conv.height, conv.width), np.int8)
    weights = chance.integers(-128, 128, (conv.filters, conv.channels, conv.kernel, conv.kernel), np.int8)
    bias = chance.integers(-1000, 1000, conv.filters, np.int32)
    shift = math.ceil(math.log2(conv.channels * conv.kernel**2) / 2) + 6
    expected = blocked(reference(conv, inputs, weights, bias, shift), block)
    found: dict[str, Any] = {}
    dram = Dram(isa, _DRAM)
    stream = conv_stream(isa, dram, conv, tiling, shift)
    chip = simulate(isa, stream.program, dram.data, Hardware(), stream.address)
    usage = chip.usage()
    found["cycle"] = usage.cycles
    if trace is not None:
        trace.write_text(usage.perfetto(isa.config))
    data = {
        "INP": (stream.inp, blocked(inputs, block)),
        "WGT": (stream.wgt, blocked_weights(weights, block)),
        "ACC": (stream.bias, bias.reshape(-1, 1, block)),
    }
    for name, kind in kinds.items():
        for memory, (first, values) in data.items():
            dram.view(memory, first, len(values))[...] = values
        dram.view("OUT", stream.out, len(expected))[...] = 99
        counters = kind(isa, dram).run(stream.address, len(stream.program))
        if not np.array_equal(dram.read("OUT", stream.out, len(expected)), expected):
            raise SystemExit(f"{conv} on {name}: the result is wrong")
        found[name] = counters["cycles"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", type=int, default=1)
    parser.add_argument("--rtl", action="store_true")
    parser.add_argument("--layers", default=",".join(LAYERS))
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    isa = Isa(Config(isa_version=given.version))
    kinds: dict[str, type[Driver]] = {}
    if given.rtl:
        from tilewright.vta.rtl.verilator import VerilatedDriver  # an extra

        kinds["rtl"] = VerilatedDriver
    rows, total = [], 0
    for name in given.layers.split(","):
        conv, best, times = LAYERS[name]
        if given.version > 1:
            best = EXTENDED.get(name, best)
        row: dict[str, Any] = {"layer": name, "gemm": conv.gemm_steps(isa), "times": times}
        for threads in (1, 2):
            tiling = Tiling(best.rows, best.out_blocks, best.in_blocks, threads, best.parts, best.early and threads > 1)
            trace = given.trace and given.trace / f"{name}_{threads}.json"
            row[str(threads)] = measure(isa, conv, tiling, kinds, trace)
        rows.append(row)
        one, two = row["1"], row["2"]
        total += times * two["cycle"]
        text = "  ".join(
            f"{k}: {one[k]:>7} {row['gemm'] / one[k]:6.1%} -> {two[k]:>7} {row['gemm'] / two[k]:6.1%}" for k in two
        )
        print(f"{name:4} {row['gemm']:>7}  {text}", flush=True)
    for threads in ("1", "2"):
        for kind in rows[0][threads]:
            uses = [row["gemm"] / row[threads][kind] for row in rows]
            print(f"{threads} threads, {kind}: use of GEMM {math.exp(sum(map(math.log, uses)) / len(uses)):.1%}")
    print(f"resnet18's layers, two threads: {total} cycles")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    try:
        main()
    except TilewrightError as error:
        raise SystemExit(str(error)) from error
