"""The convolutions C2 to C12 of ResNet on VTA: cycles and use of GEMM with one and two threads, on both simulators.

    python bench/vta/layers.py [--version 2] [--rtl] [--layers C2,C3] [--trace FOLDER] [--json FILE]

The programs are those that the compiler makes of such a layer, its tiles chosen as for any network. Every result is
compared with NumPy. `--rtl` runs the RTL beside the cycle simulator.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.vta import Config, Network, Session
from tilewright.vta.cycle import CycleDriver
from tilewright.vta.network.network import convolution
from tilewright.vta.schedule.epilogue import Step


@dataclass(frozen=True)
class Layer:
    """Rows and columns, channels in and out, filter, stride; how often resnet18 has it."""

    size: int
    channels: int
    filters: int
    kernel: int
    stride: int
    times: int

    @property
    def image(self) -> tuple[int, int, int, int]:
        """The shape of its input."""
        return 1, self.channels, self.size, self.size

    @property
    def weight(self) -> tuple[int, int, int, int]:
        """The shape of its weights."""
        return self.filters, self.channels, self.kernel, self.kernel

    @property
    def how(self) -> dict[str, Any]:
        """Strides and padding."""
        return {"strides": (self.stride,) * 2, "padding": (self.kernel // 2,) * 4}

    def gemm_steps(self, config: Config) -> int:
        """Steps of GEMM that it needs: cycles at full use."""
        return convolution(config, self.image, self.weight, **self.how).gemm_steps


LAYERS = {
    "C2": Layer(56, 64, 64, 3, 1, 4), "C3": Layer(56, 64, 64, 1, 1, 0), "C4": Layer(56, 64, 128, 3, 2, 1),
    "C5": Layer(56, 64, 128, 1, 2, 1), "C6": Layer(28, 128, 128, 3, 1, 3), "C7": Layer(28, 128, 256, 3, 2, 1),
    "C8": Layer(28, 128, 256, 1, 2, 1), "C9": Layer(14, 256, 256, 3, 1, 3), "C10": Layer(14, 256, 512, 3, 2, 1),
    "C11": Layer(14, 256, 512, 1, 2, 1), "C12": Layer(7, 512, 512, 3, 1, 3),
}  # fmt: skip


def reference(layer: Layer, image: np.ndarray, weight: np.ndarray, bias: np.ndarray, shift: int) -> np.ndarray:
    """The result of the layer, by NumPy."""
    pad = layer.kernel // 2
    padded = np.pad(image[0].astype(np.int64), ((0, 0), (pad, pad), (pad, pad)))
    size = (layer.size + 2 * pad - layer.kernel) // layer.stride + 1
    sums = np.zeros((layer.filters, size, size), np.int64)
    for ky in range(layer.kernel):
        for kx in range(layer.kernel):
            window = padded[:, ky :: layer.stride, kx :: layer.stride][:, :size, :size].reshape(layer.channels, -1)
            sums += (weight[:, :, ky, kx].astype(np.float64) @ window).astype(np.int64).reshape(sums.shape)
    return np.clip(sums + bias[:, None, None] >> shift, 0, 127).astype(np.int8)[None]


def measure(config: Config, layer: Layer, threads: int, kinds: list[str], trace: Path | None) -> dict[str, Any]:
    """Cycles by kind of driver, bytes moved, and the tiling; `SystemExit` where a result is wrong."""
    chance = np.random.default_rng(0)
    image, weight = (chance.integers(-128, 128, shape, np.int8) for shape in (layer.image, layer.weight))
    bias = chance.integers(-1000, 1000, layer.filters, np.int32)
    shift = math.ceil(math.log2(layer.channels * layer.kernel**2) / 2) + 6
    expected = reference(layer, image, weight, bias, shift)
    network = Network(config, threads)
    steps = [Step("ADD", bias), Step("SHR", shift), Step("MAX", 0), Step("MIN", 127)]
    compiled = network.build([network.conv2d(network.image(layer.image, 0), weight, steps, **layer.how)])
    found: dict[str, Any] = {"tiling": compiled.plan["layers"][0]["layer"]}
    for kind in kinds:
        session = Session(compiled.plan, compiled.image, kind)
        (result,) = session.run([image])
        if not np.array_equal(result, expected):
            raise SystemExit(f"{layer} on {kind}: the result is wrong")
        found[kind] = session.counters["cycles"]
        if isinstance(session.driver, CycleDriver):
            found["bytes"] = sum(count for name, count in session.counters.items() if name.endswith("bytes"))
            if trace is not None:
                trace.write_text(session.driver.usage.perfetto(config))
    return found


def rows_of(config: Config, names: list[str], kinds: list[str], trace: Path | None = None) -> list[dict[str, Any]]:
    """A row a layer, with one and two threads, each printed when it is there."""
    rows = []
    for name in names:
        layer = LAYERS[name]
        row: dict[str, Any] = {"layer": name, "gemm": layer.gemm_steps(config), "times": layer.times}
        for threads in (1, 2):
            row[str(threads)] = measure(config, layer, threads, kinds, trace and trace / f"{name}_{threads}.json")
        rows.append(row)
        one, two = row["1"], row["2"]
        text = "  ".join(
            f"{k}: {one[k]:>7} {row['gemm'] / one[k]:6.1%} -> {two[k]:>7} {row['gemm'] / two[k]:6.1%}" for k in kinds
        )
        print(f"{name:4} {row['gemm']:>7}  {text}", flush=True)
    return rows


def mean_use(rows: list[dict[str, Any]], threads: int, kind: str) -> float:
    """The part of the time in which GEMM works, in the geometric mean."""
    return math.exp(sum(math.log(row["gemm"] / row[str(threads)][kind]) for row in rows) / len(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", type=int, default=1)
    parser.add_argument("--rtl", action="store_true")
    parser.add_argument("--layers", default=",".join(LAYERS))
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    kinds = ["cycle", "rtl"] if given.rtl else ["cycle"]
    rows = rows_of(Config(isa_version=given.version), given.layers.split(","), kinds, given.trace)
    for threads in (1, 2):
        for kind in kinds:
            print(f"{threads} threads, {kind}: use of GEMM {mean_use(rows, threads, kind):.1%}")
    for kind in kinds:
        print(f"resnet18's layers, two threads, {kind}: {sum(row['times'] * row['2'][kind] for row in rows)} cycles")
    if given.rtl:
        apart = max(abs(row[t]["cycle"] / row[t]["rtl"] - 1) for row in rows for t in ("1", "2"))
        print(f"the model is within {apart:.2%} of the RTL")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    try:
        main()
    except TilewrightError as error:
        raise SystemExit(str(error)) from error
