"""Products of float16 in arithmetic of float16: the code, and results against exact sums."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.source.programs import require_target
from tilewright import te, topi
from tilewright.backend import build
from tilewright.backend.cpu.schedule.half_intrin import _ADDED
from tilewright.backend.cpu.schedule.product_spaces import half_shape
from tilewright.backend.cpu.schedules import schedule, space_of
from tilewright.codegen.llvm.module import emit_module
from tilewright.target import Target
from tilewright.topi.reference.layout import layout_transform

RNG = np.random.default_rng(11)
ABLE = {
    "llvm -mcpu=sapphirerapids -cores=2": "v32f16",
    "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1": "v8f16",
}


def assert_sums(found: np.ndarray, x: np.ndarray, weight: np.ndarray) -> None:
    """Within what sums of so many products in float16, and of those in float32, may be off."""
    exact, size = x.astype("f8") @ weight.astype("f8").T, np.abs(x).astype("f8") @ np.abs(weight).astype("f8").T
    assert np.all(np.abs(found - exact) <= (_ADDED * 2.0**-11 + x.shape[-1] * 2.0**-24) * size)
    if exact.size > 1000:
        error = np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2))
        assert 1e-6 < error < 2e-3  # not by float32, and as the module's docstring says


@pytest.mark.parametrize("name", ABLE)
def test_code_has_multiply_adds_of_float16(name: str) -> None:
    target = Target(name)
    a, w = te.placeholder((8, 64), "float16"), te.placeholder((2, 32, 32, 2), "float16")
    text = emit_module([te.lower(schedule([out := topi.nn.dense_dot(a, w)], target), [a, w, out])], target).text
    feature = "+avx512fp16" if "sapphire" in name else "+fullfp16"
    assert f"@llvm.fma.{ABLE[name]}" in text and feature in text and feature not in target.feature_string


def test_code_of_other_functions_has_none() -> None:
    target = Target("llvm -mcpu=sapphirerapids")
    a = te.placeholder((64,), "float16")
    out = te.compute((64,), lambda i: a(i) * a(i) + a(i))
    text = emit_module([te.lower(te.create_schedule(out.op), [a, out])], target).text
    assert not any("#1" in line for line in text.splitlines() if line.startswith("define"))


@pytest.mark.parametrize(
    ("rows", "depth", "leading", "units"),
    [(64, 256, (), 64), (48, 96, (2, 20), 50), (1, 64, (1, 1), 33), (197, 70, (1, 197), 96), (29, 2, (), 32)],
)
def test_products_against_exact_sums(rows: int, depth: int, leading: tuple[int, ...], units: int) -> None:
    target, block = Target("llvm -mcpu=sapphirerapids -cores=2"), 32
    if not Target("cpu").supports("avx512fp16"):
        pytest.skip("this processor has no AVX512-FP16")
    a = te.placeholder((rows, depth), "float16")
    w = te.placeholder((-(-units // block), depth // 2, block, 2), "float16")
    product = topi.nn.dense_dot(a, w, leading=leading, units=units)
    out = te.compute(product.shape, lambda *i: product(*i) * 2)
    x, weight = (RNG.standard_normal((n, depth)).astype(np.float16) for n in (rows, -(-units // block) * block))
    ranked = [config for _, config in space_of([out], target).ranked]
    for config in (ranked[0], ranked[-1]):
        result = np.zeros((*(leading or (rows,)), units), "float32")
        func = te.lower(schedule([out], target, config), [a, w, out])
        build(func, target=target, threads=2)["main"](x, layout_transform(weight, "NC", f"NC{block}n2c"), result)
        found = result.reshape(-1, units)
        assert_sums(found / 2, x[: len(found)], weight[:units])


@pytest.mark.parametrize("name", ["c", "llvm -mcpu=x86-64-v3 -cores=1"])
def test_products_where_there_is_no_such_arithmetic(name: str) -> None:
    """Sums that float16 holds, rounded from float32 after each product."""
    target = Target(require_target(name))
    if not Target("cpu").supports("avx2") and name != "c":
        pytest.skip("this processor has no AVX2")
    a, w = te.placeholder((5, 24), "float16"), te.placeholder((2, 12, 16, 2), "float16")
    out = topi.nn.dense_dot(a, w)
    x, weight = (RNG.integers(-4, 5, (n, 24)).astype(np.float16) for n in (5, 32))
    result = np.zeros((5, 32), "float32")
    func = te.lower(schedule([out], target), [a, w, out])
    build(func, target=target)["main"](x, layout_transform(weight, "NC", "NC16n2c"), result)
    np.testing.assert_array_equal(result, x.astype("f4") @ weight.astype("f4").T)


def test_the_choice_rests_on_sizes() -> None:
    target = Target("llvm -mcpu=sapphirerapids")
    found = half_shape(1024, 1021, 1021, target)
    assert found is not None and (found.rows, found.depth) == (1024, 1022)
    assert half_shape(4, 16, 1, target) is None
