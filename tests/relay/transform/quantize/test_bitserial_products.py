"""Products of few bits are computed from their bits, exactly, and stay products of integers where that costs less."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import module, op_names
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.relay.op import nn
from tilewright.relay.transform.quantize.bitserial_products import bitserial_products
from tilewright.target import Target
from tilewright.topi.bitserial_form import METHODS
from tilewright.topi.schedule.workload import BitserialForm

#: With instructions for popcounts, with lookups alone, with neither.
TARGETS = [
    "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4",
    "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell",
    "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72",
]


class _Fixed:
    """A backend that computes every product of few bits in one form."""

    def __init__(self, form: BitserialForm) -> None:
        self.form = form

    def bitserial_form(self, product: Any) -> BitserialForm:
        return self.form


def _random_product(rng: np.random.Generator, least: int = 1) -> tuple[relay.Expr, np.ndarray]:
    """A convolution or a dense layer of random sizes, bits, polarity and layout, and data for it.

    It has `least` output channels.
    """
    ab, wb, unipolar = int(rng.integers(1, 9)), int(rng.integers(1, 5)), bool(rng.integers(2))
    channels, units = int(rng.integers(1, 90)), int(rng.integers(least, 70))
    dtype = str(rng.choice(["uint8", "int8", "int32"]))
    if rng.integers(3) == 0:
        data = rng.integers(0, 100, (int(rng.integers(1, 20)), channels)).astype(dtype)
        weight = rng.integers(0, 1 << wb, (units, channels)).astype("int8")
        x = relay.var("x", shape=data.shape, dtype=dtype)
        return nn.bitserial_dense(x, relay.const(weight), ab, wb, "int32", unipolar), data
    layout, kernel_layout = [("NCHW", "OIHW"), ("NHWC", "HWIO")][int(rng.integers(2))]
    h, w, kh, kw = (int(n) for n in (*rng.integers(3, 12, 2), *rng.integers(1, 4, 2)))
    sizes = {"N": int(rng.integers(1, 3)), "C": channels, "H": h, "W": w}
    kernel = {"O": units, "I": channels, "H": kh, "W": kw}
    data = rng.integers(0, 100, [sizes[axis] for axis in layout]).astype(dtype)
    weight = rng.integers(0, 1 << wb, [kernel[axis] for axis in kernel_layout]).astype("int8")
    strides, padding = tuple(map(int, rng.integers(1, 3, 2))), tuple(map(int, rng.integers(0, 2, 4)))
    window = {"strides": strides, "padding": padding, "data_layout": layout, "kernel_layout": kernel_layout}
    x = relay.var("x", shape=data.shape, dtype=dtype)
    bits = {"activation_bits": ab, "weight_bits": wb, "out_dtype": "int32", "unipolar": unipolar}
    return nn.bitserial_conv2d(x, relay.const(weight), **window, **bits), data


@pytest.mark.parametrize("seed", range(8))
def test_compiled_products_are_exact(seed: int) -> None:
    expr, data = _random_product(np.random.default_rng(seed))
    (expected,) = relay.interpret(module(expr), [data])
    np.testing.assert_array_equal(tw.compile(module(expr))(data), expected)


@pytest.mark.parametrize(("method", "seed"), list(itertools.product(METHODS, range(2))))
def test_every_method_is_exact(method: str, seed: int) -> None:
    expr, data = _random_product(np.random.default_rng([seed, METHODS.index(method)]), least=16)
    (expected,) = relay.interpret(module(expr), [data])
    rewritten = bitserial_products(module(expr), _Fixed(BitserialForm(method, 16)))  # type: ignore[arg-type]
    assert any("contrib_bitserial" in name for name in op_names(rewritten))
    np.testing.assert_array_equal(relay.interpret(rewritten, [data])[0], expected)
    np.testing.assert_array_equal(tw.compile(rewritten)(data), expected)


def _layer(ab: int, wb: int) -> relay.Expr:
    weight = np.random.default_rng(0).integers(0, 1 << wb, (64, 64, 3, 3)).astype("int8")
    x = relay.var("x", shape=(1, 64, 28, 28), dtype="uint8")
    return nn.bitserial_conv2d(x, relay.const(weight), 1, 1, ab, wb, out_dtype="int32")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("ab", "wb"), [(1, 1), (2, 1), (4, 4)])
def test_the_rewritten_graph_has_the_same_numbers(target: str, ab: int, wb: int) -> None:
    mod, data = module(_layer(ab, wb)), np.random.default_rng(1).integers(0, 255, (1, 64, 28, 28)).astype("uint8")
    after = bitserial_products(mod, backend_of(Target(target)))
    np.testing.assert_array_equal(relay.interpret(after, [data])[0], relay.interpret(mod, [data])[0])
    taken = "nn.contrib_bitserial_conv2d" in op_names(after)
    assert taken == ((ab, wb) != (4, 4) or "a72" in target)  # that has no products of bytes


def test_weights_that_a_run_knows_stay_as_they_are() -> None:
    x, w = relay.var("x", shape=(2, 8), dtype="uint8"), relay.var("w", shape=(4, 8), dtype="uint8")
    mod = module(nn.bitserial_dense(x, w))
    assert op_names(bitserial_products(mod, backend_of(Target("cpu")))) == ["nn.bitserial_dense"]
