"""Relocatable WebAssembly objects: functions, data and symbols with the positions in them that a linker fills.

Source: the tool conventions of WebAssembly, "Linking.md" (version 2 of the section `linking`, sections `reloc.*`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tilewright.backend.wasm.binary import MAGIC, Reader, damaged

#: Kinds of symbols, and of imports and exports.
FUNCTION, DATA, GLOBAL, SECTION, TAG, TABLE = range(6)
_IMPORTED_TABLE, _IMPORTED_MEMORY, _IMPORTED_GLOBAL = 1, 2, 3

#: Flags of symbols.
WEAK, LOCAL, UNDEFINED, EXPLICIT_NAME, THREAD_LOCAL, ABSOLUTE = 1, 2, 0x10, 0x40, 0x100, 0x200

_CONST, _END = 0x41, 0x0B
_SEGMENTS, _INIT, _SYMBOLS = 5, 6, 8


@dataclass(frozen=True)
class Kind:
    """A kind of relocation: the kind of symbols that it names, its addend, and the bytes that it fills."""

    symbol: int
    has_addend: bool
    width: int


#: The relocations that code of 32-bit addresses at fixed positions has, by their numbers. One of debugging sections is
#: in a section that is left out.
RELOCATIONS = {
    0: Kind(FUNCTION, False, 5),
    1: Kind(FUNCTION, False, 5),
    2: Kind(FUNCTION, False, 4),
    3: Kind(DATA, True, 5),
    4: Kind(DATA, True, 5),
    5: Kind(DATA, True, 4),
    6: Kind(-1, False, 5),
    7: Kind(GLOBAL, False, 5),
    20: Kind(TABLE, False, 5),
}
TABLE_INDEX, TYPE_INDEX = (1, 2), 6


@dataclass(frozen=True)
class Relocation:
    """Something to be filled in at `offset` of a part: the index or address of a symbol, or a type's index."""

    kind: int
    offset: int
    index: int
    addend: int = 0


@dataclass(frozen=True)
class Symbol:
    """A function, a piece of data, a global or a table. `index` counts imports first; of data it is the segment's."""

    kind: int
    flags: int
    name: str
    index: int = 0
    offset: int = 0

    @property
    def is_defined(self) -> bool:
        """False for what another object has."""
        return not self.flags & UNDEFINED


@dataclass
class Part:
    """A function's body or a data segment: bytes, what is to be filled in there, and where in its section it began."""

    body: bytes
    start: int
    alignment: int = 0  # its logarithm
    relocations: list[Relocation] = field(default_factory=list)


@dataclass
class ObjectFile:
    """The contents of one object. `imports` are the names of what it imports, by kind, `imported` their types."""

    types: list[bytes] = field(default_factory=list)
    imports: dict[int, list[str]] = field(default_factory=lambda: {FUNCTION: [], GLOBAL: [], TABLE: []})
    imported: list[int] = field(default_factory=list)
    signatures: list[int] = field(default_factory=list)
    bodies: list[Part] = field(default_factory=list)
    segments: list[Part] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)


def read_object(data: bytes) -> ObjectFile:
    """The contents of an object. Raises `ArtifactError` for one that is damaged or that needs what is not linked."""
    reader = Reader(data)
    if reader.take(min(len(MAGIC), len(data))) != MAGIC:
        raise damaged("it does not begin like one")
    found = ObjectFile()
    linked = False
    while reader.more:
        kind, body = reader.byte(), reader.part()
        if kind:
            _section(kind, body, found)
            continue
        name = body.text()
        if name == "linking":
            _linking(body, found)
            linked = True
        elif name in ("reloc.CODE", "reloc.DATA"):
            _relocations(body, found, found.bodies if name == "reloc.CODE" else found.segments)
    if not linked:
        raise damaged("it has no symbols")
    if len(found.signatures) != len(found.bodies):
        raise damaged(f"it has {len(found.signatures)} signatures for {len(found.bodies)} functions")
    return found


def _section(kind: int, body: Reader, found: ObjectFile) -> None:
    if kind == 1:
        found.types = body.vector(_type)
    elif kind == 2:
        body.vector(lambda inner: _import(inner, found))
    elif kind == 3:
        found.signatures = body.vector(Reader.number)
        for index in found.signatures:
            _check(index, found.types, "type")
    elif kind == 10:
        first = body.position
        found.bodies = body.vector(lambda inner: _body(inner, first))
    elif kind == 11:
        first = body.position
        found.segments = body.vector(lambda inner: _segment(inner, first))
    elif kind not in (9, 12):  # elements and the count of segments, which the linker writes itself
        raise damaged(f"it has a section {kind}, which is not linked")


def _type(body: Reader) -> bytes:
    start = body.position
    if body.byte() != 0x60:
        raise damaged(f"a type at byte {start} is no function's")
    for _ in range(2):
        body.take(body.number())  # types of values have one byte each
    return body.data[start : body.position]


def _import(body: Reader, found: ObjectFile) -> None:
    body.text()
    name, kind = body.text(), body.byte()
    if kind == 0:
        found.imports[FUNCTION].append(name)
        found.imported.append(_check(body.number(), found.types, "type"))
    elif kind in (_IMPORTED_TABLE, _IMPORTED_MEMORY):
        if kind == _IMPORTED_TABLE:
            body.byte()
            found.imports[TABLE].append(name)
        for _ in range(1 + (body.byte() & 1)):
            body.number()
    elif kind == _IMPORTED_GLOBAL:
        body.take(2)
        found.imports[GLOBAL].append(name)
    else:
        raise damaged(f"it imports something of kind {kind}")


def _body(body: Reader, first: int) -> Part:
    inner = body.part()
    start = inner.position - first
    return Part(inner.take(inner.end - inner.position), start)


def _segment(body: Reader, first: int) -> Part:
    if body.number() != 0 or body.byte() != _CONST:
        raise damaged(f"a segment before byte {body.position} has no fixed position")
    body.signed()
    if body.byte() != _END:
        raise damaged(f"the position of a segment before byte {body.position} is no constant")
    size = body.number()
    start = body.position - first
    return Part(body.take(size), start)


def _linking(body: Reader, found: ObjectFile) -> None:
    version = body.number()
    if version != 2:
        raise damaged(f"it is for version {version} of the linking conventions, and 2 is known")
    while body.more:
        kind, inner = body.byte(), body.part()
        if kind == _SEGMENTS:
            for index, alignment in enumerate(inner.vector(_segment_info)):
                _check(index, found.segments, "segment")
                found.segments[index].alignment = alignment
        elif kind == _SYMBOLS:
            found.symbols = inner.vector(lambda one: _symbol(one, found))
        elif kind == _INIT and inner.number():
            raise damaged("it has functions that run before all others")


def _segment_info(inner: Reader) -> int:
    inner.text()
    alignment = inner.number()
    if alignment > 16:
        raise damaged(f"a segment is aligned to two to the power of {alignment}")
    if inner.number() & 2:
        raise damaged("it has memory of threads")
    return alignment


def _symbol(inner: Reader, found: ObjectFile) -> Symbol:
    kind, flags = inner.byte(), inner.number()
    undefined = bool(flags & UNDEFINED)
    if kind == DATA:
        name = inner.text()
        if undefined:
            return Symbol(kind, flags, name)
        if flags & (THREAD_LOCAL | ABSOLUTE):
            raise damaged(f"the symbol {name} is no data of the module")
        index, offset = _check(inner.number(), found.segments, "segment"), inner.number()
        inner.number()
        return Symbol(kind, flags, name, index, offset)
    if kind == SECTION:
        return Symbol(kind, flags, "", inner.number())
    if kind not in (FUNCTION, GLOBAL, TABLE):
        raise damaged(f"it has a symbol of kind {kind}")
    index, imports = inner.number(), found.imports[kind]
    if undefined:
        _check(index, imports, "import")
        return Symbol(kind, flags, inner.text() if flags & EXPLICIT_NAME else imports[index], index)
    if kind != FUNCTION:
        raise damaged("it defines a global or a table, which generated code does not")
    return Symbol(kind, flags, inner.text(), _check(index - len(imports), found.bodies, "function"))


def _relocations(body: Reader, found: ObjectFile, parts: list[Part]) -> None:
    """Hand each part its relocations, whose offsets rise and count from the beginning of the section."""
    body.number()
    entries = iter(sorted(body.vector(lambda inner: _relocation(inner, found)), key=lambda entry: entry.offset))
    entry = next(entries, None)
    for part in parts:
        end = part.start + len(part.body)
        while entry is not None and part.start <= entry.offset <= end - RELOCATIONS[entry.kind].width:
            part.relocations.append(replace(entry, offset=entry.offset - part.start))
            entry = next(entries, None)
    if entry is not None:
        raise damaged(f"a relocation at {entry.offset} lies in no function and no data")


def _relocation(body: Reader, found: ObjectFile) -> Relocation:
    number = body.byte()
    kind = RELOCATIONS.get(number)
    if kind is None:
        raise damaged(f"it has a relocation of kind {number}, which is not linked")
    offset, index = body.number(), body.number()
    addend = body.signed() if kind.has_addend else 0
    if number == TYPE_INDEX:
        _check(index, found.types, "type")
    elif found.symbols[_check(index, found.symbols, "symbol")].kind != kind.symbol:
        raise damaged(f"a relocation of kind {number} names a symbol of another kind")
    return Relocation(number, offset, index, addend)


def _check(index: int, things: Sequence[object], what: str) -> int:
    """`index`, which must be one of `things`."""
    if not 0 <= index < len(things):
        raise damaged(f"it names {what} {index} of {len(things)}")
    return index
