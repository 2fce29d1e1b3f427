"""Programs of symbolic size, compiled once, run on any size: temporaries, remainders, vectors, checks of shapes."""

import numpy as np
import pytest

from tilewright import te
from tilewright.backend.build import build
from tilewright.errors import InputError
from tilewright.runtime.module import Module

SIZES = ((1, 1), (3, 5), (17, 33), (64, 64), (130, 300))


def _centered():
    """D[i, j] = 2 A[i, j] - sum over the row, by way of the temporaries B and C."""
    n, m = te.size_var("n"), te.size_var("m")
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] * 2, name="B")
    k = te.reduce_axis((0, m), "k")
    C = te.compute((n,), lambda i: te.sum(B[i, k], axis=k), name="C")
    return A, B, C, te.compute((n, m), lambda i, j: B[i, j] - C[i], name="D")


def _plain(s, B, C, D):
    pass


def _at_root(s, B, C, D):
    outer, _ = s[D].split(D.op.axis[0], factor=4)
    _, lanes = s[D].split(D.op.axis[1], factor=8)
    s[D].parallel(outer)
    s[D].vectorize(lanes)


def _in_the_tile(s, B, C, D):
    outer, _ = s[D].split(D.op.axis[0], factor=4)
    s[D].parallel(outer)
    for T in (B, C):
        s[T].compute_at(s[D], outer)
    s[B].set_scope("local")
    s[B].vectorize(s[B].split(B.op.axis[1], factor=8)[1])


def _in_the_row(s, B, C, D):
    for T in (B, C):
        s[T].compute_at(s[D], D.op.axis[0])
    s[C].split(C.op.reduce_axis[0], nparts=3)


@pytest.mark.parametrize("schedule", [_plain, _at_root, _in_the_tile, _in_the_row])
@pytest.mark.parametrize("threads", [1, 2])
def test_one_function_runs_on_every_size(schedule, threads, tmp_path):
    A, B, C, D = _centered()
    s = te.create_schedule(D)
    schedule(s, B, C, D)
    module = build(te.lower(s, [A, D]), threads=threads)
    module.save(tmp_path / "module")
    for function in (module["main"], Module.load(tmp_path / "module", threads)["main"]):
        for size in SIZES:
            a = np.random.default_rng(0).standard_normal(size).astype("float32")
            d = np.full_like(a, np.nan)
            function(a, d)
            np.testing.assert_allclose(d, 2 * a - (2 * a).sum(1, keepdims=True), rtol=1e-4, atol=1e-3)


def test_sizes_given_as_arguments_are_checked_against_the_shapes():
    A, _, _, D = _centered()
    n, m = A.shape
    function = build(te.lower(te.create_schedule(D), [A, D, n, m]), threads=1)["main"]
    a = np.ones((4, 3), "float32")
    function(a, np.empty_like(a), 4, 3)
    with pytest.raises(InputError, match=r"dimension 0 of A is 4; it must be n, which is given as 5"):
        function(a, np.empty_like(a), 5, 3)


def test_shapes_that_disagree_are_named():
    A, _, _, D = _centered()
    function = build(te.lower(te.create_schedule(D), [A, D]), threads=1)["main"]
    with pytest.raises(InputError, match=r"dimension 1 of D is 7; it must be m, which A has in dimension 1: 3"):
        function(np.ones((4, 3), "float32"), np.ones((4, 7), "float32"))
