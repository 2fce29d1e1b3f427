"""Relocatable ELF objects, read: the sections, symbols and relocations of what LLVM emits for one module.

    found = parse_object(code)
    found.sections[3].name, found.symbols[7].value, found.relocations[3]

Only reading, and only what `loader.py` needs: 64 bits, little-endian, relocations with addends (System V ABI; the
names are those of its chapters 4 and 5). Every offset and index of the file is checked before it is used, so that a
damaged object is an `ArtifactError` and nothing worse.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from tilewright.errors import ArtifactError

#: e_machine of the architectures that the loader knows.
X86_64, AARCH64 = 62, 183

# Section types (sh_type) and flags (sh_flags).
SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_REL, SHT_DYNSYM = 2, 4, 8, 9, 11
SHT_INIT_ARRAY, SHT_FINI_ARRAY, SHT_PREINIT_ARRAY = 14, 15, 16
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS = 0x1, 0x2, 0x4, 0x400

# Special section numbers of symbols (st_shndx), and their bindings and types (st_info).
SHN_UNDEF, SHN_LORESERVE, SHN_ABS, SHN_COMMON = 0, 0xFF00, 0xFFF1, 0xFFF2
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STT_SECTION, STT_TLS, STT_GNU_IFUNC = 3, 6, 10

_ET_REL = 1
_IDENT = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian, version 1
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
#: A section header.
SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")


class Section(NamedTuple):
    """One section. `data` are its bytes in the file; a section of kind `SHT_NOBITS` has a size and no bytes."""

    name: str
    kind: int
    flags: int
    size: int
    alignment: int
    data: memoryview


class Symbol(NamedTuple):
    """One symbol. `value` is an offset into `section`, or the alignment of a common symbol."""

    name: str
    binding: int
    kind: int
    section: int
    value: int
    size: int

    @property
    def is_public(self) -> bool:
        """True if other objects may refer to it."""
        return self.binding in (STB_GLOBAL, STB_WEAK)


class Relocation(NamedTuple):
    """Compute a value from a symbol and `addend` and put it at `offset` of the section; `kind` is the machine's."""

    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True)
class ElfObject:
    """One object; `relocations` has those of each section under its number."""

    machine: int
    sections: list[Section]
    symbols: list[Symbol]
    relocations: dict[int, list[Relocation]]


class _Header(NamedTuple):
    """A section header as it stands in the file."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_bytes: int


def parse_object(code: bytes) -> ElfObject:
    """Read one object. Raises `ArtifactError` when it is not a relocatable ELF object, or is damaged."""
    view = memoryview(code)
    if not code.startswith(b"\x7fELF"):
        raise ArtifactError("this is not object code for Linux: it does not begin like an ELF file")
    if len(code) < _HEADER.size:
        _damaged("it ends within its header")
    ident, kind, machine, _, _, _, table, _, _, _, _, entry_bytes, count, names = _HEADER.unpack_from(code)
    if not ident.startswith(_IDENT) or kind != _ET_REL:
        raise ArtifactError(
            "the object code is no relocatable 64-bit little-endian ELF object; compile the model again"
        )
    if entry_bytes != SECTION.size or names >= count:
        _damaged("its header describes its sections wrongly")
    headers = [_Header(*row) for row in SECTION.iter_unpack(_part(view, table, count * SECTION.size, "section table"))]
    strings = _contents(view, headers[names])
    sections = [_section(view, header, strings) for header in headers]
    tables = [(i, header) for i, header in enumerate(headers) if header.kind == SHT_SYMTAB]
    if len(tables) > 1:
        _damaged("it has more than one symbol table")
    symbols = [symbol for _, header in tables for symbol in _symbols(view, headers, sections, header)]
    relocations = _relocations(view, headers, len(symbols), tables[0][0] if tables else -1)
    return ElfObject(machine, sections, symbols, relocations)


def _section(view: memoryview, header: _Header, strings: memoryview) -> Section:
    name = _string(strings, header.name)
    alignment = max(header.alignment, 1)
    if alignment & (alignment - 1):
        _damaged(f"section {name!r} is to be aligned to {alignment}")
    return Section(name, header.kind, header.flags, header.size, alignment, _contents(view, header))


def _symbols(view: memoryview, headers: list[_Header], sections: list[Section], table: _Header) -> Iterator[Symbol]:
    if table.link >= len(headers) or table.size % _SYMBOL.size:
        _damaged("its symbol table is malformed")
    strings = _contents(view, headers[table.link])
    for name, info, _, section, value, size in _SYMBOL.iter_unpack(_contents(view, table)):
        kind = info & 15
        inside = section < SHN_LORESERVE
        if inside and section >= len(sections):
            _damaged(f"a symbol is in section {section} of {len(sections)}")
        text = sections[section].name if kind == STT_SECTION and inside else _string(strings, name)
        if inside and section != SHN_UNDEF and value > sections[section].size:
            _damaged(f"symbol {text!r} lies outside its section")
        yield Symbol(text, info >> 4, kind, section, value, size)


def _relocations(
    view: memoryview, headers: list[_Header], symbol_count: int, symbol_table: int
) -> dict[int, list[Relocation]]:
    found: dict[int, list[Relocation]] = {}
    for header in headers:
        if header.kind == SHT_REL:
            raise ArtifactError("the object code has relocations without addends, which the loader does not know")
        if header.kind != SHT_RELA:
            continue
        if header.info >= len(headers) or header.link != symbol_table or header.size % _RELOCATION.size:
            _damaged("a table of relocations is malformed")
        rows = found.setdefault(header.info, [])
        for offset, info, addend in _RELOCATION.iter_unpack(_contents(view, header)):
            symbol = info >> 32
            if symbol >= symbol_count or offset >= headers[header.info].size:
                _damaged("a relocation refers to a symbol or offset that does not exist")
            rows.append(Relocation(offset, info & 0xFFFFFFFF, symbol, addend))
    return found


def _contents(view: memoryview, header: _Header) -> memoryview:
    if header.kind in (0, SHT_NOBITS):
        return view[:0]
    return _part(view, header.offset, header.size, "section")


def _part(view: memoryview, offset: int, size: int, what: str) -> memoryview:
    if offset + size > len(view):
        _damaged(f"a {what} lies outside of it")
    return view[offset : offset + size]


def _string(strings: memoryview, offset: int) -> str:
    """The string at `offset` of a string table, which ends with a zero byte."""
    if offset == 0 and not len(strings):
        return ""
    if offset >= len(strings) or strings[-1] != 0:
        _damaged("a name lies outside of its table")
    data = bytes(strings[offset : offset + 4096])
    return data.partition(b"\0")[0].decode("utf-8", "backslashreplace")


def _damaged(what: str) -> NoReturn:
    raise ArtifactError(f"the object code is damaged: {what}. Compile the model again")
