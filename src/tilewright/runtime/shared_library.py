"""Shared libraries of relocatable objects, written without a linker: what `dlopen` of any program loads.

    write_shared_library("add.so", [code], {"add": "add__packed"}, {"notes": b"…"})

The objects become one image that can lie at any address, laid out as `loader.py` lays it out in memory: code, then
constants and data, each on pages of their own. Behind them come the tables of the dynamic linker (System V ABI,
chapter 5) and blobs of bytes. Only the names requested can be looked up; what the objects leave undefined is looked for
in libc and libm when the library is loaded. x86-64 and AArch64.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tilewright.errors import ArtifactError
from tilewright.runtime import elf
from tilewright.runtime.elf import ElfObject, Relocation, Symbol, parse_object
from tilewright.runtime.loader import Image, Layout
from tilewright.runtime.memory import round_up
from tilewright.runtime.relocations import RELOCATIONS, STUB_BYTES, Rule
from tilewright.support.cache import atomic_file

#: The architectures that libraries are written for.
MACHINES = ("x86_64", "aarch64")

_Key = tuple[int, int]  # (number of the object, number of a symbol in it), as in `loader.py`

#: What parts of different protection are aligned to: AArch64 may run with pages of 64 KiB.
_PAGE = {elf.X86_64: 1 << 12, elf.AARCH64: 1 << 16}
_NEEDED = ("libm.so.6", "libc.so.6")

# Relocations that the dynamic linker applies: a word that is moved with the library, the address of a symbol in a slot,
# and in a word with an addend.
_RELATIVE, _SLOT, _WORD = range(3)
_DYNAMIC_KINDS = {elf.X86_64: (8, 6, 1), elf.AARCH64: (1027, 1025, 257)}
_WORDS = ("R_X86_64_64", "R_AARCH64_ABS64")
_SHORT_WORDS = ("R_X86_64_32", "R_X86_64_32S")

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ET_DYN, _PT_LOAD, _PT_DYNAMIC, _PT_STACK = 3, 1, 2, 0x6474E551
_READ, _WRITE, _EXECUTE = 4, 2, 1
_DT_NEEDED, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_RELA, _DT_RELASZ, _DT_RELAENT = 1, 4, 5, 6, 7, 8, 9
_DT_STRSZ, _DT_SYMENT, _DT_SONAME = 10, 11, 14
_GLOBAL, _WEAK, _FUNCTION, _OBJECT = 1, 2, 2, 1


def write_shared_library(
    path: str | os.PathLike[str],
    objects: Sequence[bytes],
    exports: Mapping[str, str],
    blobs: Mapping[str, bytes] | None = None,
) -> None:
    """Write the library `path` of objects that may refer to each other.

    `exports` are the names that can be looked up, with the symbols of the objects that they stand for; `blobs` are
    bytes that can be looked up, too, each at a multiple of 64. Raises `ArtifactError` for what cannot be linked so.
    """
    parsed = [parse_object(code) for code in objects]
    machine = parsed[0].machine
    if machine not in _PAGE or any(one.machine != machine for one in parsed):
        raise ArtifactError("a library is made of objects for one processor, x86-64 or AArch64")
    page = _PAGE[machine]
    image = _MovableImage(_MovableLayout(parsed, page), page)
    missing = [symbol for symbol in exports.values() if symbol not in image.symbols]
    if missing:
        raise ArtifactError(f"the library does not link: nothing defines {missing[0]!r}")
    library = _Library(machine, image, Path(path).name)
    try:
        with atomic_file(Path(path)) as temporary, open(temporary, "r+b") as file:
            library.write(file, exports, blobs or {})
        os.chmod(path, os.stat(path).st_mode | 0o111)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error.strerror or error}") from None


class _MovableLayout(Layout):
    """A layout in which calls of what other libraries define go through a slot, too."""

    def _references(self) -> tuple[dict[_Key, None], dict[_Key, None]]:
        calls, slots = super()._references()
        return calls, slots | calls


class _Fixup(NamedTuple):
    """A word at `offset` of the image that the dynamic linker fills: `symbol` is one of another library."""

    kind: int
    offset: int
    addend: int
    symbol: Symbol | None = None


class _MovableImage(Image):
    """The contents for the address `base` of a library that starts at 0, and what is left to the dynamic linker."""

    def __init__(self, layout: Layout, base: int) -> None:
        self.fixups: list[_Fixup] = []
        self.layout = layout
        self.machine = layout.objects[0].machine
        super().__init__(layout, base, {})

    def _prepare(self) -> None:
        for key, offset in self._layout.stubs.items():
            self.contents[offset : offset + STUB_BYTES] = self._stub(offset, self._layout.slots[key])
        for key, offset in self._layout.slots.items():
            symbol = self._symbol(key)
            if self._is_imported(symbol):
                self.fixups.append(_Fixup(_SLOT, offset, 0, symbol))
            else:
                self.fixups.append(_Fixup(_RELATIVE, offset, self._address(key)))

    def _stub(self, offset: int, slot: int) -> bytes:
        """Code at `offset` that jumps to the address in a slot: jmp *slot(%rip) | adrp x16; ldr x16; br x16."""
        if self.machine == elf.X86_64:
            return (b"\xff\x25" + struct.pack("<i", slot - offset - 6)).ljust(STUB_BYTES, b"\xcc")
        code = bytearray(struct.pack("<IIII", 0x9000_0010, 0xF940_0210, 0xD61F_0200, 0xD503_201F))
        rules = RELOCATIONS[self.machine]
        rules[311].encode(code, 0, self._base + offset, self._base + slot)
        rules[312].encode(code, 4, self._base + offset + 4, self._base + slot)
        return bytes(code)

    def _symbol(self, key: _Key) -> Symbol:
        return self._layout.objects[key[0]].symbols[key[1]]

    def _is_imported(self, symbol: Symbol) -> bool:
        return symbol.is_public and symbol.name not in self.symbols

    def _imported(self, symbol: Symbol) -> int:
        raise ArtifactError(f"the library does not link: {symbol.name!r} of another library is not called, but read")

    def _apply(self, number: int, index: int, relocation: Relocation) -> None:
        one: ElfObject = self._layout.objects[number]
        rule = RELOCATIONS.get(one.machine, {}).get(relocation.kind)
        symbol = one.symbols[relocation.symbol]
        if rule is not None and rule.name in _SHORT_WORDS:
            raise ArtifactError(f"the library does not link: {rule.name} to {symbol.name!r}: the code cannot be moved")
        if rule is None or rule.name not in _WORDS or symbol.section == elf.SHN_ABS:
            super()._apply(number, index, relocation)
            return
        offset = self._layout.sections[number, index] + relocation.offset
        if self._is_imported(symbol):
            self.fixups.append(_Fixup(_WORD, offset, relocation.addend, symbol))
        else:
            address = self._address((number, relocation.symbol)) + relocation.addend
            self.fixups.append(_Fixup(_RELATIVE, offset, address))

    def _source(self, rule: Rule, machine: int, key: _Key, position: int) -> int:
        if rule.source == "call" and key in self._layout.stubs:
            return self._base + self._layout.stubs[key]
        return super()._source(rule, machine, key, position)


class _Names:
    """A table of strings, each ended by a zero byte."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")
        self._known: dict[str, int] = {}

    def add(self, name: str) -> int:
        """The offset of the string."""
        if name not in self._known:
            self._known[name] = len(self.data)
            self.data += name.encode() + b"\0"
        return self._known[name]


class _Library:
    """One library while it is written: a page of headers, the image, the dynamic section, tables and blobs."""

    def __init__(self, machine: int, image: _MovableImage, name: str) -> None:
        self.machine, self.image, self.page = machine, image, _PAGE[machine]
        self.names = _Names()
        self.name = self.names.add(name)
        self.needed = [self.names.add(one) for one in _NEEDED]
        imported = {f.symbol.name: f.symbol for f in image.fixups if f.symbol is not None}
        self.symbols: list[tuple[int, int, int, int]] = [(0, 0, 0, 0)]  # name, binding and type, section, address
        self.numbers: dict[str, int] = {}
        for symbol in imported.values():
            binding = _WEAK if symbol.binding == elf.STB_WEAK else _GLOBAL
            self._add(symbol.name, binding << 4, 0, 0)

    def _add(self, name: str, info: int, section: int, address: int) -> None:
        self.numbers[name] = len(self.symbols)
        self.symbols.append((self.names.add(name), info, section, address))

    def write(self, file: BinaryIO, exports: Mapping[str, str], blobs: Mapping[str, bytes]) -> None:
        """Write all of it to an empty file. Addresses equal positions in the file, but for zeros behind the data."""
        layout, page = self.image.layout, self.page
        code = page + layout.code_end
        for name, symbol in exports.items():
            address = self.image.symbols[symbol]
            self._add(name, _GLOBAL << 4 | (_FUNCTION if address < code else _OBJECT), 1, address)
        dynamic = round_up(page + layout.size, page)
        tables = dynamic + page
        positions, end = self._lay_out_blobs(
            blobs, tables + self._table_bytes(len(blobs), sum(map(len, blobs)) + len(blobs))
        )
        for name, position in positions.items():
            self._add(name, _GLOBAL << 4 | _OBJECT, 1, position)
        parts, entries = self._tables(tables)
        contents_end = page + layout.contents_end
        segments = [
            (_PT_LOAD, _READ, 0, page, page),
            (_PT_LOAD, _READ | _EXECUTE, page, layout.code_end, layout.code_end),
            (_PT_LOAD, _READ | _WRITE, code, contents_end - code, page + layout.size - code),
            (_PT_LOAD, _READ | _WRITE, dynamic, page, page),
            (_PT_LOAD, _READ, tables, end - tables, end - tables),
            (_PT_DYNAMIC, _READ | _WRITE, dynamic, len(entries), len(entries)),
            (_PT_STACK, _READ | _WRITE, 0, 0, 0),
        ]
        self._write_at(file, 0, self._headers([one for one in segments if one[4] or one[0] == _PT_STACK]))
        self._write_at(file, page, self.image.contents)
        self._write_at(file, dynamic, entries)
        for position, data in [*parts, *[(positions[name], blobs[name]) for name in blobs]]:
            self._write_at(file, position, data)
        file.truncate(end)

    def _headers(self, segments: Sequence[tuple[int, int, int, int, int]]) -> bytes:
        ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
        head = _HEADER.pack(
            ident, _ET_DYN, self.machine, 1, 0, _HEADER.size, 0, 0, _HEADER.size, _SEGMENT.size, len(segments), 64, 0, 0
        )
        rows = [
            _SEGMENT.pack(kind, flags, at, at, at, in_file, in_memory, 8 if kind == _PT_DYNAMIC else self.page)
            for kind, flags, at, in_file, in_memory in segments
        ]
        return head + b"".join(rows)

    def _table_bytes(self, more_symbols: int, more_text: int) -> int:
        """An upper bound of the tables' size when `more_symbols` are added, with names of `more_text` bytes."""
        count = len(self.symbols) + more_symbols
        texts = len(self.names.data) + more_text
        return round_up(count * (_SYMBOL.size + 8) + texts + 24 * len(self.image.fixups) + 256, 64)

    @staticmethod
    def _lay_out_blobs(blobs: Mapping[str, bytes], start: int) -> tuple[dict[str, int], int]:
        positions, at = {}, start
        for name, data in blobs.items():
            positions[name] = at
            at = round_up(at + len(data), 64)
        return positions, at

    def _tables(self, start: int) -> tuple[list[tuple[int, bytes]], bytes]:
        """Symbols, strings, hash table and relocations with their positions, and the dynamic section that names
        them.
        """
        symbols = b"".join([_SYMBOL.pack(name, info, 0, section, at, 0) for name, info, section, at in self.symbols])
        kinds, base = _DYNAMIC_KINDS[self.machine], self.page
        rows = []
        for fixup in self.image.fixups:
            number = self.numbers[fixup.symbol.name] if fixup.symbol is not None else 0
            rows.append(struct.pack("<QQq", base + fixup.offset, number << 32 | kinds[fixup.kind], fixup.addend))
        tables = {
            _DT_SYMTAB: symbols,
            _DT_HASH: self._hash_table(),
            _DT_RELA: b"".join(rows),
            _DT_STRTAB: bytes(self.names.data),
        }
        positions, at = {}, start
        for tag, data in tables.items():
            positions[tag] = at
            at = round_up(at + len(data), 8)
        entries = [(_DT_NEEDED, name) for name in self.needed] + [(_DT_SONAME, self.name), *positions.items()]
        entries += [(_DT_STRSZ, len(self.names.data)), (_DT_SYMENT, _SYMBOL.size)]
        entries += [(_DT_RELASZ, len(tables[_DT_RELA])), (_DT_RELAENT, 24), (0, 0)]
        return [(positions[tag], data) for tag, data in tables.items()], b"".join(
            [struct.pack("<QQ", *e) for e in entries]
        )

    def _hash_table(self) -> bytes:
        """The table by which names are looked up: chains of symbols, one for each remainder of their hash."""
        count = len(self.symbols)
        buckets, chains = [0] * count, [0] * count
        for name, number in self.numbers.items():
            slot = _hash(name.encode()) % count
            chains[number], buckets[slot] = buckets[slot], number
        return struct.pack(f"<II{2 * count}I", count, count, *buckets, *chains)

    @staticmethod
    def _write_at(file: BinaryIO, position: int, data: bytes | bytearray) -> None:
        file.seek(position)
        file.write(data)


def _hash(name: bytes) -> int:
    """The hash of a name (System V ABI, figure 5-13)."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF000_0000
        value = (value ^ high >> 24) & ~high & 0xFFFF_FFFF
    return value


def exported_names(path: str | os.PathLike[str]) -> list[str]:
    """The names that a shared library defines for others. Raises `ArtifactError` for a file that is none."""
    try:
        data = Path(path).read_bytes()
        fields = _HEADER.unpack_from(data)
        if not fields[0].startswith(b"\x7fELF\x02\x01") or fields[1] != _ET_DYN:
            raise ValueError
        at, count, strings = _symbol_table(data, fields)
        rows = list(_SYMBOL.iter_unpack(data[at : at + count * _SYMBOL.size]))
        defined = [row[0] for row in rows if row[3] and row[1] >> 4 in (_GLOBAL, _WEAK)]
        return [data[strings + name : data.index(b"\0", strings + name)].decode() for name in defined]
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from None
    except (struct.error, ValueError, KeyError, StopIteration):
        raise ArtifactError(f"{path} is no shared library of 64 bits, or is damaged") from None


def _symbol_table(data: bytes, fields: Sequence[int]) -> tuple[int, int, int]:
    """The symbols for other libraries in a file: their offset, their number, and the offset of their names.

    Sections say so where the file has them, else the hash table.
    """
    for number in range(fields[12]):
        row = elf.SECTION.unpack_from(data, fields[6] + number * elf.SECTION.size)
        if row[1] == elf.SHT_DYNSYM:
            names = elf.SECTION.unpack_from(data, fields[6] + row[6] * elf.SECTION.size)
            return row[4], row[5] // _SYMBOL.size, names[4]
    segments = [_SEGMENT.unpack_from(data, fields[5] + i * _SEGMENT.size) for i in range(fields[10])]

    def position(address: int) -> int:
        rows = [row for row in segments if row[0] == _PT_LOAD and row[3] <= address < row[3] + row[5]]
        return rows[0][2] + address - rows[0][3] if rows else len(data)

    dynamic = next(row for row in segments if row[0] == _PT_DYNAMIC)
    tags = dict(struct.iter_unpack("<QQ", data[dynamic[2] : dynamic[2] + dynamic[5]]))
    (count,) = struct.unpack_from("<I", data, position(tags[_DT_HASH]) + 4)
    return position(tags[_DT_SYMTAB]), count, position(tags[_DT_STRTAB])
