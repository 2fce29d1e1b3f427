"""MNIST's digits in few bits by training: the network of quantization.py, trained on with fake codes.

    python bench/quantization_aware.py ../shared/data/mnist FOLDER

FOLDER keeps the float model. A row for each choice of bits: right answers of 2,000 digits held out in integers and with
bit-serial products, and how many results differ from what training simulated. The float network is trained as long.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import quantization
from quantization import BATCH, TRAINED, Array, as_onnx, digits, trained

import tilewright as tw
from tilewright import relay
from tilewright.training import Adam

EPOCHS, SLOWER = 6, 4
#: Bits, and the learning rate, of which the last epochs take a fifth.
CHOICES: dict[str, tuple[dict[str, Any], float]] = {
    "W8A8": ({}, 5e-4),
    "W4A4": ({"weight_bits": 4, "data_bits": 4}, 5e-4),
    "W1A2, ends W8A8": ({"weight_bits": 1, "data_bits": 2, "end_bits": 8}, 1e-3),
    "W1A2": ({"weight_bits": 1, "data_bits": 2}, 1e-3),
}


def symbolic(weights: dict[str, Array]) -> onnx.ModelProto:
    """The network for any number of images."""
    model = as_onnx(weights)
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    return model


def row(name: str, path: Path, images: Array, labels: Array) -> None:
    """Train with the bits of `name`, and print what the integers answer."""
    options, rate = CHOICES[name]
    aware = tw.quantize_aware(str(path), {"x": images[:500]}, batch=BATCH, **options)
    y = relay.var("y", shape=(BATCH,), dtype="int64")
    loss = relay.nn.nll_loss(relay.nn.log_softmax(aware.results[0]), y, relay.const(np.ones(10, "float32")))
    trainer = aware.trainer(loss, Adam(rate))
    for epoch in range(EPOCHS):
        if epoch == SLOWER:
            trainer = aware.trainer(loss, Adam(rate / 5), values=trainer.values)
        order = np.random.default_rng(epoch).permutation(TRAINED)
        for start in range(0, TRAINED - BATCH + 1, BATCH):
            rows = order[start : start + BATCH]
            trainer(x=images[rows], y=labels[rows])
    test, right = images[TRAINED:], labels[TRAINED:]
    before, ours, serial = (
        np.asarray(aware.finish(*arguments).compile()(test))
        for arguments in ((), (trainer.values,), (trainer.values, "bit-serial"))
    )
    padded = np.concatenate([test, np.zeros((-len(test) % BATCH, *test.shape[1:]), np.float32)])
    parts = [aware.simulate({"x": padded[i : i + BATCH]}, trainer.values)[0] for i in range(0, len(padded), BATCH)]
    simulated = np.concatenate(parts)[: len(test)]
    shares = [f"{np.mean(found.argmax(1) == right):.2%}" for found in (before, ours, serial)]
    print(f"| {name} | {' | '.join(shares)} | {int((ours != simulated).sum())} of {ours.size} |", flush=True)


def main(data: Path, folder: Path) -> None:
    """Train where FOLDER has no model yet, and print the table."""
    images, labels = digits(data)
    path = folder / "mnist_n.onnx"
    for epochs, file in ((6, path), (6 + EPOCHS, folder / "mnist_longer.onnx")):
        if not file.exists():
            quantization.EPOCHS = epochs
            onnx.save(symbolic(trained(images[:TRAINED], labels[:TRAINED])), file)
        exact = np.asarray(tw.compile(str(file))(images[TRAINED:]))
        print(f"| float, {epochs} epochs | | {np.mean(exact.argmax(1) == labels[TRAINED:]):.2%} | | |", flush=True)
    for name in CHOICES:
        row(name, path, images, labels)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
