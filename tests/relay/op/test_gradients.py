"""The gradient of every differentiable operator, against finite differences in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.relay.op.cases import CASES
from tests.relay.op.test_native import CALLS, QUANTIZED
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir import registry
from tilewright.relay.ir.expr import Call, Constant, Function, Tuple, Var
from tilewright.relay.ir.type import TupleType, tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op.gradients.adjoint import adjoints

STEP = 1e-6
#: Their second argument begins with the number of an image, of which there is no half.
REGIONS = ("vision.roi_align", "vision.roi_pool")
#: Its gradient is an estimator, not the derivative of what it computes; `nn/test_straight_through.py` has its values.
ESTIMATORS = ("nn.straight_through",)
DIFFERENTIABLE = [
    name
    for name in registry.names()
    if (registry.get(name).gradient is not None and name not in ESTIMATORS)
    or (registry.get(name).expansion is not None and name not in (*QUANTIZED, *CALLS, *ESTIMATORS))
]


@pytest.mark.sample(130)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_each_gradient_agrees_with_differences(name):
    """For each case of the operator; without a case this fails."""
    rng = np.random.default_rng(5)
    for call in CASES[name]:
        check_gradient(call, rng)


def check_gradient(call, rng):
    """The gradients of a call of constants, in float64, along a random direction."""
    params, values = [], []
    args = [_as_param(arg, params, values) for arg in call.args]
    attrs = {k: "float64" if k in ("dtype", "out_dtype") and v == "float32" else v for k, v in call.attrs.items()}
    result = Call(call.op, args, attrs)
    seeds = [rng.standard_normal(t.shape) for t in tensor_types(type_of(result))]
    floats = [k for k, value in enumerate(values) if value.dtype.kind == "f"]
    if not floats or not any(t.dtype == "float64" for t in tensor_types(type_of(result))):
        return  # nothing to check: no gradient can flow, or the result is too coarse for differences
    seed = [Constant(s.astype(t.dtype.numpy)) for s, t in zip(seeds, tensor_types(type_of(result)), strict=True)]
    whole = Tuple(seed) if isinstance(type_of(result), TupleType) else seed[0]
    gradients = adjoints(result, [params[k] for k in floats], whole)
    assert [type_of(g) for g in gradients] == [type_of(params[k]) for k in floats]
    directions = [rng.standard_normal(values[k].shape) for k in floats]
    if call.op.name in REGIONS:
        directions[1][:, 0] = 0
    ends = []
    for sign in (1, -1):
        moved = list(values)
        for k, direction in zip(floats, directions, strict=True):
            moved[k] = values[k] + sign * STEP * direction
        outs = interpret(Function(params, result), moved)
        ends.append(sum(np.vdot(s, o.astype("float64")) for s, o in zip(seeds, outs, strict=True)))
    found = interpret(Function(params, Tuple(gradients)), values)
    slope = sum(np.vdot(g, d) for g, d in zip(found, directions, strict=True))
    scale = max(1.0, sum(float(np.abs(g * d).sum()) for g, d in zip(found, directions, strict=True)))
    assert abs((ends[0] - ends[1]) / (2 * STEP) - slope) < 1e-4 * scale, (call.op.name, call.attrs)


def _as_param(arg, params, values):
    if isinstance(arg, Tuple):
        return Tuple([_as_param(field, params, values) for field in arg.fields])
    data = arg.data.astype("float64") if arg.data.dtype == "float32" else arg.data
    values.append(data)
    params.append(Var(f"p{len(params)}", Constant(data).tensor_type))
    return params[-1]
