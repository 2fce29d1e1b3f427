"""DP-SGD: gradients of single samples clipped, noise by a counter, beside NumPy; and what it spends."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.compile import export_source
from tilewright.enclave import open_enclave
from tilewright.errors import InputError, TypeMismatchError
from tilewright.frontend.tflite.random import philox as philox_by_numpy
from tilewright.runtime.processor import host_architecture
from tilewright.training import SGD, Trainer
from tilewright.training.privacy import divergence, spent
from tilewright.training.private import normals, philox, private_step

KEY, SAMPLES = np.array([123456789, 0xFFFFFFF0], np.uint32), 5


def _network() -> tuple[relay.Expr, list[relay.Var]]:
    """The squared error of tanh(W x + b) for one sample."""
    x, y = relay.var("x", shape=(1, 3)), relay.var("y", shape=(1, 2))
    w, b = relay.var("w", shape=(2, 3)), relay.var("b", shape=(2,))
    error = relay.tanh(relay.nn.bias_add(relay.nn.dense(x, w), b)) - y
    return relay.sum(error * error), [w, b]


def _values() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"x": (SAMPLES, 3), "y": (SAMPLES, 2), "w": (2, 3), "b": (2,)}
    return {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}


def _noise_by_numpy(step: int, index: int, count: int) -> np.ndarray:
    words = philox_by_numpy((int(KEY[0]), int(KEY[1])), (0, index, step, 0), -(-count // 4)).astype(np.float64)
    unit = (np.floor(words / 256) + 0.5) / 2**24
    parts = []
    for first, second in ((0, 1), (2, 3)):
        radius, angle = np.sqrt(-2 * np.log(unit[:, first])), 2 * np.pi * unit[:, second]
        parts += [radius * np.cos(angle), radius * np.sin(angle)]
    return np.concatenate(parts)[:count]


def _by_numpy(v: dict[str, np.ndarray], sampled: np.ndarray, clip: float, noise: float, step: int) -> list[np.ndarray]:
    """The parameters after a step of learning rate 0.5, each sample's gradient by the chain rule."""
    w, b = v["w"].astype(np.float64), v["b"].astype(np.float64)
    sums = [np.zeros_like(w), np.zeros_like(b)]
    for x, y, taken in zip(v["x"], v["y"], sampled, strict=True):
        made = np.tanh(w @ x + b)
        back = 2 * (made - y) * (1 - made**2)
        own = [np.outer(back, x), back]
        scale = taken / max(1.0, np.sqrt(sum((g**2).sum() for g in own)) / clip)
        sums = [total + scale * g for total, g in zip(sums, own, strict=True)]
    drawn = [_noise_by_numpy(step, index, total.size).reshape(total.shape) for index, total in enumerate(sums)]
    return [p - 0.5 * (total + noise * clip * z) / SAMPLES for p, total, z in zip((w, b), sums, drawn, strict=True)]


def test_words_are_those_of_philox() -> None:
    key, step = relay.var("key", shape=(2,), dtype="uint32"), relay.var("step", shape=(), dtype="uint32")
    words = relay.stack(philox(key, step, 3, 5), axis=1)
    (found,) = relay.interpret(relay.IRModule.from_expr(relay.Function([key, step], words)), [KEY, np.uint32(7)])
    np.testing.assert_array_equal(found, philox_by_numpy((int(KEY[0]), int(KEY[1])), (0, 3, 7, 0), 5))


def test_noise_is_normal() -> None:
    key, step = relay.var("key", shape=(2,), dtype="uint32"), relay.var("step", shape=(), dtype="uint32")
    module = relay.IRModule.from_expr(relay.Function([key, step], normals(key, step, 1, (100, 101))))
    first, second = (np.sort(relay.interpret(module, [KEY, np.uint32(i)])[0].reshape(-1)) for i in (0, 1))
    assert not np.array_equal(first, second)
    from math import erf

    below = np.array([0.5 * (1 + erf(value / np.sqrt(2))) for value in first])
    assert np.abs(below - np.arange(first.size) / first.size).max() < 1.63 / np.sqrt(first.size)  # Kolmogorov, 1 %


@pytest.mark.parametrize(("clip", "noise"), [(0.5, 0.0), (100.0, 0.0), (0.5, 1.1)])
def test_steps_are_those_of_single_samples(clip: float, noise: float) -> None:
    loss, parameters = _network()
    step = private_step(loss, parameters, SGD(0.5), samples=SAMPLES, clip=clip, noise=noise)
    values, sampled = _values(), np.array([1, 1, 0, 1, 1], "float32")

    class Interpreted:
        def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
            return relay.interpret(step.module, arrays)

    trainer = Trainer(step, Interpreted(), {name: values[name] for name in ("w", "b")})
    for turn in range(2):
        wanted = _by_numpy(values, sampled, clip, noise, turn)
        trainer(x=values["x"], y=values["y"], sampled=sampled, noise_key=KEY)
        for name, value in zip(("w", "b"), wanted, strict=True):
            np.testing.assert_allclose(trainer.parameters[name], value, rtol=1e-5, atol=1e-5)
        values |= trainer.parameters


@pytest.mark.skipif(shutil.which("cc") is None or host_architecture() != "x86_64", reason="needs cc on x86-64")
def test_a_step_runs_in_an_enclave(tmp_path: Path) -> None:
    loss, parameters = _network()
    step = private_step(loss, parameters, SGD(0.5), samples=SAMPLES, clip=0.5, noise=1.1)
    values, sampled = _values(), np.ones(SAMPLES, "float32")
    model = open_enclave(export_source(step.module, tmp_path / "step.c", freestanding=True), "seccomp")
    given = {**values, "sampled": sampled, "noise_key": KEY, "noise_step": np.uint32(0)}
    _, w, b, count = model.run(given)
    for found, wanted in zip((w, b), _by_numpy(values, sampled, 0.5, 1.1, 0), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert count == 1
    assert [spec.name for spec in model.inputs] == [spec.name for spec in tw.compile(step.module).inputs]


def test_wrong_losses_are_errors() -> None:
    loss, parameters = _network()
    with pytest.raises(InputError, match="clip > 0"):
        private_step(loss, parameters, SGD(0.5), samples=4, clip=0.0, noise=1.0)
    x = relay.var("x", shape=(8, 3))
    with pytest.raises(TypeMismatchError, match=r"the input x is .*of one sample"):
        private_step(relay.sum(relay.nn.dense(x, parameters[0])), parameters[:1], SGD(0.5), samples=4, clip=1, noise=1)


def test_privacy_spent() -> None:
    """The divergence by its integral, and a training that papers and libraries use as their example."""
    noise, rate, order = 1.1, 0.1, 8
    grid = np.linspace(-30, 40, 2_000_001)
    plain = np.exp(-(grid**2) / (2 * noise**2)) / (noise * np.sqrt(2 * np.pi))
    mixed = 1 - rate + rate * np.exp((2 * grid - 1) / (2 * noise**2))
    integral = np.log(np.trapezoid(plain * mixed**order, grid)) / (order - 1)
    assert divergence(order, noise, rate) == pytest.approx(integral, rel=1e-6)
    assert divergence(order, noise, 1.0) == pytest.approx(divergence(order, noise, 1 - 1e-12))
    assert 2.4 < spent(1.1, 256 / 60_000, 14_062, 1e-5) < 3.0
    assert spent(0.0, 0.1, 1, 1e-5) == np.inf and spent(1.0, 0.1, 0, 1e-5) < 0.3
    assert spent(2.0, 0.1, 100, 1e-5) < spent(1.0, 0.1, 100, 1e-5)
    with pytest.raises(InputError, match="rate 2"):
        spent(1.0, 2, 1, 1e-5)
