"""Products of bfloat16: those of models that have such operands, and of float32 whose operands are rounded."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.codegen.source.programs import require_target
from tests.relay.helpers import module, op_names
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.errors import InputError, TargetError
from tilewright.relay import op
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.transform.quantize.bfloat16_products import BFLOAT16, PRECISION, SPLIT, bfloat16_products
from tilewright.relay.transform.quantize.compute_in_float32 import compute_in_float32
from tilewright.target import Target
from tilewright.topi.reference.conv import conv2d_nchw

RNG = np.random.default_rng(5)
ABLE = [Target("llvm -mcpu=sapphirerapids"), Target("llvm -mcpu=znver4")]
_AROUND = ((0, 0), (0, 0), (1, 1), (1, 1))
UNABLE = [Target("llvm -mcpu=haswell"), Target("c"), Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1")]


def _rounded(x: np.ndarray) -> np.ndarray:
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def _layer(rows: tuple[int, ...], depth: int, units: int) -> tuple[relay.Expr, np.ndarray, np.ndarray]:
    x = relay.var("x", shape=(*rows, depth), dtype="float32")
    weight = RNG.standard_normal((units, depth)).astype("float32")
    return op.nn.relu(op.nn.dense(x, relay.const(weight))), RNG.standard_normal((*rows, depth)).astype("f4"), weight


def _marked(expr: relay.Expr) -> Any:
    return module(expr).map_functions(lambda func: func.with_attr(PRECISION, BFLOAT16))


@pytest.mark.parametrize("target", ABLE, ids=lambda target: target.cpu)
@pytest.mark.parametrize(("rows", "depth", "units"), [((1, 197), 768, 256), ((64, 1), 250, 100), ((3, 40), 512, 40)])
def test_operands_are_rounded_and_nothing_else(target: Target, rows: tuple[int, ...], depth: int, units: int) -> None:
    body, x, weight = _layer(rows, depth, units)
    after = bfloat16_products(_marked(body), backend_of(target))
    assert "nn.contrib_dense_bfloat16" in op_names(after)
    expected = np.maximum(_rounded(x).astype("f8") @ _rounded(weight).astype("f8").T, 0)
    found = relay.interpret(after, [x])[0]
    assert found.shape == (*rows, units) and found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=depth * 2.0**-24 * np.abs(weight).max() * depth)
    assert "nn.contrib_dense_bfloat16" not in op_names(bfloat16_products(module(body), backend_of(target)))


@pytest.mark.parametrize(("rows", "depth", "units"), [((1, 197), 768, 256), ((256,), 256, 512)])
def test_halves_of_operands_hold_sixteen_bits(rows: tuple[int, ...], depth: int, units: int) -> None:
    body, x, weight = _layer(rows, depth, units)
    mod = module(body).map_functions(lambda func: func.with_attr(PRECISION, SPLIT))
    after = bfloat16_products(mod, backend_of(ABLE[0]))
    assert "nn.contrib_dense_bfloat16" in op_names(after)
    x[(0,) * (x.ndim - 1)][:2] = (np.inf, 1.0)
    with np.errstate(all="ignore"):
        expected = np.maximum(x.astype("f8") @ weight.astype("f8").T, 0).reshape(-1, units)
    (found,) = relay.interpret(after, [x])
    found = found.reshape(-1, units)
    np.testing.assert_array_equal(found[0], expected[0])
    terms = np.abs(x.astype("f8").reshape(-1, depth)[1:]) @ np.abs(weight.astype("f8")).T
    assert np.all(np.abs(found[1:] - expected[1:]) <= (2.0**-16 + (3 * depth + 1) * 2.0**-24) * terms)


@pytest.mark.parametrize("target", UNABLE, ids=lambda target: f"{target.kind} {target.cpu}")
def test_other_processors_keep_float32(target: Target) -> None:
    body, *_ = _layer((64,), 256, 256)
    assert "nn.dense" in op_names(bfloat16_products(_marked(body), backend_of(target)))


def test_products_that_do_not_gain_stay_in_float32() -> None:
    for rows, depth, units in (((2,), 8, 8), ((1,), 16, 4)):
        body, *_ = _layer(rows, depth, units)
        assert "nn.dense" in op_names(bfloat16_products(_marked(body), backend_of(ABLE[0])))


@pytest.mark.parametrize("target", ABLE, ids=lambda target: target.cpu)
def test_operands_that_are_bfloat16_need_no_rounding(target: Target) -> None:
    x = relay.var("x", shape=(2, 64, 256), dtype="bfloat16")
    weight = _rounded(RNG.standard_normal((256, 256)))
    body = op.nn.dense(op.reshape(op.cast(x, "float32"), (128, 256)), relay.const(weight))
    after = bfloat16_products(module(body), backend_of(target))
    assert "nn.contrib_dense_bfloat16" in op_names(after) and op_names(after).count("cast") == 0
    other = op.nn.dense(op.reshape(op.cast(x, "float32"), (128, 256)), relay.const(weight + np.float32(2.0**-20)))
    assert "nn.dense" in op_names(bfloat16_products(module(other), backend_of(target)))


@pytest.mark.parametrize("target", [*ABLE, UNABLE[0]], ids=lambda target: target.cpu)
def test_models_in_bfloat16_round_what_products_read(target: Target) -> None:
    """Two layers: the second reads 16 bits where that is multiplied, and what the first computed elsewhere."""
    x = relay.var("x", shape=(64, 256), dtype="bfloat16")
    weights = [relay.const(_rounded(RNG.standard_normal((256, 256))).astype(ml_dtypes.bfloat16)) for _ in range(2)]
    body = op.nn.dense(op.nn.relu(op.nn.dense(x, weights[0])), weights[1])
    backend = backend_of(target)
    after = bfloat16_products(compute_in_float32(infer_type(module(body)), backend=backend), backend)
    able = target is not UNABLE[0]
    assert op_names(after).count("nn.contrib_dense_bfloat16") == (2 if able else 0)
    assert op_names(after).count("cast") == 2  # of what the first returns, or the input, and of the result


def _convolution(channels: int, filters: int, groups: int = 1) -> tuple[relay.Expr, np.ndarray, np.ndarray]:
    x = relay.var("x", shape=(1, channels, 30, 29), dtype="float32")
    weight = RNG.standard_normal((filters, channels // groups, 3, 3)).astype("float32")
    convolved = op.nn.conv2d(x, relay.const(weight), strides=2, padding=1, groups=groups)
    return op.nn.relu(convolved), RNG.standard_normal((1, channels, 30, 29)).astype("f4"), weight


@pytest.mark.parametrize("target", ABLE, ids=lambda target: target.cpu)
def test_operands_of_convolutions_are_rounded(target: Target) -> None:
    """If that gains: not on a processor whose pairs are no faster than Winograd or multiply-adds."""
    body, x, weight = _convolution(64, 128)
    after = bfloat16_products(_marked(body), backend_of(target))
    assert ("nn.contrib_conv2d_bfloat16" in op_names(after)) or target is not ABLE[0]
    exact = conv2d_nchw(np.pad(_rounded(x), _AROUND).astype("f8"), _rounded(weight).astype("f8"), (2, 2))
    if "nn.contrib_conv2d_bfloat16" in op_names(after):
        found = relay.interpret(after, [x])[0]
        np.testing.assert_allclose(found, np.maximum(exact, 0), rtol=0, atol=1e-3)
    assert "nn.conv2d" in op_names(bfloat16_products(module(body), backend_of(target)))


@pytest.mark.parametrize("facts", [(3, 64), (64, 64, 64), (64, 64, 2), (64, 60)])
def test_convolutions_of_groups_and_of_few_channels_stay_in_float32(facts: tuple[int, ...]) -> None:
    body, *_ = _convolution(*facts)
    assert "nn.conv2d" in op_names(bfloat16_products(_marked(body), backend_of(ABLE[0])))


def test_convolutions_compiled_with_a_precision() -> None:
    """Against exact sums of rounded operands; padding, strides and layouts of blocks are in between."""
    if not Target("cpu").supports("amx-bf16"):
        pytest.skip("this processor has no AMX")
    body, x, weight = _convolution(64, 96)
    (found,) = tw.compile(module(body), precision="bf16", cache=False).run({"x": x})
    x, weight = _rounded(np.pad(x, _AROUND)).astype("f8"), _rounded(weight).astype("f8")
    exact, size = conv2d_nchw(x, weight, (2, 2)), conv2d_nchw(np.abs(x), np.abs(weight), (2, 2))
    assert np.all(np.abs(found - np.maximum(exact, 0)) <= (64 * 9 + 1) * 2.0**-24 * size)


@pytest.mark.parametrize(("rows", "depth", "units"), [((1, 197), 768, 250), ((5,), 200, 2), ((5,), 200, 17)])
def test_compiled_with_a_precision(rows: tuple[int, ...], depth: int, units: int) -> None:
    """Against exact sums of rounded operands where the processor has such products; columns fill panels or not."""
    if not any(map(Target("cpu").supports, ("avx512bf16", "amx-bf16"))):
        pytest.skip("this processor has no products of bfloat16")
    body, x, weight = _layer(rows, depth, units)
    (found,) = tw.compile(module(body), precision="bf16", cache=False).run({"x": x})
    plain, exact = x.astype("f8") @ weight.T.astype("f8"), _rounded(x).astype("f8") @ _rounded(weight).T.astype("f8")
    size = np.abs(_rounded(x)).astype("f8") @ np.abs(_rounded(weight)).T.astype("f8")
    errors = np.abs(found - np.maximum(exact, 0)), np.abs(found - np.maximum(plain, 0))
    assert np.all(errors[0] <= (depth + 1) * 2.0**-24 * size) or Target("cpu").machine.tile_product == 0
    assert np.all(errors[1] <= (2.0**-8 + 2.0**-16 + (depth + 1) * 2.0**-24) * size)


@pytest.mark.parametrize("target", ["c", "cpu"])
def test_models_in_bfloat16_as_c_and_here(target: str) -> None:
    """Sums of exact products in float32, rounded once, whether or not the target multiplies bfloat16."""
    x = relay.var("x", shape=(5, 40), dtype="bfloat16")
    weight, data = (RNG.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((12, 40), (5, 40)))
    mod = module(op.nn.relu(op.nn.dense(x, relay.const(weight))))
    (found,) = tw.compile(mod, require_target(target), cache=False).run({"x": data})
    exact = np.maximum(data.astype("f8") @ weight.astype("f8").T, 0)
    assert found.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(found.astype("f8"), exact, rtol=2.0**-8, atol=1e-5)


def test_unknown_precisions_and_targets_without() -> None:
    body, *_ = _layer((4,), 8, 8)
    with pytest.raises(InputError, match=r"precision 'bf61' is unknown.*known: float32, bf16"):
        tw.compile(module(body), precision="bf61")
    with pytest.raises(TargetError, match=r"no products of bfloat16; processors with .*znver4"):
        tw.compile(module(body), precision="bf16", target="llvm -mcpu=haswell")
    with pytest.raises(TargetError, match="no products of bfloat16"):
        tw.compile(module(body), precision="bf16", target="c")
