"""The dot product of codes on every kind of x86, and the tiles that the template chooses."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.backend.cpu.schedule.dense_blockwise_cost import BlockwiseWorkload, blockwise_panel, blockwise_space
from tilewright.backend.cpu.schedule.dispatch import schedule, space_of
from tilewright.codegen.llvm import emit_module
from tilewright.target import Target

#: Target and bits, and the instruction that does it.
PROCESSORS = [
    ("llvm -mcpu=znver4", 4, "vpdpbusd.512"),
    ("llvm -mcpu=alderlake", 4, "vpdpbusd.256"),
    ("llvm -mcpu=haswell", 4, "avx2.pmadd.ub.sw"),
    ("llvm -mcpu=haswell", 8, "avx2.pmadd.wd"),
    ("llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod", 4, "neon.sdot"),
]


def _product(bits: int, target: Target) -> tuple[list[te.Tensor], te.Tensor]:
    panel = blockwise_panel(64, target)
    steps = 32 * bits // 32
    x, w = te.placeholder((3, 64), "float32"), te.placeholder((64 // panel, 2, steps, panel, 4), "uint8")
    scales = te.placeholder((64 // panel, 2, panel), "float32")
    return [x, w, scales], topi.nn.dense_blockwise_pack(x, w, scales, None, 64, bits, 3)


@pytest.mark.parametrize(("name", "bits", "instruction"), PROCESSORS)
def test_codes_meet_bytes_by_the_instruction_of_the_processor(name: str, bits: int, instruction: str) -> None:
    target = Target(name)
    inputs, out = _product(bits, target)
    text = emit_module([te.lower(schedule([out], target), [*inputs, out], "kernel", target=target)], target).text
    assert instruction in text


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
