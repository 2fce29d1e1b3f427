"""The dot product of codes on every kind of x86, and the tiles that the template chooses."""

from __future__ import annotations

import numpy as np
import pytest

from tests.relay.helpers import module
from tilewright import relay, te, topi
from tilewright.backend.cpu.schedule.dense_blockwise_cost import BlockwiseWorkload, blockwise_panel, blockwise_space
from tilewright.backend.cpu.schedule.dispatch import schedule, space_of
from tilewright.codegen.llvm import emit_module
from tilewright.driver.model.build import build_model
from tilewright.target import Target

#: A processor with matrix registers; `is_host` where this one has them and the tests may use them.
MATRIX = Target("llvm -mcpu=sapphirerapids")

#: Target and bits, and the instruction that does it.
PROCESSORS = [
    ("llvm -mcpu=znver4", 4, "vpdpbusd.512"),
    ("llvm -mcpu=znver4", 3, "vpdpbusd.512"),
    ("llvm -mcpu=haswell", 6, "avx2.pmadd.ub.sw"),
    ("llvm -mcpu=alderlake", 4, "vpdpbusd.256"),
    ("llvm -mcpu=haswell", 4, "avx2.pmadd.ub.sw"),
    ("llvm -mcpu=haswell", 8, "avx2.pmadd.wd"),
    ("llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod", 4, "neon.sdot"),
]


def _product(bits: int, target: Target, rows: int = 3) -> tuple[list[te.Tensor], te.Tensor]:
    panel = blockwise_panel(64, target)
    steps = 32 * bits // 32
    x, w = te.placeholder((rows, 64), "float32"), te.placeholder((64 // panel, 2, steps, panel, 4), "uint8")
    scales = te.placeholder((64 // panel, 2, panel), "float32")
    return [x, w, scales], topi.nn.dense_blockwise_pack(x, w, scales, None, 64, bits, 3)


@pytest.mark.parametrize(("name", "bits", "instruction"), PROCESSORS)
def test_codes_meet_bytes_by_the_instruction_of_the_processor(name: str, bits: int, instruction: str) -> None:
    target = Target(name)
    inputs, out = _product(bits, target)
    text = emit_module([te.lower(schedule([out], target), [*inputs, out], "kernel", target=target)], target).text
    assert instruction in text


@pytest.mark.parametrize(("rows", "bits", "matrix"), [(32, 4, True), (14, 6, True), (32, 3, True), (3, 4, False)])
def test_many_rows_have_matrix_registers(rows: int, bits: int, matrix: bool) -> None:
    target = Target("llvm -mcpu=sapphirerapids")
    inputs, out = _product(bits, target, rows)
    text = emit_module([te.lower(schedule([out], target), [*inputs, out], "kernel", target=target)], target).text
    assert ("tdpbsud" in text) == matrix


@pytest.mark.skipif(not MATRIX.is_host, reason="this processor has no matrix registers (AMX)")
@pytest.mark.parametrize(
    ("bits", "block", "shape", "zeros", "level"),
    [
        (4, 32, (48, 200), True, 0),
        (4, 128, (14, 256), True, 2),
        (8, 64, (32, 256), False, 4),
        (3, 32, (32, 96), True, 4),
        (6, 16, (16, 64), False, 0),
    ],
)
def test_matrix_registers_make_the_same_bits(bits, block, shape, zeros, level) -> None:
    rng, blocks = np.random.default_rng(7), -(-shape[-1] // block)
    weight = rng.integers(0, 256, (80, blocks, block * bits // 8)).astype(np.uint8)
    scales, points = rng.random((80, blocks)).astype(np.float32), rng.integers(0, 1 << bits, (80, blocks))
    operands = [weight, scales, *([points.astype(np.uint8)] if zeros else [])]
    x, data = relay.var("x", shape=shape), rng.standard_normal(shape).astype(np.float32)
    call = relay.nn.dense_blockwise(x, *map(relay.const, operands), bits=bits, accuracy_level=level)
    without = Target("llvm -mcpu=sapphirerapids -mattr=-amx-int8,-amx-tile,-amx-bf16")
    ours, theirs = (build_model(module(call), target, threads=1)(data) for target in (MATRIX, without))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("units", "rows"), [(17, 12), (33, 16), (40, 14)])
def test_columns_that_fill_no_panel(units: int, rows: int) -> None:
    rng = np.random.default_rng(8)
    weight = rng.integers(0, 256, (units, 2, 8)).astype(np.uint8), rng.random((units, 2)).astype(np.float32)
    x, data = relay.var("x", shape=(rows, 32)), rng.standard_normal((rows, 32)).astype(np.float32)
    mod = module(relay.nn.dense_blockwise(x, *map(relay.const, weight), bits=4))
    found, (wanted,) = build_model(mod, Target("cpu"), threads=1)(data), relay.interpret(mod, [data])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())


def test_tiles_fit_the_registers() -> None:
    target = Target("llvm -mcpu=znver4 -cores=1")
    workload = BlockwiseWorkload(rows=128, columns=64, depth=4096, block=32, panel=32, bits=4, digits=3)
    assert blockwise_space(workload, target).knobs["tile_rows"] == (3, 2, 1)
    one = BlockwiseWorkload(rows=1, columns=64, depth=4096, block=32, panel=32, bits=4, digits=1)
    assert blockwise_space(one, target).knobs["tile_rows"] == (1,)


def test_many_rows_share_what_is_taken_apart() -> None:
    target = Target("llvm -mcpu=znver4 -cores=1")
    _, out = _product(4, target)
    space = space_of([out], target)
    assert space is not None and space.default["tile_rows"] == 3


def test_panels_are_whole_vectors() -> None:
    target = Target("llvm -mcpu=znver4 -cores=1")
    assert [blockwise_panel(units, target) for units in (1, 15, 16, 31, 32, 5000)] == [0, 0, 16, 16, 32, 32]
    assert np.gcd.reduce([blockwise_panel(n, target) for n in range(200)]) == target.machine.lanes()
