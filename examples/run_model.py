"""Compile an ONNX model, run it, save it, load it again: the whole Python interface on one page.

python examples/run_model.py [MODEL.onnx ["x:[1,3,224,224]"]]       (default: a small model made on the spot)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import tilewright as tw
from tilewright.cli.inputs import random_inputs
from tilewright.cli.options import parse_shapes
from tilewright.support import trace


def small_model() -> bytes:
    """An ONNX model in memory: relu(x w), x float32 [1, 64] to y float32 [1, 10]."""
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(0).standard_normal((64, 10), dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 64))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 10))],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def main() -> None:
    """Compile, run, time, save, load, and run again."""
    model = sys.argv[1] if len(sys.argv) > 1 else small_model()
    shapes = parse_shapes(sys.argv[2]) if len(sys.argv) > 2 else None

    with trace.collect() as times:
        exe = tw.compile(model, target="cpu", input_shapes=shapes)
    print(f"{exe}\n\nstages of the compilation:\n{times.table()}\n")

    inputs = random_inputs(exe.inputs, seed=0)
    outputs = exe.run(inputs)  # by name, a list in the model's order; exe(x) takes positional arguments
    for spec, value in zip(exe.outputs, outputs):
        print(f"{spec}: {value.reshape(-1)[:4]} …")
    print(f"one run takes {min(exe.time(inputs, repeat=50)) * 1e3:.3f} ms\n")

    print("the slowest kernels, by the names of the model's nodes:")
    for row in sorted(exe.profile(inputs, repeat=10), key=lambda row: -row.seconds)[:5]:
        print(f"  {row.seconds * 1e6:8.1f} us  {row.kernel}  {row.source}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tw"
        exe.save(path)
        again = tw.load(path).run(inputs)
        same = all(np.array_equal(a, b) for a, b in zip(outputs, again))
        print(f"\nsaved as {path.stat().st_size} bytes, loaded, and the same bits come out: {same}")


if __name__ == "__main__":
    main()
