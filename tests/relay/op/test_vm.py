"""Storage, and calls that write their results into it."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
from tilewright import relay
from tilewright.errors import TypeMismatchError, UnsupportedError
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.transform.simplify.expand_calls import expand_calls

KERNEL = """
def @kernel(%a: Tensor[(n, 4), float32], %b: Tensor[(n, 4), float32]) -> Tensor[(n * 2, 4), float32] {
  concatenate((nn.relu(%a), %b * 2f), axis=0)
}
"""
BY_DESTINATION = """
def @main(%x: Tensor[(3, 4), float32]) {
  let %block = memory.alloc_storage(112i64, 112i64);
  let %shape = memory.alloc_tensor(%block, 96i64, 2i64, const_shape=[2], dtype="int64");
  let %_ = vm.shape_func(@kernel, (%x, stack((3i64, 4i64))), (%shape,), is_input=[True, False]);
  let %y = memory.alloc_tensor(%block, 0i64, %shape, const_shape=[6, 4], dtype="float32");
  let %_1 = vm.invoke_tvm_op(@kernel, (%x, %x), (%y,));
  let %z = memory.alloc_tensor(%block, 0i64, %shape, const_shape=[6, 4], dtype="float32");
  (%z, %shape)
}
"""
X = np.random.default_rng(2).standard_normal((3, 4)).astype("float32")
EXPECTED = np.concatenate([np.maximum(X, 0), X * 2])


@pytest.mark.parametrize("compiled", [False, True])
def test_results_go_where_the_caller_says(compiled: bool) -> None:
    """`%z` is another view of the bytes that the call wrote, so neither the call nor its position may be dropped."""
    mod = relay.parse(KERNEL + BY_DESTINATION)
    result, shape = tilewright.compile(mod).run({"x": X}) if compiled else relay.interpret(mod, [X])
    np.testing.assert_array_equal(result, EXPECTED)
    assert shape.tolist() == [6, 4]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_lowered_call_writes_its_result(compiled: bool) -> None:
    mod = relay.parse(KERNEL + "def @main(%x: Tensor[(3, 4), float32]) { call_lowered(@kernel, (%x, %x)) }")
    (result,) = tilewright.compile(mod).run({"x": X}) if compiled else relay.interpret(mod, [X])
    np.testing.assert_array_equal(result, EXPECTED)
    assert str(infer_type(mod)["main"].checked_type.ret_type) == "Tensor[(6, 4), float32]"
    assert relay.structural_equal(mod, relay.parse(mod.astext()))


def test_a_function_takes_what_it_declares() -> None:
    with pytest.raises(TypeMismatchError, match=r"the function takes \(Tensor\[\(n, 4\), float32\], .*not \(Tensor"):
        infer_type(relay.parse(KERNEL + "def @main(%x: Tensor[(3, 4), float32]) { call_lowered(@kernel, (%x,)) }"))
    with pytest.raises(TypeMismatchError, match="do not fit into tensors of types"):
        infer_type(
            relay.parse(
                KERNEL + "def @main(%x: Tensor[(3, 4), float32]) { vm.invoke_tvm_op(@kernel, (%x, %x), (%x,)) }"
            )
        )


def test_shapes_that_do_not_follow() -> None:
    text = """
    def @some(%a: Tensor[(?,), float32]) -> Tensor[(?,), float32] { %a }
    def @main(%x: Tensor[(3,), float32], %s: Tensor[(1,), int64]) {
      vm.shape_func(@some, (%x,), (%s,), is_input=[True])
    }
    """
    with pytest.raises(UnsupportedError, match=r"the dimension \? of the result does not follow .*name them"):
        expand_calls(relay.parse(text))
