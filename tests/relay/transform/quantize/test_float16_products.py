"""Products of float16 in functions that ask for them."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import module, op_names
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.errors import TargetError
from tilewright.relay import op
from tilewright.relay.transform.quantize.bfloat16_products import PRECISION
from tilewright.relay.transform.quantize.float16_products import FLOAT16, float16_products
from tilewright.target import Target

RNG = np.random.default_rng(6)
ABLE = Target("llvm -mcpu=sapphirerapids")
UNABLE = ["llvm -mcpu=znver4", "llvm -mcpu=haswell", "c", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"]


def _layer(rows: tuple[int, ...], depth: int, units: int) -> tuple[relay.Expr, np.ndarray, np.ndarray]:
    x = relay.var("x", shape=(*rows, depth), dtype="float32")
    weight = RNG.standard_normal((units, depth)).astype("float32")
    return op.nn.relu(op.nn.dense(x, relay.const(weight))), RNG.standard_normal((*rows, depth)).astype("f4"), weight


def _marked(expr: relay.Expr) -> tw.relay.IRModule:
    return module(expr).map_functions(lambda func: func.with_attr(PRECISION, FLOAT16))


@pytest.mark.parametrize(("rows", "depth", "units"), [((1, 197), 768, 256), ((64, 1), 251, 100), ((3, 40), 512, 40)])
def test_operands_are_rounded_and_nothing_else(rows: tuple[int, ...], depth: int, units: int) -> None:
    body, x, weight = _layer(rows, depth, units)
    after = float16_products(_marked(body), backend_of(ABLE))
    assert "nn.contrib_dense_float16" in op_names(after)
    operands = [one.astype(np.float16).astype("f8") for one in (x, weight)]
    (found,) = relay.interpret(after, [x])
    assert found.shape == (*rows, units) and found.dtype == np.float32
    np.testing.assert_allclose(found, np.maximum(operands[0] @ operands[1].T, 0), rtol=0, atol=1e-3)
    assert "nn.dense" in op_names(float16_products(module(body), backend_of(ABLE)))


@pytest.mark.parametrize("target", UNABLE)
def test_other_processors_keep_float32(target: str) -> None:
    body, *_ = _layer((64,), 256, 256)
    assert "nn.dense" in op_names(float16_products(_marked(body), backend_of(Target(target))))
    with pytest.raises(TargetError, match=r"no products of float16; processors with AVX512-FP16 or fullfp16 .*rapids"):
        tw.compile(module(body), precision="f16", target=target)


def test_weights_beyond_float16_and_small_products_stay() -> None:
    body, *_ = _layer((2,), 8, 8)
    assert "nn.dense" in op_names(float16_products(_marked(body), backend_of(ABLE)))
    large = RNG.standard_normal((256, 256)).astype("f4")
    large[3, 4] = 7e4
    body = op.nn.dense(relay.var("x", shape=(64, 256), dtype="float32"), relay.const(large))
    assert "nn.dense" in op_names(float16_products(_marked(body), backend_of(ABLE)))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("rows", "depth", "units"), [((1, 197), 768, 250), ((33,), 200, 17)])
def test_compiled_with_a_precision(rows: tuple[int, ...], depth: int, units: int, dtype: str) -> None:
    """Less exact than float32 and more than bfloat16, models in float16 included; columns fill panels or not."""
    if not Target("cpu").supports("avx512fp16"):
        pytest.skip("this processor has no AVX512-FP16")
    x = relay.var("x", shape=(*rows, depth), dtype=dtype)
    weight, data = (RNG.standard_normal(shape).astype(dtype) for shape in ((units, depth), (*rows, depth)))
    mod = module(op.cast(op.nn.dense(x, relay.const(weight)), "float32"))
    exact = data.astype("f8") @ weight.T.astype("f8")
    (found,) = tw.compile(mod, precision="f16", cache=False).run({"x": data})
    error = np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2))
    assert 1e-4 < error < 1.2e-3
