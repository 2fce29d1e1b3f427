"""Operators on arrays as classic programs write them: codes of shapes, modes, tuples of results, kinds of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import TypeMismatchError

pytestmark = pytest.mark.usefixtures("classic")

RNG = np.random.default_rng(12)


def run(kind: str, outputs: Any, inputs: dict[Any, Any]) -> Any:
    """The value of `outputs` on values for its variables."""
    import tvm
    from tvm import relay

    func = relay.Function(list(inputs), outputs)
    mod = tvm.IRModule.from_expr(func)
    return relay.create_executor(kind, mod=mod, device=tvm.cpu(), target="llvm").evaluate()(*inputs.values())


@pytest.mark.parametrize(
    ("shape", "codes", "expected"),
    [
        ((3, 4, 6), (0, -1), (3, 24)),
        ((3, 4, 6), (12, 0), None),
        ((3, 4, 6), (-2,), (3, 4, 6)),
        ((3, 4, 6), (3, -2), (3, 4, 6)),
        ((3, 4, 6), (-3, -2), (12, 6)),
        ((3, 4, 6), (0, -3), (3, 24)),
        ((3, 4, 6), (-4, 1, 3, -2), (1, 3, 4, 6)),
        ((3, 4, 6), (-3, -4, -1, 2), (12, 3, 2)),
        ((3, 4, 6), (0, -4, 2, -1, 0), (3, 2, 2, 6)),
        ((0, 3), (3, 0), (3, 0)),
    ],
)
def test_codes_of_a_shape(shape: tuple[int, ...], codes: tuple[int, ...], expected: tuple[int, ...] | None) -> None:
    from tvm import relay

    x, values = relay.var("x", shape=shape), RNG.standard_normal(shape).astype("float32")
    if expected is None:
        with pytest.raises(TypeMismatchError, match="do not fill"):
            run("graph", relay.reshape(x, codes), {x: values})
        return
    for kind in ("graph", "debug"):
        found = run(kind, relay.reshape(x, codes), {x: values}).numpy()
        np.testing.assert_array_equal(found, values.reshape(expected))


@pytest.mark.parametrize("codes", [(-3, -3), (-4, 5, -1, -2), (-4, -1, -1, -2), (-5, 3), (-4, 2)])
def test_codes_that_the_shape_cannot_meet(codes: tuple[int, ...]) -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(3, 4, 6))
    with pytest.raises(TypeMismatchError, match="reshape"):
        relay.transform.InferType()(tvm.IRModule.from_expr(relay.reshape(x, codes)))


@pytest.mark.parametrize("kind", ["graph", "debug"])
@pytest.mark.parametrize(
    ("mode", "positions"), [("clip", [0, 3, 0, 3]), ("wrap", [3, 1, 2, 0]), ("from_back", [3, 3, 2, 3])]
)
def test_positions_out_of_range(kind: str, mode: str, positions: list[int]) -> None:
    from tvm import relay

    x, values = relay.var("x", shape=(4, 3)), RNG.standard_normal((4, 3)).astype("float32")
    wanted = np.array([-1, 5, -2, 4], "int32")
    found = run(kind, relay.take(x, relay.const(wanted), axis=0, mode=mode), {x: values}).numpy()
    np.testing.assert_array_equal(found, values[positions])


@pytest.mark.parametrize("kind", ["graph", "debug"])
def test_sequences_longer_than_the_data(kind: str) -> None:
    from tvm import relay

    x, values = relay.var("x", shape=(4, 3)), RNG.standard_normal((4, 3)).astype("float32")
    found = run(kind, relay.reverse_sequence(x, relay.const(np.array([9, 2, -1])), 0, 1), {x: values}).numpy()
    expected = values.copy()
    expected[:, 0], expected[:2, 1] = values[::-1, 0], values[1::-1, 1]
    np.testing.assert_array_equal(found, expected)


def test_running_sums_and_products() -> None:
    from tvm import relay

    x, values = relay.var("x", shape=(2, 3), dtype="int32"), np.array([[1, 2, 3], [4, 5, 6]], "int32")
    cases: list[tuple[Any, Any]] = [
        (relay.cumsum(x), np.cumsum(values, dtype="int32")),
        (relay.cumsum(x, 1, "int64"), np.cumsum(values, 1, dtype="int64")),
        (relay.cumsum(x, 0, None, exclusive=True), np.array([[0, 0, 0], [1, 2, 3]], "int32")),
        (relay.cumprod(x, 1, "float32"), np.cumprod(values, 1).astype("float32")),
        (relay.cumprod(x, None, None), np.cumprod(values, dtype="int32")),
    ]
    for expr, expected in cases:
        found = run("graph", expr, {x: values}).numpy()
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_ranges_of_constants_and_of_values_of_a_run() -> None:
    from tvm import relay

    whole = relay.arange(relay.const(2), relay.const(9.0), relay.const(3), dtype="int32")
    np.testing.assert_array_equal(run("debug", whole, {}).numpy(), [2, 5, 8])
    np.testing.assert_array_equal(run("debug", relay.arange(relay.const(3.0)), {}).numpy(), [0, 1, 2])
    stop = relay.var("n", shape=(), dtype="int32")
    of_a_run = run("vm", relay.arange(stop, dtype="int32"), {stop: np.int32(4)})
    np.testing.assert_array_equal(of_a_run.numpy(), [0, 1, 2, 3])


@pytest.mark.parametrize(("rows", "count"), [(5, 3), (5, None), (4, 4)])
@pytest.mark.parametrize("sizes_known", [True, False])
def test_sums_of_segments(rows: int, count: int | None, sizes_known: bool) -> None:
    from tvm import relay

    values, numbers = RNG.standard_normal((5, 3)).astype("float32"), np.array([0, 2, 0, 1, 2], "int32")[:rows]
    unknown = relay.Any()
    data = relay.var("data", shape=(5, 3) if sizes_known else (unknown, relay.Any()))
    ids = relay.var("ids", shape=(rows,) if sizes_known else (relay.Any(),), dtype="int32")
    expected = np.zeros((count or 3, 3), "float32")
    np.add.at(expected, numbers, values[:rows])
    found = run("vm", relay.segment_sum(data, ids, count), {data: values, ids: numbers}).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_operators_with_several_results_unpack() -> None:
    import tvm
    from tvm import relay

    x, values = relay.var("x", shape=(6,)), np.array([3, 1, 2, 3, 1, 0], "float32")
    best, positions = relay.topk(x, k=relay.const(2))
    np.testing.assert_array_equal(run("graph", relay.Tuple([best, positions]), {x: values})[0].numpy(), [3, 3])
    assert len(relay.unique(x)) == 4 and len(relay.unique(x, return_counts=True)) == 5
    both = run("vm", relay.topk(x, 2).astuple(), {x: values})
    assert isinstance(both, tvm.runtime.container.ADT)
    np.testing.assert_array_equal(both[1].numpy(), [0, 3])


@pytest.mark.parametrize("newshape", [[2, -1, 6], [-1], [6, 6], [4, 9]])
def test_another_shape_of_a_coordinate_list(newshape: list[int]) -> None:
    from tvm import relay

    positions = np.array([[0, 0], [0, 5], [3, 4], [5, 3]], "int64")
    wanted = relay.var("shape", shape=(len(newshape),), dtype="int64")
    listed = relay.var("places", shape=(4, 2), dtype="int64")
    made = relay.sparse_reshape(listed, relay.const(np.array([6, 6], "int64")), wanted).astuple()
    found = run("vm", made, {listed: positions, wanted: np.array(newshape, "int64")})
    sizes = np.zeros(36).reshape(newshape).shape
    np.testing.assert_array_equal(found[0].numpy(), np.stack(np.unravel_index(positions @ [6, 1], sizes), 1))
    np.testing.assert_array_equal(found[1].numpy(), sizes)


def test_coordinates_beyond_a_size_run_on_in_the_next_row() -> None:
    from tvm import relay

    listed = relay.const(np.array([[0, 1], [2, 5]], "int32"))
    sizes = [relay.const(np.array(size, "int32")) for size in ((4, 4), (2, -1))]
    found = run("vm", relay.sparse_reshape(listed, *sizes).astuple(), {})
    np.testing.assert_array_equal(found[0].numpy(), [[0, 1], [1, 5]])


def _conv(data: Any, weight: Any) -> Any:
    from tvm import relay

    return relay.nn.conv2d(data, weight, padding=(1, 1), channels=8, kernel_size=(3, 3), out_dtype="int32")


def _dense(data: Any, weight: Any) -> Any:
    from tvm import relay

    return relay.nn.dense(data, weight, out_dtype="int32")


def _batch_matmul(data: Any, weight: Any) -> Any:
    from tvm import relay

    return relay.nn.batch_matmul(data, weight, out_dtype="int32")


@pytest.mark.parametrize("pair", [("uint8", "int8"), ("int8", "uint8")])
@pytest.mark.parametrize(
    ("build", "shape", "weights"),
    [
        (_conv, (1, 4, 6, 6), (8, 4, 3, 3)),
        (_dense, (5, 12), (7, 12)),
        (_batch_matmul, (2, 5, 12), (2, 7, 12)),
    ],
)
def test_products_of_bytes_of_both_signs(
    pair: tuple[str, str], build: Callable[..., Any], shape: tuple[int, ...], weights: tuple[int, ...]
) -> None:
    from tvm import relay

    def draw(dtype: str, shape: tuple[int, ...]) -> Any:
        return RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)

    x = relay.var("x", shape=shape, dtype=pair[0])
    wide = relay.var("wide", shape=shape, dtype="int32")
    values, kernel = draw(pair[0], shape), draw(pair[1], weights)
    expected = run("debug", build(wide, relay.const(kernel.astype("int32"))), {wide: values.astype("int32")})
    for kind in ("graph", "debug"):
        found = run(kind, build(x, relay.const(kernel)), {x: values})
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_products_of_bytes_of_both_signs_need_a_dtype_for_the_sum() -> None:
    import tvm
    from tvm import relay

    x, w = relay.var("x", shape=(5, 12), dtype="uint8"), relay.var("w", shape=(7, 12), dtype="int8")
    with pytest.raises(TypeMismatchError, match="the dtypes uint8, int8 differ"):
        relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.dense(x, w)))


@pytest.mark.parametrize("kind", ["graph", "debug", "vm"])
def test_extremes_of_bools(kind: str) -> None:
    from tvm import relay

    x, values = relay.var("x", shape=(3, 4), dtype="bool"), np.array([[1, 0, 1, 0], [1] * 4, [0] * 4], "bool")
    np.testing.assert_array_equal(run(kind, relay.min(x, axis=1), {x: values}).numpy(), values.min(1))
    np.testing.assert_array_equal(run(kind, relay.max(x, axis=1), {x: values}).numpy(), values.max(1))


def test_equal_parts_of_a_size_that_is_a_variable() -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(tvm.te.var("n"), 4))
    main = relay.transform.InferType()(tvm.IRModule.from_expr(relay.split(x, 3).astuple()))["main"]
    parts = main.checked_type.ret_type.fields
    assert len(set(parts)) == 1


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_a_condition_of_numbers_is_true_where_it_is_not_zero(dtype: str) -> None:
    from tvm import relay

    condition, x, y = (
        relay.var("c", shape=(2, 3), dtype=dtype),
        relay.var("x", shape=(2, 3)),
        relay.var("y", shape=(3,)),
    )
    chosen = np.array([[0, 1, 0], [1, 1, 0]], dtype) * np.array(3, dtype)
    values = {condition: chosen, x: RNG.random((2, 3), "float32"), y: RNG.random(3, "float32")}
    found = run("graph", relay.where(condition, x, y), values).numpy()
    np.testing.assert_array_equal(found, np.where(chosen != 0, values[x], values[y]))
