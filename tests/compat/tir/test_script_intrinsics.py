"""Intrinsics of classic programs by name, scripts of modules, and loops as `tvm.lower` leaves them."""

import numpy as np
import pytest

import tilewright.compat
from tilewright.errors import UnsupportedError

tilewright.compat.install()

import tvm  # noqa: E402
from tvm import te  # noqa: E402
from tvm.script import tir as T  # noqa: E402

RNG = np.random.default_rng(5)
EDGES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, 3.4028235e38, 1.1754944e-38, -1.1754944e-38]


def _compiled(function, dtypes, out):
    n = te.var("n")
    ins = [te.placeholder((n,), name=f"x{i}", dtype=dtype) for i, dtype in enumerate(dtypes)]
    result = te.compute((n,), lambda i: function(*[x[i] for x in ins]), name="y")
    s = te.create_schedule(result.op)
    built = tvm.build(s, [*ins, result], "llvm")

    def run(*arrays):
        made = tvm.nd.array(np.zeros(len(arrays[0]), out))
        built(*[tvm.nd.array(a) for a in arrays], made)
        return made.numpy()

    return run


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nextafter_is_that_of_numpy_bit_by_bit(dtype):
    x, y = (a.ravel().astype(dtype) for a in np.meshgrid(EDGES, EDGES))
    run = _compiled(tvm.tir.nextafter, [dtype, dtype], dtype)
    with np.errstate(over="ignore"):
        ours, theirs = run(x, y), np.nextafter(x, y)
    assert np.array_equal(np.isnan(ours), np.isnan(theirs))
    known = ~np.isnan(theirs)
    assert ours[known].tobytes() == theirs[known].tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ldexp_is_that_of_numpy(dtype):
    values = np.concatenate([np.array(EDGES), RNG.standard_normal(20)]).astype(dtype)
    powers = np.array([0, 1, -1, 5, 127, -127, 200, -160, 1100, -1100], "int32")
    x, n = (a.ravel() for a in np.meshgrid(values, powers))
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(_compiled(tvm.tir.ldexp, [dtype, "int32"], dtype)(x, n), np.ldexp(x, n))


def test_leading_zeros_are_an_int32():
    x = np.array([1, 2, 3, 255, 2**62], "int64")
    assert _compiled(tvm.tir.clz, ["int64"], "int32")(x).tolist() == [63, 62, 62, 56, 1]


def test_an_integer_is_its_own_rounding():
    i = te.var("i", "int32")
    for name in ("round", "trunc", "ceil", "floor", "nearbyint"):
        assert getattr(tvm.tir, name)(i).same_as(i)
    assert not tvm.tir.isnan(tvm.tir.const(3, "int32")).value


def test_a_module_of_scripts_says_why_it_is_not_read_when_it_is_used():
    @tvm.script.ir_module
    class Module:
        @T.prim_func
        def main(A: T.handle) -> None:
            n = T.unheard_of("int32")
            A_1 = T.match_buffer(A, [n], type="auto")
            T.evaluate(A_1[0])

    with pytest.raises(UnsupportedError, match="a script of it is not read"):
        Module["main"]


def test_lowered_loops_stay_parallel_and_are_built_all_the_same():
    A = te.placeholder((64, 8), name="A")
    B = te.compute((64, 8), lambda i, j: A[i, j] * 2.0, name="B")
    s = te.create_schedule(B.op)
    s[B].parallel(B.op.axis[0])
    mod = tvm.lower(s, [A, B])
    body = mod["main"].body
    assert isinstance(body, tvm.tir.For) and body.kind == tvm.tir.ForKind.PARALLEL
    a, b = tvm.nd.array(RNG.random((64, 8)).astype("float32")), tvm.nd.array(np.zeros((64, 8), "float32"))
    tvm.build(mod, target="llvm")(a, b)
    np.testing.assert_array_equal(b.numpy(), a.numpy() * 2)
