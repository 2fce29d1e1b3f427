"""Edge cases of TensorFlow's kernels, by graphs that are encoded here: no TensorFlow is needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontend.protobuf import encode
from tests.frontend.running import run
from tilewright.frontend.tensorflow import from_tensorflow
from tilewright.frontend.tensorflow.schema import SCHEMA

_TYPES = {"float32": 1, "int32": 3, "int8": 6, "int64": 9, "bool": 10}


def evaluate(operator: str, *arrays: Any, outputs: int = 1, **attributes: Any) -> list[np.ndarray]:
    """The results of one operator, whose inputs are placeholders."""
    given = [np.asarray(array) for array in arrays]
    nodes: list[dict[str, Any]] = []
    for position, array in enumerate(given):
        shape = {"shape": {"dim": [{"size": extent} for extent in array.shape]}}
        kind = {"type": _TYPES[str(array.dtype)]}
        nodes.append({"name": f"x{position}", "op": "Placeholder", "attr": {"dtype": kind, "shape": shape}})
    names = [node["name"] for node in nodes]
    attr = {"T": {"type": _TYPES[str(given[0].dtype)]}, **attributes}
    nodes.append({"name": "y", "op": operator, "input": names, "attr": attr})
    wanted = [f"y:{position}" for position in range(outputs)]
    mod, _ = from_tensorflow(encode(SCHEMA, "GraphDef", {"node": nodes}), outputs=wanted)
    return run(mod, dict(zip(names, given)))


def test_crossed_ends_clip_to_the_lower_one() -> None:
    x = np.array([-3, 0, 5], "int32")
    assert evaluate("ClipByValue", x, np.int32(2), np.int32(-1))[0].tolist() == [2, 2, 2]


def test_shifts_stay_within_the_bits() -> None:
    x = np.array([-3, 7, 100], "int8")
    for positions, inside in (([-2, -1, -4], [0, 0, 0]), ([8, 9, 100], [7, 7, 7])):
        many, within = np.array(positions, "int8"), np.array(inside, "int8")
        np.testing.assert_array_equal(evaluate("LeftShift", x, many)[0], np.left_shift(x, within))
        np.testing.assert_array_equal(evaluate("RightShift", x, many)[0], np.right_shift(x, within))


def test_angles_of_all_points() -> None:
    ends = np.array([0.0, -0.0, 1, -1, 2.5, np.inf, -np.inf, np.nan], "float32")
    y, x = (one.ravel() for one in np.meshgrid(ends, ends))
    found, wanted = evaluate("Atan2", y, x)[0], np.arctan2(y, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(wanted[known]))


def test_hues_turn_outside_of_colours_too() -> None:
    """A third of a turn makes green of red, of any numbers."""
    x = np.array([[[2.5, -1.0, -3.0], [-0.5, -2.0, -0.75]]], "float32")
    found = evaluate("AdjustHue", x, np.float32(1 / 3))[0]
    np.testing.assert_allclose(found, np.roll(x, 1, axis=-1), rtol=1e-4, atol=1e-5)


def test_positions_outside_and_infinite_scores_are_in_no_top() -> None:
    scores = np.array([[1, 3, 2], [1, 3, 2], [1, 3, 2], [1, np.inf, 2]], "float32")
    positions = np.array([2, 3, -1, 2], "int32")
    assert evaluate("InTopK", scores, positions, k={"i": 2})[0].tolist() == [True, False, False, False]


def test_no_factor_is_not_a_number() -> None:
    x = np.array([[[4.0, 2], [2, 3]], [[-4, 2], [2, 1]]], "float32")
    found = evaluate("Cholesky", x)[0]
    np.testing.assert_allclose(found[0], np.linalg.cholesky(x[0]), rtol=1e-6)
    assert np.isnan(found[1][np.tril_indices(2)]).all()


def test_training_hands_on_the_variance_of_the_population() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 4, 5)).astype("float32")
    scale, shift, mean, variance = (rng.uniform(0.5, 1.5, 5).astype("float32") for _ in range(4))
    flat = x.reshape(-1, 5)
    for share in (1.0, 0.25):
        attributes: dict[str, Any] = {"epsilon": {"f": 1e-3}, "is_training": {"b": True}}
        attributes["exponential_avg_factor"] = {"f": share}
        found = evaluate("FusedBatchNormV3", x, scale, shift, mean, variance, outputs=3, **attributes)
        normal = (flat - flat.mean(0)) / np.sqrt(flat.var(0) + 1e-3) * scale + shift
        np.testing.assert_allclose(found[0], normal.reshape(x.shape), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[1], (1 - share) * mean + share * flat.mean(0), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found[2], (1 - share) * variance + share * flat.var(0, ddof=1), rtol=1e-4)
