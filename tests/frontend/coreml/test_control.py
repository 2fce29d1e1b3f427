"""Loops of ML programs, compiled, beside the same loops in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.coreml.builder import kind, operation, specification
from tilewright.errors import UnsupportedError
from tilewright.frontend.coreml import from_coreml

X = np.array([[0.5, -1.0, 2.0]], np.float32)
W = np.array([[0.5, 0.1, 0.0], [0.2, 0.4, 0.1], [0.0, 0.3, 0.6]], np.float32)


def block(inputs: list[str], outputs: list[str], *operations: Any) -> dict[str, Any]:
    """A block of an operation."""
    entries = [{"name": name, "type": kind("float32", [])} for name in inputs]
    return {"inputs": entries, "outputs": outputs, "operations": list(operations)}


def loop(start: list[str], results: list[str], cond: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """A while_loop from the values `start`."""
    made = operation("while_loop", results[0], loop_vars=start)
    made["outputs"] = [{"name": name, "type": kind("float32", [])} for name in results]
    return {**made, "blocks": [cond, body]}


def powers(limit: Any) -> dict[str, Any]:
    """The loop that multiplies x by w, which is from around it, and adds one to a count, up to `limit`."""
    return loop(
        ["%zero", "%x"], ["count", "y"],
        block(["i", "a"], ["goes"], operation("less", "goes", x="%i", y=limit)),
        block(["j", "b"], ["next", "c"],
              operation("add", "next", x="%j", y=1.0),
              operation("matmul", "c", x="%b", y="%w", transpose_x=False, transpose_y=False)),
    )  # fmt: skip


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_a_loop_up_to_an_input_runs_as_often_as_that_says(rounds: int) -> None:
    spec = specification(
        {"x": (1, 3), "w": (3, 3), "n": ()}, ["count", "y"],
        operation("mul", "zero", x="%n", y=0.0), powers("%n"),
    )  # fmt: skip
    count, y = (np.asarray(v) for v in tw.compile(spec)(X, W, np.float32(rounds)))
    assert count == rounds
    np.testing.assert_allclose(y, X @ np.linalg.matrix_power(W, rounds), rtol=1e-5, atol=1e-6)


def test_a_loop_of_a_known_trip_count_is_unrolled() -> None:
    zero = operation("mul", "zero", x=0.0, y=2.0)
    mod, _ = from_coreml(specification({"x": (1, 3), "w": (3, 3)}, ["count", "y"], zero, powers(4.0)))
    assert [name.name for name in mod.functions] == ["main"]
    count, y = (np.asarray(v) for v in tw.compile(mod)(X, W))
    assert count == 4
    np.testing.assert_allclose(y, X @ np.linalg.matrix_power(W, 4), rtol=1e-5, atol=1e-6)


def test_a_loop_within_a_loop_reads_values_of_both_scopes() -> None:
    inner = loop(
        ["%j0", "%b"], ["jn", "bn"],
        block(["j", "p"], ["less_j"], operation("less", "less_j", x="%j", y="%n")),
        block(["k", "q"], ["k1", "q1"],
              operation("add", "k1", x="%k", y=1.0), operation("add", "q1", x="%q", y="%i")),
    )  # fmt: skip
    outer = loop(
        ["%zero", "%x"], ["count", "y"],
        block(["i0", "a0"], ["less_i"], operation("less", "less_i", x="%i0", y="%n")),
        block(["i", "b"], ["i1", "bn"], operation("mul", "j0", x="%n", y=0.0), inner,
              operation("add", "i1", x="%i", y=1.0)),
    )  # fmt: skip
    spec = specification({"x": (1, 3), "n": ()}, ["y"], operation("mul", "zero", x="%n", y=0.0), outer)
    y = np.asarray(tw.compile(spec)(X, np.float32(3)))
    np.testing.assert_allclose(y, X + 3 * (0 + 1 + 2), rtol=1e-6)


def test_a_loop_whose_variable_changes_its_shape_is_refused() -> None:
    growing = loop(
        ["%x"], ["y"],
        block(["a"], ["goes"], operation("reduce_sum", "s", x="%a", axes=[0, 1], keep_dims=False),
              operation("less", "goes", x="%s", y=9.0)),
        block(["b"], ["c"], operation("concat", "c", values=["%b", "%b"], axis=1, interleave=False)),
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match=r"while_loop.*change their types"):
        from_coreml(specification({"x": (1, 3)}, ["y"], growing))
