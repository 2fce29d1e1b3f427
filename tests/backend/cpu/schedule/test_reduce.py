"""Reductions to fewer elements, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
import tilewright.topi as topi
from tests.backend.cpu.schedule.kernels import TARGET, run, sample
from tilewright import relay, te, tir
from tilewright.backend.cpu.schedule.dispatch import schedule
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Expr
from tilewright.topi import reduction

SHAPES = [
    ((3, 197), -1),
    ((2, 10), -1),
    ((5, 2), -1),
    ((1, 64), 1),
    ((1, 37, 48), 1),
    ((40, 300), 0),
    ((33, 5), 0),
    ((2, 7, 5, 3), (1, 2)),
    ((2, 64, 9, 1), 1),
    ((4, 5, 6), (0, 2)),
    ((9, 31), None),
    ((1, 1, 1), None),
    ((1,), 0),
    ((2, 3, 7, 7, 16), (2, 3)),
    ((1, 36, 7, 7, 16), (2, 3)),
    ((1, 32, 5, 5, 8), (2, 3)),
    ((2, 3, 14, 14), (2, 3)),
    ((200, 64), -1),
    ((100, 90), None),
    ((1, 2, 60, 70, 16), (2, 3)),
    ((2, 70, 80), (1, 2)),
]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
@pytest.mark.sample(48)
def test_reductions_of_floats_agree_with_float64(
    name: str, shape: tuple[int, ...], axis: object, keepdims: bool
) -> None:
    x = sample(*shape)
    wanted = getattr(np, name)(x.astype("float64"), axis=axis, keepdims=keepdims)
    got = run(lambda t: getattr(reduction, name)(t, axis, keepdims), x)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES[::2])
@pytest.mark.parametrize("name", ["sum", "max"])
@pytest.mark.sample(16)
def test_reductions_of_other_types_keep_their_type(name: str, shape: tuple[int, ...], axis: object, dtype: str) -> None:
    x = sample(*shape, dtype=dtype)
    got = run(lambda t: getattr(reduction, name)(t, axis), x)
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_allclose(got, getattr(np, name)(x, axis=axis), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(("shape", "axis"), [s for s in SHAPES if not isinstance(s[1], tuple)])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.sample(20)
def test_positions_of_extremes(shape: tuple[int, ...], axis: int | None, dtype: str, last: bool) -> None:
    x = np.round(sample(*shape, dtype=dtype))  # many equal elements
    got = run(lambda t: reduction.argmax(t, axis, select_last_index=last), x)
    flat = x.reshape(-1) if axis is None else x
    along = 0 if axis is None else axis
    wanted = flat.shape[along] - 1 - np.argmax(np.flip(flat, along), along) if last else np.argmax(flat, along)
    np.testing.assert_array_equal(got, wanted)
    lowest = run(lambda t: reduction.argmin(t, axis), x)
    np.testing.assert_array_equal(lowest, np.argmin(flat, along))


def test_a_row_of_nan_has_a_position_within_it() -> None:
    x = np.full((3, 20), np.nan, "float32")
    x[1, 7] = 1
    got = run(lambda t: reduction.argmax(t, -1), x)
    assert ((got >= 0) & (got < 20)).all()


@pytest.mark.parametrize(("shape", "axis"), [((6, 20, 30), 1), ((6, 20, 30), 2), ((8, 3, 3, 16), (1, 2))])
def test_a_reduction_fuses_with_what_is_before_and_behind_it(shape: tuple[int, ...], axis: object) -> None:
    x = sample(*shape)

    def build(t: te.Tensor) -> te.Tensor:
        before = te.compute(t.shape, lambda *i: t(*i) * 2.0 + 1.0, name="before", tag="elemwise")
        total = reduction.mean(before, axis)
        return te.compute(total.shape, lambda *i: tir.maximum(total(*i), 0.5), name="after", tag="elemwise")

    wanted = np.maximum((x.astype("float64") * 2 + 1).mean(axis=axis), 0.5)
    np.testing.assert_allclose(run(build, x), wanted, rtol=1e-5)


def test_output_that_is_wider_than_the_reduction() -> None:
    x = sample(12, 40)

    def build(t: te.Tensor) -> te.Tensor:
        return topi.subtract(t, reduction.mean(t, 0, keepdims=True))

    np.testing.assert_allclose(run(build, x), x - x.mean(axis=0, keepdims=True), rtol=1e-5, atol=1e-5)


def test_a_reshape_fuses_behind_a_reduction() -> None:
    x = sample(6, 4, 50)
    got = run(lambda t: topi.reshape(reduction.sum(t, 2), (4, 6)), x)
    np.testing.assert_allclose(got, x.sum(axis=2).reshape(4, 6), rtol=1e-4, atol=1e-5)


def test_a_transpose_fuses_behind_a_reduction() -> None:
    x = sample(6, 4, 50)
    got = run(lambda t: topi.transpose(reduction.sum(t, 2), (1, 0)), x)
    np.testing.assert_allclose(got, x.sum(axis=2).T, rtol=1e-4, atol=1e-5)


def test_any_and_all() -> None:
    x = sample(7, 19, dtype="int32") > 30
    np.testing.assert_array_equal(run(lambda t: reduction.any(t, 1), x), x.any(axis=1))
    np.testing.assert_array_equal(run(lambda t: reduction.all(t, 0), x), x.all(axis=0))


def test_few_results_are_reduced_in_parts() -> None:
    parts = reduction.sum(te.placeholder((100, 90), name="x")).op.input_tensors
    assert [int(d.value) for t in parts for d in t.shape] == [100, 1]
    assert reduction.sum(te.placeholder((100, 90), name="x"), 1).op.input_tensors[0].name == "x"


def test_reductions_along_memory_have_several_vectors_of_lanes() -> None:
    x = te.placeholder((64, 1024), name="x")
    out = reduction.sum(x, -1)
    (reduced,) = [st for st in schedule([out], TARGET).stages if getattr(st.op, "reduce_axis", ())]
    (split,) = [r for r in reduced.relations if r.parent.iter_type.name == "REDUCE"]
    assert split.factor.value == 4 * TARGET.vector_bits // 32


def compiled_alike(expression: Callable[..., Expr], *shapes: tuple[int, ...]) -> None:
    """A graph of one expression, compiled, gives what its reference does."""
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    params = [relay.var(f"x{i}", shape=shape) for i, shape in enumerate(shapes)]
    module = relay.IRModule.from_expr(relay.Function(params, expression(*params)))
    wanted = interpret(module, {param.name: array for param, array in zip(params, arrays)})
    np.testing.assert_allclose(tw.compile(module, cache=False, threads=1)(*arrays), wanted[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("extent", [1, 2, 3, 9])
def test_one_row_of_any_length(extent: int) -> None:
    compiled_alike(lambda x: relay.nn.log_softmax(x, axis=0), (extent,))
    compiled_alike(lambda x: relay.nn.softmax(relay.exp(x), axis=0), (extent,))
    compiled_alike(lambda x, g: relay.nn.layer_norm(x, g, g, axis=0), (extent,), (extent,))


def test_sums_of_nothing() -> None:
    compiled_alike(lambda x: relay.exp(relay.sum(x, axis=[1, 3])), (2, 2, 4, 0))
    compiled_alike(lambda x: relay.exp(relay.sum(x, axis=[1], keepdims=True)), (2, 2, 4, 0))
    compiled_alike(lambda x: relay.exp(relay.sum(x, axis=[0, 2])), (64, 3, 0))
