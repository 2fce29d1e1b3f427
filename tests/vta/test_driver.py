"""DRAM handed out and taken back, and the interface behind which accelerators run programs."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import InputError, ProgramError
from tilewright.vta import DRIVERS, Dram, Isa, assemble, make_uop, open_driver, pack

ISA = Isa()
#: The RTL needs Verilator, and counts fewer things: its own tests run it.
KINDS = [kind for kind in DRIVERS if kind != "rtl"]


def shift_program(dram: Dram, values: np.ndarray) -> tuple[bytes, int]:
    """A program that halves tiles, and where its result comes to be."""
    at, uop = dram.put("ACC", values), dram.put("UOP", np.array([make_uop(ISA)]))
    out, n = dram.reserve("OUT", len(values)), len(values)
    text = f"""
        LOAD mem_id=UOP dram={uop} y_size=1 x_size=1 x_stride=1
        LOAD mem_id=ACC dram={at} y_size=1 x_size={n} x_stride={n}
        ALU push_next op=SHR use_imm imm=1 uop_end=1 iter_out=1 iter_in={n} dst_factor_in=1
        STORE pop_prev push_prev mem_id=OUT dram={out} y_size=1 x_size={n} x_stride={n}
        FINISH pop_next
    """
    return pack(ISA, assemble(ISA, text)), out


@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_runs_what_lies_in_dram(kind: str) -> None:
    dram = Dram(ISA, 1 << 14)
    values = np.arange(-48, 48, dtype=np.int32).reshape(6, 1, 16)
    program, out = shift_program(dram, values)
    driver = open_driver(kind, ISA, dram)
    address = dram.put_bytes(program)
    counters = driver.run(address, 5)
    assert (dram.read("OUT", out, 6) == values >> 1).all()
    assert counters["ALU steps"] == 6 and counters["ACC bytes"] == values.nbytes and counters["OUT bytes"] == 96
    driver.run(address, 5)
    assert driver.counters["ALU steps"] == 12


@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_refuses_what_the_chip_does(kind: str) -> None:
    dram = Dram(ISA, 1 << 14)
    driver = open_driver(kind, ISA, dram)
    address = dram.put_bytes(bytes([7]) + bytes(15))
    with pytest.raises(ProgramError, match="opcode 7"):
        driver.run(address, 1)
    with pytest.raises(InputError, match="reach beyond DRAM"):
        driver.run(address, 1 << 14)


def test_an_unknown_driver_is_refused() -> None:
    with pytest.raises(InputError, match=r"no accelerator 'abacus'; there are: .*checked"):
        open_driver("abacus", ISA, Dram(ISA, 64))


def test_released_buffers_are_given_again() -> None:
    dram = Dram(ISA, 1024)
    first, second, third = (dram.allocate(256, 256) for _ in range(3))
    assert (first, second, third) == (0, 256, 512) and dram.free_bytes == 256
    dram.release(first)
    dram.release(second)
    assert dram.allocate(512, 64) == 0
    with pytest.raises(InputError, match=r"300 bytes at a multiple of 4 do not fit .* 256 bytes in 1 pieces"):
        dram.allocate(300, 4)
    with pytest.raises(InputError, match="no buffer begins at byte 8"):
        dram.release(8)


def test_alignment_leaves_the_gap_before_it_free() -> None:
    dram = Dram(ISA, 1024)
    assert dram.allocate(4) == 0 and dram.allocate(256, 256) == 256 and dram.allocate(100, 4) == 4
