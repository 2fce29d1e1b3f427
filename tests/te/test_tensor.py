"""Slices of tensors and tags of operations."""

import numpy as np
import pytest

from tests.te.python_backend import evaluate
from tilewright import te
from tilewright.errors import ScheduleError


def test_a_slice_reads_like_a_tensor_of_fewer_dimensions():
    A = te.placeholder((3, 4, 5), name="A")
    row = A[1]
    assert [d.value for d in row.shape] == [4, 5] and row.dtype == "float32"
    C = te.compute((4, 5), lambda i, j: row[i][j] + A[2][i, j] + A[0, i][j], name="C")
    a = np.random.default_rng(0).standard_normal((3, 4, 5)).astype("float32")
    np.testing.assert_allclose(evaluate([C], {A: a})[0], a.sum(axis=0), rtol=1e-5)


def test_a_slice_is_no_number():
    A = te.placeholder((3, 4), name="A")
    with pytest.raises(TypeError, match=r"slice of Tensor A.* at \[i\] has 1 more dimensions; index it to an element"):
        te.compute((3,), lambda i: A[i], name="C")
    with pytest.raises(TypeError, match="A has 2 dimensions and is read with 3 indices"):
        A[0][1, 2]


def test_operations_of_a_scope_get_its_tag():
    A = te.placeholder((4,), name="A")
    with te.tag_scope("pointwise"):
        B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
        C = te.compute((4,), lambda i: B[i] + 1.0, name="C", tag="own")
    D = te.compute((4,), lambda i: C[i] + 1.0, name="D")
    assert [t.op.tag for t in (B, C, D)] == ["pointwise", "own", ""]

    @te.tag_scope("decorated")
    def make():
        return te.compute((4,), lambda i: A[i], name="E")

    assert make().op.tag == "decorated"
    with (
        pytest.raises(ScheduleError, match=r"tag_scope\('b'\) within tag_scope\('a'\)"),
        te.tag_scope("a"),
        te.tag_scope("b"),
    ):
        pass
