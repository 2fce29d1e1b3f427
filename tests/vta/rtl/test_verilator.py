"""The RTL under Verilator: random programs bit for bit, ports of several widths, programs that never end."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tests.vta.test_programs import made
from tilewright.errors import ProgramError, UserError
from tilewright.vta import Config, Instruction, Isa, assemble, pack
from tilewright.vta.cycle import CycleDriver
from tilewright.vta.dram import Dram
from tilewright.vta.driver import Driver
from tilewright.vta.hardware import Hardware

pytest.importorskip("amaranth", reason="RTL is made by amaranth, the extra `rtl`")
if shutil.which("verilator") is None or not any(map(shutil.which, ("g++", "clang++", "c++"))):
    pytest.skip("RTL is run by Verilator and a C++ compiler: apt-get install verilator g++", allow_module_level=True)

from tilewright.vta.rtl.verilator import VerilatedDriver


def execute(
    driver: type[Driver], isa: Isa, program: list[Instruction], dram: np.ndarray, hardware: Hardware
) -> tuple[np.ndarray, int]:
    """DRAM afterwards, and the cycles."""
    memory = Dram(isa, 1 << 14)
    memory.data[: dram.size] = dram
    code = np.frombuffer(pack(isa, program), np.uint8)
    memory.data[dram.size : dram.size + code.size] = code
    counters = driver(isa, memory, hardware).run(dram.size, len(program))  # type: ignore[call-arg]
    return memory.data[: dram.size], counters["cycles"]


@pytest.mark.parametrize("port", [8, 32])
def test_random_programs_give_the_oracles_bits_in_the_modelled_time(port: int) -> None:
    """Beats that an element has several of, and beats that have several elements."""
    hardware, cycles = Hardware(port_bytes=port, burst=64), []
    for seed in range(1, 121, 2):
        isa, program, _, dram, expected = made(seed)
        found, measured = execute(VerilatedDriver, isa, program, dram, hardware)
        np.testing.assert_array_equal(found, expected, err_msg=f"{seed}")
        same, modelled = execute(CycleDriver, isa, program, dram, hardware)
        np.testing.assert_array_equal(same, expected, err_msg=f"{seed}")
        cycles.append((modelled, measured))
    total = np.array(cycles).sum(0)
    assert abs(total[0] / total[1] - 1) < 0.03, total


def test_the_new_operations_and_padding() -> None:
    """Version 2, against the functional simulator."""
    isa = Isa(Config(3, 3, 5, 1, 2, 6, 7, 8, 9, isa_version=2))
    dram = np.random.default_rng(5).integers(0, 256, 1 << 13, np.uint8)
    dram[:4] = np.array([1 << 4], "<u4").view(np.uint8)  # dst 0, src 1
    loops = "uop_end=1 iter_out=1 iter_in=6 dst_factor_in=1 src_factor_in=1"
    store = "mem_id=OUT sram=0 y_size=1 x_size=7 x_stride=7"
    operations = "op=CLIP", "op=MUL8", "op=MOV use_imm imm=-77", "op=CLIP use_imm imm=12800"
    lines = [
        f"ALU {operation} {loops} push_next\n"
        f"STORE pop_prev push_prev dram={800 + 8 * i} {store}\nLOAD mem_id=UOP pop_next"
        for i, operation in enumerate(operations)
    ]
    stores = "\n".join(lines)
    text = f"""
        LOAD mem_id=UOP y_size=1 x_size=1 x_stride=1
        LOAD mem_id=ACC dram=20 pad_value=-3 y_size=2 x_size=2 x_stride=3 x_pad_1=1 y_pad_1=1
        {stores}
        FINISH
    """
    program = assemble(isa, text)
    hardware = Hardware()
    found, _ = execute(VerilatedDriver, isa, program, dram, hardware)
    expected, _ = execute(CycleDriver, isa, program, dram, hardware)
    np.testing.assert_array_equal(found, expected)
    assert (found[6400:6656] != dram[6400:6656]).any()


def test_programs_that_wait_for_ever_or_reach_too_far() -> None:
    isa, _, _, dram, _ = made(1)
    for text, kind in [
        ("FINISH pop_prev", "deadlock"),
        ("LOAD push_next mem_id=INP dram=9999 y_size=1 x_size=1\nFINISH pop_prev", "dram"),
    ]:
        with pytest.raises(ProgramError) as error:
            execute(VerilatedDriver, isa, assemble(isa, text), dram, Hardware())
        assert error.value.kind == kind


def test_an_instruction_of_many_steps_is_no_deadlock() -> None:
    isa, _, _, dram, _ = made(1)
    text = "LOAD mem_id=UOP y_size=1 x_size=1 x_stride=1\nALU op=MUL use_imm uop_end=1 iter_out=160 iter_in=160\nFINISH"
    dram[:4] = 0
    _, cycles = execute(VerilatedDriver, isa, assemble(isa, text), dram, Hardware())
    assert 25_600 < cycles < 25_800


def test_hardware_that_cannot_be_built() -> None:
    for wrong, says in [
        ({"port_bytes": 12}, "port_bytes"),
        ({"port_bytes": 64, "burst": 128}, "burst"),
        ({"latency": 0}, "latency"),
    ]:
        with pytest.raises(UserError, match=says):
            Hardware(**wrong)
