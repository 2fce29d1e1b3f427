"""Inputs whose sizes or rank the file leaves open, compiled once and run at several sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.tflite.builder import Graph, Op, T, build, single
from tilewright.errors import ShapeError, UnsupportedError
from tilewright.frontend.tflite import from_tflite

rng = np.random.default_rng(5)
WEIGHTS = rng.standard_normal((3, 4)).astype(np.float32)
KERNEL = rng.standard_normal((2, 3, 3, 1)).astype(np.float32)


def c(value: Any, dtype: str = "int32") -> T:
    data = np.asarray(value, dtype)
    return T(data.shape, dtype, data, has_rank=True)


def unranked(*output: int) -> bytes:
    axes = c([-1])
    tensors = [T(()), axes, T(output)]
    return build(Graph(tensors, [0], [2], [Op("SUM", [0, 1], [2], ("ReducerOptions", {"keepDims": True}))]))


def test_a_rank_that_the_file_leaves_open_has_to_be_given() -> None:
    with pytest.raises(ShapeError, match="does not fix the number of dimensions of input 't0'") as caught:
        from_tflite(unranked())
    assert "input_shapes=" in str(caught.value)


@pytest.mark.parametrize("shape", [(2, 3), (4,), ("n", 3), ("n", "m", 2)])
def test_a_rank_that_is_given(shape: tuple[Any, ...]) -> None:
    executable = tw.compile(unranked(), input_shapes={"t0": shape}, cache=False)
    for size in (1, 5):
        data = rng.standard_normal([extent if isinstance(extent, int) else size for extent in shape]).astype(np.float32)
        np.testing.assert_allclose(executable.run({"t0": data})[0], data.sum(-1, keepdims=True), rtol=1e-5, atol=1e-5)


def test_a_file_that_says_of_no_tensor_that_it_has_a_rank_has_scalars() -> None:
    model = single("NEG", [T(())], [T(())], None)
    assert from_tflite(model)[1][0].shape == ()
    assert from_tflite(model, {"t0": (2, "n")})[1][0].shape[0] == 2


def test_rows_of_a_symbolic_batch() -> None:
    tensors = [T((1, 4), signature=(-1, 4)), c(WEIGHTS, "float32"), T((1, 3), signature=(-1, 3))]
    model = build(Graph(tensors, [0], [2], [Op("FULLY_CONNECTED", [0, 1], [2], ("FullyConnectedOptions", {}))]))
    executable = tw.compile(model, input_shapes={"t0": ("batch", 4)}, cache=False)
    for batch in (1, 5):
        data = rng.standard_normal((batch, 4)).astype(np.float32)
        np.testing.assert_allclose(executable.run({"t0": data})[0], data @ WEIGHTS.T, rtol=1e-4, atol=1e-5)


def test_a_shape_that_the_graph_computes_of_its_input() -> None:
    """x.reshape(x.shape[0] * 2, -1)."""
    slice_ = ("StridedSliceOptions", {"shrinkAxisMask": 1})
    tensors = [
        T((1, 2, 4), signature=(-1, 2, 4)), T((3,), "int32"), c([0]), c([1]), c([1]), T((), "int32"), c(2),
        T((), "int32"), c(-1), T((2,), "int32"), T((2, 4)),
    ]  # fmt: skip
    ops = [
        Op("SHAPE", [0], [1], ("ShapeOptions", {"outType": 2})), Op("STRIDED_SLICE", [1, 2, 3, 4], [5], slice_),
        Op("MUL", [5, 6], [7], ("MulOptions", {})), Op("PACK", [7, 8], [9], ("PackOptions", {"valuesCount": 2})),
        Op("RESHAPE", [0, 9], [10], ("ReshapeOptions", {})),
    ]  # fmt: skip
    executable = tw.compile(build(Graph(tensors, [0], [10], ops)), input_shapes={"t0": ("n", 2, 4)}, cache=False)
    for batch in (1, 3):
        data = rng.standard_normal((batch, 2, 4)).astype(np.float32)
        np.testing.assert_array_equal(executable.run({"t0": data})[0], data.reshape(batch * 2, -1))


def convolution(stride: int) -> bytes:
    tensors = [T((1, 6, 6, 1), signature=(-1, -1, -1, 1)), c(KERNEL, "float32"), T((1, 6, 6, 2))]
    options = ("Conv2DOptions", {"padding": 0, "strideW": stride, "strideH": stride})
    return build(Graph(tensors, [0], [2], [Op("CONV_2D", [0, 1], [2], options)]))


def test_padding_same_of_a_symbolic_image() -> None:
    executable = tw.compile(convolution(1), input_shapes={"t0": (1, "h", "w", 1)}, cache=False)
    for height, width in ((6, 7), (1, 3)):
        data = rng.standard_normal((1, height, width, 1)).astype(np.float32)
        fixed = tw.compile(convolution(1), input_shapes={"t0": data.shape}, cache=False)
        np.testing.assert_allclose(executable.run({"t0": data})[0], fixed.run({"t0": data})[0], rtol=1e-4, atol=1e-5)


def test_a_converter_that_needs_a_size_says_so() -> None:
    with pytest.raises(UnsupportedError, match=r"CONV_2D .* stride 2 of a symbolic dimension.*input_shapes"):
        from_tflite(convolution(2), {"t0": (1, "h", "w", 1)})
