"""Host operators of classic Relay: against NumPy or the static operators, by reference and on the virtual machine."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.relay.op.cases.values import f, i
from tilewright import relay
from tilewright.errors import InputError, TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, Function, Var, const
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import post_order, substitute
from tilewright.runtime.host_ops.threefry import threefry2x64


def run(call: Expr, compiled: bool = True) -> list[np.ndarray]:
    """The values of `call` of constants, by reference; and compiled, with the constants as inputs."""
    expected = relay.interpret(call, [])
    if compiled:
        constants = [node for node in post_order(call) if isinstance(node, Constant)]
        params = [Var(f"p{k}", c.tensor_type) for k, c in enumerate(constants)]
        body = substitute(call, dict(zip(constants, params, strict=True)))
        mod = relay.IRModule.from_expr(Function(params, body))
        found = tw.compile(mod, cache=False)(*[c.data for c in constants])
        found = found if isinstance(found, list | tuple) else [found]
        for got, want in zip(found, expected, strict=True):
            np.testing.assert_array_equal(got, want)
    return expected


def ints(*values: int) -> Constant:
    return const(np.array(values, "int64"))


X, IMAGE = f(4, 6), f(1, 2, 5, 6)

DYNAMIC = {
    "dyn.reshape": (op.dyn.reshape(X, ints(3, -1)), op.reshape(X, (3, -1))),
    "dyn.broadcast_to": (op.dyn.broadcast_to(X, ints(2, 4, 6)), op.broadcast_to(X, (2, 4, 6))),
    "dyn.expand_dims": (op.dyn.expand_dims(X, const(np.int64(-1)), 2), op.expand_dims(X, -1, 2)),
    "dyn.squeeze": (op.dyn.squeeze(op.expand_dims(X, 1), ints(1)), X),
    "dyn.full": (op.dyn.full(const(2.5), ints(2, 3)), op.full(const(2.5), (2, 3))),
    "dyn.ones": (op.dyn.ones(ints(2, 3)), op.ones((2, 3))),
    "dyn.zeros": (op.dyn.zeros(ints(2, 3), "int32"), op.zeros((2, 3), "int32")),
    "dyn.one_hot": (
        op.dyn.one_hot(ints(1, 0, -1), const(1.0), const(0.5), const(np.int64(4)), 0),
        op.one_hot(ints(1, 0, -1), 1.0, 0.5, 4, 0),
    ),
    "dyn.tile": (op.dyn.tile(X, ints(2, 1, 3)), op.tile(X, (2, 1, 3))),
    "dyn.strided_slice": (
        op.dyn.strided_slice(X, ints(3, 1), ints(0, 6), ints(-2, 2)),
        op.strided_slice(X, (3, 1), (0, 6), (-2, 2)),
    ),
    "dyn.nn.pad": (
        op.dyn.nn.pad(X, const(np.array([[1, 2], [0, 1]])), const(1.5)),
        op.nn.pad(X, ((1, 2), (0, 1)), 1.5),
    ),
    "dyn.nn.upsampling": (op.dyn.nn.upsampling(IMAGE, const(2.0), const(3.0)), op.nn.upsampling(IMAGE, 2, 3)),
    "dyn.nn.upsampling3d": (
        op.dyn.nn.upsampling3d(op.expand_dims(IMAGE, 2), const(2.0), const(2.0), const(1.0), method="trilinear"),
        op.nn.upsampling3d(op.expand_dims(IMAGE, 2), 2, 2, 1, method="trilinear"),
    ),
    "dyn.image.resize2d": (op.dyn.image.resize2d(IMAGE, ints(7, 4)), op.image.resize2d(IMAGE, (7, 4))),
    "dyn.sparse_to_dense": (
        op.dyn.sparse_to_dense(ints(4, 1), X_ROW := f(2), const(0.5), ints(6)),
        op.sparse_to_dense(ints(4, 1), (6,), X_ROW, 0.5),
    ),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_operators_equal_the_static_ones(name: str) -> None:
    dynamic, static = DYNAMIC[name]
    (got,), (want,) = run(dynamic), relay.interpret(static, [])
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_topk_with_a_count_at_run_time() -> None:
    for got, want in zip(run(op.dyn.topk(X, const(np.int64(3)))), relay.interpret(op.topk(X, 3), []), strict=True):
        np.testing.assert_array_equal(got, want)


def test_slices_by_size() -> None:
    (got,) = run(op.dyn.strided_slice(X, ints(1, 2), ints(2, -1), ints(1, 1), "size"))
    np.testing.assert_array_equal(got, X.data[1:3, 2:])


def test_argwhere_and_unique() -> None:
    data = np.array([3, 1, 3, 0, 1, 3], "int32")
    (positions,) = run(op.argwhere(const(data.reshape(2, 3))))
    np.testing.assert_array_equal(positions, np.argwhere(data.reshape(2, 3)))
    values, first, back, count, counts = run(op.unique(const(data), return_counts=True))
    np.testing.assert_array_equal(values, [0, 1, 3])
    np.testing.assert_array_equal(values[back], data)
    np.testing.assert_array_equal(data[first], values)
    np.testing.assert_array_equal(counts, [1, 2, 3])
    assert count == [3]
    np.testing.assert_array_equal(run(op.unique(const(data), is_sorted=False))[0], [3, 1, 0])


def test_sparse_lists_are_filled_and_reshaped() -> None:
    indices, values = const(np.array([[0, 1], [0, 3], [2, 0], [3, 1]])), f(4)
    rows, filled, empty = run(op.sparse_fill_empty_rows(indices, values, ints(5, 6), const(9.0)))
    np.testing.assert_array_equal(rows[:, 0], [0, 0, 1, 2, 3, 4])
    np.testing.assert_array_equal(filled[[2, 5]], [9, 9])
    np.testing.assert_array_equal(empty, [False, True, False, False, True])
    positions, shape = run(op.sparse_reshape(indices, ints(4, 6), ints(2, -1)))
    np.testing.assert_array_equal(shape, [2, 12])
    np.testing.assert_array_equal(positions @ [12, 1], indices.data @ [6, 1])


def test_a_sparse_matrix_is_transposed() -> None:
    dense = np.array([[0, 1, 2], [3, 0, 0], [0, 4, 0]], "float32")
    rows, columns = np.nonzero(dense)
    starts = np.searchsorted(rows, np.arange(4)).astype("int32")
    matrix = [const(dense[rows, columns]), const(columns.astype("int32")), const(starts)]
    data, indices, indptr = run(op.nn.sparse_transpose(matrix))
    again = np.zeros((3, 3), "float32")
    for row in range(3):
        again[row, indices[indptr[row] : indptr[row + 1]]] = data[indptr[row] : indptr[row + 1]]
    np.testing.assert_array_equal(again, dense.T)


BOXES = np.array(
    [[0, 0.9, 0, 0, 4, 4], [0, 0.8, 0.2, 0, 4, 4], [1, 0.7, 0, 0, 4, 4], [0, 0.1, 9, 9, 10, 10], [0, 0.6, 6, 6, 8, 8]],
    "float32",
)[None]


def test_non_max_suppression() -> None:
    counts, rows, positions = run(op.vision.get_valid_counts(const(BOXES), 0.5))
    assert counts == [4]
    np.testing.assert_array_equal(positions[0], [0, 1, 2, 4, -1])
    call = op.vision.non_max_suppression(const(rows), const(counts), const(positions), invalid_to_bottom=True)
    kept, number = run(call)
    np.testing.assert_array_equal(kept[0], [0, 2, 4, -1, -1])
    assert number == [[3]]
    whole = op.vision.non_max_suppression(
        const(rows), const(counts), const(positions), 2, 0.5, True, return_indices=False, invalid_to_bottom=True
    )
    (best,) = run(whole)
    np.testing.assert_array_equal(best[0, :2], BOXES[0, [0, 4]])
    assert (best[0, 2:] == -1).all()


def test_boxes_stay_where_the_order_of_their_scores_puts_them() -> None:
    """Those that are suppressed leave a gap there; without a threshold all stay in the order that they come in."""
    rows = BOXES[:, [3, 1, 0, 4]]
    counts, positions = const(np.array([4], "int32")), const(np.arange(4, dtype="int32")[None])
    (found,) = run(op.vision.non_max_suppression(const(rows), counts, positions, -1, 0.5, True, return_indices=False))
    gap = np.full(6, -1)
    np.testing.assert_array_equal(found[0], [BOXES[0, 0], gap, BOXES[0, 4], BOXES[0, 3]])
    (all_of_them,) = run(op.vision.non_max_suppression(const(rows), counts, positions, 2, 0.0, return_indices=False))
    np.testing.assert_array_equal(all_of_them, rows)


def test_regions_that_are_too_small_are_enlarged_and_come_last() -> None:
    scores = np.zeros((1, 2, 1, 2), "float32")
    scores[0, 1] = [[0.9, 0.8]]
    moved = np.zeros((1, 4, 1, 2), "float32")
    moved[0, 2:, 0, 0] = np.log(0.5)  # the first anchor shrinks to 8 x 8
    info = const(np.array([[64, 64, 1]], "float32"))
    (found,) = run(op.vision.proposal(const(scores), const(moved), info, (1,), (1,), 16, 0.7, 2, 2, 12))
    np.testing.assert_allclose(found[:, 1:], [[16, 0, 31, 15], [-2, -2, 17, 17]], atol=1e-4)


def test_boxes_of_all_classes_are_suppressed_by_class() -> None:
    boxes, scores = const(BOXES[:, :, 2:]), const(np.stack([BOXES[0, :, 1], BOXES[0, ::-1, 1]])[None])
    rows, count = run(op.vision.all_class_non_max_suppression(boxes, scores, 10, 0.5, 0.3))
    np.testing.assert_array_equal(rows[: count[0]], [[0, 0, 0], [0, 0, 4], [0, 1, 4], [0, 1, 3], [0, 1, 2]])
    _, best, numbers = run(op.vision.all_class_non_max_suppression(boxes, scores, 10, 0.5, 0.3, "tensorflow"))
    assert numbers[0] == count[0] and (np.diff(best[0]) <= 0).all()


def test_boxes_of_anchors() -> None:
    anchors = const(np.array([[[0.1, 0.1, 0.5, 0.5], [0.4, 0.4, 0.8, 0.9]]], "float32"))
    scores = const(np.array([[[0.1, 0.9], [0.9, 0.05], [0.0, 0.05]]], "float32"))
    rows, counts = run(op.vision.multibox_transform_loc(scores, const(np.zeros((1, 8), "float32")), anchors))
    np.testing.assert_allclose(rows[0, 0], [0, 0.9, 0.1, 0.1, 0.5, 0.5], rtol=1e-6)
    assert counts == [2]
    info = const(np.array([[64, 64, 1]], "float32"))
    (found,) = run(
        op.vision.proposal(f(1, 6, 4, 4, low=0), f(1, 12, 4, 4, low=-0.2), info, (1, 2, 3), (1,), 16, 0.7, 30, 5, 4)
    )
    assert found.shape == (5, 5) and (found[:, 1:] >= 0).all() and (found[:, 1:] <= 63).all()
    assert (found[:, 3:] >= found[:, 1:3]).all()


def test_threefry_against_its_published_vectors() -> None:
    """The known answers that come with the generator (20 rounds)."""
    zeros, ones = np.zeros(2, np.uint64), np.full(2, 2**64 - 1, np.uint64)
    assert [hex(v) for v in threefry2x64(zeros, zeros[None])[0]] == ["0xc2b6e3a8c2c69865", "0x6f81ed42f350084d"]
    assert [hex(v) for v in threefry2x64(ones, ones[None])[0]] == ["0xe02cb7c4d95d277a", "0xd06633d0893b8b68"]


def test_random_numbers_follow_from_their_key() -> None:
    key = op.random.threefry_key(7)
    after, numbers = run(op.random.uniform(key, (50, 40), low=-1.0, high=3.0))
    assert numbers.min() >= -1 and numbers.max() < 3 and abs(numbers.mean() - 1) < 0.1
    _, more = run(op.random.uniform(const(after), (50, 40), low=-1.0, high=3.0))
    assert not np.array_equal(numbers, more)
    _, words = run(op.random.threefry_generate(key, (5,)))
    assert len(set(words.tolist())) == 5
    left, right = run(op.random.threefry_split(key))
    assert not np.array_equal(left, right)


def test_storage_by_hand() -> None:
    from tilewright.relay.op.vm import alloc_storage, alloc_tensor, kill, reshape_tensor, shape_of

    block = alloc_storage(const(np.int64(96)), ints(4, 6))
    assert run(block, compiled=False)[0].nbytes == 96
    tensor = alloc_tensor(block, const(np.int64(16)), ints(2, 3), (2, 3), "float32")
    assert run(tensor, compiled=False)[0].shape == (2, 3)
    assert relay.interpret(kill(X), []) == []
    np.testing.assert_array_equal(run(shape_of(X))[0], [4, 6])
    np.testing.assert_array_equal(run(reshape_tensor(X, ints(3, 8), (3, 8)))[0], X.data.reshape(3, 8))
    with pytest.raises(InputError, match="24 bytes at 80 exceed 96"):
        run(alloc_tensor(block, const(np.int64(80)), ints(2, 3), (2, 3), "float32"), compiled=False)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"24 elements of shape \(4, 6\) do not fill \[5, 5\]"):
        run(op.dyn.reshape(X, ints(5, 5)), compiled=False)
    with pytest.raises(InputError, match=r"\(4, 6\) does not broadcast to \[4, 5\]"):
        run(op.dyn.broadcast_to(X, ints(4, 5)), compiled=False)
    with pytest.raises(TypeMismatchError, match="a vector of integers is needed"):
        type_of(op.dyn.reshape(X, f(2)))
    with pytest.raises(TypeMismatchError, match="a key of 10 uint64 words is needed"):
        type_of(op.random.threefry_split(i(10)))
    with pytest.raises(TypeMismatchError, match="output_format 'caffe'; known: onnx, tensorflow"):
        type_of(op.vision.all_class_non_max_suppression(f(1, 3, 4), f(1, 2, 3), output_format="caffe"))
