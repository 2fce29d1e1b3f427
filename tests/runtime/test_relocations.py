"""The arithmetic of relocations: encodings written out by hand, at the edges of their ranges and beyond."""

from __future__ import annotations

import struct

import pytest

from tilewright.runtime.elf import AARCH64, X86_64
from tilewright.runtime.relocations import RELOCATIONS, STUB_BYTES, stub

PLACE = 0x7F00_0000_1000


def encoded(machine: int, kind: int, value: int, before: bytes = b"\0" * 8, position: int = PLACE) -> bytes:
    image = bytearray(b"\xaa" * 4 + before + b"\xbb" * 4)
    RELOCATIONS[machine][kind].encode(image, 4, position, value)
    assert image[:4] == b"\xaa" * 4 and image[4 + len(before) :] == b"\xbb" * 4
    return bytes(image[4 : 4 + RELOCATIONS[machine][kind].size])


@pytest.mark.parametrize("kind", [2, 4, 9, 41, 42])
def test_x86_relative_words(kind: int) -> None:
    for distance in (-4, 0, 0x1234, (1 << 31) - 1, -(1 << 31)):
        assert encoded(X86_64, kind, PLACE + distance) == struct.pack("<i", distance)
    for distance in (1 << 31, -(1 << 31) - 1):
        with pytest.raises(OverflowError, match="does not fit into 4 bytes"):
            encoded(X86_64, kind, PLACE + distance)


def test_x86_absolute_words() -> None:
    assert encoded(X86_64, 1, PLACE) == struct.pack("<Q", PLACE)
    assert encoded(X86_64, 1, -2) == b"\xfe" + b"\xff" * 7
    assert encoded(X86_64, 24, PLACE - 16) == struct.pack("<q", -16)
    assert encoded(X86_64, 10, 0xFFFF_FFFF) == b"\xff" * 4 and encoded(X86_64, 11, -1) == b"\xff" * 4
    for kind, value in ((10, 1 << 32), (10, -1), (11, 1 << 31), (11, PLACE)):
        with pytest.raises(OverflowError, match="does not fit"):
            encoded(X86_64, kind, value)


# Instructions before and after, as an assembler writes them.
@pytest.mark.parametrize(
    ("kind", "before", "value", "after"),
    [
        (283, 0x94000000, PLACE + 8, 0x94000002),  # bl .+8
        (283, 0x94000000, PLACE - 4, 0x97FFFFFF),  # bl .-4
        (283, 0x94000000, PLACE + (1 << 27) - 4, 0x95FFFFFF),
        (282, 0x14000000, PLACE - (1 << 27), 0x16000000),  # b .-0x8000000
        (280, 0x54000000, PLACE + 16, 0x54000080),  # b.eq .+16
        (279, 0x36000000, PLACE - 4, 0x3607FFE0),  # tbz w0, #0, .-4
        (275, 0x90000000, PLACE + 0x1000, 0xB0000000),  # adrp x0, .+0x1000
        (275, 0x90000008, PLACE + 0x5678, 0xB0000028),  # adrp x8, 5 pages on
        (275, 0x90000000, PLACE - 1, 0xF0FFFFE0),  # adrp x0, .-0x1000
        (274, 0x10000000, PLACE + 5, 0x30000020),  # adr x0, .+5
        (277, 0x91000000, PLACE + 0x234, 0x9108D000),  # add x0, x0, #0x234
        (278, 0x39400000, PLACE + 0x235, 0x3948D400),  # ldrb w0, [x0, #0x235]
        (284, 0x79400000, PLACE + 0x234, 0x79446800),  # ldrh w0, [x0, #0x234]
        (285, 0xB9400000, PLACE + 0x234, 0xB9423400),  # ldr w0, [x0, #0x234]
        (286, 0xF9400000, PLACE + 0x238, 0xF9411C00),  # ldr x0, [x0, #0x238]
        (299, 0x3DC00000, PLACE + 0x240, 0x3DC09000),  # ldr q0, [x0, #0x240]
        (311, 0x90000000, PLACE + 0x1008, 0xB0000000),  # adrp x0, :got:
        (312, 0xF9400000, PLACE + 0x1008, 0xF9400400),  # ldr x0, [x0, :got_lo12:]
    ],
)
def test_aarch64_fields_of_instructions_are_encoded(kind: int, before: int, value: int, after: int) -> None:
    assert encoded(AARCH64, kind, value, struct.pack("<I", before)).hex() == struct.pack("<I", after).hex()
    # What stood in the field before does not matter.
    again = encoded(AARCH64, kind, value, struct.pack("<I", after))
    assert again == struct.pack("<I", after)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (283, PLACE + (1 << 27), "too far"),
        (283, PLACE - (1 << 27) - 4, "too far"),
        (282, PLACE + 2, "not the address of an instruction"),
        (280, PLACE + (1 << 20), "too far"),
        (279, PLACE + (1 << 15), "too far"),
        (275, PLACE + (1 << 32), "too far away"),
        (274, PLACE + (1 << 20), "too far away"),
        (285, PLACE + 2, "not aligned to 4 bytes"),
        (299, PLACE + 8, "not aligned to 16 bytes"),
        (261, PLACE + (1 << 31), "does not fit"),
    ],
)
def test_aarch64_out_of_range(kind: int, value: int, message: str) -> None:
    with pytest.raises(OverflowError, match=message):
        encoded(AARCH64, kind, value, b"\0" * 4)


def test_aarch64_numbers_are_absolute_or_relative() -> None:
    assert encoded(AARCH64, 257, PLACE) == struct.pack("<Q", PLACE)
    assert encoded(AARCH64, 260, PLACE - 8) == struct.pack("<q", -8)
    assert encoded(AARCH64, 261, PLACE - 8) == struct.pack("<i", -8)


def test_stubs_jump_to_any_address() -> None:
    target = 0x1234_5678_9ABC_DEF0
    assert stub(X86_64, target).hex() == "ff2500000000" + "f0debc9a78563412" + "0000"  # jmp *0(%rip)
    words = struct.unpack("<IIQ", stub(AARCH64, target))
    assert words == (0x58000050, 0xD61F0200, target)  # ldr x16, .+8; br x16
    assert {len(stub(machine, 1)) for machine in RELOCATIONS} == {STUB_BYTES}


def test_names_are_distinct() -> None:
    for prefix, machine in (("R_X86_64_", X86_64), ("R_AARCH64_", AARCH64)):
        names = [rule.name for rule in RELOCATIONS[machine].values()]
        assert len(set(names)) == len(names) and all(name.startswith(prefix) for name in names)
