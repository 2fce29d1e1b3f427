"""Tensor arrays of the classic prelude, beside the same lists in NumPy."""

from typing import Any

import numpy as np
import pytest

import tilewright.compat

tilewright.compat.install()

import tvm  # noqa: E402
from tvm import relay  # noqa: E402
from tvm.relay.prelude import Prelude, StaticTensorArrayOps  # noqa: E402

ROWS = [np.arange(6, dtype="float32").reshape(2, 3) + 10 * i for i in range(3)]


def run(prelude: Any, body: Any, **inputs: Any) -> Any:
    prelude.mod["main"] = relay.Function(relay.analysis.free_vars(body), body)
    return relay.create_executor("debug", mod=prelude.mod, target="llvm").evaluate()(*inputs.values())


def tensors(value: Any) -> list[np.ndarray]:
    """The tensors of a list of constructors, or of one."""
    if value.constructor.name_hint == "Nil":
        return []
    if value.constructor.name_hint == "Cons":
        return [*tensors(value.fields[0]), *tensors(value.fields[1])]
    return [np.asarray(field.numpy()) for field in value.fields]


class Arrays:
    """The names of either family, and an array of three matrices."""

    def __init__(self, static: bool, rows: Any = 2) -> None:
        self.prelude = Prelude(tvm.IRModule())
        self.static, self.shape = static, [rows, 3]
        if static:
            StaticTensorArrayOps(self.prelude, "float32", self.shape).register()

    def __getattr__(self, name: str) -> Any:
        if not self.static:
            return self.prelude.get_global_var(name, "float32")
        return self.prelude.get_global_var_static(name, "float32", self.shape)

    def tensor(self, value: np.ndarray) -> Any:
        if self.static:
            make = self.prelude.get_tensor_ctor_static("tensor_constructor", "float32", self.shape)
        else:
            make = self.prelude.get_tensor_ctor(f"tensor{value.ndim}", "float32")
        return make(relay.const(value))

    def of(self, values: list[np.ndarray]) -> Any:
        array = self.tensor_array(relay.const(len(values)))
        for index, value in enumerate(values):
            array = self.tensor_array_write(array, relay.const(index), self.tensor(value))
        return array


@pytest.fixture(params=[False, True], ids=["any rank", "one shape"])
def arrays(request: pytest.FixtureRequest) -> Arrays:
    return Arrays(request.param)


def test_write_read_and_stack(arrays: Arrays) -> None:
    array = arrays.of(ROWS)
    np.testing.assert_array_equal(tensors(run(arrays.prelude, arrays.tensor_array_stack(array))), [np.stack(ROWS)])
    read = arrays.tensor_array_read(array, relay.const(1))
    np.testing.assert_array_equal(tensors(run(arrays.prelude, read)), ROWS[1:2])


def test_gather_scatter_concat(arrays: Arrays) -> None:
    array, picked = arrays.of(ROWS), np.array([2, 0], "int32")
    gathered = run(arrays.prelude, arrays.tensor_array_gather(array, relay.const(picked)))
    np.testing.assert_array_equal(tensors(gathered), [np.stack(ROWS)[picked]])
    scattered = arrays.tensor_array_scatter(array, relay.const(picked), arrays.of(ROWS[1:]))
    np.testing.assert_array_equal(tensors(run(arrays.prelude, scattered)), [ROWS[2], ROWS[1], ROWS[1]])
    np.testing.assert_array_equal(
        tensors(run(arrays.prelude, arrays.tensor_array_concat(array))), [np.concatenate(ROWS)]
    )


def test_take_concatenate_expand_and_unstack(arrays: Arrays) -> None:
    first = arrays.tensor(ROWS[1])
    taken = run(arrays.prelude, arrays.tensor_take(first, relay.const(1), relay.const(2)))
    np.testing.assert_array_equal(tensors(taken), [ROWS[1][1:2]])
    joined = arrays.tensor_concatenate(first, arrays.tensor(ROWS[0]))
    np.testing.assert_array_equal(tensors(run(arrays.prelude, joined)), [np.concatenate([ROWS[1], ROWS[0]])])
    np.testing.assert_array_equal(
        tensors(run(arrays.prelude, arrays.tensor_expand_dims(first))), [np.expand_dims(ROWS[1], 0)]
    )
    unstack = arrays.tensor_array_unstack if arrays.static else arrays.tensor_array_unstack_tensor2
    np.testing.assert_array_equal(tensors(run(arrays.prelude, unstack(relay.const(ROWS[1])))), [*ROWS[1]])


@pytest.mark.parametrize("static", [False, True])
def test_split_into_parts_of_given_lengths(static: bool) -> None:
    arrays = Arrays(static, relay.Any())
    lengths = relay.const(np.array([1, 3], "int32"))
    value = arrays.tensor(np.concatenate(ROWS))
    split = run(arrays.prelude, arrays.tensor_array_split(arrays.of(ROWS), value, lengths))
    expected = [np.concatenate(ROWS)[:1], np.concatenate(ROWS)[1:4], ROWS[2]]
    for got, want in zip(tensors(split), expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_an_array_begins_with_empty_slots_and_a_tensor_gives_its_data() -> None:
    arrays = Arrays(True)
    empty = run(arrays.prelude, arrays.tensor_array(relay.const(2)))
    assert tensors(empty) == [] and empty.constructor.name_hint == "Cons"
    data = run(arrays.prelude, arrays.tensor_get_data(arrays.tensor(ROWS[2])))
    np.testing.assert_array_equal(data.numpy(), ROWS[2])
    assert arrays.prelude.get_type("tensor_t", "float32").name == "tensor_float32_t"
