"""LSTM, GRU and RNN against the reference: directions, initial states, biases, activations and layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Check = Callable[..., list[np.ndarray]]
RNG = np.random.default_rng(10)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, WIDTH, HIDDEN = 5, 2, 3, 4


def floats(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def weights(name: str, directions: int, bias: bool = True) -> list[np.ndarray | None]:
    rows = GATES[name] * HIDDEN
    return [
        floats(directions, rows, WIDTH),
        floats(directions, rows, HIDDEN),
        floats(directions, 2 * rows) if bias else None,
    ]


@pytest.mark.parametrize("name", list(GATES))
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("bias", [False, True])
def test_layers_of_each_direction_agree(check_node: Check, name: str, direction: str, bias: bool) -> None:
    directions = 2 if direction == "bidirectional" else 1
    states = [floats(directions, BATCH, HIDDEN) for _ in range(2 if name == "LSTM" else 1)]
    check_node(
        name, [floats(STEPS, BATCH, WIDTH)], [*weights(name, directions, bias), None, *states],
        hidden_size=HIDDEN, direction=direction, outputs=3 if name == "LSTM" else 2, opset=14,
    )  # fmt: skip


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_gru_linear_before_reset(check_node: Check, direction: str) -> None:
    directions = 2 if direction == "bidirectional" else 1
    check_node(
        "GRU", [floats(STEPS, BATCH, WIDTH)], weights("GRU", directions), hidden_size=HIDDEN, direction=direction,
        linear_before_reset=1, outputs=2, opset=9,
    )  # fmt: skip


def test_state_fed_at_run_time(check_node: Check) -> None:
    w, r, b = weights("LSTM", 1)
    inputs = [floats(STEPS, BATCH, WIDTH), w, r, b, None, floats(1, BATCH, HIDDEN), floats(1, BATCH, HIDDEN)]
    check_node("LSTM", inputs, hidden_size=HIDDEN, outputs=3)


def test_peepholes_agree_with_the_reference(check_node: Check) -> None:
    consts = [*weights("LSTM", 1), None, None, None, floats(1, 3 * HIDDEN)]
    check_node("LSTM", [floats(STEPS, BATCH, WIDTH)], consts, hidden_size=HIDDEN, outputs=3)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("RNN", {"activations": ["Relu"]}),
        ("RNN", {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}),
        ("GRU", {"activations": ["HardSigmoid", "Softsign"], "activation_alpha": [0.3], "activation_beta": [0.4]}),
        ("LSTM", {"activations": ["Sigmoid", "LeakyRelu", "Elu"], "activation_alpha": [0.05, 0.7]}),
        ("LSTM", {"clip": 0.3}),
    ],
)
def test_other_activations_agree_with_the_reference(check_node: Check, name: str, attributes: dict[str, Any]) -> None:
    check_node(name, [floats(STEPS, BATCH, WIDTH)], weights(name, 1), hidden_size=HIDDEN, outputs=2, **attributes)


@pytest.mark.parametrize("name", list(GATES))
def test_layout_one_is_layout_zero_transposed(check_node: Check, name: str) -> None:
    """Layout 1 is layout 0 with its inputs and outputs transposed."""
    x, consts = floats(STEPS, BATCH, WIDTH), weights(name, 1)
    y, y_h = check_node(name, [x], consts, hidden_size=HIDDEN, outputs=2, opset=14)
    expected = [y.transpose(2, 0, 1, 3), y_h.transpose(1, 0, 2)]
    swapped = x.transpose(1, 0, 2).copy()
    check_node(name, [swapped], consts, hidden_size=HIDDEN, outputs=2, opset=14, layout=1, expected=expected)


@pytest.mark.parametrize("name", list(GATES))
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_sequences_end_at_their_lengths(check_node: Check, name: str, direction: str) -> None:
    x, consts = floats(STEPS, BATCH, WIDTH), weights(name, 2 if direction == "bidirectional" else 1)
    options = {"hidden_size": HIDDEN, "direction": direction, "outputs": 2}
    check_node(name, [x], [*consts, np.full(BATCH, STEPS, np.int32)], **options)
    check_node(name, [x], [*consts, np.array([3, 5], np.int32)], **options)


def test_lengths_fed_at_run_time(check_node: Check) -> None:
    w, r, b = weights("GRU", 1)
    lengths = np.array([5, 2], np.int32)
    check_node("GRU", [floats(STEPS, BATCH, WIDTH), w, r, b, lengths], hidden_size=HIDDEN, outputs=2)


def test_the_steps_are_one_operator(make_model: Callable[..., Any]) -> None:
    """One product of all inputs, and one operator for all steps."""
    from onnx import helper

    from tilewright.frontend.onnx import from_onnx
    from tilewright.relay.ir.visitor import calls

    w, r, b = weights("LSTM", 1)
    node = helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=HIDDEN)
    model = make_model([node], {"x": floats(STEPS, BATCH, WIDTH)}, ["y"], 17, {"w": w, "r": r, "b": b})
    names = [call.op.name for call in calls(from_onnx(model)[0]["main"].body)]
    assert names.count("nn.dense") == 1 and names.count("nn.lstm") == 1


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", list(GATES))
@pytest.mark.parametrize("lengths", [False, True])
def test_open_steps_and_batch(
    make_model: Callable[..., Any], run_reference: Callable[..., Any], name: str, lengths: bool
) -> None:
    """One compilation, one kernel for all steps whatever their number, at several numbers of steps and sequences."""
    from onnx import helper

    import tilewright as tw

    w, r, b = weights(name, 2)
    outputs = ["y", "y_h", "y_c"] if name == "LSTM" else ["y", "y_h"]
    names = ["x", "w", "r", "b", *(["lengths"] if lengths else [])]
    node = helper.make_node(name, names, outputs, hidden_size=HIDDEN, direction="bidirectional")

    def feeds(steps: int, batch: int) -> dict[str, np.ndarray]:
        given = {"lengths": RNG.integers(1, steps + 1, batch).astype(np.int32)} if lengths else {}
        return {"x": floats(steps, batch, WIDTH), **given}

    def model(example: dict[str, np.ndarray]) -> Any:
        made = make_model([node], example, outputs, 14, {"w": w, "r": r, "b": b})
        for value in made.graph.input:
            for dim, size in zip(value.type.tensor_type.shape.dim, ("T", "N") if value.name == "x" else ("N",)):
                dim.dim_param = size
        return made

    made = model(feeds(STEPS, BATCH))
    compiled = tw.compile(made, threads=1, cache=False)
    kernels = [row.kernel for row in compiled.profile(feeds(STEPS, BATCH))]
    assert compiled.executor == "graph" and sum(name.lower() in kernel for kernel in kernels) == 1, kernels
    for steps, batch in ((STEPS, BATCH), (1, 1), (9, 5)):
        values = feeds(steps, batch)
        for ours, theirs in zip(compiled.run(values), run_reference(made, values), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_an_unknown_activation_is_refused(check_node: Check) -> None:
    from tilewright.errors import UnsupportedError

    with pytest.raises(UnsupportedError, match="activation 'Gelu'; supported: Sigmoid"):
        check_node(
            "RNN", [floats(STEPS, BATCH, WIDTH)], weights("RNN", 1),
            hidden_size=HIDDEN, activations=["Gelu"], expected=[],
        )  # fmt: skip
