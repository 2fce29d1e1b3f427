"""Accuracy of MNIST's digits in 8 bits: a network trained on 8,000 of them, quantized after 500, tested on the others.

    python bench/quantization.py ../shared/data/mnist FOLDER

Prints a row for each method of ranges, and for the budget search; FOLDER keeps the trained model (mnist.onnx).
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tilewright import relay
from tilewright.quantize.ranges import METHODS
from tilewright.training import Adam, Trainer, training_step

Array = np.ndarray[Any, Any]
TRAINED, CALIBRATED, BATCH, EPOCHS = 8000, 500, 64, 6
SHAPES = {"c1": (16, 1, 3, 3), "b1": (16,), "c2": (32, 16, 3, 3), "b2": (32,), "d": (10, 32 * 7 * 7), "b3": (10,)}


def digits(folder: Path) -> tuple[Array, Array]:
    """Images float32[10000, 1, 28, 28] from 0 to 1, and labels, shuffled by a fixed seed."""
    images, labels = (
        np.frombuffer(gzip.decompress((folder / name).read_bytes())[head:], np.uint8)
        for name, head in (("t10k-images-idx3-ubyte.gz", 16), ("t10k-labels-idx1-ubyte.gz", 8))
    )
    order = np.random.default_rng(0).permutation(len(labels))
    return (images.reshape(-1, 1, 28, 28) / np.float32(255))[order], labels.astype(np.int64)[order]


def trained(images: Array, labels: Array) -> dict[str, Array]:
    """The parameters after some epochs of Adam."""
    rng = np.random.default_rng(1)
    initial = {
        name: (rng.uniform(-1, 1, shape) / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else 1e6)).astype("float32")
        for name, shape in SHAPES.items()
    }
    w = {name: relay.var(name, shape=shape, dtype="float32") for name, shape in SHAPES.items()}
    x = relay.var("x", shape=(BATCH, 1, 28, 28), dtype="float32")
    y = relay.var("y", shape=(BATCH,), dtype="int64")
    body: relay.Expr = x
    for conv, bias in (("c1", "b1"), ("c2", "b2")):
        body = relay.nn.bias_add(relay.nn.conv2d(body, w[conv], padding=(1, 1)), w[bias])
        body = relay.nn.max_pool2d(relay.nn.relu(body), pool_size=(2, 2), strides=(2, 2))
    logits = relay.nn.bias_add(relay.nn.dense(relay.nn.batch_flatten(body), w["d"]), w["b3"])
    loss = relay.nn.nll_loss(relay.nn.log_softmax(logits), y, relay.const(np.ones(10, "float32")))
    step = training_step(loss, list(w.values()), Adam(2e-3))
    trainer = Trainer(step, tw.compile(step.module), initial)
    for epoch in range(EPOCHS):
        order = np.random.default_rng(epoch).permutation(len(labels))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            rows = order[start : start + BATCH]
            (value,) = trainer(x=images[rows], y=labels[rows])
        print(f"epoch {epoch + 1}: loss {float(np.asarray(value)):.4f}", flush=True)
    return {name: np.asarray(value) for name, value in trainer.parameters.items()}


def as_onnx(weights: dict[str, Array]) -> onnx.ModelProto:
    """The network for one image."""
    nodes = []
    value = "x"
    for number in (1, 2):
        inputs = [value, f"c{number}", f"b{number}"]
        window = {"kernel_shape": [2, 2], "strides": [2, 2]}
        nodes += [
            helper.make_node("Conv", inputs, [f"s{number}"], f"conv{number}", pads=[1] * 4),
            helper.make_node("Relu", [f"s{number}"], [f"r{number}"], f"relu{number}"),
            helper.make_node("MaxPool", [f"r{number}"], [f"p{number}"], f"pool{number}", **window),
        ]
        value = f"p{number}"
    nodes += [
        helper.make_node("Flatten", [value], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "d", "b3"], ["y"], "classes", transB=1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, 28, 28))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 10))
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "mnist", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def accuracy(exe: Any, images: Array, labels: Array) -> tuple[float, Array]:
    """The share of right answers, and the answers."""
    answers = np.array([int(np.asarray(exe(image[None])).argmax()) for image in images])
    return float(np.mean(answers == labels)), answers


def main(data: Path, folder: Path) -> None:
    """Train where FOLDER has no model yet, quantize, and print the table."""
    images, labels = digits(data)
    path = folder / "mnist.onnx"
    if not path.exists():
        onnx.save(as_onnx(trained(images[:TRAINED], labels[:TRAINED])), path)
    test, right = images[TRAINED:], labels[TRAINED:]
    calibration = {"x": images[:CALIBRATED]}
    exact, answers = accuracy(tw.compile(str(path)), test, right)
    print(f"| float | {exact:.2%} | | |\n|---|---|---|---|")
    for options in (*({"method": method} for method in METHODS), {"method": "mse", "correct_bias": True}):
        found = tw.quantize(str(path), calibration, **options)  # type: ignore[arg-type]
        ours, again = accuracy(found.compile(), test, right)
        loss = found.recipe.losses["relative"]
        print(f"| {options} | {ours:.2%} | {np.mean(answers != again):.2%} answers differ | {loss:.3%} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
