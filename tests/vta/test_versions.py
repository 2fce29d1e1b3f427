"""Versions 2 and 3 of the instructions: what they add, computed by hand; what the classic one refuses."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import ProgramError, UserError
from tilewright.vta import Config, Dram, Isa, Simulator, assemble, encode, make, make_uop, unpack

EXTENDED, WIDE = Isa(Config(isa_version=2)), Isa(Config(isa_version=3, log_uop_buff_size=16))


def computed(isa: Isa, operation: str, left: list[int], right: list[int] | None = None) -> np.ndarray:
    """One tile after an operation of ALU."""
    dram = Dram(isa, 1 << 14)
    tiles = np.zeros((2, 1, 16), np.int32)
    tiles[0, 0, : len(left)] = left
    tiles[1, 0, : len(right or [])] = right or []
    acc, uop, out = dram.put("ACC", tiles), dram.put("UOP", np.array([make_uop(isa, 0, 1)])), dram.reserve("OUT", 1)
    simulator = Simulator(isa, dram)
    simulator.run(
        assemble(
            isa,
            f"""
            LOAD mem_id=UOP dram={uop} y_size=1 x_size=1 x_stride=1
            LOAD mem_id=ACC dram={acc} y_size=1 x_size=2 x_stride=2
            ALU push_next {operation} uop_end=1 iter_out=1 iter_in=1
            STORE pop_prev push_prev mem_id=OUT dram={out} y_size=1 x_size=1 x_stride=1
            FINISH pop_next
            """,
        )
    )
    return simulator.acc[0, 0, : len(left)]


@pytest.mark.parametrize("isa", [EXTENDED, WIDE], ids=["extended", "wide"])
def test_the_new_operations(isa: Isa) -> None:
    both = 100 << 8 | (-20 & 255)
    assert computed(isa, f"op=CLIP use_imm imm={both}", [-21, -20, 0, 100, 101]).tolist() == [-20, -20, 0, 100, 100]
    assert computed(isa, "op=CLIP", [300, -300], [both, both]).tolist() == [100, -20]
    crossed = (-128 & 255) << 8 | 127  # as signed 16 bits
    assert computed(isa, f"op=CLIP use_imm imm={crossed - (1 << 16)}", [5]).tolist() == [-128]
    assert computed(isa, "op=MOV", [1, 2], [7, -(2**31)]).tolist() == [7, -(2**31)]
    assert computed(isa, "op=MOV use_imm imm=-5", [1]).tolist() == [-5]
    assert computed(isa, "op=MUL8", [0x1FF, 128, -128], [2, 128, -128]).tolist() == [-2, 16384, 16384]


@pytest.mark.parametrize("isa", [EXTENDED, WIDE], ids=["extended", "wide"])
def test_padding_with_a_number(isa: Isa) -> None:
    dram = Dram(isa, 1 << 14)
    at = dram.put("INP", np.arange(16, dtype=np.int8).reshape(1, 1, 16))
    simulator = Simulator(isa, dram)
    text = f"LOAD mem_id=INP dram={at} pad_value=-128 y_size=1 x_size=1 x_stride=1 x_pad_0=1 y_pad_1=1\nFINISH"
    with pytest.raises(ProgramError, match="does not wait"):  # the load is not waited for, but done
        simulator.run(assemble(isa, text))
    assert (simulator.inp[[0, 2, 3]] == -128).all()
    assert (simulator.inp[1] == np.arange(16)).all()


def test_the_classic_version_has_none_of_it() -> None:
    classic = Isa()
    with pytest.raises(ProgramError, match="op of ALU is 'CLIP'; use one of MIN, MAX, ADD, SHR, MUL"):
        make(classic, "ALU", op="CLIP")
    with pytest.raises(ProgramError, match="LOAD has no field 'pad_value'"):
        make(classic, "LOAD", pad_value=1)
    word = encode(EXTENDED, make(EXTENDED, "ALU", op="MOV"))
    with pytest.raises(ProgramError, match="op of ALU is 6, which has no meaning"):
        unpack(classic, word.to_bytes(16, "little"))


def test_where_the_fields_are() -> None:
    """Version 2 stays within 128 bits, and what it does not change stays where it is; version 3 is twice as wide."""
    assert (EXTENDED.instruction_bits, WIDE.instruction_bits, WIDE.uop.bits) == (128, 256, 64)
    for name in ("GEMM", "ALU", "FINISH"):
        positions = {x.name: (x.low, x.high) for x in Isa().formats[name].fields}
        assert {x.name: (x.low, x.high) for x in EXTENDED.formats[name].fields} == positions
    load = EXTENDED.formats["LOAD"].by_name
    assert [(x, load[x].low, load[x].high) for x in ("sram", "dram", "pad_value", "y_size")] == [
        ("sram", 10, 23), ("dram", 24, 55), ("pad_value", 56, 63), ("y_size", 64, 79)
    ]  # fmt: skip
    assert Config(isa_version=2).name == "1x16_i8w8a32_15_15_18_17_v2"


def test_wide_instructions_address_more() -> None:
    large = {"log_wgt_buff_size": 21, "log_acc_buff_size": 20, "log_inp_buff_size": 18}
    with pytest.raises(UserError, match="or ISA_VERSION 3"):
        Isa(Config(**large))
    isa = Isa(Config(**large, isa_version=3))
    assert isa.memories["WGT"].depth == 8192
    assert isa.memories["UOP"].element_bytes == 8
    with pytest.raises(UserError, match="ISA_VERSION is 4: 1 is classic, 2 extended, 3 extended and wide"):
        Config(isa_version=4)
