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

from tilewright.compat.runtime.array import NDArray, to_numpy
from tilewright.compat.runtime.classic_bytes import Reader, items, number, text
from tilewright.errors import ArtifactError, InputError, UnsupportedError
from tilewright.support.array_format import array_bytes

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
    arrays = [array_bytes(to_numpy(value)) for value in params.values()]
    factory = (
        text(_FACTORY) + text(graph) + number(len(params)) + items(list(params), text) + b"".join(arrays) + text(name)
    )
    tree = text(_TREE) + items((0, 1, 1), number) + items((1,), number)
    body = number(3) + factory + text(_LIBRARY) + tree
    return struct.pack("<Q", len(body)) + body


def read_blob(data: bytes) -> GraphFactory | None:
    """The graph among the modules in the symbol's bytes, None where there is the library alone.

    Raises `UnsupportedError` for modules of other kinds, `ArtifactError` for bytes that are no such list.
    """
    try:
        reader = _Reader(data)
        if reader.take("Q") + 8 > len(data):
            raise ArtifactError("it is cut short")
        return reader.modules()
    except (struct.error, UnicodeDecodeError, InputError, ArtifactError) as error:
        raise ArtifactError(f"the list of modules in the library is damaged: {error}") from None


class _Reader(Reader):
    """Reads a list of modules."""

    def modules(self) -> GraphFactory | None:
        """All modules."""
        found = None
        for _ in range(self.take("Q")):
            kind = self.text()
            if kind == _TREE:
                for _ in range(2):
                    self.at += 8 * self.take("Q")
            elif kind == _FACTORY:
                found = self._factory()
            elif kind != _LIBRARY:
                raise UnsupportedError(
                    f"the library holds a module of the kind {kind!r}; functions of the library itself and graphs of "
                    "the graph executor are what is read"
                )
        return found

    def _factory(self) -> GraphFactory:
        graph, count = self.text(), self.take("Q")
        names = self.list(self.text)
        if len(names) != count:
            raise ArtifactError(f"its graph has {count} parameters and {len(names)} names of them")
        return GraphFactory(graph, {name: self.array() for name in names}, self.text())
