"""Imports of a classic library, as the bytes of its symbol `__tvm_dev_mblob`, little-endian:

u64 size of what follows, u64 count, then for each module its kind (u64 length, bytes) and what that kind says: nothing
for "_lib", the functions of the library itself; last "_import_tree", for each module where its children begin in a list
(u64 count, u64 …), and that list of modules' numbers.

    GraphExecutorFactory    the graph as JSON, u64 number of parameters, their names, their arrays, the module's name
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.compat.runtime.array import NDArray, array, to_numpy
from tilewright.errors import ArtifactError, InputError, UnsupportedError
from tilewright.support.array_format import array_bytes, read_array

SYMBOL = "__tvm_dev_mblob"
_LIBRARY, _TREE, _FACTORY = "_lib", "_import_tree", "GraphExecutorFactory"


@dataclass(frozen=True)
class GraphFactory:
    """A graph over the functions of a library, its parameters, and the name that it is created by."""

    graph: str
    params: Mapping[str, NDArray]
    name: str


def factory_blob(graph: str, params: Mapping[str, Any], name: str) -> bytes:
    """The symbol's bytes for a graph that imports the library's functions."""
    body = b"".join(
        [
            struct.pack("<Q", 3),
            _text(_FACTORY),
            _text(graph),
            struct.pack("<QQ", len(params), len(params)),
            *map(_text, params),
            *[array_bytes(to_numpy(value)) for value in params.values()],
            _text(name),
            _text(_LIBRARY),
            _text(_TREE),
            struct.pack("<4Q", 3, 0, 1, 1),
            struct.pack("<2Q", 1, 1),
        ]
    )
    return struct.pack("<Q", len(body)) + body


def _text(words: str) -> bytes:
    data = words.encode()
    return struct.pack("<Q", len(data)) + data


def read_blob(data: bytes) -> GraphFactory | None:
    """The graph among the modules in the symbol's bytes, None where there is the library alone.

    Raises `UnsupportedError` for modules of other kinds, `ArtifactError` for bytes that are no such list.
    """
    try:
        return _Reader(data).modules()
    except (struct.error, UnicodeDecodeError, InputError) as error:
        raise ArtifactError(f"the list of modules in the library is damaged: {error}") from None


class _Reader:
    """Reads the bytes from their start."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 8
        if self.number(0) + 8 > len(data):
            raise ArtifactError("the list of modules in the library is cut short")

    def number(self, at: int | None = None) -> int:
        """The u64 at `at`, or the next."""
        position = self.at if at is None else at
        if at is None:
            self.at += 8
        return int(struct.unpack_from("<Q", self.data, position)[0])

    def text(self) -> str:
        """The next text."""
        length = self.number()
        self.at += length
        if self.at > len(self.data):
            raise ArtifactError("the list of modules in the library is cut short")
        return self.data[self.at - length : self.at].decode()

    def modules(self) -> GraphFactory | None:
        """All modules."""
        found = None
        for _ in range(self.number()):
            kind = self.text()
            if kind == _TREE:
                for _ in range(2):
                    self.at += 8 * self.number()
            elif kind == _FACTORY:
                found = self._factory()
            elif kind != _LIBRARY:
                raise UnsupportedError(
                    f"the library holds a module of the kind {kind!r}; functions of the library itself and graphs of "
                    "the graph executor are what is read"
                )
        return found

    def _factory(self) -> GraphFactory:
        graph, count = self.text(), self.number()
        names = [self.text() for _ in range(self.number())]
        if len(names) != count:
            raise ArtifactError(f"the graph in the library has {count} parameters and {len(names)} names of them")
        params = {}
        for name in names:
            value, self.at = read_array(self.data, self.at)
            params[name] = array(value)
        return GraphFactory(graph, params, self.text())
