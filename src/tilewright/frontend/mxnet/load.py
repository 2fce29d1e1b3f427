"""The two files of an MXNet model: the symbol, a graph as JSON, and the parameters, arrays with their names behind."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.source import Cursor, Source
from tilewright.frontend.two_files import Part

_LIST_MAGIC = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_DTYPES = {
    0: "float32", 1: "float64", 2: "float16", 3: "uint8", 4: "int32", 5: "int8", 6: "int64", 7: "bool", 12: "bfloat16",
}  # fmt: skip
_MOST_RANK = 32
_MOST_TEXT = 20_000


@dataclass
class SymbolNode:
    """One node: `inputs` are (node, which of its results); a variable has the operator `null`."""

    operator: str
    name: str
    inputs: list[tuple[int, int]]
    attrs: Mapping[str, str]


@dataclass
class Symbol:
    """A graph: nodes in order, and its results as (node, which of its results)."""

    label: str
    nodes: list[SymbolNode]
    heads: list[tuple[int, int]]


def is_symbol(source: Source) -> bool:
    """True for what begins as the JSON of a symbol does."""
    begin = bytes(source.contents[:400])
    return begin.lstrip()[:1] == b"{" and b'"nodes"' in begin and b'"op"' in begin


def read_symbol(contents: memoryview, label: str) -> Symbol:
    """The graph. Raises `ModelError` where it is damaged, or reads what comes later."""
    try:
        graph = json.loads(bytes(contents))
        nodes = [_node(entry, index) for index, entry in enumerate(graph["nodes"])]
        heads = [(int(head[0]), int(head[1])) for head in graph["heads"]]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, OverflowError) as error:
        raise ModelError(f"{label} is a truncated or damaged MXNet symbol: {type(error).__name__}: {error}") from None
    if not heads or any(not 0 <= position < len(nodes) for position, _ in heads):
        raise ModelError(f"{label} is a damaged MXNet symbol: its heads are {heads} of {len(nodes)} nodes")
    return Symbol(label, nodes, heads)


def _node(entry: Mapping[str, Any], index: int) -> SymbolNode:
    attrs = entry.get("attrs", entry.get("attr", entry.get("param", {})))
    inputs = [(int(one[0]), int(one[1])) for one in entry["inputs"]]
    if any(not 0 <= position < index for position, _ in inputs):
        raise ValueError(f"node {index} reads {inputs}")
    return SymbolNode(str(entry["op"]), str(entry["name"]), inputs, {str(k): str(v) for k, v in attrs.items()})


def parsed(text: str) -> Any:
    """The value that an attribute spells: a number, true or false, None, a tuple of those, or the text itself."""
    if len(text) > _MOST_TEXT:
        return text
    try:
        return ast.literal_eval(re.sub(r"(?<=\d)L\b", "", text))  # only literals; Python 2 wrote long numbers so
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return text


def parameters_beside(path: Path) -> Path | None:
    """The parameters of the symbol at `path`: NAME-0000.params of NAME-symbol.json, those of the latest epoch."""
    prefix = path.name.removesuffix(".json").removesuffix("-symbol")
    found = sorted(
        one for one in path.parent.glob("*.params") if re.fullmatch(re.escape(prefix) + r"(-\d+)?", one.stem)
    )
    return found[-1] if found else None


def load(symbol: Part, parameters: Part | Mapping[str, np.ndarray] | None) -> tuple[Symbol, Mapping[str, np.ndarray]]:
    """The graph, and the parameters by their names in it."""
    source = Source.of(symbol)
    graph = read_symbol(source.contents, source.label)
    if parameters is None and source.path is not None:
        parameters = parameters_beside(source.path)
    if parameters is None or isinstance(parameters, Mapping):
        return graph, parameters or {}
    found = Source.of(parameters)
    return graph, _Parameters(found, "file of MXNet parameters").read()


class _Parameters(Cursor):
    """One file of parameters."""

    def read(self) -> dict[str, np.ndarray]:
        """All arrays by name, without the mark of what kind of parameter they are."""
        if self.number("<Q") != _LIST_MAGIC:
            raise ModelError(f"{self.label} is no file of MXNet parameters: it does not begin with their mark")
        self.number("<Q")
        arrays = [self._array() for _ in range(self._count("arrays", 8))]
        names = []
        for _ in range(self._count("names", 8)):
            names.append(bytes(self.take(self.number("<Q"))).decode("utf-8", "replace"))
        if len(names) != len(arrays):
            raise self.damaged(f"{len(names)} names for {len(arrays)} arrays")
        return {name.split(":", 1)[-1]: data for name, data in zip(names, arrays)}

    def _array(self) -> np.ndarray:
        magic = self.number("<I")
        if magic in (_V2, _V3) and self.number("<i") not in (0, -1):
            raise UnsupportedError(f"{self.label} holds a sparse array, which is not supported")
        if magic in (_V1, _V2, _V3):
            rank = self.number("<i")
            form = "<q"
        else:
            rank, form = magic, "<I"
        if not 0 <= rank <= _MOST_RANK:
            raise self.damaged(f"an array of {rank} axes")
        shape = tuple(self.number(form) for _ in range(rank))
        if rank == 0 and magic != _V3:
            return np.zeros(0, np.float32)
        self.number("<Q")  # the device that it lay on
        code = self.number("<i")
        if code not in _DTYPES or any(extent < 0 for extent in shape):
            raise self.damaged(f"an array of the element type {code} and shape {list(shape)}")
        return self.array(_DTYPES[code], shape)

    def _count(self, what: str, least: int) -> int:
        count = self.number("<Q")
        if count * least > len(self.contents):
            raise self.damaged(f"{count} {what}")
        return count
