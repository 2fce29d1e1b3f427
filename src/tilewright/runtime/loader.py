"""A loader for relocatable objects: their code into this process's memory, ready to be called.

    code = load_objects(objects, imports)      # objects that may refer to each other
    code.symbols["main__entry"]                # an address; valid while `code` lives

All objects share one mapping of three parts: code and stubs (read and execute), constants and the slots that hold
addresses (read), data (read and write). Everything is put together in ordinary memory first (`Image`), copied, and only
then made executable: no page is ever writable and executable. The kernel makes the instruction cache of AArch64 see
the code when its pages become executable.

Undefined symbols are looked for among the other objects, then in `imports`, then in libc, libm and libgcc. A call that
cannot reach its target goes through a stub in the mapping. Unwind tables are left out: compiled code raises nothing.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from tilewright.errors import ArtifactError
from tilewright.runtime import elf
from tilewright.runtime.elf import ElfObject, Relocation, Section, Symbol, parse_object
from tilewright.runtime.memory import round_up
from tilewright.runtime.relocations import CALL_REACH, RELOCATIONS, STUB_BYTES, Rule, stub
from tilewright.runtime.system import host_system

_MACHINES = {"x86_64": elf.X86_64, "aarch64": elf.AARCH64}
_LARGEST = 1 << 30  # bytes of one mapping, so that everything in it reaches everything else
_SLOT_BYTES = 8
_STARTERS = (elf.SHT_INIT_ARRAY, elf.SHT_FINI_ARRAY, elf.SHT_PREINIT_ARRAY)

_Key = tuple[int, int]  # (number of the object, number of a section or symbol in it)


class LoadedCode:
    """Objects in memory; `symbols` maps their public symbols to addresses. The memory is released with this object."""

    def __init__(self, image: Image, mapping: _Mapping) -> None:
        self.symbols = image.symbols
        self._mapping = mapping


def load_objects(objects: Sequence[bytes], imports: Mapping[str, int], machine: str) -> LoadedCode:
    """Link objects for `machine` (``"x86_64"``, ``"aarch64"``) into this process.

    Raises `ArtifactError`, saying which symbol or relocation is the matter, when they cannot be linked.
    """
    parsed = [parse_object(code) for code in objects]
    if any(one.machine != _MACHINES[machine] for one in parsed):
        raise ArtifactError(f"the object code is not for {machine}. Compile the model for this machine")
    layout = Layout(parsed)
    mapping = _Mapping(layout.size)
    image = Image(layout, mapping.address, imports)
    mapping.fill(image.contents)
    mapping.protect(0, layout.code_end, execute=True)
    mapping.protect(layout.code_end, layout.constants_end, execute=False)
    return LoadedCode(image, mapping)


class Layout:
    """The memory layout of an object: offsets from the start of one region, before its address is known.

    `page` is what parts of different protection are aligned to. `sections` and `commons` (by name), `stubs` and `slots`
    (by the symbol they are for) are offsets; code ends at `code_end`, constants at `constants_end`, and what has
    contents at `contents_end`; from there to `size` are zeros.
    """

    def __init__(self, objects: Sequence[ElfObject], page: int = mmap.PAGESIZE) -> None:
        self.objects = objects
        self._page = page
        self.defined = {name for _, symbol in _public(objects) if symbol.section and (name := symbol.name)}
        self.sections: dict[_Key, int] = {}
        self.commons: dict[str, int] = {}
        self.stubs: dict[_Key, int] = {}
        self.slots: dict[_Key, int] = {}
        self._end = 0
        parts: tuple[list[tuple[_Key, Section]], ...] = ([], [], [], [])
        for number, one in enumerate(objects):
            for index, section in enumerate(one.sections):
                if _is_loaded(section):
                    parts[_part_of(section)].append(((number, index), section))
        calls, slots = self._references()
        self._position(parts[0])
        self.stubs = {key: self._take(STUB_BYTES, STUB_BYTES) for key in calls}
        self.code_end = self._take(0, page)
        self._position(parts[1])
        self.slots = {key: self._take(_SLOT_BYTES, _SLOT_BYTES) for key in slots}
        self.constants_end = self._take(0, page)
        self._position(parts[2])
        self.contents_end = self._end
        self._position(parts[3])
        self._lay_out_commons()
        self.size = max(self._end, 1)

    def _position(self, sections: list[tuple[_Key, Section]]) -> None:
        for key, section in sections:
            self.sections[key] = self._take(section.size, section.alignment, section.name)

    def _take(self, size: int, alignment: int, name: str = "") -> int:
        """The offset of the next `size` bytes."""
        if alignment > self._page:
            raise ArtifactError(
                f"section {name!r} of the object code requires an alignment of {alignment} bytes, too large"
            )
        offset = round_up(self._end, alignment)
        self._end = offset + size
        if self._end > _LARGEST:
            raise ArtifactError(f"the object code takes more than {_LARGEST} bytes of memory, or is damaged")
        return offset

    def _lay_out_commons(self) -> None:
        """Common symbols: one definition for all objects, as large and aligned as any of them requires."""
        wanted: dict[str, tuple[int, int]] = {}
        for _, symbol in _public(self.objects):
            if symbol.section == elf.SHN_COMMON:
                size, alignment = wanted.get(symbol.name, (0, 1))
                wanted[symbol.name] = max(size, symbol.size), max(alignment, symbol.value)
        for name, (size, alignment) in wanted.items():
            if alignment & (alignment - 1):
                raise ArtifactError(
                    f"symbol {name!r} of the object code requires an alignment of {alignment}: it is damaged"
                )
            self.commons[name] = self._take(size, alignment, name)

    def _references(self) -> tuple[dict[_Key, None], dict[_Key, None]]:
        """The symbols that need a stub in case they are out of reach, and those that need a slot."""
        calls: dict[_Key, None] = {}
        slots: dict[_Key, None] = {}
        for number, one in enumerate(self.objects):
            rules = RELOCATIONS.get(one.machine, {})
            for _, relocation in _loaded_relocations(one):
                rule = rules.get(relocation.kind)
                symbol = one.symbols[relocation.symbol]
                if rule and rule.source == "slot":
                    slots[number, relocation.symbol] = None
                elif rule and rule.source == "call" and not symbol.section and symbol.name not in self.defined:
                    calls[number, relocation.symbol] = None
        return calls, slots


class Image:
    """The region's contents for a given address: sections copied, symbols resolved, relocations applied.

    `contents` are its bytes up to the layout's `contents_end`, `symbols` the addresses of public symbols. Raises
    `ArtifactError` for what cannot be resolved or applied.
    """

    def __init__(self, layout: Layout, base: int, imports: Mapping[str, int]) -> None:
        self._layout = layout
        self._base = base
        self._imports = imports
        self._found: dict[_Key, int] = {}
        self.contents = bytearray(layout.contents_end)
        self.symbols = self._definitions()
        for (number, index), offset in layout.sections.items():
            data = layout.objects[number].sections[index].data
            self.contents[offset : offset + len(data)] = data
        self._prepare()
        for number, one in enumerate(layout.objects):
            for index, relocation in _loaded_relocations(one):
                self._apply(number, index, relocation)

    def _prepare(self) -> None:
        """Fill stubs and slots."""
        for key, offset in self._layout.stubs.items():
            code = stub(self._layout.objects[key[0]].machine, self._address(key))
            self.contents[offset : offset + STUB_BYTES] = code
        for key, offset in self._layout.slots.items():
            self.contents[offset : offset + _SLOT_BYTES] = self._address(key).to_bytes(_SLOT_BYTES, "little")

    def _definitions(self) -> dict[str, int]:
        """Addresses of the public symbols. A weak definition yields to another; two others are an error."""
        found: dict[str, int] = {}
        weak: set[str] = set()
        for number, symbol in _public(self._layout.objects):
            if symbol.section in (elf.SHN_UNDEF, elf.SHN_COMMON):
                continue
            is_weak = symbol.binding == elf.STB_WEAK
            if symbol.name in found and is_weak:
                continue
            if symbol.name in found and symbol.name not in weak:
                raise ArtifactError(f"the object code does not link in this process: {symbol.name!r} is defined twice")
            found[symbol.name] = self._position_of(number, symbol)
            (weak.add if is_weak else weak.discard)(symbol.name)
        return {name: self._base + offset for name, offset in self._layout.commons.items()} | found

    def _position_of(self, number: int, symbol: Symbol) -> int:
        """The address of a symbol that the object defines itself."""
        if symbol.kind in (elf.STT_TLS, elf.STT_GNU_IFUNC):
            raise ArtifactError(f"symbol {symbol.name!r} of the object code is of type {symbol.kind}, which is unknown")
        if symbol.section == elf.SHN_ABS:
            return symbol.value
        offset = self._layout.sections.get((number, symbol.section))
        if offset is None:
            raise ArtifactError(f"symbol {symbol.name!r} of the object code is in a section that is not loaded")
        return self._base + offset + symbol.value

    def _address(self, key: _Key) -> int:
        """The address that a symbol of an object stands for."""
        if key not in self._found:
            symbol = self._layout.objects[key[0]].symbols[key[1]]
            if not symbol.is_public:
                address = self._position_of(key[0], symbol) if key[1] else 0
            elif symbol.name in self.symbols:
                address = self.symbols[symbol.name]
            else:
                address = self._imported(symbol)
            self._found[key] = address
        return self._found[key]

    def _imported(self, symbol: Symbol) -> int:
        address = self._imports.get(symbol.name) or host_system().symbol(symbol.name)
        if address is None and symbol.binding != elf.STB_WEAK:
            raise ArtifactError(f"the object code does not link in this process: nothing defines {symbol.name!r}")
        return address or 0

    def _apply(self, number: int, index: int, relocation: Relocation) -> None:
        one = self._layout.objects[number]
        name = one.symbols[relocation.symbol].name
        if relocation.kind == 0:  # R_X86_64_NONE, R_AARCH64_NONE
            return
        rule = RELOCATIONS.get(one.machine, {}).get(relocation.kind)
        if rule is None:
            _refuse(f"type {relocation.kind}", name, "this type is unknown to the loader")
        section = one.sections[index]
        offset = self._layout.sections[number, index] + relocation.offset
        if relocation.offset + rule.size > section.size or offset + rule.size > len(self.contents):
            _refuse(rule.name, name, "its offset lies outside of its section")
        position = self._base + offset
        try:
            source = self._source(rule, one.machine, (number, relocation.symbol), position)
            rule.encode(self.contents, offset, position, source + relocation.addend)
        except OverflowError as error:
            _refuse(rule.name, name, str(error))

    def _source(self, rule: Rule, machine: int, key: _Key, position: int) -> int:
        """The address that the relocation at `position` takes for its symbol."""
        if rule.source == "slot":
            return self._base + self._layout.slots[key]
        address = self._address(key)
        if rule.source == "call" and key in self._layout.stubs and abs(address - position) > CALL_REACH[machine] - 4096:
            return self._base + self._layout.stubs[key]
        return address


def _refuse(kind: str, symbol: str, reason: str) -> NoReturn:
    raise ArtifactError(f"the object code does not link in this process: relocation {kind} to {symbol!r}: {reason}")


def _public(objects: Sequence[ElfObject]) -> Iterator[tuple[int, Symbol]]:
    """The public symbols of all objects, each with the number of its object."""
    return ((n, symbol) for n, one in enumerate(objects) for symbol in one.symbols if symbol.is_public)


def _loaded_relocations(one: ElfObject) -> Iterator[tuple[int, Relocation]]:
    """The relocations of the sections that are loaded, each with the number of its section."""
    return ((i, r) for i, rows in one.relocations.items() if _is_loaded(one.sections[i]) for r in rows)


def _is_loaded(section: Section) -> bool:
    return bool(section.flags & elf.SHF_ALLOC) and section.name != ".eh_frame"


def _part_of(section: Section) -> int:
    """0 code, 1 constants, 2 data, 3 data that begins as zeros. Raises `ArtifactError` for what is none of these."""
    flags = section.flags
    is_zeros = section.kind == elf.SHT_NOBITS
    starts_or_ends = section.kind in _STARTERS or section.name.startswith((".ctors", ".dtors"))
    is_both = flags & elf.SHF_WRITE and flags & elf.SHF_EXECINSTR
    if starts_or_ends or is_both or flags & elf.SHF_TLS or (is_zeros and not flags & elf.SHF_WRITE):
        raise ArtifactError(f"section {section.name!r} of the object code is of a kind that the loader does not know")
    if flags & elf.SHF_EXECINSTR:
        return 0
    if not flags & elf.SHF_WRITE:
        return 1
    return 3 if is_zeros else 2


class _Mapping:
    """Memory for code, released with this object: not at the interpreter's end, when threads may still be in it."""

    def __init__(self, size: int) -> None:
        self._system = host_system()
        self.address = self._system.reserve(size)
        weakref.finalize(self, self._system.release, self.address, size).atexit = False

    def fill(self, contents: bytearray) -> None:
        """Copy `contents` to the start."""
        self._system.write(self.address, contents)

    def protect(self, start: int, end: int, execute: bool) -> None:
        """Let the pages between two offsets be read only, or read and executed. Raises `EnvironmentError_`."""
        if start < end:
            self._system.protect(self.address + start, end - start, execute)
