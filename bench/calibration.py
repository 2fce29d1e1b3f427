"""CPU time of a sample's calibration: the interpreter on NumPy beside compiled code, one thread.

    OPENBLAS_NUM_THREADS=1 python bench/calibration.py [--networks resnet18,…] [--samples 16] [--methods minmax,mse]

Both find the extreme values of all tensors that layers read and, but for "minmax", count all values in histograms.
The interpreter's products are BLAS's, its statistics NumPy's. Process CPU time, the least of several rounds in turns;
beside it the multiplications of a sample and the values that are counted, which bound what is possible.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from networks import MODELS, ROOT, model_file
from report import machine, table

from tilewright.frontend.formats.import_model import import_model
from tilewright.quantize.calibrate import Calibration
from tilewright.quantize.data import Sample, inputs_of
from tilewright.quantize.layers import layers, prepared
from tilewright.quantize.observe import Observer
from tilewright.quantize.ranges import Histogram
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Function, Tuple
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of

NETWORKS = ("resnet18", "mobilenet_v2", "magika", "ppocr_cls", "vww")
TINY = {"vww": "tflite/mlperf_tiny/vww_96_float.tflite"}


def module(name: str) -> IRModule:
    """The network as it is calibrated."""
    if name in TINY:
        return prepared(import_model(str(MODELS / "real" / TINY[name]), None), fold_scales=True)
    path, shapes = model_file(name, ROOT / "build" / "networks")
    return prepared(import_model(str(path), shapes or None), fold_scales=False)


def random_samples(mod: IRModule, count: int) -> list[Sample]:
    """Normally distributed numbers, or bytes for whole numbers."""
    rng = np.random.default_rng(0)
    return [
        {
            one.name: rng.integers(0, 256, one.shape).astype(one.dtype.numpy)
            if one.dtype.is_int
            else rng.standard_normal(one.shape).astype(np.float32)
            for one in inputs_of(mod["main"].params)
        }
        for _ in range(count)
    ]


def interpreted(mod: IRModule, samples: list[Sample], extremes_only: bool) -> dict[str, Histogram]:
    """The histograms by the interpreter and NumPy."""
    calibration = Calibration(mod, layers(mod["main"]))
    probe = mod.with_function("main", Function(mod["main"].params, Tuple(list(calibration.tensors.values()))))
    for sample in samples:
        for one, value in zip(calibration.histograms.values(), interpret(probe, sample), strict=True):
            values = np.asarray(value).reshape(-1)
            least, largest = float(values.min()), float(values.max())
            one.merge(least, largest)
            if not extremes_only and one.limit:
                one.counts += counted(values, one.limit, len(one.counts))
    return calibration.histograms


def counted(values: Any, limit: float, bins: int) -> Any:
    """Counts of values in bins, in parts that stay in the second cache."""
    found = np.zeros(bins, np.int64)
    for start in range(0, values.size, 1 << 16):
        index = values[start : start + (1 << 16)] * np.float32(bins / 2 / limit)
        index += np.float32(bins // 2)
        np.minimum(index, np.float32(bins - 1), out=index)
        found += np.bincount(index.astype(np.intp), minlength=bins)
    return found


def compare(name: str, count: int, rounds: int, methods: list[str]) -> list[list[str]]:
    """A row for each method."""
    mod = module(name)
    found = layers(mod["main"])
    samples = random_samples(mod, count)
    rows = []
    for method in methods:
        least: dict[str, float] = {}
        calibration = Calibration(mod, found)
        observer = Observer(mod, calibration.tensors, method != "minmax", threads=1)
        observer.observe(samples, calibration.histograms)  # compiled here
        for _ in range(rounds):
            for who in ("interpreter", "compiled"):
                start = time.process_time()
                if who == "interpreter":
                    interpreted(mod, samples[:1], method == "minmax")
                else:
                    observer.observe(samples, calibration.histograms)
                seconds = (time.process_time() - start) / (1 if who == "interpreter" else count)
                least[who] = min(least.get(who, np.inf), seconds)
        values = sum(int(np.prod(tensor_type_of(one).shape)) for one in calibration.tensors.values())
        rows.append(
            [
                name, method, f"{least['interpreter'] * 1e3:.2f} ms", f"{least['compiled'] * 1e3:.2f} ms",
                f"{least['interpreter'] / least['compiled']:.1f}", f"{values / 1e6:.2f}",
            ]
        )  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Compare the networks that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--methods", default="minmax,mse")
    args = parser.parse_args()
    rows = [
        row for name in args.networks.split(",")
        for row in compare(name, args.samples, args.rounds, args.methods.split(","))
    ]  # fmt: skip
    print(machine())
    print(table(["network", "method", "interpreter", "compiled", "ratio", "million values"], rows))


if __name__ == "__main__":
    main()
