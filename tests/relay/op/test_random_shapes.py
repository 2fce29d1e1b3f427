"""Operators drawn from the whole table, with other shapes and element types than their cases have.

A size of a case is replaced, wherever it occurs among its arguments, by another one, and the floating point by another
type; if the operator's type rule takes the result, kernel (or expansion) and reference must agree on it.
"""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.relay.op.cases import CASES
from tilewright.backend import build
from tilewright.driver.lower import lower_function
from tilewright.errors import TypeMismatchError
from tilewright.relay.interpreter.interpreter import flatten, interpret
from tilewright.relay.ir import registry
from tilewright.relay.ir.call_reference import call_reference
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Tuple, Var
from tilewright.relay.ir.type import tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.transform.simplify.expand_operators import expand_expr
from tilewright.target import Target

#: Their arguments depend on each other by more than shapes: permutations, sorted rows, row starts.
TIED = {"invert_permutation", "searchsorted", "unravel_index", "reinterpret", "sequence_mask", "reverse_sequence"}
NAMES = sorted(
    name
    for name, calls in CASES.items()
    if name not in TIED and "sparse" not in name and any(call.args for call in calls)
)
TOLERANCE = {"float16": 2e-2, "float32": 5e-5, "float64": 1e-5}


def resized(arg: Expr, old: int, new: int, dtype: str) -> Expr:
    """The constant with another size where it had `old`, filled with the values it had, in `dtype` if it is float32."""
    if isinstance(arg, Tuple):
        return Tuple([resized(field, old, new, dtype) for field in arg.fields])
    assert isinstance(arg, Constant)
    data = np.resize(arg.data, [new if size == old else size for size in arg.data.shape])
    return Constant(data.astype(dtype) if data.dtype == "float32" else data)


def leaves(args: tuple[Expr, ...]) -> list[Constant]:
    """All constants among the arguments."""
    found = [field for arg in args for field in (arg.fields if isinstance(arg, Tuple) else (arg,))]
    return [field for field in found if isinstance(field, Constant)]


def compiled(call: Call) -> list[np.ndarray]:
    """The values of a call of constants: by its kernel, or by what it expands to."""
    assert isinstance(call.op, registry.Op)
    if call.op.expansion is not None:
        return interpret(expand_expr(call), [])
    params: list[Var] = []

    def as_param(arg: Expr) -> Expr:
        if isinstance(arg, Tuple):
            return Tuple([as_param(field) for field in arg.fields])
        assert isinstance(arg, Constant)
        params.append(Var(f"p{len(params)}", arg.tensor_type))
        return params[-1]

    body = Call(call.op, [as_param(arg) for arg in call.args], call.attrs)
    function = Function(params, body)
    type_of(function)
    outputs = [np.zeros(t.shape, t.dtype.numpy) for t in tensor_types(type_of(function.body))]
    inputs = [np.array(leaf.data, order="C") for leaf in leaves(call.args)]
    build([lower_function(function, "kernel", Target("cpu"))], Target("cpu"))["kernel"](*inputs, *outputs)
    return outputs


@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_kernels_and_references_agree(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    case = data.draw(st.sampled_from([call for call in CASES[name] if call.args]))
    constants = leaves(case.args)
    sizes = sorted({size for leaf in constants for size in leaf.data.shape})
    assume(sizes)
    old = data.draw(st.sampled_from(sizes))
    indexed = any(leaf.data.dtype.kind in "iu" for leaf in constants)
    new = data.draw(st.integers(old if indexed else 1, old + 9))
    dtype = data.draw(st.sampled_from(["float32", "float64", "float16"]))
    attrs = {k: dtype if k in ("dtype", "out_dtype") and v == "float32" else v for k, v in case.attrs.items()}
    call = Call(case.op, [resized(arg, old, new, dtype) for arg in case.args], attrs)
    try:
        type_of(call)
    except TypeMismatchError:
        assume(False)
    values = [leaf.data for leaf in leaves(call.args)]
    with np.errstate(all="ignore"):
        expected = flatten(call_reference(call, values))
        found = compiled(call)
    for got, want in zip(found, expected, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        tolerance = TOLERANCE.get(dtype, 5e-5)
        scale = np.abs(np.asarray(want, "float64")[np.isfinite(np.asarray(want, "float64"))]).max(initial=1.0)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale, err_msg=f"{name} {call.attrs}")
