"""Weights of products stored as float16, for WebGPU."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import module
from tests.runtime.gpu.programs import opened
from tilewright import relay
from tilewright.errors import TargetError
from tilewright.relay import op
from tilewright.relay.transform.quantize.bfloat16_products import PRECISION
from tilewright.relay.transform.quantize.float16_products import FLOAT16
from tilewright.relay.transform.quantize.half_weights import half_weights

RNG = np.random.default_rng(3)
KERNEL = RNG.standard_normal((6, 5, 3, 3)).astype("float32")
WEIGHT = RNG.standard_normal((11, 6)).astype("float32")


def _network(kernel: np.ndarray = KERNEL, weight: np.ndarray = WEIGHT) -> relay.Expr:
    """A convolution whose two readers are a product and a sum."""
    x = relay.var("x", shape=(1, 5, 8, 8), dtype="float32")
    image = op.nn.relu(op.nn.conv2d(x, relay.const(kernel), padding=(1, 1)))
    return op.nn.dense(op.reshape(op.mean(image, (2, 3)), (1, 6)), relay.const(weight))


def _stored(mod: tw.relay.IRModule) -> list[str]:
    nodes = relay.ir.visitor.post_order(mod["main"].body)
    return [str(node.data.dtype) for node in nodes if isinstance(node, relay.Constant)]


def test_weights_are_rounded_where_a_function_asks_for_it() -> None:
    mod = module(_network())
    assert _stored(half_weights(mod)) == ["float32", "float32"]
    after = half_weights(mod.map_functions(lambda func: func.with_attr(PRECISION, FLOAT16)))
    assert _stored(after) == ["float16", "float16"]
    x = RNG.standard_normal((1, 5, 8, 8)).astype("float32")
    (found,), (exact,) = relay.interpret(after, [x]), relay.interpret(mod, [x])
    assert 1e-6 < np.abs(found - exact).max() / np.abs(exact).max() < 1e-3


def test_weights_beyond_float16_stay() -> None:
    large = KERNEL.copy()
    large[0, 0, 0, 0] = 7e4
    mod = module(_network(large)).map_functions(lambda func: func.with_attr(PRECISION, FLOAT16))
    assert _stored(half_weights(mod)) == ["float32", "float16"]


def test_compiled_for_webgpu_in_as_many_launches() -> None:
    opened("webgpu")
    whole, half = (
        tw.compile(module(_network()), target="webgpu", precision=precision, cache=False)
        for precision in ("float32", "f16")
    )
    assert len(half.manifest.kernels) == len(whole.manifest.kernels)
    x = RNG.standard_normal((1, 5, 8, 8)).astype("float32")
    rounded = [one.astype("float16").astype("float32") for one in (KERNEL, WEIGHT)]
    (want,) = relay.interpret(module(_network(*rounded)), [x])
    np.testing.assert_allclose(half(x), want, rtol=1e-5, atol=1e-5)
    assert 1e-6 < np.abs(half(x) - whole(x)).max() / np.abs(whole(x)).max() < 1e-3


def test_other_devices_are_refused() -> None:
    for target in ("cuda", "opencl"):
        with pytest.raises(TargetError, match="no products of float16"):
            tw.compile(module(_network()), target=target, precision="f16")
