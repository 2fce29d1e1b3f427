"""Recurrent operators against LiteRT's reference kernels over several runs: what they keep is carried on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.frontend.tflite.builder import T, check, single
from tilewright.errors import UnsupportedError
from tilewright.frontend.tflite import from_tflite
from tilewright.frontend.tflite.fixed_point import sigmoid_16, tanh_16

rng = np.random.default_rng(3)
STEPS, BATCH, WIDTH, UNITS = 5, 2, 6, 4


def floats(*shape: int) -> T:
    return T(shape, "float32", rng.standard_normal(shape) * 0.5)


def bytes_(*shape: int, scale: float = 0.02) -> T:
    return T(shape, "int8", rng.integers(-127, 128, shape), scale=scale)


def state(*shape: int, dtype: str = "float32", scale: Any = None, zero: int = 0) -> T:
    return T(shape, dtype, variable=True, scale=scale, zero=zero)


def sequence(time_major: bool, width: int = WIDTH) -> T:
    return T((STEPS, BATCH, width) if time_major else (BATCH, STEPS, width))


def case(name: str, inputs: list[T | None], outputs: list[T], options: Any, label: str, **keywords: Any) -> Any:
    return pytest.param(name, inputs, outputs, options, keywords, id=f"{name}-{label}")


def rnn(kind: Any) -> list[T]:
    return [kind(UNITS, WIDTH), kind(UNITS, UNITS), floats(UNITS), state(BATCH, UNITS)]


def plain() -> Iterator[Any]:
    for activation in (0, 1, 4):
        chosen = ("RNNOptions", {"fusedActivationFunction": activation})
        yield case("RNN", [T((BATCH, WIDTH)), *rnn(floats)], [T((BATCH, UNITS))], chosen, f"float-{activation}")
    for asymmetric in (False, True):
        chosen = ("RNNOptions", {"fusedActivationFunction": 4, "asymmetricQuantizeInputs": asymmetric})
        yield case("RNN", [T((BATCH, WIDTH)), *rnn(bytes_)], [T((BATCH, UNITS))], chosen, f"hybrid-{asymmetric}")
    for time_major in (False, True):
        values = {"fusedActivationFunction": 4, "timeMajor": time_major}
        for label, kind in (("float", floats), ("hybrid", bytes_)):
            yield case(
                "UNIDIRECTIONAL_SEQUENCE_RNN", [sequence(time_major), *rnn(kind)], [sequence(time_major, UNITS)],
                ("SequenceRNNOptions", values), f"{label}-{time_major}",
            )  # fmt: skip
            for merged in (False, True) if label == "float" or not time_major else ():  # LiteRT's kernel crashes on it
                outputs = [sequence(time_major, 2 * UNITS)] if merged else [sequence(time_major, UNITS)] * 2
                inputs = [sequence(time_major), *rnn(kind), *rnn(kind), None, None, None]
                chosen = ("BidirectionalSequenceRNNOptions", {**values, "mergeOutputs": merged})
                yield case("BIDIRECTIONAL_SEQUENCE_RNN", inputs, outputs, chosen, f"{label}-{time_major}-{merged}")


def lstm(kind: Any, coupled: bool, peephole: bool, projected: int, normalized: bool) -> tuple[list[T | None], Any]:
    """The weights of one direction as an LSTM takes them, and its two states."""
    width = projected or UNITS
    gates = [not coupled, True, True, True]
    found: list[T | None] = [kind(UNITS, WIDTH) if there else None for there in gates]
    found += [kind(UNITS, width) if there else None for there in gates]
    found += [kind(UNITS) if peephole and there else None for there in (not coupled, True, True)]
    found += [floats(UNITS) if there else None for there in gates]
    found += [kind(width, UNITS), floats(width)] if projected else [None, None]
    norms = [floats(UNITS) if normalized and there else None for there in gates]
    return found, ([state(BATCH, width), state(BATCH, UNITS)], norms)


def lstms() -> Iterator[Any]:
    forms = [(False, False, 0, False), (True, False, 0, False), (False, True, 0, False), (True, True, 3, False),
             (False, True, 3, True)]  # fmt: skip
    for label, kind in (("float", floats), ("hybrid", bytes_)):
        for form in forms:
            for time_major in (False, True):
                weights, (states, norms) = lstm(kind, *form)
                width = form[2] or UNITS
                values = {"fusedActivationFunction": 4, "cellClip": 0.9 if form[0] else 0.0, "projClip": 0.5}
                inputs = [sequence(time_major), *weights, *states, *(norms if form[3] else [])]
                yield case(
                    "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [sequence(time_major, width)],
                    ("UnidirectionalSequenceLSTMOptions", {**values, "timeMajor": time_major}),
                    f"{label}-{form}-{time_major}", tolerance=2e-5 if kind is floats else 2e-4,
                )  # fmt: skip
            inputs = [T((BATCH, WIDTH)), *weights, *states, *(norms if form[3] else [])]
            yield case("LSTM", inputs, [T((BATCH, width))], ("LSTMOptions", values), f"{label}-{form}", tolerance=2e-4)
        for merged in (False, True):
            forth, (first, _) = lstm(kind, False, False, 0, False)
            back, (second, _) = lstm(kind, False, False, 0, False)
            outputs = [sequence(True, 2 * UNITS)] if merged else [sequence(True, UNITS)] * 2
            chosen = {"fusedActivationFunction": 4, "timeMajor": True, "mergeOutputs": merged}
            inputs = [sequence(True), *forth, *back, *first, *second, *[None] * 9]
            yield case(
                "BIDIRECTIONAL_SEQUENCE_LSTM", inputs, outputs, ("BidirectionalSequenceLSTMOptions", chosen),
                f"{label}-{merged}", tolerance=2e-4,
            )  # fmt: skip
    basic = [T((BATCH, WIDTH)), T((BATCH, UNITS)), floats(4 * UNITS, WIDTH + UNITS), floats(4 * UNITS),
             T((BATCH, UNITS))]  # fmt: skip
    results = [T((BATCH, UNITS)), T((BATCH, UNITS)), T((BATCH, WIDTH + UNITS)), T((BATCH, 4 * UNITS))]
    options = {"fusedActivationFunction": 4, "kernelType": 1}
    yield case("LSTM", basic, results, ("LSTMOptions", options), "basic")  # type: ignore[arg-type]


def svdfs() -> Iterator[Any]:
    filters, memory = 6, 5
    for rank in (1, 2):
        units = filters // rank
        chosen = ("SVDFOptions", {"rank": rank, "fusedActivationFunction": 1})
        for label, kind in (("float", floats), ("hybrid", bytes_)):
            inputs = [T((BATCH, WIDTH)), kind(filters, WIDTH), kind(filters, memory), floats(units),
                      state(BATCH, memory * filters)]  # fmt: skip
            yield case("SVDF", inputs, [T((BATCH, units))], chosen, f"{label}-{rank}", tolerance=1e-4)
        over_time = T((filters, memory), "int16", rng.integers(-30000, 30000, (filters, memory)), scale=1 / 4096)
        bias = T((units,), "int32", rng.integers(-9000, 9000, units), scale=1 / 4096 / 1024)
        inputs = [T((BATCH, WIDTH), "int8", scale=0.04, zero=3), bytes_(filters, WIDTH), over_time, bias,
                  state(BATCH, memory * filters, dtype="int16", scale=1 / 1024)]  # fmt: skip
        yield case("SVDF", inputs, [T((BATCH, units), "int8", scale=0.3, zero=-4)], chosen, f"int8-{rank}")


CASES = [*plain(), *lstms(), *svdfs()]


@pytest.mark.parametrize(("name", "inputs", "outputs", "options", "keywords"), CASES)
def test_each_recurrent_operator_agrees_over_several_runs(
    name: str, inputs: list[T | None], outputs: list[T], options: Any, keywords: dict[str, Any]
) -> None:
    check(single(name, inputs, outputs, options), **{"runs": 3, **keywords})


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize(
    ("peephole", "projected", "zero"), [(False, 0, -3), (True, 0, -3), (False, 3, -3), (False, 3, 100)]
)
def test_lstm_in_integers(coupled: bool, peephole: bool, projected: int, zero: int) -> None:
    check(integer_lstm(coupled, peephole, projected, zero), runs=3)


def test_peepholes_with_a_projection_in_integers_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="peepholes with a projection"):
        from_tflite(integer_lstm(False, True, 3))


def integer_lstm(coupled: bool, peephole: bool, projected: int, zero: int = -3) -> bytes:
    """Of zero points, `zero` is that of what is projected."""
    width = projected or UNITS
    gates = [not coupled, True, True, True]
    data = T((BATCH, STEPS, WIDTH), "int8", scale=0.03, zero=4)
    inputs: list[T | None] = [data, *[bytes_(UNITS, WIDTH, scale=0.01) if there else None for there in gates]]
    inputs += [bytes_(UNITS, width, scale=0.012) if there else None for there in gates]
    peep = [peephole and not coupled, peephole, peephole]
    inputs += [
        T((UNITS,), "int16", rng.integers(-30000, 30000, UNITS), scale=1e-4) if there else None for there in peep
    ]
    inputs += [T((UNITS,), "int32", rng.integers(-900, 900, UNITS), scale=0.0003) if there else None for there in gates]
    inputs += [None, None]
    if projected:
        inputs[-2:] = [bytes_(width, UNITS), T((width,), "int32", rng.integers(-900, 900, width), scale=1e-4)]
    output = state(BATCH, width, dtype="int8", scale=0.0075, zero=-3)
    inputs += [output, state(BATCH, UNITS, dtype="int16", scale=2.0**-11)]
    inputs += [None] * 4
    between = [T((), "int16", scale=2.0**-12)] * 4 + [T((), "int8", scale=0.0078 if projected else 0.0075, zero=zero)]
    options = ("UnidirectionalSequenceLSTMOptions", {"fusedActivationFunction": 4, "cellClip": 3.0})
    result = T((BATCH, STEPS, width), "int8", scale=0.0075, zero=-3)
    return single("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [result], options, between)


def test_too_many_steps_are_refused() -> None:
    weights = [floats(UNITS, WIDTH), floats(UNITS, UNITS), floats(UNITS), state(1, UNITS)]
    model = single(
        "UNIDIRECTIONAL_SEQUENCE_RNN", [T((1, 1000, WIDTH)), *weights], [T((1, 1000, UNITS))],
        ("SequenceRNNOptions", {"fusedActivationFunction": 4}),
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match="1000 steps written out; from 1 to 512"):
        from_tflite(model)


def test_numbers_between_are_those_of_the_formula() -> None:
    codes = np.arange(-32768, 32768)
    for bits in (2, 3, 4, 5):
        x = codes / 2.0 ** (15 - bits)
        assert np.abs(sigmoid_16(codes, bits) / 32768 - 1 / (1 + np.exp(-x))).max() < 3e-4
        assert np.abs(tanh_16(codes, bits) / 32768 - np.tanh(x)).max() < 5e-4
