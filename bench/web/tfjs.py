"""A convolutional or dense ONNX network as a list of calls of TensorFlow.js, channels last, with its weights.

    steps, weights = tfjs_steps("build/networks/mobilenet_v2.onnx")          # for `tfjs.mjs`

A step is [operation, result, inputs, arguments]; weights are [offset in floats, shape], of one array of float32. Biases
and ReLUs are part of the call before them, as TensorFlow.js's own converter has them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper


class _Network:
    """A graph that is written out, node by node."""

    def __init__(self, path: Path) -> None:
        graph = onnx.load(path).graph
        self.known = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        self.uses = Counter(name for node in graph.node for name in node.input)
        self.steps: list[list[Any]] = []
        self.made: dict[str, list[Any]] = {}  # the step of each result
        self.data: list[np.ndarray] = []
        self.same = {graph.input[0].name: "input"}
        for node in graph.node:
            self._node(node)
        self.result = self.same.get(graph.output[0].name, graph.output[0].name)

    def _node(self, node: onnx.NodeProto) -> None:
        attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        name, inputs = node.output[0], [self.same.get(one, one) for one in node.input]
        known: list[Any] = [self.known.get(one) for one in inputs]
        kind = node.op_type
        if kind == "Identity" and known[0] is not None:
            self.known[name] = known[0]
        elif kind == "Constant":
            self.known[name] = numpy_helper.to_array(attrs["value"])
        elif kind == "Conv":
            self._convolution(name, inputs, known[1:], attrs)
        elif kind == "Gemm":
            weight = known[1].T if attrs.get("transB") else known[1]
            self._add("dense", name, inputs[:1], {"weight": self._kept(weight), "bias": self._kept(known[2])})
        elif kind in ("Relu", "Clip") and (kind == "Relu" or [float(one) for one in known[1:]] == [0, 6]):
            before = self.made.get(inputs[0])
            if before is not None and before[0] in ("conv", "dense") and self.uses[node.input[0]] == 1:
                before[3]["activation"] = "relu" if kind == "Relu" else "relu6"
                self.same[name] = inputs[0]
            else:
                self._add("relu" if kind == "Relu" else "relu6", name, inputs[:1], {})
        elif kind == "MaxPool":
            kernel, strides, pads = (attrs[key] for key in ("kernel_shape", "strides", "pads"))
            arguments = {"size": kernel, "strides": strides, "pad": pads[0], "ceil": bool(attrs.get("ceil_mode"))}
            self._add("maxPool", name, inputs, arguments)
        elif kind in ("Add", "GlobalAveragePool", "Flatten", "Concat"):
            self._add(kind, name, inputs, {})
        else:
            raise SystemExit(f"tfjs.py writes no {kind} (node {node.name!r}) for TensorFlow.js")

    def _convolution(self, name: str, inputs: list[str], known: list[Any], attrs: dict[str, Any]) -> None:
        weight, groups, pads = known[0], attrs.get("group", 1), attrs["pads"]
        if groups not in (1, weight.shape[0]) or len(set(pads)) > 1 or set(attrs["dilations"]) != {1}:
            raise SystemExit(f"tfjs.py writes no such convolution for TensorFlow.js: {name}")
        order = (2, 3, 0, 1) if groups > 1 else (2, 3, 1, 0)
        bias = known[1] if len(known) > 1 else np.zeros(weight.shape[0], np.float32)
        arguments = {"weight": self._kept(weight.transpose(order)), "bias": self._kept(bias),
                     "strides": attrs["strides"], "pad": pads[0], "depthwise": groups > 1}  # fmt: skip
        self._add("conv", name, inputs[:1], arguments)

    def _kept(self, array: np.ndarray) -> list[Any]:
        offset = sum(one.size for one in self.data)
        self.data.append(np.ascontiguousarray(array, np.float32))
        return [offset, list(array.shape)]

    def _add(self, kind: str, name: str, inputs: list[str], arguments: dict[str, Any]) -> None:
        self.made[name] = [kind, name, inputs, arguments]
        self.steps.append(self.made[name])


def tfjs_steps(path: str | Path) -> tuple[dict[str, Any], np.ndarray]:
    """The steps, the name of the result, and all weights. Exits with a message for other operators."""
    network = _Network(Path(path))
    return {"steps": network.steps, "result": network.result}, np.concatenate([one.ravel() for one in network.data])
