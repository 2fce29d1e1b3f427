"""Products of few bits: the method that each processor takes, its instructions, and tiles that fit the registers."""

from __future__ import annotations

import pytest

from tilewright import te, topi
from tilewright.backend.cpu.schedule.bitserial_choice import bitserial_form, bitserial_forms
from tilewright.backend.cpu.schedule.dispatch import schedule, space_of
from tilewright.backend.cpu.schedule.task_key import task_key
from tilewright.codegen.llvm import emit_module
from tilewright.target import Target
from tilewright.topi.bitserial_form import LOOKUP, POPCOUNT, POPCOUNT_BYTES, BitSerial, padded_channels
from tilewright.topi.schedule.workload import BitserialProduct

ZEN4, HASWELL = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4", "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"
NEON, OLD_NEON = (f"llvm -mtriple=aarch64-linux-gnu -mcpu={cpu}" for cpu in ("cortex-a76", "cortex-a53"))


def _product(data_bits: int, weight_bits: int, units: int = 64) -> BitserialProduct:
    return BitserialProduct((1, 28, 28, 64), units, (3, 3), (1, 1), (1, 1, 1, 1), data_bits, weight_bits, True)


@pytest.mark.parametrize(
    ("name", "data_bits", "weight_bits", "method"),
    [
        (ZEN4, 1, 1, POPCOUNT),
        (ZEN4, 2, 1, LOOKUP),
        (ZEN4, 4, 4, None),
        (HASWELL, 1, 1, LOOKUP),
        (HASWELL, 2, 2, LOOKUP),
        (NEON, 1, 1, POPCOUNT_BYTES),
        (OLD_NEON, 2, 1, LOOKUP),
        ("c -mcpu=sapphirerapids", 2, 1, POPCOUNT),
    ],
)
def test_the_method_that_costs_least(name: str, data_bits: int, weight_bits: int, method: str | None) -> None:
    form = bitserial_form(_product(data_bits, weight_bits), Target(name))
    assert (None if form is None else form.method) == method


@pytest.mark.parametrize(("size", "units", "stride", "method"), [(14, 512, 2, LOOKUP), (14, 256, 1, None)])
def test_weights_of_bytes_come_from_behind_the_second_cache(
    size: int, units: int, stride: int, method: str | None
) -> None:
    """1.2 MB of bytes for 49 pixels are dearer than their bits; 0.6 MB for 196 are not."""
    layer = BitserialProduct((1, size, size, 256), units, (3, 3), (stride, stride), (1, 1, 1, 1), 2, 1, True)
    form = bitserial_form(layer, Target("llvm -mcpu=sapphirerapids"))
    assert (None if form is None else form.method) == method


def test_few_output_channels_have_no_panel_of_bytes() -> None:
    methods = [form.method for form in bitserial_forms(_product(2, 1, units=15), Target(ZEN4))]
    assert methods == [POPCOUNT]
    lanes = {form.method: form.lanes for form in bitserial_forms(_product(2, 1, units=63), Target(ZEN4))}
    assert lanes[LOOKUP] == 32


@pytest.mark.parametrize(
    ("name", "method", "lanes", "instruction"),
    [
        (ZEN4, LOOKUP, 64, "avx512.pshuf.b.512"),
        (ZEN4, POPCOUNT, 16, "ctpop.v16i32"),
        (HASWELL, LOOKUP, 32, "avx2.pshuf.b"),
        (NEON, LOOKUP, 16, "neon.tbl1"),
        (NEON, POPCOUNT_BYTES, 16, "ctpop.v16i8"),
    ],
)
def test_the_instruction_and_the_registers(name: str, method: str, lanes: int, instruction: str) -> None:
    target, channels = Target(name), padded_channels(64, 2, method)
    words = [channels // 32, 1, lanes] if method == POPCOUNT else [1, channels // 8, 1, lanes // 2, 2]
    x = te.placeholder((1, 8, 14, 64), "uint8")
    w = te.placeholder((1, 3, 3, *words), "uint32" if method == POPCOUNT else "uint8")
    out = topi.nn.bitserial_conv2d_pack(x, w, BitSerial(method, lanes, 2, 2, 1), (1, 1), (1, 1, 1, 1))
    space = space_of([out], target)
    assert space is not None and max(space.knobs["tile_columns"]) * 2 <= target.vector_registers
    key = task_key([out], target)
    assert key is not None and key.template == "bitserial_conv2d"  # the tuner's task
    text = emit_module([te.lower(schedule([out], target), [x, w, out], "kernel", target=target)], target).text
    assert instruction in text
