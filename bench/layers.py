"""Single convolutions beside onnxruntime and OpenVINO: ResNet-18's C1-C12 and MobileNet's depthwise D1-D9.

    python bench/layers.py [--threads 1,2] [--seconds 1] [--only C1,D9] [--json FILE] [--markdown FILE] [--smoke]

The layers are those of table 2 of "TVM: An Automated End-to-End Optimizing Compiler for Deep Learning" (OSDI 2018),
with "SAME" padding and a bias. Each is a model of one node, made on the spot; all engines run it in this process, in
turns.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper
from report import machine, thread_counts, versions
from single import Machine, markdown, measure_single, one_node_model, to_json


@dataclass(frozen=True)
class Layer:
    """A convolution of a square image: `size` rows, kernel by kernel windows; `groups` is 1 or the channels."""

    size: int
    inputs: int
    outputs: int
    kernel: int
    stride: int
    groups: int = 1

    @property
    def output_size(self) -> int:
        """Rows of the result under "SAME" padding."""
        return -(-self.size // self.stride)

    def padding(self) -> tuple[int, int]:
        """Rows of zeros before and after the image."""
        missing = max(0, (self.output_size - 1) * self.stride + self.kernel - self.size)
        return missing // 2, missing - missing // 2

    def model(self) -> onnx.ModelProto:
        """The layer as an ONNX model with seeded weights and a bias."""
        generator = np.random.default_rng(0)
        shape = (self.outputs, self.inputs // self.groups, self.kernel, self.kernel)
        weights = {
            "w": generator.standard_normal(shape, dtype=np.float32),
            "b": generator.standard_normal(self.outputs, dtype=np.float32),
        }
        before, after = self.padding()
        node = helper.make_node(
            "Conv",
            ["x", "w", "b"],
            ["y"],
            name="conv",
            strides=[self.stride] * 2,
            pads=[before, before, after, after],
            group=self.groups,
        )
        result = (1, self.outputs, self.output_size, self.output_size)
        return one_node_model(node, (1, self.inputs, self.size, self.size), result, weights)


def _depthwise(size: int, channels: int, stride: int) -> Layer:
    return Layer(size, channels, channels, 3, stride, channels)


LAYERS = {
    "C1": Layer(224, 3, 64, 7, 2),
    "C2": Layer(56, 64, 64, 3, 1),
    "C3": Layer(56, 64, 64, 1, 1),
    "C4": Layer(56, 64, 128, 3, 2),
    "C5": Layer(56, 64, 128, 1, 2),
    "C6": Layer(28, 128, 128, 3, 1),
    "C7": Layer(28, 128, 256, 3, 2),
    "C8": Layer(28, 128, 256, 1, 2),
    "C9": Layer(14, 256, 256, 3, 1),
    "C10": Layer(14, 256, 512, 3, 2),
    "C11": Layer(14, 256, 512, 1, 2),
    "C12": Layer(7, 512, 512, 3, 1),
    "D1": _depthwise(112, 32, 1),
    "D2": _depthwise(112, 64, 2),
    "D3": _depthwise(56, 128, 1),
    "D4": _depthwise(56, 128, 2),
    "D5": _depthwise(28, 256, 1),
    "D6": _depthwise(28, 256, 2),
    "D7": _depthwise(14, 512, 1),
    "D8": _depthwise(14, 512, 2),
    "D9": _depthwise(7, 1024, 1),
}
SMOKE = {"C": Layer(8, 16, 16, 3, 1), "D": _depthwise(8, 16, 2)}


def main() -> None:
    """Measure each layer on each number of threads, print the tables, and store them where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=thread_counts, default=(1, 2))
    parser.add_argument("--seconds", type=float, default=1.0, help="of each layer")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--compare", default="onnxruntime,openvino")
    parser.add_argument("--only", help="names of layers")
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    parser.add_argument("--smoke", action="store_true", help="two tiny layers, to see that everything runs")
    args = parser.parse_args()
    layers = SMOKE if args.smoke else LAYERS
    if args.only:
        layers = {name: layers[name] for name in args.only.split(",")}
    seconds, rounds = (0.01, 5) if args.smoke else (args.seconds, args.rounds)
    engines = [name for name in args.compare.split(",") if name]
    record, tables = {"machine": machine(), "versions": versions(), "threads": []}, [machine()]
    for threads in args.threads:
        figures = Machine.measured(threads, min(seconds, 0.5))
        results = [
            measure_single(name, layer.model(), figures, engines, seconds, rounds) for name, layer in layers.items()
        ]
        record["threads"].append(to_json(figures, results))
        tables.append(markdown(figures, results))
        print(tables[-1], flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(record, indent=1) + "\n")
    if args.markdown:
        Path(args.markdown).write_text("\n\n".join(tables))


if __name__ == "__main__":
    main()
