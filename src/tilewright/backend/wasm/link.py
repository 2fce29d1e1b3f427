"""Objects of LLVM linked to one WebAssembly module: only what exported functions reach, code and data laid out.

    link([read_object(code), …], {"run": "run"})   ->   a module that exports `run`, `memory` and `__heap_base`

The memory begins with the stack, which grows down towards address 0, so that a call too deep traps; data follow, and
`__heap_base` is the first byte behind them. Functions that nothing defines are imported from `env`, and so is the
memory where instances of several threads are to have the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.backend.wasm.binary import MAGIC, custom, damaged, number, padded, section, signed, text, vector
from tilewright.backend.wasm.object_file import (
    DATA,
    FUNCTION,
    GLOBAL,
    LOCAL,
    RELOCATIONS,
    TABLE,
    TABLE_INDEX,
    TYPE_INDEX,
    WEAK,
    ObjectFile,
    Part,
    Relocation,
    Symbol,
)
from tilewright.runtime.memory import round_up

_PAGE = 65536
_STACK = 1 << 20  # bytes; kernels keep register tiles and small packs there
_ALIGNMENT = 64  # of the heap
_I32, _FUNCREF, _CONST, _END = b"\x7f", b"\x70", b"\x41", b"\x0b"
_MOST_DATA = 1 << 31  # bytes; beyond are addresses of no module
_MOST_PAGES = 1 << 16  # that addresses of 32 bits reach

#: A function or data segment: the number of its object, its kind, and its index there.
Key = tuple[int, int, int]


@dataclass(frozen=True)
class Import:
    """A function that the module does not have: its name in `env`, and its type."""

    name: str
    type: bytes


class _Layout:
    """The contents of the module in order: functions, segments with addresses, types, entries of the table."""

    def __init__(self, objects: Sequence[ObjectFile], exports: Mapping[str, str]) -> None:
        self.objects = objects
        self.defined, self.offsets = _definitions(objects)
        self.imports: dict[str, Import] = {}
        self.live: dict[Key, None] = {}
        for name in exports.values():
            if self.defined.get(name, (0, DATA, 0))[1] != FUNCTION:
                raise damaged(f"nothing defines the function {name}")
        self._reach([self.defined[name] for name in exports.values()])
        functions = [key for key in self.live if key[1] == FUNCTION]
        self.functions = {key: len(self.imports) + i for i, key in enumerate(functions)}
        self.imported = {name: i for i, name in enumerate(self.imports)}
        self.types: dict[bytes, int] = {}
        self.table: dict[int, int] = {}
        self.addresses: dict[Key, int] = {}
        end = _STACK
        for key in self.live:
            if key[1] == DATA:
                part = self.part(key)
                self.addresses[key] = round_up(end, 1 << part.alignment)
                end = self.addresses[key] + len(part.body)
        self.heap = round_up(end, _ALIGNMENT)

    def part(self, key: Key) -> Part:
        """The bytes of a function or a segment."""
        number_, kind, index = key
        found = self.objects[number_]
        return (found.bodies if kind == FUNCTION else found.segments)[index]

    def target(self, number_: int, symbol: Symbol) -> Key | None:
        """The definition that a symbol of an object means; None for an imported function."""
        if symbol.is_defined and (symbol.flags & LOCAL or not symbol.flags & WEAK):
            return number_, symbol.kind, symbol.index
        return self.defined.get(symbol.name)

    def address(self, number_: int, symbol: Symbol) -> int:
        """The address of a symbol's data."""
        key = self.target(number_, symbol)
        assert key is not None, "what is reached was found"
        own = key[0] == number_ and key[2] == symbol.index and symbol.is_defined
        return self.addresses[key] + (symbol.offset if own else self.offsets[symbol.name])

    def _reach(self, keys: list[Key]) -> None:
        """Note what is reached from `keys`, in the order in which it is found."""
        while keys:
            key = keys.pop()
            if key in self.live:
                continue
            self.live[key] = None
            found = self.objects[key[0]]
            for relocation in self.part(key).relocations:
                if relocation.kind == TYPE_INDEX:
                    continue
                symbol = found.symbols[relocation.index]
                if symbol.kind in (GLOBAL, TABLE):
                    continue
                target = self.target(key[0], symbol)
                if target is not None and target[1] == symbol.kind:
                    keys.append(target)
                elif symbol.kind == FUNCTION and not symbol.is_defined:
                    kind = found.types[found.imported[symbol.index]]
                    if self.imports.setdefault(symbol.name, Import(symbol.name, kind)).type != kind:
                        raise damaged(f"the function {symbol.name} is imported with two types")
                else:
                    raise damaged(f"nothing defines the {'data' if symbol.kind == DATA else 'function'} {symbol.name}")

    def type_index(self, kind: bytes) -> int:
        """The index of a type in the module."""
        return self.types.setdefault(kind, len(self.types))

    def table_index(self, function: int) -> int:
        """The entry of the table with a function; entry 0 is the null pointer."""
        return self.table.setdefault(function, len(self.table) + 1)


def link(
    objects: Sequence[ObjectFile], exports: Mapping[str, str],
    sections: Sequence[tuple[str, Callable[[int], bytes]]] = (), has_names: bool = False, shares_memory: bool = False,
) -> bytes:  # fmt: skip
    """The module of objects, its exports by name: functions of the objects, `memory` and `__heap_base`.

    `sections` are custom ones put behind it, by functions of `__heap_base`; with `has_names` functions have their names
    in it, for profilers. With `shares_memory` the memory is imported, as ``env.memory``, before all functions, and
    `__stack_pointer` exported, so that each instance can have a stack of its own. Raises `ArtifactError` where
    something is defined twice, or nowhere.
    """
    layout = _Layout(objects, exports)
    bodies = [_filled(layout, key) for key in layout.functions]
    segments = [(layout.addresses[key], _filled(layout, key)) for key in layout.addresses]
    signatures = [layout.type_index(_type_of(objects, key)) for key in layout.functions]
    imported = [(entry.name, b"\0" + number(layout.type_index(entry.type))) for entry in layout.imports.values()]
    pages = number(-(-layout.heap // _PAGE))
    if shares_memory:
        imported.insert(0, ("memory", b"\2\1" + pages + number(_MOST_PAGES)))
    parts = [
        section(1, [vector(list(layout.types))]),
        section(2, [vector([text("env") + text(name) + what for name, what in imported])]),
        section(3, [vector([number(index) for index in signatures])]),
        section(4, [vector([_FUNCREF + _limits(len(layout.table) + 1)])]),
        *([] if shares_memory else [section(5, [vector([b"\0" + pages])])]),
        section(6, [vector([_I32 + b"\1" + _constant(_STACK), _I32 + b"\0" + _constant(layout.heap)])]),
        section(7, [vector(list(_exports(layout, exports, shares_memory)))]),
    ]
    if layout.table:
        entries = vector([number(function) for function in layout.table])
        parts.append(section(9, [b"\1\0", _constant(1), entries]))
    parts.append(section(10, [vector([number(len(body)) + body for body in bodies])]))
    kept = [b"\0" + _constant(address) + number(len(body)) + body for address, body in segments if any(body)]
    parts += [section(11, [vector(kept)])] if kept else []
    parts += [_names(layout)] if has_names else []
    return b"".join([MAGIC, *parts, *(custom(name, body(layout.heap)) for name, body in sections)])


def _definitions(objects: Sequence[ObjectFile]) -> tuple[dict[str, Key], dict[str, int]]:
    """The definition of each name that objects share, a strong one, else the first weak one; and offsets of data."""
    found: dict[str, Key] = {}
    offsets: dict[str, int] = {}
    strong: set[str] = set()
    for number_, one in enumerate(objects):
        for symbol in one.symbols:
            if symbol.kind not in (FUNCTION, DATA) or not symbol.is_defined or symbol.flags & LOCAL:
                continue
            is_strong = not symbol.flags & WEAK
            if is_strong and symbol.name in strong:
                raise damaged(f"{symbol.name} is defined twice")
            if is_strong or symbol.name not in found:
                found[symbol.name] = number_, symbol.kind, symbol.index
                offsets[symbol.name] = symbol.offset
            if is_strong:
                strong.add(symbol.name)
    return found, offsets


def _filled(layout: _Layout, key: Key) -> bytes:
    """The bytes of a part with its relocations done."""
    part = layout.part(key)
    made = bytearray(part.body)
    for relocation in part.relocations:
        value = _value(layout, key[0], relocation)
        width = RELOCATIONS[relocation.kind].width
        filled = (value & 0xFFFFFFFF).to_bytes(4, "little") if width == 4 else padded(value)
        made[relocation.offset : relocation.offset + width] = filled
    return bytes(made)


def _value(layout: _Layout, number_: int, relocation: Relocation) -> int:
    """The number that a relocation fills in: an index, or an address."""
    found = layout.objects[number_]
    if relocation.kind == TYPE_INDEX:
        return layout.type_index(found.types[relocation.index])
    symbol = found.symbols[relocation.index]
    if symbol.kind == TABLE:
        return 0
    if symbol.kind == GLOBAL:
        if symbol.name != "__stack_pointer":
            raise damaged(f"nothing defines the global {symbol.name}")
        return 0
    if symbol.kind == DATA:
        value = layout.address(number_, symbol) + relocation.addend
        if not 0 <= value < _MOST_DATA:
            raise damaged(f"the data {symbol.name} lie at {value}")
        return value
    target = layout.target(number_, symbol)
    function = layout.imported[symbol.name] if target is None else layout.functions[target]
    return layout.table_index(function) if relocation.kind in TABLE_INDEX else function


def _type_of(objects: Sequence[ObjectFile], key: Key) -> bytes:
    found = objects[key[0]]
    return found.types[found.signatures[key[2]]]


def _limits(least: int) -> bytes:
    return b"\1" + number(least) * 2


def _constant(value: int) -> bytes:
    return _CONST + signed(value) + _END


def _exports(layout: _Layout, exports: Mapping[str, str], has_stack: bool) -> Iterator[bytes]:
    for exported, name in exports.items():
        yield text(exported) + b"\0" + number(layout.functions[layout.defined[name]])
    yield text("memory") + b"\2\0"
    yield text("__heap_base") + b"\3\1"
    if has_stack:
        yield text("__stack_pointer") + b"\3\0"


def _names(layout: _Layout) -> bytes:
    """The section `name`, with the functions that have one."""
    known = {key: name for name, key in layout.defined.items()}
    named = [(index, known[key]) for key, index in layout.functions.items() if key in known]
    body = vector([number(index) + text(name) for index, name in named])
    return custom("name", b"\1" + number(len(body)) + body)
