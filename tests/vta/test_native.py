"""The native simulator beside the oracle and the simulator in NumPy: the same bytes, counters and refusals."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.vta.test_programs import KINDS, broken, made
from tilewright.errors import ProgramError
from tilewright.vta import Config, Dram, Instruction, Isa, assemble, make_uop, open_driver, pack


def run(kind: str, isa: Isa, program: list[Instruction] | bytes, dram: np.ndarray) -> tuple[np.ndarray, dict[str, int]]:
    """DRAM as a driver leaves it, and what it counted; the program lies behind what the program knows of DRAM."""
    data = program if isinstance(program, bytes) else pack(isa, program)
    memory = Dram(isa, dram.size + len(data))
    memory.data[: dram.size] = dram
    memory.data[dram.size :] = np.frombuffer(data, np.uint8)
    driver = open_driver(kind, isa, memory)
    counters = driver.run(dram.size, 8 * len(data) // isa.instruction_bits)
    return memory.data[: dram.size], dict(counters)


@pytest.mark.sample(2)
@pytest.mark.parametrize("block", range(4))
def test_random_programs_compute_what_the_oracle_does(block: int) -> None:
    for seed in range(75 * block, 75 * block + 75):
        isa, program, _, dram, expected = made(seed)
        found, counters = run("native", isa, program, dram)
        np.testing.assert_array_equal(found, expected, err_msg=str(seed))
        if seed % 10 < 2:
            assert counters == run("checked", isa, program, dram)[1]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("race", "length", "dram")])
def test_broken_programs_are_refused_as_the_checker_does(kind: str) -> None:
    for seed in range(8):
        isa, _, fields, dram, _ = made(1000 + seed)
        data = broken(kind, isa, fields, random.Random(seed))
        with pytest.raises(ProgramError) as refused:
            run("native", isa, data, dram)
        assert refused.value.kind == kind, refused.value


@pytest.mark.parametrize("address", [1 << 20, (1 << 32) - 1])
def test_what_reaches_beyond_dram_is_refused(address: int) -> None:
    isa = Isa()
    text = f"LOAD push_next mem_id=INP dram={address} y_size=1 x_size=1 x_stride=1\nFINISH pop_prev"
    with pytest.raises(ProgramError, match=f"it reaches element {address} in DRAM"):
        run("native", isa, assemble(isa, text), np.zeros(1 << 16, np.uint8))


@pytest.mark.parametrize("by", [-40, -32, -31, -3, 0, 5, 31, 32, 1000])
@pytest.mark.parametrize(
    "config", [Config(), Config(4, 4, log_batch=1, log_block=3, log_wgt_buff_size=16), Config(isa_version=3)]
)
def test_numbers_of_all_widths_shift_and_wrap_alike(config: Config, by: int) -> None:
    isa, rng = Isa(config), np.random.default_rng(7)
    dram = Dram(isa, 1 << 16)
    inp, wgt, acc = isa.memories["INP"], isa.memories["WGT"], isa.memories["ACC"]
    x = dram.put("INP", rng.integers(*_range(inp.dtype), (4, *inp.shape)))
    w = dram.put("WGT", rng.integers(*_range(wgt.dtype), (4, *wgt.shape)))
    b = dram.put("ACC", rng.integers(*_range(acc.dtype), (4, *acc.shape)))
    uop, out = dram.put("UOP", np.array([make_uop(isa)])), dram.reserve("OUT", 4)
    text = f"""
        LOAD mem_id=INP dram={x} y_size=1 x_size=4 x_stride=4
        LOAD push_next mem_id=WGT dram={w} y_size=1 x_size=4 x_stride=4
        LOAD mem_id=UOP dram={uop} y_size=1 x_size=1 x_stride=1
        LOAD mem_id=ACC dram={b} y_size=1 x_size=4 x_stride=4
        GEMM pop_prev uop_end=1 iter_out=4 iter_in=3 dst_factor_out=1 src_factor_in=1 wgt_factor_out=1
        ALU op=SHR use_imm imm={by} uop_end=1 iter_out=1 iter_in=4 dst_factor_in=1
        ALU push_next op=MUL uop_end=1 iter_out=1 iter_in=3 dst_factor_in=1 src_factor_in=1
        STORE pop_prev push_prev mem_id=OUT dram={out} y_size=1 x_size=4 x_stride=4
        FINISH pop_next
    """
    program = assemble(isa, text)
    np.testing.assert_array_equal(run("native", isa, program, dram.data)[0], run("checked", isa, program, dram.data)[0])


def _range(dtype: np.dtype) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max) + 1


@pytest.mark.parametrize("version", [2, 3])
def test_what_later_versions_added_computes_alike(version: int) -> None:
    isa, rng = Isa(Config(isa_version=version)), np.random.default_rng(9)
    dram = Dram(isa, 1 << 16)
    values = rng.integers(-1000, 1000, (8, 1, 16)).astype(np.int32)
    values[4:] = rng.integers(-(1 << 15), 1 << 15, (4, 1, 16))  # pairs of bounds, and bytes with what stands above them
    at, uop, out = dram.put("ACC", values), dram.put("UOP", np.array([make_uop(isa)])), dram.reserve("OUT", 12)
    loops = "uop_end=1 iter_out=1 dst_factor_in=1"
    text = f"""
        LOAD mem_id=UOP dram={uop} y_size=1 x_size=1 x_stride=1
        LOAD mem_id=ACC dram={at} y_size=2 x_size=4 x_stride=4 x_pad_0=1 y_pad_1=1 pad_value=-7
        ALU op=CLIP use_imm imm={100 << 8 | 200} {loops} iter_in=3
        ALU op=CLIP {loops} iter_in=2 src_factor_in=3
        ALU op=MUL8 {loops} iter_in=5 src_factor_in=2
        ALU push_next op=MOV {loops} iter_in=1 src_factor_in=1
        STORE pop_prev push_prev mem_id=OUT dram={out} y_size=1 x_size=12 x_stride=12
        FINISH pop_next
    """
    program = assemble(isa, text)
    np.testing.assert_array_equal(run("native", isa, program, dram.data)[0], run("checked", isa, program, dram.data)[0])
