"""Every operator as a kernel of its own: scheduled, lowered, compiled and run, against its reference.

Shapes have odd tails, so that splits do not divide, and some are large enough to run on several workers.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.relay.op.cases import CASES
from tilewright.backend import build, lower
from tilewright.driver.lower import lower_function
from tilewright.relay.interpreter.interpreter import flatten, interpret
from tilewright.relay.ir import registry
from tilewright.relay.ir.call_reference import call_reference
from tilewright.relay.ir.expr import Call, Function, Tuple, Var
from tilewright.relay.ir.type import tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.transform.simplify.expand_operators import expand_expr
from tilewright.target import Target

QUANTIZED = {name for name in registry.names() if name.startswith(("qnn.", "relay.op.annotation.", "contrib.ethosu."))}
#: Operators on functions, tested in `test_vm`.
CALLS = {"call_lowered", "vm.invoke_tvm_op", "vm.shape_func"}
COMPILED = [name for name in registry.names() if registry.get(name).compute is not None and not name.startswith("vta.")]
#: The quantized operators have tests of their own in `qnn` and `contrib`.
COMPOSITE = [
    name for name in registry.names() if registry.get(name).expansion is not None and name not in QUANTIZED | CALLS
]


def test_every_operator_has_a_case():
    assert {*COMPILED, *COMPOSITE} == set(CASES)


@pytest.mark.sample(90)
@pytest.mark.parametrize("name", COMPILED)
def test_each_kernel_agrees_with_its_reference(name):
    target = Target("cpu")
    functions, runs = [], []
    for number, call in enumerate(CASES[name]):
        params, arrays = [], []
        args = [_as_param(arg, params, arrays) for arg in call.args]
        function = Function(params, Call(call.op, args, call.attrs))
        out_types = tensor_types(type_of(function.body))
        type_of(function)
        functions.append(lower_function(function, f"k{number}", target))
        expected = flatten(call_reference(function.body, [arg.data for arg in _leaves(call)]))
        runs.append((arrays, [np.full(t.shape, 99, t.dtype.numpy) for t in out_types], expected))
    module = build(functions, target)
    for number, (arrays, outputs, expected) in enumerate(runs):
        module[f"k{number}"](*arrays, *outputs)
        for got, want in zip(outputs, expected, strict=True):
            _close(got, want, CASES[name][number])


@pytest.mark.parametrize("name", COMPOSITE)
def test_each_expansion_equals_its_operator(name):
    """A composite operator equals what it is written in, whose operators are checked above."""
    for call in CASES[name]:
        expected = flatten(call_reference(_typed(call), [_value(arg) for arg in call.args]))
        expanded = expand_expr(call)
        assert expanded is not call and type_of(expanded) == type_of(call)
        for got, want in zip(interpret(expanded, []), expected, strict=True):
            assert got.dtype == want.dtype
            _close(got, want, call)


def _close(got, want, call):
    """Within float32's rounding of sums as large as the largest result."""
    finite = np.abs(want[np.isfinite(want)].astype("float64"))
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5 * max(1, finite.max(initial=0)), err_msg=str(call.attrs))


def _typed(call):
    type_of(call)
    return call


def _value(arg):
    return tuple(_value(field) for field in arg.fields) if isinstance(arg, Tuple) else arg.data


def _leaves(call):
    return [field for arg in call.args for field in (arg.fields if isinstance(arg, Tuple) else (arg,))]


def _as_param(arg, params, arrays):
    if isinstance(arg, Tuple):
        return Tuple([_as_param(field, params, arrays) for field in arg.fields])
    params.append(Var(f"p{len(params)}", arg.tensor_type))
    arrays.append(np.array(arg.data, order="C"))
    return params[-1]


#: Kernels written as loops, whose counters and positions have the index type as well.
LOOPS = [
    *(
        "argsort",
        "sort",
        "topk",
        "searchsorted",
        "argmax",
        "argmin",
        "cumsum",
        "cumprod",
        "take",
        "gather",
        "gather_nd",
    ),
    *("scatter", "scatter_add", "scatter_elements", "scatter_nd", "adv_index", "extremes", "histogram"),
]


@pytest.mark.parametrize("name", [name for name in LOOPS if name in COMPILED])
def test_kernels_that_count_in_64_bits(name, monkeypatch):
    """As for tensors of 2**30 elements, but small."""
    monkeypatch.setattr(lower, "WIDE", 0)
    test_each_kernel_agrees_with_its_reference(name)
