"""Networks compiled for the web beside onnxruntime-web and TensorFlow.js: times in Node on one thread, deviations.

    python bench/web/networks.py build/networks/mlp.onnx … --ort NODE_MODULES/onnxruntime-web [--node NODE]
    python bench/web/networks.py build/networks/mlp.onnx … --tfjs NODE_MODULES     with tfjs-core, tfjs-backend-wasm

Engines run in turns in one process of Node: the least wall time of a run, and the least time of the processor in a turn
for each of its runs, by which the ratios are, in milliseconds.
Deviations are those of the first output from onnxruntime's, over its largest magnitude.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from tfjs import tfjs_steps

import tilewright as tw

_HERE = Path(__file__).parent
_RUNS, _TFJS = "onnxruntime-web", "tfjs"


def feeds_of(model: tw.runtime.model.Model) -> dict[str, np.ndarray]:
    """Random inputs; sizes that are open become 8."""
    rng = np.random.default_rng(0)
    made = {}
    for spec in model.inputs:
        shape = [size if isinstance(size, int) else 8 for size in spec.shape]
        if spec.numpy.kind == "f":
            made[spec.name] = rng.standard_normal(shape).astype(spec.numpy)
        else:
            made[spec.name] = rng.integers(0, 2, shape).astype(spec.numpy)
    return made


def measure(path: Path, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The figures of `compare.mjs` for one network, with deviations and sizes."""
    import onnxruntime

    with tempfile.TemporaryDirectory(prefix="tilewright-bench-web-") as folder:
        model = tw.compile(path, target=options.target, cache=False)
        written = model.export_web(folder)
        feeds = feeds_of(model)
        inputs = []
        for name, array in feeds.items():
            file = Path(folder, f"input{len(inputs)}")
            array.tofile(file)
            inputs.append({"name": name, "dtype": str(array.dtype), "shape": array.shape, "file": str(file)})
        files = [one.name for one in written if one.suffix == ".wasm"]
        job = {"folder": folder, "inputs": inputs, "files": files, "onnx": str(path),
               "seconds": options.seconds, "ort": options.ort}  # fmt: skip
        if options.tfjs:
            network, weights = tfjs_steps(path)
            weights.tofile(f"{folder}/tfjs.bin")
            job["tfjs"] = {"modules": options.tfjs, "network": network, "file": f"{folder}/tfjs.bin"}
        Path(folder, "job.json").write_text(json.dumps(job))
        flags = [] if options.no_flag else ["--experimental-wasm-relaxed-simd"]
        command = [options.node, *flags, str(_HERE / "compare.mjs"), f"{folder}/job.json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{path}: node failed: {done.stderr[-2000:]}")
        found = json.loads(done.stdout.splitlines()[-1])
        want = onnxruntime.InferenceSession(path).run(None, feeds)[0]
        for name, one in found.items():
            if "file" in one:
                got = np.fromfile(one["file"], want.dtype).reshape(want.shape)
                one["deviation"] = float(np.abs(got - want).max() / np.abs(want).max())
            if name in files:
                one["bytes"] = Path(folder, name).stat().st_size
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--ort", help="the folder of the package onnxruntime-web")
    parser.add_argument("--tfjs", help="the folder node_modules with tfjs-core and tfjs-backend-wasm")
    parser.add_argument("--node", default="node")
    parser.add_argument("--no-flag", action="store_true", help="a Node whose relaxed SIMD needs no flag")
    parser.add_argument("--target", default="wasm")
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    ratios: dict[str, list[float]] = {}
    for path in options.models:
        found = measure(path, options)
        base = found.get(_RUNS if options.ort else _TFJS, {}).get("cpu", math.nan)
        for name, one in found.items():
            if "error" in one:
                print(f"{path.stem:20} {name:20} {one['error']}")
                continue
            ratio = base / max(one["cpu"], 1e-3)
            ratios.setdefault(name, []).append(ratio)
            size = f"{one['bytes'] / 1000:8.1f} kB" if "bytes" in one else " " * 11
            print(f"{path.stem:20} {name:20} wall {one['wall']:9.3f} cpu {one['cpu']:9.3f} first {one['first']:8.1f} "
                  f"{size} off by {one['deviation']:.1e} {ratio:6.2f} x")  # fmt: skip
        sys.stdout.flush()
    for name, values in ratios.items():
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"geometric mean {name:20} {mean:.2f} x, least {min(values):.2f}")


if __name__ == "__main__":
    main()
