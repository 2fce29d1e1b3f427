"""Train a small network on handwritten digits, every step one compiled function, beside PyTorch where it is installed.

    python examples/train_digits.py [--network cnn|lstm] [--optimizer adam|sgd] [--epochs N] [--alone]

The step holds forward pass, loss, backward pass and optimizer. PyTorch gets the same initial weights and batches.
Needs scikit-learn, which ships the 1,797 images of 8x8 pixels: `pip install tilewright[train]`.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import relay
from tilewright.training import SGD, Adam, Trainer, training_step

Array = np.ndarray[Any, Any]
BATCH, HIDDEN, ROWS, CLASSES = 64, 64, 8, 10
OPTIMIZERS = {"adam": Adam(2e-3), "sgd": SGD(0.05, momentum=0.9)}

#: Parameters of each network: name -> shape; the first dimension counts what they compute.
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "cnn": {
        "conv1": (16, 1, 3, 3),
        "conv1_bias": (16,),
        "conv2": (32, 16, 3, 3),
        "conv2_bias": (32,),
        "dense": (CLASSES, 32 * 4 * 4),
        "dense_bias": (CLASSES,),
    },
    "lstm": {
        "input": (4 * HIDDEN, ROWS),
        "hidden": (4 * HIDDEN, HIDDEN),
        "gates_bias": (4 * HIDDEN,),
        "dense": (CLASSES, HIDDEN),
        "dense_bias": (CLASSES,),
    },
}


def initial_weights(network: str) -> dict[str, Array]:
    """Random weights, scaled by what each output sums; the same in every run."""
    rng = np.random.default_rng(0)
    weights = {}
    for name, shape in SHAPES[network].items():
        bound = 1 / np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else 0.0
        weights[name] = rng.uniform(-bound, bound, shape).astype("float32")
    return weights


def cnn(x: relay.Expr, w: dict[str, relay.Var]) -> relay.Expr:
    """Logits of images [N, 8, 8]: two convolutions, a pooling, a dense layer."""
    image = relay.expand_dims(x, 1)
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(image, w["conv1"], padding=1), w["conv1_bias"]))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(y, w["conv2"], padding=1), w["conv2_bias"]))
    flat = relay.nn.batch_flatten(relay.nn.max_pool2d(y, 2, 2))
    return relay.nn.bias_add(relay.nn.dense(flat, w["dense"]), w["dense_bias"])


def lstm(x: relay.Expr, w: dict[str, relay.Var]) -> relay.Expr:
    """Logits of images [N, 8, 8] read row by row by a recurrent layer (gates in the order i, o, f, candidate)."""
    batch = x.type_annotation.shape[0]  # type: ignore[attr-defined]
    gates = relay.nn.bias_add(relay.nn.dense(relay.transpose(x, (1, 0, 2)), w["input"]), w["gates_bias"], axis=-1)
    zeros = relay.zeros((1, batch, HIDDEN), "float32")
    hidden = relay.nn.lstm(gates, relay.expand_dims(w["hidden"], 0), zeros, zeros)[1]
    return relay.nn.bias_add(relay.nn.dense(relay.squeeze(hidden, 0), w["dense"]), w["dense_bias"])


NETWORKS: dict[str, Callable[[relay.Expr, dict[str, relay.Var]], relay.Expr]] = {"cnn": cnn, "lstm": lstm}


def compiled_trainer(network: str, optimizer: str, batch: int = BATCH) -> Trainer:
    """The compiled training step of a network, with its initial weights."""
    x, y = relay.var("x", shape=(batch, ROWS, 8)), relay.var("y", shape=(batch,), dtype="int64")
    w = {name: relay.var(name, shape=shape) for name, shape in SHAPES[network].items()}
    scores = relay.nn.log_softmax(NETWORKS[network](x, w))
    loss = relay.nn.nll_loss(scores, y, relay.const(np.ones(CLASSES, "float32")))
    step = training_step(loss, list(w.values()), OPTIMIZERS[optimizer])
    return Trainer(step, tw.compile(step.module), initial_weights(network))


def compiled_classifier(network: str, count: int) -> tw.Executable:
    """Class numbers of `count` images, as a function of the images and the weights."""
    x = relay.var("x", shape=(count, ROWS, 8))
    w = {name: relay.var(name, shape=shape) for name, shape in SHAPES[network].items()}
    classes = relay.argmax(NETWORKS[network](x, w), axis=1)
    return tw.compile(relay.IRModule.from_expr(relay.Function([x, *w.values()], classes)))


def torch_trainer(network: str, optimizer: str) -> tuple[Callable[[Array, Array], float], Callable[[Array], Array]]:
    """(a step: images, labels -> loss; a classifier: images -> class numbers) of the same network in PyTorch."""
    import torch
    from torch.nn import functional

    w = {name: torch.tensor(value, requires_grad=True) for name, value in initial_weights(network).items()}

    def in_torch_order(gates: Any) -> Any:
        into, out, forget, candidate = gates.chunk(4)
        return torch.cat([into, forget, candidate, out])

    def logits(x: Any) -> Any:
        if network == "cnn":
            y = functional.conv2d(x[:, None], w["conv1"], w["conv1_bias"], padding=1).relu()
            y = functional.conv2d(y, w["conv2"], w["conv2_bias"], padding=1).relu()
            return functional.linear(functional.max_pool2d(y, 2).flatten(1), w["dense"], w["dense_bias"])
        zero = torch.zeros(1, x.shape[0], HIDDEN)
        weights = [in_torch_order(w[name]) for name in ("input", "hidden", "gates_bias")] + [torch.zeros(4 * HIDDEN)]
        _, hidden, _ = torch.lstm(x, (zero, zero), weights, True, 1, 0.0, True, False, True)
        return functional.linear(hidden[0], w["dense"], w["dense_bias"])

    rule = OPTIMIZERS[optimizer]
    if isinstance(rule, Adam):
        stepper: Any = torch.optim.Adam(w.values(), lr=rule.learning_rate)
    else:
        stepper = torch.optim.SGD(w.values(), lr=rule.learning_rate, momentum=rule.momentum)

    def step(x: Array, y: Array) -> float:
        stepper.zero_grad()
        loss = functional.cross_entropy(logits(torch.from_numpy(x)), torch.from_numpy(y))
        loss.backward()
        stepper.step()
        return float(loss.detach())

    def classify(x: Array) -> Array:
        with torch.no_grad():
            return logits(torch.from_numpy(x)).argmax(1).numpy()

    return step, classify


def digits() -> tuple[Array, Array, Array, Array]:
    """Training images and labels, test images and labels: every fifth image is for the test."""
    if importlib.util.find_spec("sklearn") is None:
        sys.exit("scikit-learn, which ships the images, is not installed: pip install tilewright[train]")
    from sklearn.datasets import load_digits

    data = load_digits()
    images, labels = (data.images / 16).astype("float32"), data.target.astype("int64")
    test = np.arange(len(images)) % 5 == 0
    return images[~test], labels[~test], images[test], labels[test]


def batches(count: int, epoch: int) -> Iterator[Array]:
    """Positions of whole batches in an order of its own for each epoch."""
    order = np.random.default_rng(epoch).permutation(count)
    yield from (order[k : k + BATCH] for k in range(0, count - BATCH + 1, BATCH))


def main() -> None:
    """Train as the command line says, and print loss and accuracy after each epoch, and the time of a step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--network", choices=NETWORKS, default="cnn")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adam")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--alone", action="store_true", help="without PyTorch beside it")
    arguments = parser.parse_args()
    train_x, train_y, test_x, test_y = digits()
    trainer = compiled_trainer(arguments.network, arguments.optimizer)
    classifier = compiled_classifier(arguments.network, len(test_x))
    beside = not arguments.alone and importlib.util.find_spec("torch") is not None
    peer = torch_trainer(arguments.network, arguments.optimizer) if beside else None
    seconds: dict[str, list[float]] = {"tilewright": [], "torch": []}
    for epoch in range(arguments.epochs):
        losses: dict[str, list[float]] = {"tilewright": [], "torch": []}
        for rows in batches(len(train_x), epoch):
            x, y = train_x[rows], train_y[rows]
            start = time.perf_counter()
            (loss,) = trainer(x=x, y=y)
            seconds["tilewright"].append(time.perf_counter() - start)
            losses["tilewright"].append(float(loss))
            if peer is not None:
                start = time.perf_counter()
                losses["torch"].append(peer[0](x, y))
                seconds["torch"].append(time.perf_counter() - start)
        found = {"tilewright": classifier(test_x, *trainer.parameters.values())}
        if peer is not None:
            found["torch"] = peer[1](test_x)
        shown = [
            f"{name}: loss {np.mean(losses[name]):.4f} accuracy {np.mean(classes == test_y):.4f}"
            for name, classes in found.items()
        ]
        print(f"epoch {epoch + 1}  " + "  ".join(shown))
    for name, times in seconds.items():
        if times:
            print(f"{name}: {1e3 * statistics.median(times):.2f} ms a step of {BATCH} images")


if __name__ == "__main__":
    main()
