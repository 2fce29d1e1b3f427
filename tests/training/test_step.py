"""Training steps against NumPy and PyTorch, and a full training of both example networks."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.errors import InputError, TypeMismatchError
from tilewright.training import SGD, Adam, Trainer, training_step

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "train_digits.py"


def example() -> ModuleType:
    """The module of the example."""
    spec = importlib.util.spec_from_file_location("train_digits", EXAMPLE)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class _Interpreted:
    """Runs a step by the operators' references."""

    def __init__(self, module: relay.IRModule) -> None:
        self.module = module

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        return relay.interpret(self.module, arrays)


def regression() -> tuple[relay.Expr, relay.Var]:
    """The mean squared error of a linear model."""
    x, y, w = relay.var("x", shape=(16, 3)), relay.var("y", shape=(16, 2)), relay.var("w", shape=(2, 3))
    error = relay.nn.dense(x, w) - y
    return relay.mean(error * error), w


def by_numpy(optimizer: SGD | Adam, x: np.ndarray, y: np.ndarray, w: np.ndarray, steps: int) -> np.ndarray:
    """The weights after `steps`, from the definitions of the optimizers."""
    m = np.zeros_like(w)
    v = np.zeros_like(w)
    for t in range(1, steps + 1):
        g = 2 * (x @ w.T - y).T @ x / y.size
        if isinstance(optimizer, Adam):
            m = optimizer.beta1 * m + (1 - optimizer.beta1) * g
            v = optimizer.beta2 * v + (1 - optimizer.beta2) * g * g
            mean, square = m / (1 - optimizer.beta1**t), v / (1 - optimizer.beta2**t)
            w = w - optimizer.learning_rate * mean / (np.sqrt(square) + optimizer.epsilon)
        else:
            g = g + optimizer.weight_decay * w
            m = optimizer.momentum * m + g
            w = w - optimizer.learning_rate * (g + optimizer.momentum * m if optimizer.nesterov else m)
    return w


OPTIMIZERS = [SGD(0.1), SGD(0.1, 0.9, 0.01), SGD(0.1, 0.9, nesterov=True), Adam(0.05, 0.8, 0.99)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("compiled", [False, True])
def test_optimizers_against_their_definitions(optimizer: SGD | Adam, compiled: bool) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((16, 3)).astype("float32"), rng.standard_normal((16, 2)).astype("float32")
    start = rng.standard_normal((2, 3)).astype("float32")
    loss, w = regression()
    step = training_step(loss, [w], optimizer)
    trainer = Trainer(step, tw.compile(step.module) if compiled else _Interpreted(step.module), {"w": start})
    losses = [float(trainer(x=x, y=y)[0]) for _ in range(7)]
    assert losses[0] == pytest.approx(np.mean((x @ start.T - y) ** 2), rel=1e-5)
    np.testing.assert_allclose(trainer.parameters["w"], by_numpy(optimizer, x, y, start, 7), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("network", ["cnn", "lstm"])
def test_steps_equal_those_of_torch(network: str) -> None:
    pytest.importorskip("torch")
    digits = example()
    rng = np.random.default_rng(4)
    trainer, (step, classify) = digits.compiled_trainer(network, "adam"), digits.torch_trainer(network, "adam")
    for _ in range(3):
        x, y = rng.random((64, 8, 8), "float32"), rng.integers(0, 10, 64)
        assert float(trainer(x=x, y=y)[0]) == pytest.approx(step(x, y), rel=1e-4)
    x = rng.random((40, 8, 8), "float32")
    classes = digits.compiled_classifier(network, 40)(x, *trainer.parameters.values())
    assert np.mean(classes == classify(x)) >= 0.95


@pytest.mark.long("trains two networks to the end, about 10 s")
@pytest.mark.parametrize(("network", "epochs", "accuracy"), [("cnn", 15, 0.97), ("lstm", 40, 0.955)])
def test_training_reaches_the_stated_accuracy(network: str, epochs: int, accuracy: float) -> None:
    pytest.importorskip("sklearn")
    digits = example()
    train_x, train_y, test_x, test_y = digits.digits()
    trainer = digits.compiled_trainer(network, "adam")
    for epoch in range(epochs):
        for rows in digits.batches(len(train_x), epoch):
            trainer(x=train_x[rows], y=train_y[rows])
    classes = digits.compiled_classifier(network, len(test_x))(test_x, *trainer.parameters.values())
    assert np.mean(classes == test_y) >= accuracy


def test_outputs_of_the_forward_pass_and_names() -> None:
    loss, w = regression()
    step = training_step(loss, [w], Adam(), outputs=[loss * 2.0])
    assert step.num_outputs == 1 and [v.name for v in step.inputs] == ["x", "y"]
    names = step.module["main"].attrs.output_names
    assert names == ("loss", "output0", "w", "mean0", "square0", "beta1_power", "beta2_power")
    feed = [np.ones(p.type_annotation.shape, "float32") for p in step.module["main"].params]
    first, second, *_ = relay.interpret(step.module, feed)
    assert second == pytest.approx(2 * first)


def test_the_loss_must_be_one_number() -> None:
    _, w = regression()
    with pytest.raises(TypeMismatchError, match=r"the loss must be one number, not Tensor.*take the mean or the sum"):
        training_step(relay.exp(w), [w], SGD(0.1))


def test_missing_parameters_and_inputs() -> None:
    loss, w = regression()
    step = training_step(loss, [w], SGD(0.1))
    with pytest.raises(InputError, match="no initial value for the parameters w"):
        Trainer(step, None, {})
    with pytest.raises(InputError, match="the step takes the inputs x, y; got x"):
        Trainer(step, None, {"w": np.zeros((2, 3), "float32")})(x=np.zeros((16, 3), "float32"))
