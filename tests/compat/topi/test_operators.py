"""Classic operators made of Relay's: what compiled code gives equals the reference of the same name or plain NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import InputError, UnsupportedError

pytestmark = pytest.mark.usefixtures("classic")
RNG = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def integers(high: int, *shape: int, dtype: str = "int32") -> np.ndarray:
    return RNG.integers(0, high, shape).astype(dtype)


def run(function: Callable[..., Any], *args: Any) -> Any:
    """`function` on tensors in place of the arrays among `args`, compiled and called; a list for several results."""
    import tvm
    from tvm import te

    arrays: list[np.ndarray] = []
    positions: list[Any] = []

    def lift(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(value)
            positions.append(te.placeholder(value.shape, str(value.dtype), name=f"a{len(positions)}"))
            return positions[-1]
        return [lift(v) for v in value] if isinstance(value, list) and any(map(is_array, value)) else value

    made = function(*[lift(arg) for arg in args])
    outs = made if isinstance(made, list) else [made]
    s = tvm.topi.generic.schedule_extern(outs)
    results = [tvm.nd.empty(tvm.topi.get_const_tuple(out.shape), str(out.dtype)) for out in outs]
    tvm.build(s, [*positions, *outs], "llvm")(*map(tvm.nd.array, arrays), *results)
    found = [result.numpy() for result in results]
    return found if isinstance(made, list) else found[0]


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


NN = [
    ("conv1d_ncw", "conv1d_ncw_python", [floats(1, 3, 9), floats(4, 3, 3), 2, 1]),
    ("conv1d_transpose_ncw", "conv1d_transpose_ncw_python", [floats(1, 3, 5), floats(3, 4, 3), 2, 1]),
    ("conv3d_ncdhw", "conv3d_ncdhw_python", [floats(1, 2, 4, 5, 5), floats(3, 2, 3, 3, 3), 1, 1]),
    ("conv3d_ndhwc", "conv3d_ndhwc_python", [floats(1, 4, 5, 5, 2), floats(3, 3, 3, 2, 3), 1, "SAME"]),
    ("conv3d_transpose_ncdhw", "conv3d_transpose_ncdhw_python", [floats(1, 2, 3, 3, 3), floats(2, 3, 2, 2, 2), 2, 0]),
    ("conv2d_hwcn", "conv2d_hwcn_python", [floats(6, 6, 3, 2), floats(3, 3, 3, 4), 1, 1]),
    ("depthwise_conv2d_nhwc", "depthwise_conv2d_python_nhwc", [floats(1, 6, 6, 3), floats(3, 3, 3, 2), 1, 1]),
    ("correlation_nchw", "correlation_nchw_python", [floats(1, 3, 8, 8), floats(1, 3, 8, 8), 1, 2, 1, 1, 2, True]),
    ("space_to_batch_nd", "space_to_batch_nd_python", [floats(1, 4, 4, 2), [2, 2], [0, 0], [0, 0]]),
    ("batch_to_space_nd", "batch_to_space_nd_python", [floats(4, 2, 2, 2), [2, 2], [0, 0], [0, 0]]),
    ("space_to_depth", "space_to_depth_python", [floats(1, 2, 4, 4), 2]),
    ("depth_to_space", "depth_to_space_python", [floats(1, 8, 2, 2), 2]),
    ("nll_loss", "nll_loss", [floats(5, 4), integers(4, 5), floats(4), "mean", -100]),
    (
        "deformable_conv2d_nchw", "deformable_conv2d_nchw_python",
        [floats(1, 2, 6, 6), floats(1, 18, 6, 6), floats(3, 2, 3, 3), 1, 1, 1, 1, 1],
    ),
    (
        "deformable_conv2d_nhwc", "deformable_conv2d_nhwc_python",
        [floats(1, 6, 6, 2), floats(1, 6, 6, 18), floats(3, 3, 2, 3), 1, 1, 1, 1, 1],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "reference", "args"), NN, ids=[name for name, *_ in NN])
def test_neural_network_operators_and_their_references(name: str, reference: str, args: list) -> None:
    from tvm import topi

    compute, expected = getattr(topi.nn, name), getattr(topi.testing, reference)(*args)
    np.testing.assert_allclose(run(compute, *args), expected, 1e-4, 1e-4)


ARRAYS = [
    ("strided_set", "strided_set_python", [floats(5, 6), floats(2, 3), [1, 0], [3, 6], [1, 2]]),
    ("sequence_mask", "sequence_mask", [floats(4, 3), np.array([1, 4, 2], "int32"), -1.0, 0]),
    ("matrix_set_diag", "matrix_set_diag", [floats(3, 4), floats(3)]),
    ("searchsorted", "searchsorted_ref", [np.sort(floats(9)), floats(4), True, "int64"]),
]


@pytest.mark.parametrize(("name", "reference", "args"), ARRAYS, ids=[name for name, *_ in ARRAYS])
def test_array_operators_and_their_references(name: str, reference: str, args: list) -> None:
    from tvm import topi

    np.testing.assert_allclose(run(getattr(topi, name), *args), getattr(topi.testing, reference)(*args), 1e-5)


X, INDICES = floats(4, 5), np.array([[0, 2], [3, 1]], "int32")
PLAIN = [
    ("einsum", ["ij,kj->ik", X, X], lambda: np.einsum("ij,kj->ik", X, X)),
    ("tensordot", [X, X, ((1,), (1,))], lambda: np.tensordot(X, X, ((1,), (1,)))),
    ("matmul", [X, X, False, True], lambda: X @ X.T),
    ("adv_index", [X, [INDICES]], lambda: X[INDICES]),
    ("unravel_index", [np.array([3, 17], "int32"), (4, 5)], lambda: np.stack(np.unravel_index([3, 17], (4, 5)))),
    ("reverse_sequence", [X, np.array([1, 2, 3, 4, 1], "int64"), 0, 1], lambda: reversed_columns(X, [1, 2, 3, 4, 1])),
    ("reinterpret", [X, "int32"], lambda: X.view("int32")),
    ("shape", [X], lambda: np.array([4, 5])),
    ("ndarray_size", [X], lambda: np.array(20)),
    ("expand_like", [X, floats(4, 3, 5), 1], lambda: np.broadcast_to(X[:, None], (4, 3, 5))),
    ("cumprod", [X, 1], lambda: np.cumprod(X, 1)),
    ("sort", [X, 1], lambda: np.sort(X, 1)),
    ("topk", [X, 2, 1, "values"], lambda: -np.sort(-X, 1)[:, :2]),
    ("fast_exp", [X], lambda: np.exp(X)),
    ("fast_tanh", [X], lambda: np.tanh(X)),
    ("atan", [X], lambda: np.arctan(X)),
    (
        "sparse_to_dense", [np.array([1, 3], "int32"), (5,), np.array([2.0, 4.0], "float32"), 0.5],
        lambda: np.array([0.5, 2, 0.5, 4, 0.5]),
    ),
]  # fmt: skip


def reversed_columns(x: np.ndarray, lengths: list[int]) -> np.ndarray:
    out = x.copy()
    for column, length in enumerate(lengths):
        out[:length, column] = x[:length, column][::-1]
    return out


@pytest.mark.parametrize(("name", "args", "expected"), PLAIN, ids=[name for name, *_ in PLAIN])
def test_array_operators_against_numpy(name: str, args: list, expected: Callable[[], np.ndarray]) -> None:
    from tvm import topi

    np.testing.assert_allclose(run(getattr(topi, name), *args), expected(), 2e-3, 1e-5)


def test_references_of_convolutions_compute_in_the_type_of_the_data() -> None:
    from tvm.topi import testing

    data, kernel = np.arange(72, dtype="uint32").reshape(1, 2, 6, 6), np.arange(-27, 27).reshape(3, 2, 3, 3)
    made = testing.conv2d_nchw_python(data, kernel.astype("int32"), 1, 1)
    expected = testing.conv2d_nchw_python(data.astype("int64"), kernel, 1, 1)
    assert made.dtype == np.uint32
    np.testing.assert_array_equal(made.astype("int32"), expected)


def test_pooling_of_one_and_three_dimensions_and_its_gradient() -> None:
    from tvm import topi

    row, volume, image = floats(1, 2, 9), floats(1, 2, 4, 5, 6), floats(1, 2, 6, 6)
    windows = np.lib.stride_tricks.sliding_window_view(row, 3, 2)[:, :, ::2]
    np.testing.assert_allclose(run(topi.nn.pool1d, row, 3, 2, 1, 0, "max"), windows.max(3))
    args = [[2, 2, 2], [2, 2, 2], [1, 1, 1], [0, 0, 0], [0, 0, 0], "avg"]
    expected = topi.testing.poolnd_python(volume, *args)
    made = run(topi.nn.pool3d, volume, [2, 2, 2], [2, 2, 2], [1, 1, 1], [0] * 6, "avg")
    np.testing.assert_allclose(made, expected, 1e-5, 1e-6)
    np.testing.assert_allclose(expected[0, 0, 0, 0, 0], volume[0, 0, :2, :2, :2].mean(), 1e-5)
    np.testing.assert_allclose(
        topi.testing.poolnd_python(image, [2, 2], [2, 2], [1, 1], [0, 0], [0, 0], "max"),
        image.reshape(1, 2, 3, 2, 3, 2).max((3, 5)),
    )
    flow = floats(1, 2, 3, 3)
    grad = run(topi.nn.pool_grad, flow, image, [2, 2], [2, 2], [0, 0, 0, 0], "max")
    np.testing.assert_allclose(
        grad, topi.testing.pool_grad_nchw(image, flow, [2, 2], [2, 2], [0, 0, 0, 0], "max", False)
    )
    assert np.count_nonzero(grad) == flow.size
    np.testing.assert_allclose(
        run(topi.nn.adaptive_pool3d, volume, (1, 1, 1), "avg").ravel(), volume.mean((2, 3, 4)).ravel(), 1e-4, 1e-6
    )
    with pytest.raises(InputError, match='pool_type is "avg" or "max"; got \'sum\''):
        run(topi.nn.pool1d, row, 3, 2, 1, 0, "sum")


def test_images_resized_sampled_and_cut_out() -> None:
    from tvm import topi

    volume = floats(1, 2, 3, 3, 3)
    expected = topi.testing.resize3d_python(volume, (2, 2, 2), "NCDHW", "trilinear", "half_pixel")
    made = run(topi.image.resize3d, volume, (6, 6, 6), "NCDHW", "trilinear", "half_pixel")
    np.testing.assert_allclose(made, expected, 1e-4, 1e-5)
    theta = np.tile(np.array([[1, 0, 0], [0, 1, 0]], "float32"), (1, 1, 1))
    grid = run(topi.image.affine_grid, theta, (4, 4))
    np.testing.assert_allclose(grid, topi.testing.affine_grid_python(theta, (4, 4)), 1e-6, 1e-6)
    image = floats(1, 3, 4, 4)
    np.testing.assert_allclose(topi.testing.grid_sample_nchw_python(image, grid), image, 1e-4, 1e-5)
    boxes = np.array([[0, 0, 1, 1]], "float32")
    cut = topi.testing.crop_and_resize_python(image, boxes, np.array([0], "int32"), (4, 4), "NCHW")
    np.testing.assert_allclose(cut, image, 1e-5, 1e-6)


def test_regions_and_boxes() -> None:
    from tvm import topi

    image, rois = floats(1, 2, 8, 8), np.array([[0, 1, 1, 6, 6]], "float32")
    made = run(topi.vision.roi_align_nchw, image, rois, (2, 2), 1.0, "avg", 2)
    np.testing.assert_allclose(made, topi.testing.roi_align_nchw_python(image, rois, (2, 2), 1.0, 2), 1e-4, 1e-5)
    made = run(topi.vision.rcnn.roi_pool_nchw, image, rois, (2, 2), 1.0)
    np.testing.assert_allclose(made, topi.testing.roi_pool_nchw_python(image, rois, (2, 2), 1.0))
    many = floats(1, 8, 4, 4)
    np.testing.assert_allclose(run(topi.vision.reorg, many, 2), topi.testing.reorg_python(many, 2))
    boxes = np.array(
        [[[0, 0.9, 0, 0, 4, 4], [0, 0.8, 0, 0, 4, 4.5], [0, 0.1, 5, 5, 9, 9], [0, 0.7, 5, 5, 9, 9]]], "float32"
    )
    count, kept, positions = run(topi.vision.get_valid_counts, boxes, 0.5)
    assert count.tolist() == [3] and positions[0, :3].tolist() == [0, 1, 3]
    left = run(topi.vision.non_max_suppression, kept, count, positions, -1, 0.5, False, -1, 2, 1, 0, False, True)
    assert [round(float(score), 1) for score in left[0, :2, 1]] == [0.9, 0.7] and (left[0, 2:] == -1).all()


def test_operators_named_for_a_kind_of_device_are_the_same() -> None:
    from tvm import topi

    x, w = floats(2, 6), floats(3, 6)
    for space, name in (
        ("x86", "dense_nopack"),
        ("gpu", "dense_small_batch"),
        ("mali", "dense"),
        ("cuda", "dense_int8"),
    ):
        np.testing.assert_allclose(run(getattr(getattr(topi, space), name), x, w), x @ w.T, 1e-4, 1e-5)
    image, filters = floats(1, 4, 6, 6), floats(4, 4, 3, 3)
    made = run(topi.arm_cpu.conv2d_nchw_spatial_pack, image, filters, 1, 1, 1, "float32")
    np.testing.assert_allclose(made, topi.testing.conv2d_nchw_python(image, filters, 1, 1), 1e-4, 1e-4)


def test_a_result_whose_size_depends_on_values_is_refused() -> None:
    from tvm import te

    from tilewright.compat.topi.through_relay import as_compute
    from tilewright.relay import op

    with pytest.raises(UnsupportedError, match="argwhere depends on values, so it has no tensor expression"):
        as_compute(op.argwhere)(te.placeholder((3, 3), "int32"))
    from tvm import topi

    with pytest.raises(InputError, match='padding is a number, 1 or 2 of them, "VALID" or "SAME"; got \'SOME\''):
        topi.nn.conv1d_ncw(te.placeholder((1, 3, 9)), te.placeholder((4, 3, 3)), 1, "SOME")
