"""The arithmetic of relocations: what each type of x86-64 and AArch64 computes, and how it is encoded.

`RELOCATIONS[machine][type]` is a `Rule`. Its `source` says what stands for the symbol: its own address (``"symbol"``);
for calls its address or that of a stub which jumps there (``"call"``); the address of a slot that holds its address
(``"slot"``). Its `encode(image, offset, position, value)` puts `value`, the source plus the addend, into `image` at
`offset`, which will be at the address `position`; it raises `OverflowError` when the value does not fit.
Specifications: "System V ABI, AMD64 supplement" 4.4 and "ELF for the Arm 64-bit Architecture" 5.7."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from tilewright.runtime.elf import AARCH64, X86_64

Encode = Callable[[bytearray, int, int, int], None]


class Rule(NamedTuple):
    """The application of one type of relocation; `size` is the number of bytes it changes."""

    name: str
    source: str
    size: int
    encode: Encode


def _number(code: str, relative: bool) -> Encode:
    """A plain number in memory, `code` being its format for `struct`; `relative` to its own position or absolute."""
    packer = struct.Struct(f"<{code}")

    def encode(image: bytearray, offset: int, addre: int, value: int) -> None:
        number = value - addre if relative else value
        if code == "Q":
            number &= 0xFFFF_FFFF_FFFF_FFFF  # addresses wrap around
        try:
            packer.pack_into(image, offset, number)
        except struct.error:
            raise OverflowError(f"{number:#x} does not fit into {packer.size} bytes") from None

    return encode


def _field(mask: int, bits: Callable[[int, int], int]) -> Encode:
    """Part of a 32-bit instruction of AArch64: `bits(position, value)` replaces the instruction's `mask`."""

    def encode(image: bytearray, offset: int, addre: int, value: int) -> None:
        instruction = int.from_bytes(image[offset : offset + 4], "little")
        instruction = instruction & ~mask | bits(addre, value) & mask
        image[offset : offset + 4] = instruction.to_bytes(4, "little")

    return encode


def _branch(width: int, position: int) -> Encode:
    """The distance to another instruction, in instructions: `width` bits of it from bit `position`."""

    def bits(addre: int, value: int) -> int:
        distance = value - addre
        _check(distance % 4 == 0, f"{value:#x} is not the address of an instruction")
        _check(_fits(distance >> 2, width), f"a jump over {distance:#x} bytes is too far")
        return distance >> 2 << position

    return _field((1 << width) - 1 << position, bits)


def _adr(page: int) -> Encode:
    """21 bits of the distance in pages of `page` bytes: the immediate of ADR (`page` 1) and ADRP (`page` 4096)."""

    def bits(addre: int, value: int) -> int:
        distance = value // page - addre // page
        _check(_fits(distance, 21), f"{value:#x} is too far away")
        return (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5

    return _field(0x60FF_FFE0, bits)


def _low12(shift: int) -> Encode:
    """The 12 low bits of an address as the offset of an ADD (`shift` 0), or of an access to 2**shift bytes."""

    def bits(_: int, value: int) -> int:
        low = value & 0xFFF
        _check(low % (1 << shift) == 0, f"{value:#x} is not aligned to {1 << shift} bytes")
        return low >> shift << 10

    return _field(0xFFF << 10, bits)


def _fits(number: int, width: int) -> bool:
    return -(1 << width - 1) <= number < 1 << width - 1


def _check(fits: bool, message: str) -> None:
    if not fits:
        raise OverflowError(message)


RELOCATIONS: dict[int, dict[int, Rule]] = {
    X86_64: {
        1: Rule("R_X86_64_64", "symbol", 8, _number("Q", False)),
        2: Rule("R_X86_64_PC32", "symbol", 4, _number("i", True)),
        4: Rule("R_X86_64_PLT32", "call", 4, _number("i", True)),
        9: Rule("R_X86_64_GOTPCREL", "slot", 4, _number("i", True)),
        10: Rule("R_X86_64_32", "symbol", 4, _number("I", False)),
        11: Rule("R_X86_64_32S", "symbol", 4, _number("i", False)),
        24: Rule("R_X86_64_PC64", "symbol", 8, _number("Q", True)),
        41: Rule("R_X86_64_GOTPCRELX", "slot", 4, _number("i", True)),
        42: Rule("R_X86_64_REX_GOTPCRELX", "slot", 4, _number("i", True)),
    },
    AARCH64: {
        257: Rule("R_AARCH64_ABS64", "symbol", 8, _number("Q", False)),
        260: Rule("R_AARCH64_PREL64", "symbol", 8, _number("Q", True)),
        261: Rule("R_AARCH64_PREL32", "symbol", 4, _number("i", True)),
        274: Rule("R_AARCH64_ADR_PREL_LO21", "symbol", 4, _adr(1)),
        275: Rule("R_AARCH64_ADR_PREL_PG_HI21", "symbol", 4, _adr(4096)),
        277: Rule("R_AARCH64_ADD_ABS_LO12_NC", "symbol", 4, _low12(0)),
        278: Rule("R_AARCH64_LDST8_ABS_LO12_NC", "symbol", 4, _low12(0)),
        279: Rule("R_AARCH64_TSTBR14", "symbol", 4, _branch(14, 5)),
        280: Rule("R_AARCH64_CONDBR19", "symbol", 4, _branch(19, 5)),
        282: Rule("R_AARCH64_JUMP26", "call", 4, _branch(26, 0)),
        283: Rule("R_AARCH64_CALL26", "call", 4, _branch(26, 0)),
        284: Rule("R_AARCH64_LDST16_ABS_LO12_NC", "symbol", 4, _low12(1)),
        285: Rule("R_AARCH64_LDST32_ABS_LO12_NC", "symbol", 4, _low12(2)),
        286: Rule("R_AARCH64_LDST64_ABS_LO12_NC", "symbol", 4, _low12(3)),
        299: Rule("R_AARCH64_LDST128_ABS_LO12_NC", "symbol", 4, _low12(4)),
        311: Rule("R_AARCH64_ADR_GOT_PAGE", "slot", 4, _adr(4096)),
        312: Rule("R_AARCH64_LD64_GOT_LO12_NC", "slot", 4, _low12(3)),
    },
}

#: How far a call reaches either way, in bytes.
CALL_REACH = {X86_64: 1 << 31, AARCH64: 1 << 27}

# jmp *0(%rip) and the address | ldr x16, 8; br x16 and the address; x16 is there for such stubs.
_STUB_CODE = {X86_64: bytes.fromhex("ff2500000000"), AARCH64: struct.pack("<II", 0x5800_0050, 0xD61F_0200)}
STUB_BYTES = 16


def stub(machine: int, target: int) -> bytes:
    """`STUB_BYTES` of code that jump to any address."""
    return (_STUB_CODE[machine] + struct.pack("<Q", target)).ljust(STUB_BYTES, b"\0")
