"""The encoding, bit for bit: words put together here by shifts from the published positions."""

from __future__ import annotations

import pytest

from tilewright.errors import ProgramError
from tilewright.vta import (
    Config,
    Isa,
    assemble,
    decode,
    decode_uop,
    disassemble,
    encode,
    make,
    make_uop,
    pack,
    unpack,
)  # fmt: skip

ISA = Isa()

LOOP = {
    "reset": (7, 1), "uop_begin": (8, 13), "uop_end": (21, 14), "iter_out": (35, 14), "iter_in": (49, 14),
    "dst_factor_out": (64, 11), "dst_factor_in": (75, 11), "src_factor_out": (86, 11), "src_factor_in": (97, 11),
}  # fmt: skip
TRANSFER = {
    "mem_id": (7, 3), "sram": (10, 16), "dram": (26, 32), "y_size": (64, 16), "x_size": (80, 16), "x_stride": (96, 16),
    "y_pad_0": (112, 4), "y_pad_1": (116, 4), "x_pad_0": (120, 4), "x_pad_1": (124, 4),
}  # fmt: skip
FLAGS = {"pop_prev": (3, 1), "pop_next": (4, 1), "push_prev": (5, 1), "push_next": (6, 1)}
#: First bit and width of every field, as published for the default configuration.
PUBLISHED = {
    "LOAD": (0, TRANSFER),
    "STORE": (1, TRANSFER),
    "GEMM": (2, {**LOOP, "wgt_factor_out": (108, 10), "wgt_factor_in": (118, 10)}),
    "FINISH": (3, {}),
    "ALU": (4, {**LOOP, "op": (108, 3), "use_imm": (111, 1), "imm": (112, 16)}),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_fields_stand_where_they_were_published(name: str) -> None:
    opcode, fields = PUBLISHED[name]
    there = {f.name: (f.low, f.width) for f in ISA.formats[name].fields}
    assert there == {"opcode": (0, 3), **FLAGS, **fields}
    free = {"mem_id": 4, "op": 3} if name == "STORE" else {"mem_id": 2, "op": 3}
    for field, (low, width) in (FLAGS | fields).items():
        for value in {free[field]} if field in free else {0, 1, (1 << width) - 1, (0xA5A5A5A5 & (1 << width) - 1)}:
            rest = (4 << 7) if name == "STORE" and field != "mem_id" else 0
            signed = value - (1 << width) if field == "imm" and value >> 15 else value
            word = encode(ISA, make(ISA, name, **{field: signed}))
            assert word == opcode | rest | value << low, (field, value)
            assert decode(ISA, word)[field] == signed


def test_instructions_are_encoded_bit_for_bit() -> None:
    """Digits written down by hand from the positions, the highest bits first."""
    load = make(ISA, "LOAD", push_next=1, mem_id="INP", sram=5, dram=7, y_size=3, x_size=4, x_stride=9, x_pad_1=1)
    assert encode(ISA, load) == 0x1000_0009_0004_0003 << 64 | (7 << 26 | 5 << 10 | 2 << 7 | 1 << 6)
    assert encode(ISA, load) == 0x1000_0009_0004_0003_0000_0000_1C00_1540
    finish = make(ISA, "FINISH", pop_next=1)
    assert encode(ISA, finish) == 0x13
    assert pack(ISA, [finish]) == b"\x13" + bytes(15)
    alu = make(ISA, "ALU", op="SHR", use_imm=1, imm=-1, uop_end=1, iter_out=1, iter_in=1)
    assert encode(ISA, alu) == 0xFFFF_B000_0000_0000_0002_0008_0020_0004
    assert make_uop(ISA, dst=1, src=2, wgt=3) == 0x00C0_1001
    assert decode_uop(ISA, 0x00C0_1001).values == (("dst", 1), ("src", 2), ("wgt", 3))


def test_instructions_are_read_from_text() -> None:
    text = "LOAD push_next mem_id=INP sram=5 y_size=3 x_size=4 x_stride=9\nALU mem=1"
    with pytest.raises(ProgramError, match="line 2: ALU has no field 'mem'; it has opcode"):
        assemble(ISA, text)
    (load,) = assemble(ISA, f"# nothing\n{text.splitlines()[0]}  # inputs\n")
    assert disassemble(ISA, load) == text.splitlines()[0]
    (alu,) = assemble(ISA, "ALU op=SHR use_imm imm=-3")
    assert (alu["op"], alu["imm"], disassemble(ISA, alu)) == (3, -3, "ALU op=SHR use_imm imm=-3")
    assert disassemble(ISA, decode_uop(ISA, 0x00C0_1001)) == "UOP dst=1 src=2 wgt=3"


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("JUMP", "opcode", "no instruction 'JUMP'; there are LOAD, STORE"),
        ("LOAD sram=65536", "field", "sram of LOAD is 65536; it holds 0 to 65535"),
        ("ALU imm=-32769", "field", "imm of ALU is -32769; it holds -32768 to 32767"),
        ("ALU op=DIV", "field", "op of ALU is 'DIV'; use one of MIN, MAX"),
        ("STORE mem_id=INP", "field", "mem_id of STORE is 'INP'; use one of OUT"),
        ("LOAD mem_id=4", "field", "mem_id of LOAD is 4, which has no meaning; there are 0 .UOP."),
        ("GEMM uop_end=many", "field", "uop_end of GEMM is 'many'; use a number"),
    ],
)
def test_texts_that_are_refused(text: str, kind: str, says: str) -> None:
    with pytest.raises(ProgramError, match=says) as error:
        assemble(ISA, text)
    assert error.value.kind == kind


def test_bits_that_are_refused() -> None:
    with pytest.raises(ProgramError, match=r"instruction 1: 0x0+5 has the opcode 5"):
        unpack(ISA, pack(ISA, [make(ISA, "FINISH")]) + (5).to_bytes(16, "little"))
    with pytest.raises(ProgramError, match="is no LOAD: bits 0x400000000000000 belong to no field"):
        decode(ISA, 1 << 58)
    with pytest.raises(ProgramError, match="is no UOP: bits 0x80000000"):
        decode_uop(Isa(Config(log_wgt_buff_size=17)), 1 << 31)
