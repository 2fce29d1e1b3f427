"""Recurrent layers as one kernel against NumPy: every kind of cell, direction and option."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import te
from tilewright.backend import build
from tilewright.backend.cpu.schedule.dispatch import schedule, space_of
from tilewright.runtime.host_ops.recurrent import ACTIVATIONS, DEFAULT_ACTIVATIONS, DIRECTIONS, GATES
from tilewright.target import Target
from tilewright.topi import nn
from tilewright.topi.recurrent import Activation, Recurrence
from tilewright.topi.reference import recurrent as ref


def _inputs(kind: str, steps: int, batch: int, directions: int, hidden: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    gates = GATES[kind]

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype("float32")

    inputs = {
        "gates": normal(steps, batch, directions * gates * hidden),
        "weight": normal(directions, gates * hidden, hidden) / np.sqrt(hidden, dtype="float32"),
        "hidden": normal(directions, batch, hidden),
    }
    return inputs | ({"cell": normal(directions, batch, hidden)} if kind == "lstm" else {})


def _recurrence(kind: str, direction: str = "forward", **options: Any) -> Recurrence:
    reverse = DIRECTIONS[direction]
    plain = tuple(Activation(name) for name in DEFAULT_ACTIVATIONS[kind])
    return Recurrence(kind, reverse, options.pop("activations", (plain,) * len(reverse)), **options)


def _run(
    inputs: dict[str, np.ndarray], recurrence: Recurrence, threads: int = 2, position: int = 0
) -> list[np.ndarray]:
    """The outputs, computed by the configuration at `position` of the ranking (around its end: processors differ)."""
    positions = {name: te.placeholder(x.shape, str(x.dtype), name) for name, x in inputs.items()}
    outs = nn.recurrent(recurrence=recurrence, **positions)
    target = Target("cpu")
    space = space_of(outs, target)
    assert space is not None
    func = te.lower(
        schedule(outs, target, space.ranked[position % len(space)][1]), [*positions.values(), *outs], "layer"
    )
    results = [np.full([int(n.value) for n in out.shape], np.nan, "float32") for out in outs]
    build([func], target, threads=threads)["layer"](*inputs.values(), *results)
    return results


def _check(inputs: dict[str, np.ndarray], recurrence: Recurrence) -> None:
    expected = ref.recurrent(recurrence=recurrence, **inputs)
    for got, want in zip(_run(inputs, recurrence), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kind", GATES)
def test_configurations_compute_the_same(kind: str) -> None:
    inputs, recurrence = _inputs(kind, 3, 4, 1, 24), _recurrence(kind)
    expected = ref.recurrent(recurrence=recurrence, **inputs)
    for position in (0, 3, 5, -1):
        for got, want in zip(_run(inputs, recurrence, position=position), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("batch", "hidden"), [(1, 32), (3, 21), (9, 8)])
@pytest.mark.sample(10)
def test_kinds_and_directions(kind: str, direction: str, batch: int, hidden: int) -> None:
    _check(_inputs(kind, 5, batch, len(DIRECTIONS[direction]), hidden), _recurrence(kind, direction))


@pytest.mark.parametrize("hidden", [48, 130])
def test_packed_weights_and_steps_that_workers_share(hidden: int) -> None:
    inputs = _inputs("lstm", 4, 2, 1, hidden)
    inputs["weight"] = np.ascontiguousarray(ref.packed(inputs["weight"], 4, 16))
    _check(inputs, _recurrence("lstm"))


@pytest.mark.parametrize("kind", GATES)
def test_sequences_of_different_lengths(kind: str) -> None:
    inputs = _inputs(kind, 6, 4, 2, 16)
    inputs["lengths"] = np.array([6, 1, 0, 4], "int32")
    _check(inputs, _recurrence(kind, "bidirectional"))


@pytest.mark.parametrize("hidden", [16, 19])
def test_reset_before_and_after_the_product(hidden: int) -> None:
    inputs = _inputs("gru", 4, 2, 2, hidden)
    inputs["bias"] = np.random.default_rng(1).standard_normal((2, hidden)).astype("float32")
    _check(inputs, _recurrence("gru", "bidirectional", linear_before_reset=True))


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_first_states_of_zeros(kind: str, steps: int) -> None:
    inputs = _inputs(kind, steps, 2, 2, 19)
    inputs["hidden"] *= 0
    inputs |= {"cell": inputs["cell"] * 0} if kind == "lstm" else {}
    inputs["lengths"] = np.array([steps, 0], "int32")
    _check(inputs, _recurrence(kind, "bidirectional", zero_state=True))


def test_peepholes_clip_and_coupled_gates() -> None:
    inputs = _inputs("lstm", 4, 2, 1, 20)
    inputs["peephole"] = np.random.default_rng(1).standard_normal((1, 60)).astype("float32")
    _check(inputs, _recurrence("lstm", clip=0.4))
    _check(inputs, _recurrence("lstm", input_forget=True))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_agrees_with_the_reference(name: str) -> None:
    chosen = ((Activation(name, 0.3, 0.2),), (Activation("Tanh"),))
    _check(_inputs("rnn", 3, 2, 2, 16), _recurrence("rnn", "bidirectional", activations=chosen))


def _of_bytes(inputs: dict[str, np.ndarray], zeros: bool) -> dict[str, np.ndarray]:
    """The same layer with weights of int8, in a scale for each unit of a gate."""
    rng, weight = np.random.default_rng(5), inputs["weight"]
    codes = rng.integers(-128, 128, weight.shape).astype("int8")
    zero = rng.integers(-5, 6, weight.shape[:2]).astype("int32") * zeros
    scale = (rng.uniform(0.5, 1, weight.shape[:2]) / (100 * np.sqrt(weight.shape[2]))).astype("float32")
    columns = codes.sum(axis=2, dtype="int32") - zero * np.int32(weight.shape[2])
    made = inputs | {"weight": codes, "scale": scale, "columns": columns.astype("int32")}
    return made | ({"zero": zero} if zeros else {})


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("batch", "hidden"), [(1, 32), (3, 21)])
@pytest.mark.sample(4)
def test_weights_of_bytes(kind: str, batch: int, hidden: int, zeros: bool) -> None:
    inputs = _of_bytes(_inputs(kind, 5, batch, 2, hidden), zeros)
    for codes in ("uint8", "int8"):
        _check(inputs, _recurrence(kind, "bidirectional", codes=codes))
    inputs["weight"] = np.ascontiguousarray(ref.packed(inputs["weight"], GATES[kind], 16, 4))
    _check(inputs, _recurrence(kind, "bidirectional"))


def test_weights_of_bytes_and_a_state_of_zeros() -> None:
    inputs = _of_bytes(_inputs("lstm", 2, 1, 1, 16), False)
    inputs["hidden"] *= 0
    _check(inputs, _recurrence("lstm"))


@pytest.mark.parametrize("position", [1, -1])
def test_configurations_of_weights_of_bytes(position: int) -> None:
    inputs, recurrence = _of_bytes(_inputs("lstm", 3, 4, 1, 48), True), _recurrence("lstm")
    expected = ref.recurrent(recurrence=recurrence, **inputs)
    for got, want in zip(_run(inputs, recurrence, position=position), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_bits_do_not_depend_on_threads() -> None:
    inputs, recurrence = _inputs("lstm", 6, 3, 1, 160), _recurrence("lstm")
    for one, three in zip(_run(inputs, recurrence, 1), _run(inputs, recurrence, 3), strict=True):
        np.testing.assert_array_equal(one, three)
