"""Optimizers, rates and modifiers: by NumPy from their definitions, and beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay, training
from tilewright.errors import InputError
from tilewright.training import Optimizer, Trainer, training_step
from tilewright.training.rules import schedule
from tilewright.training.rules.schedule import Cosine, Exponential, Linear, Polynomial

Array = np.ndarray[Any, Any]
SHAPES = {"w": (5, 3), "w_bias": (5,), "v": (2, 5)}
STEPS = 6


def network() -> tuple[relay.Expr, list[relay.Var]]:
    """The mean squared error of two dense layers."""
    x, y = relay.var("x", shape=(8, 3)), relay.var("y", shape=(8, 2))
    w, b, v = (relay.var(name, shape=shape) for name, shape in SHAPES.items())
    hidden = relay.tanh(relay.nn.bias_add(relay.nn.dense(x, w), b))
    error = relay.nn.dense(hidden, v) - y
    return relay.mean(error * error), [w, b, v]


def initial() -> dict[str, Array]:
    rng = np.random.default_rng(1)
    return {name: rng.standard_normal(shape).astype("float32") for name, shape in SHAPES.items()}


def batch(step: int) -> dict[str, Array]:
    rng = np.random.default_rng((2, step))
    return {"x": rng.standard_normal((8, 3)).astype("float32"), "y": rng.standard_normal((8, 2)).astype("float32")}


def trained(optimizer: Optimizer, steps: int = STEPS) -> Trainer:
    """The network after some steps, compiled."""
    loss, parameters = network()
    step = training_step(loss, parameters, optimizer)
    trainer = Trainer(step, tw.compile(step.module), initial())
    for number in range(steps):
        trainer(**batch(number))
    return trainer


def by_torch(
    make: Callable[[Any, Mapping[str, Any]], Any],
    after: Callable[[Any, Any], object] = lambda torch, values: None,
    rate: Callable[[Any, Any], Any] | None = None,
) -> dict[str, Array]:
    """The parameters after PyTorch's steps; `after` sees them between the backward pass and the step."""
    torch = pytest.importorskip("torch")
    values = {name: torch.tensor(value, requires_grad=True) for name, value in initial().items()}
    optimizer = make(torch, values)
    scheduled = rate(torch, optimizer) if rate else None
    for number in range(STEPS):
        x, y = (torch.from_numpy(value) for value in batch(number).values())
        optimizer.zero_grad()
        hidden = torch.tanh(x @ values["w"].T + values["w_bias"])
        ((hidden @ values["v"].T - y) ** 2).mean().backward()
        after(torch, list(values.values()))
        optimizer.step()
        if scheduled:
            scheduled.step()
    return {name: value.detach().numpy() for name, value in values.items()}


def assert_equal(found: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-6, err_msg=name)


CASES: dict[str, tuple[Optimizer, Callable[[Any, Any], Any]]] = {
    "sgd": (
        training.SGD(0.1, 0.9, 0.01, nesterov=True),
        lambda t, v: t.optim.SGD(v.values(), 0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    ),
    "adam": (training.Adam(0.02), lambda t, v: t.optim.Adam(v.values(), 0.02)),
    "adamw": (
        training.AdamW(0.02, 0.8, 0.99, weight_decay=0.1),
        lambda t, v: t.optim.AdamW(v.values(), 0.02, (0.8, 0.99), weight_decay=0.1),
    ),
    "rmsprop": (training.RMSProp(0.01), lambda t, v: t.optim.RMSprop(v.values(), 0.01)),
    "rmsprop with all": (
        training.RMSProp(0.01, 0.95, momentum=0.5, weight_decay=0.1, centered=True),
        lambda t, v: t.optim.RMSprop(v.values(), 0.01, 0.95, momentum=0.5, weight_decay=0.1, centered=True),
    ),
    "adafactor": (
        training.Adafactor(0.05, weight_decay=0.1),
        lambda t, v: t.optim.Adafactor(v.values(), 0.05, weight_decay=0.1),
    ),
    "groups": (
        training.Grouped({"bias": training.SGD(0.5)}, training.AdamW(0.02)),
        lambda t, v: _Both(t.optim.SGD([v["w_bias"]], 0.5), t.optim.AdamW([v["w"], v["v"]], 0.02)),
    ),
}  # fmt: skip


class _Both:
    """Two optimizers of PyTorch as one."""

    def __init__(self, *optimizers: Any) -> None:
        self._optimizers = optimizers

    def zero_grad(self) -> None:
        for optimizer in self._optimizers:
            optimizer.zero_grad()

    def step(self) -> None:
        for optimizer in self._optimizers:
            optimizer.step()


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", CASES)
def test_steps_are_those_of_torch(name: str) -> None:
    optimizer, make = CASES[name]
    assert_equal(trained(optimizer).parameters, by_torch(make))


def test_lion_against_its_definition() -> None:
    found = trained(training.Lion(0.01, weight_decay=0.1)).parameters
    values, means = initial(), {name: np.zeros(shape, "float32") for name, shape in SHAPES.items()}
    for number in range(STEPS):
        for name, gradient in gradients(values, number).items():
            sign = np.sign(0.9 * means[name] + 0.1 * gradient)
            means[name] = 0.99 * means[name] + 0.01 * gradient
            values[name] = values[name] * (1 - 0.01 * 0.1) - 0.01 * sign
    assert_equal(found, values)


def gradients(values: Mapping[str, Array], number: int) -> dict[str, Array]:
    """The gradients of the network by NumPy."""
    x, y = batch(number).values()
    hidden = np.tanh(x @ values["w"].T + values["w_bias"])
    error = 2 * (hidden @ values["v"].T - y) / y.size
    inner = error @ values["v"] * (1 - hidden**2)
    return {"w": inner.T @ x, "w_bias": inner.sum(0), "v": error.T @ hidden}


def test_clipping_by_norm_and_value_is_that_of_torch() -> None:
    found = trained(training.ClippedByNorm(training.SGD(0.5), 0.3)).parameters
    sgd: Callable[[Any, Any], Any] = lambda t, v: t.optim.SGD(v.values(), 0.5)  # noqa: E731
    assert_equal(found, by_torch(sgd, lambda t, values: t.nn.utils.clip_grad_norm_(values, 0.3)))
    found = trained(training.ClippedByValue(training.SGD(0.5), 0.05)).parameters
    assert_equal(found, by_torch(sgd, lambda t, values: t.nn.utils.clip_grad_value_(values, 0.05)))


SCHEDULES: dict[str, tuple[schedule.Schedule, Callable[[Any, Any], Any]]] = {
    "linear": (Linear(0.1, 0.5, 4), lambda s, o: s.LinearLR(o, 0.2, 1.0, 4)),
    "polynomial": (Polynomial(0.5, 0.0, 5, 2.0), lambda s, o: s.PolynomialLR(o, 5, 2.0)),
    "cosine": (Cosine(0.5, 0.1, 5), lambda s, o: s.CosineAnnealingLR(o, 5, 0.1)),
    "exponential": (Exponential(0.5, 0.7), lambda s, o: s.ExponentialLR(o, 0.7)),
    "stairs": (Exponential(0.5, 0.3, every=2, stairs=True), lambda s, o: s.StepLR(o, 2, 0.3)),
    "sequence": (
        schedule.Sequence((Linear(0.1, 0.5, 2), 2), (Exponential(0.5, 0.7), 100)),
        lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.2, 1.0, 2), s.ExponentialLR(o, 0.7)], [2]),
    ),
    "one cycle": (schedule.one_cycle(0.5, 10), lambda s, o: s.OneCycleLR(o, 0.5, 10, cycle_momentum=False)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    own, make = SCHEDULES[name]
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.5)
    scheduled = make(torch.optim.lr_scheduler, optimizer)
    step = relay.var("step", shape=())
    rate = tw.compile(relay.IRModule.from_expr(relay.Function([step], own.at(step))))
    for number in range(10 if name == "one cycle" else 5):
        expected = optimizer.param_groups[0]["lr"]
        assert float(rate(np.float32(number))) == pytest.approx(expected, rel=1e-5, abs=1e-8), number
        optimizer.step()
        if number < 9:
            scheduled.step()


@pytest.mark.sample(2)
@pytest.mark.parametrize("optimizer", [training.SGD, training.Adam, training.AdamW, training.Lion, training.RMSProp])
def test_a_schedule_that_stays_is_a_constant_rate(optimizer: Callable[[Any], Optimizer]) -> None:
    assert_equal(trained(optimizer(Linear(0.01, 0.01, 1))).parameters, trained(optimizer(0.01)).parameters)


def test_averages_are_those_of_torch() -> None:
    trainer = trained(training.Averaged(training.SGD(0.5), 0.9))
    values, averages = initial(), initial()
    for number in range(STEPS):
        moved = gradients(values, number)
        values = {name: value - 0.5 * moved[name] for name, value in values.items()}
        averages = values if not number else {n: 0.9 * averages[n] + 0.1 * value for n, value in values.items()}
    assert_equal(trainer.averages, averages)
    assert_equal(trainer.parameters, trained(training.SGD(0.5)).parameters)
    with pytest.raises(InputError, match=r"keeps no averages of the parameters; Averaged\(optimizer\) does"):
        _ = trained(training.SGD(0.5), 0).averages


def test_accumulated_gradients_are_one_step_by_their_mean() -> None:
    values = initial()
    for first in range(0, STEPS, 3):
        some = [gradients(values, first + number) for number in range(3)]
        values = {name: value - 0.5 * np.mean([one[name] for one in some], 0) for name, value in values.items()}
    assert_equal(trained(training.Accumulated(training.SGD(0.5), 3)).parameters, values)
    assert_equal(trained(training.Accumulated(training.SGD(0.5), 3), 2).parameters, initial())


def test_the_loss_scale_leaves_out_steps_that_overflow_and_grows_after_good_ones() -> None:
    loss, parameters = network()
    step = training_step(loss, parameters, training.SGD(0.5), loss_scale=training.LossScale(2.0**16, growth_steps=2))
    trainer = Trainer(step, tw.compile(step.module), initial())
    trainer(**batch(0))
    before = trainer.parameters
    assert_equal(before, trained(training.SGD(0.5), 1).parameters)
    overflowing = batch(1)
    overflowing["x"] = overflowing["x"] * np.float32(np.inf)
    trainer(**overflowing)
    assert all(np.array_equal(trainer.parameters[name], value) for name, value in before.items())
    assert float(trainer.state["loss_scale"]) == 2.0**15 and int(trainer.state["good_steps"]) == 0
    trainer(**batch(2))
    trainer(**batch(3))
    assert float(trainer.state["loss_scale"]) == 2.0**16


def test_refusals() -> None:
    loss, parameters = network()
    with pytest.raises(InputError, match="no parameter has 'norm' in its name; there are w, w_bias, v"):
        training_step(loss, parameters, training.Grouped({"norm": training.SGD(0.1)}))
    with pytest.raises(InputError, match="an optimizer cannot have steps = 0"):
        training_step(loss, parameters, training.Accumulated(training.SGD(0.1), 0))
    with pytest.raises(InputError, match="a schedule of 0 steps has no rate"):
        training_step(loss, parameters, training.SGD(Cosine(0.1, 0.0, 0)))
    with pytest.raises(InputError, match="a sequence of schedules needs one part at least"):
        schedule.Sequence()
    x, odd = relay.var("x", shape=(2, 3)), relay.var("mean0", shape=(4, 3))
    with pytest.raises(InputError, match="a parameter is named mean0, as the optimizer's state has it: rename it"):
        training_step(relay.sum(relay.nn.dense(x, odd)), [odd], training.Adam())


def test_frozen_parameters_stay() -> None:
    found = trained(training.Grouped({"^w$": training.SGD(0.5)})).parameters
    assert not np.array_equal(found["w"], initial()["w"])
    assert np.array_equal(found["v"], initial()["v"]) and np.array_equal(found["w_bias"], initial()["w_bias"])
