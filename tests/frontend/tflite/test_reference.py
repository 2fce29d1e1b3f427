"""`verify` and `bisect` of TFLite models against LiteRT, their variables as they are before the first run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.frontend.tflite.builder import Graph, Op, T, build, single
from tilewright.cli.main import cli
from tilewright.errors import InputError
from tilewright.frontend.tflite.format import TfliteFrontend
from tilewright.relay import interpret


def state_model() -> bytes:
    """A variable that adds up, and a recurrent operator with a state of its own."""
    rng = np.random.default_rng(5)
    handle = ("VarHandleOptions", {"sharedName": "total"})
    weights = [T((3, 3), "float32", rng.standard_normal((3, 3)) / 2) for _ in range(2)]
    tensors = [T((1, 3)), T((), "RESOURCE"), T((1, 3)), T((1, 3)), *weights, T((3,), "float32", np.zeros(3)),
               T((1, 3), variable=True), T((1, 3)), T((1, 3), "float32", np.ones((1, 3)))]  # fmt: skip
    start = Graph(
        [T((), "RESOURCE"), T((1, 3), "float32", np.full((1, 3), 0.25))], [], [],
        [Op("VAR_HANDLE", [], [0], handle), Op("ASSIGN_VARIABLE", [0, 1], [], ("AssignVariableOptions", {}))],
    )  # fmt: skip
    ops = [
        Op("CALL_ONCE", [], [], ("CallOnceOptions", {"initSubgraphIndex": 1})),
        Op("VAR_HANDLE", [], [1], handle),
        Op("READ_VARIABLE", [1], [2], ("ReadVariableOptions", {})),
        Op("ADD", [0, 2], [3], ("AddOptions", {})),
        Op("ASSIGN_VARIABLE", [1, 3], [], ("AssignVariableOptions", {})),
        Op("RNN", [3, 4, 5, 6, 7], [8], ("RNNOptions", {"fusedActivationFunction": 4})),
    ]
    return build(Graph(tensors, [0], [8], ops), start)


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "state.tflite"
    file.write_bytes(state_model())
    return str(file)


def test_verify_compares_outputs_and_states(path: str) -> None:
    result = CliRunner().invoke(cli, ["verify", path, "--seed", "0"])
    assert result.exit_code == 0, result.output
    assert "LiteRT" in result.output
    assert result.output.count("ok ") == 3  # the output, and what the two states are next


def test_bisect_finds_no_fault(path: str) -> None:
    result = CliRunner().invoke(cli, ["bisect", path, "--seed", "0"])
    assert result.exit_code == 0, result.output


def test_another_state_is_refused(path: str) -> None:
    reference = TfliteFrontend().reference(path)
    first = {**TfliteFrontend().first_states(path), "total": np.ones((1, 3), np.float32)}
    with pytest.raises(InputError, match="what 'total' holds before the first run"):
        reference.open("litert", {"t0": np.zeros((1, 3), np.float32), **first}, 1).run()


def test_bytes_have_a_reference_too() -> None:
    model = single("ABS", [T((2, 3))], [T((2, 3))], None)
    x = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    engine = TfliteFrontend().reference(model).open("litert", {"t0": x}, 1)
    np.testing.assert_array_equal(engine.run()[0], np.abs(x))
    engine.feed({"t0": -2 * x})
    np.testing.assert_array_equal(engine.run()[0], np.abs(2 * x))


def test_values_lie_as_in_our_graph() -> None:
    """A convolution behind another: between them there are channels first only. And SPLIT, of several results."""
    rng = np.random.default_rng(3)
    weights = [T((3, 1, 1, 3), "float32", rng.standard_normal((3, 1, 1, 3))) for _ in range(2)]
    image, options = T((1, 3, 3, 3)), ("Conv2DOptions", {"strideW": 1, "strideH": 1})
    axis, third = T((), "int32", np.int32(3)), T((1, 3, 3, 1))
    ops = [
        Op("CONV_2D", [0, 1, 3], [4], options),
        Op("CONV_2D", [4, 2, 3], [5], options),
        Op("SPLIT", [6, 5], [7, 8, 9], ("SplitOptions", {"numSplits": 3})),
    ]
    tensors = [image, *weights, T((3,), "float32", np.ones(3)), image, image, axis, third, third, third]
    model = build(Graph(tensors, [0], [8, 9], ops))
    inputs = {"t0": rng.standard_normal((1, 3, 3, 3)).astype("float32")}
    graph = TfliteFrontend().reference(model).straight_line(inputs, "litert")
    found = graph.values(inputs, [node.name for node in graph.nodes], "litert")
    assert {"t4", "t5"} <= set(found)
    for position, node in enumerate(graph.nodes):
        if node.name in found:
            part = graph.model([position], [node.name], {name: found[name] for name in node.inputs}, found)
            given = {name: {**inputs, **found}[name] for name in graph.inputs(part)}
            np.testing.assert_allclose(interpret(part, given)[0], found[node.name], rtol=1e-5, atol=1e-5)
