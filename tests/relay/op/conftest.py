"""Checks of one operator: its type rule, NumPy reference and tensor expression must agree, also with an oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tilewright import te
from tilewright.relay.interpreter.interpreter import flatten
from tilewright.relay.ir.call_reference import call_reference
from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple
from tilewright.relay.ir.type import tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.topi.reference.evaluate import evaluate


def _value(arg: Expr) -> Any:
    if isinstance(arg, Tuple):
        return tuple(_value(field) for field in arg.fields)
    assert isinstance(arg, Constant)
    return arg.data


def _check(call: Call, expected: Any = None, rtol: float = 1e-5, atol: float = 1e-6) -> Any:
    """The reference's result of `call` (whose arguments are constants), after comparing it with the compute's."""
    out_type = type_of(call)
    arrays = [_value(arg) for arg in call.args]
    result = call_reference(call, arrays)
    leaves = flatten(tuple(arrays))
    inputs = [te.placeholder(a.shape, str(a.dtype), f"p{i}") for i, a in enumerate(leaves)]
    outputs = call.op.compute(call.attrs, inputs, out_type)
    computed = evaluate(outputs, dict(zip(inputs, leaves, strict=True)))
    for got, want, type_ in zip(computed, flatten(result), tensor_types(out_type), strict=True):
        assert got.shape == type_.shape and got.dtype == type_.dtype.numpy
        _close(got, want, rtol, atol)
    if expected is not None:
        for got, want in zip(flatten(result), flatten(expected), strict=True):
            assert got.shape == np.shape(want)
            _close(got, np.asarray(want), rtol, atol)
    return result


def _close(got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> None:
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol)


@pytest.fixture(scope="session")
def check() -> Callable[..., Any]:
    """`check(call, expected=None)`: type rule, reference, compute and the expected value agree; gives the value."""
    return _check


@pytest.fixture(scope="session")
def onnxruntime_node() -> Callable[..., list[np.ndarray]]:
    """`run(op_type, inputs, opset=17, **attributes)`: the outputs of one ONNX node in onnxruntime."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    # it imports both packages, which are optional
    from tests.oracles import open_session

    def run(
        op_type: str, inputs: Sequence[np.ndarray | None], opset: int = 17, outputs: int = 1, **attrs: Any
    ) -> list[np.ndarray]:
        helper = onnx.helper
        names = ["" if a is None else f"i{k}" for k, a in enumerate(inputs)]
        given = {n: a for n, a in zip(names, inputs, strict=True) if a is not None}
        infos = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in given.items()
        ]
        results = [helper.make_empty_tensor_value_info(f"o{k}") for k in range(outputs)]
        node = helper.make_node(op_type, names, [r.name for r in results], **attrs)
        graph = helper.make_graph([node], "g", infos, results)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        return open_session(model).run(None, given)

    return run
