"""Reading objects: what LLVM emits is read as it is, and what is no such object is one clear error."""

from __future__ import annotations

import struct

import pytest

from tilewright.codegen.native.pool_code import compile_text
from tilewright.errors import ArtifactError
from tilewright.runtime import elf
from tilewright.runtime.elf import parse_object

TEXT = """
@table = internal constant [3 x i64] [i64 5, i64 6, i64 7], align 64
@count = global i32 3
@room = internal global [100 x i8] zeroinitializer
declare i64 @absent(ptr)
define i64 @pick(i64 %i) {
  %p = getelementptr i64, ptr @table, i64 %i
  %v = load i64, ptr %p
  %w = call i64 @absent(ptr @room)
  %s = add i64 %v, %w
  ret i64 %s
}
"""


@pytest.fixture(scope="module")
def code() -> bytes:
    return compile_text(TEXT)


def test_sections_symbols_and_relocations(code: bytes) -> None:
    found = parse_object(code)
    symbols = {symbol.name: symbol for symbol in found.symbols}
    assert found.machine in (elf.X86_64, elf.AARCH64)
    pick, count, table = symbols["pick"], symbols["count"], symbols["table"]
    assert pick.is_public and count.is_public and symbols["absent"].section == elf.SHN_UNDEF
    assert not table.is_public and table.size == 24
    text, data, rodata = (found.sections[symbol.section] for symbol in (pick, count, table))
    assert text.flags & elf.SHF_EXECINSTR and data.flags & elf.SHF_WRITE and rodata.alignment == 64
    assert bytes(data.data[count.value : count.value + 4]) == b"\3\0\0\0"
    assert struct.unpack_from("<3q", rodata.data, table.value) == (5, 6, 7)
    room = found.sections[symbols["room"].section]
    assert room.kind == elf.SHT_NOBITS and room.size >= 100 and len(room.data) == 0
    assert {found.symbols[r.symbol].name for r in found.relocations[pick.section]} >= {"absent"}


def test_section_symbols_have_the_name_of_their_section(code: bytes) -> None:
    found = parse_object(code)
    named = [s for s in found.symbols if s.kind == elf.STT_SECTION]
    assert named and all(s.name == found.sections[s.section].name for s in named)


@pytest.mark.parametrize("length", [0, 3, 4, 16, 63, 64, 200])
def test_an_object_cut_short_is_an_artifact_error(code: bytes, length: int) -> None:
    with pytest.raises(ArtifactError, match=r"does not begin like an ELF file|is damaged: "):
        parse_object(code[:length])


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (4, b"\1", "no relocatable 64-bit"),  # 32 bits
        (5, b"\2", "no relocatable 64-bit"),  # big-endian
        (16, b"\3", "no relocatable 64-bit"),  # a shared library
        (40, b"\xff" * 8, "section table lies outside"),
        (58, b"\0\0", "describes its sections wrongly"),
        (60, b"\xff\xff", "section table lies outside"),
        (62, b"\xff\xff", "describes its sections wrongly"),
    ],
)
def test_damaged_headers_are_named(code: bytes, position: int, value: bytes, message: str) -> None:
    damaged = code[:position] + value + code[position + len(value) :]
    with pytest.raises(ArtifactError, match=message):
        parse_object(damaged)


def _section_header(code: bytes, kind: int) -> int:
    """The offset of the header of the first section of a kind."""
    table, count = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<H", code, 60)[0]
    offsets = (table + 64 * i for i in range(count))
    return next(offset for offset in offsets if struct.unpack_from("<I", code, offset + 4)[0] == kind)


@pytest.mark.parametrize(
    ("kind", "field", "value", "message"),
    [
        (elf.SHT_SYMTAB, 24, 1 << 60, "a section lies outside"),
        (elf.SHT_SYMTAB, 32, 25, "symbol table is malformed"),
        (elf.SHT_SYMTAB, 40, 0x00FF, "symbol table is malformed"),
        (elf.SHT_RELA, 32, 25, "table of relocations is malformed"),
        (elf.SHT_RELA, 40, 0x00FF, "table of relocations is malformed"),
        (elf.SHT_NOBITS, 48, 3, "is to be aligned to 3"),
        (elf.SHT_NOBITS, 0, 0xFFFF_FFFF, "a name lies outside|is to be aligned|outside"),
    ],
)
def test_damaged_section_headers(code: bytes, kind: int, field: int, value: int, message: str) -> None:
    damaged = bytearray(code)
    struct.pack_into("<I" if field == 0 else "<Q", damaged, _section_header(code, kind) + field, value)
    with pytest.raises(ArtifactError, match=message):
        parse_object(bytes(damaged))


def test_relocations_refer_to_what_exists(code: bytes) -> None:
    table = struct.unpack_from("<Q", code, _section_header(code, elf.SHT_RELA) + 24)[0]
    for position in (table, table + 12):  # its offset, its symbol
        damaged = bytearray(code)
        struct.pack_into("<I", damaged, position, 0xFFFFFF)
        with pytest.raises(ArtifactError, match="refers to a symbol or offset that does not exist"):
            parse_object(bytes(damaged))
