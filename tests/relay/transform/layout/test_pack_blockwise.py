"""Weights of a few bits are packed in panels: as many bytes as before, the same product, at every level of accuracy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.relay.helpers import module
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.driver.model.build import build_model
from tilewright.relay.ir.visitor import calls, post_order
from tilewright.relay.transform.layout.pack_blockwise import pack_blockwise
from tilewright.relay.transform.simplify.make import is_call
from tilewright.target import Target
from tilewright.topi.reference.blockwise import (
    code_bits,
    dense_blockwise,
    pack_weight,
    packed_codes,
    unpack_weight,
)

TARGET = Target("llvm -mcpu=skylake-avx512 -cores=1")
RNG = np.random.default_rng(31)

#: The error of each level, of the largest result: float32, 16 bits of the largest of a block, 8 bits of it.
ERRORS = {0: 1e-6, 1: 1e-6, 2: 1e-4, 3: 1e-4, 4: 3e-2}


def _operands(bits, block, units, depth, zeros):
    blocks = -(-depth // block)
    weight = RNG.integers(0, 256, (units, blocks, block * bits // 8)).astype(np.uint8)
    scales = RNG.standard_normal((units, blocks)).astype(np.float32)
    points = RNG.integers(0, 1 << bits, (units, blocks)).astype(np.uint8) if zeros else None
    return [x for x in (weight, scales, points) if x is not None]


def _product(x, operands, **attrs):
    return module(relay.nn.relu(relay.nn.dense_blockwise(x, *map(relay.const, operands), **attrs)))


@pytest.mark.parametrize("bits", range(1, 9))
def test_packing_is_undone_by_unpacking(bits):
    weight = RNG.integers(0, 256, (37, 3, 4 * bits)).astype(np.uint8)  # 32 codes a block
    packed = pack_weight(weight, bits, 32)
    assert packed.shape == (2, 3, bits, 32, 4)
    np.testing.assert_array_equal(packed_codes(code_bits(weight, bits), bits), weight)
    codes = unpack_weight(packed, bits)
    np.testing.assert_array_equal(codes[:37], code_bits(weight, bits))
    assert not codes[37:].any()


def test_packed_weights_are_as_large_as_before():
    operands = _operands(4, 32, 64, 96, True)
    mod = pack_blockwise(_product(relay.var("x", shape=(1, 96)), operands), backend_of(TARGET))
    packed = [node.data for node in post_order(mod["main"].body) if isinstance(node, relay.Constant)]
    assert sorted(x.nbytes for x in packed) == sorted(x.nbytes for x in operands)
    assert {x.shape for x in packed} == {(2, 3, 4, 32, 4), (2, 3, 32)}


@pytest.mark.parametrize(
    ("bits", "block", "units", "shape", "zeros", "level"),
    [
        (4, 32, 80, (1, 100), False, 0),
        (4, 16, 33, (2, 3, 40), True, 1),
        (2, 64, 64, (5, 130), True, 2),
        (8, 256, 49, (3, 300), False, 0),
        (8, 32, 17, (4, 7), True, 3),
        (4, 128, 32, (35, 128), False, 4),
        (4, 32, 5, (2, 50), True, 0),
        (3, 32, 65, (3, 100), True, 0),
        (3, 128, 48, (5, 256), False, 0),
        (3, 16, 40, (2, 64), False, 0),
        (6, 16, 64, (4, 96), True, 1),
        (5, 32, 33, (1, 96), False, 0),
        (7, 64, 32, (2, 64), True, 2),
        (1, 32, 64, (3, 96), True, 0),
    ],
)
@pytest.mark.sample(5)
def test_products_agree_with_float64(bits, block, units, shape, zeros, level):
    operands = _operands(bits, block, units, shape[-1], zeros)
    mod = _product(relay.var("x", shape=shape), operands, bits=bits, accuracy_level=level)
    x = RNG.standard_normal(shape).astype(np.float32)
    x[0, ..., 1] *= 1000  # an outlier must not cost the others their bits
    wanted = np.maximum(dense_blockwise(x.astype(np.float64), *operands, bits=bits), 0)
    got = build_model(mod, Target("cpu"), threads=2)(x)
    assert np.abs(got - wanted).max() <= ERRORS[level] * np.abs(wanted).max()


@pytest.mark.parametrize("target", ["cpu", "llvm -mcpu=haswell", "llvm -mcpu=x86-64-v2"])
@pytest.mark.parametrize(("bits", "units", "depth"), [(4, 80, 128), (4, 33, 200), (2, 64, 96), (4, 5, 64)])
def test_codes_stand_for_numbers_of_a_table(target, bits, units, depth):
    operands, table = _operands(bits, 64, units, depth, False), RNG.standard_normal(1 << bits).astype(np.float32)
    mod = _product(relay.var("x", shape=(4, depth)), operands, bits=bits, table=table)
    x = RNG.standard_normal((4, depth)).astype(np.float32)
    wanted = np.maximum(dense_blockwise(x.astype(np.float64), *operands, bits=bits, table=table), 0)
    got = build_model(mod, Target(target), threads=1)(x)
    assert np.abs(got - wanted).max() <= 1e-6 * np.abs(wanted).max()


def test_what_is_no_number_stays_none():
    operands = _operands(4, 32, 32, 64, False)
    model = build_model(_product(relay.var("x", shape=(3, 64)), operands), Target("cpu"), threads=1)
    x = np.zeros((3, 64), np.float32)
    x[1, 40], x[2, 3] = np.nan, 1e-38
    got = model(x)
    assert not got[0].any() and np.isnan(got[1]).all() and np.abs(got[2]).max() < 1e-36


@pytest.mark.parametrize(("rows", "whole"), [(16, True), (1, False), (17, False)])
def test_the_last_panel_is_filled_up_for_matrix_registers(rows, whole):
    """Columns that no panel of matrix registers would have are computed and left out, where tiles take the rows."""
    operands, target = _operands(4, 32, 45, 96, True), Target("llvm -mcpu=sapphirerapids -cores=1")
    mod = pack_blockwise(_product(relay.var("x", shape=(rows, 96)), operands), backend_of(target))
    (product,) = [node for node in calls(mod["main"].body) if is_call(node, "nn.dense_blockwise")]
    assert product.attrs["units"] == (64 if whole else 45)
    data = RNG.standard_normal((rows, 96)).astype(np.float32)
    expected = np.maximum(dense_blockwise(data, *operands, 4), 0)
    (found,) = relay.interpret(mod, [data])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    if target.is_host:
        compiled = build_model(_product(relay.var("x", shape=(rows, 96)), operands), target, threads=1)
        np.testing.assert_allclose(compiled(data), expected, rtol=0, atol=1e-5 * np.abs(expected).max())
