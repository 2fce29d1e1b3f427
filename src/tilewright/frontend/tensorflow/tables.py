"""Hash tables from whole numbers to whole numbers, as what the file's initializers put into them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.frontend.builders.elements import looked_up
from tilewright.frontend.idioms import cast, dtype_of, full, one_hot, shape_of
from tilewright.frontend.messages import Record
from tilewright.frontend.tensorflow.frames import node_of
from tilewright.frontend.tensorflow.node import TfNode, converts
from tilewright.frontend.tensorflow.schema import described, type_name
from tilewright.frontend.tensorflow.tensors import array_of
from tilewright.frontend.tensorflow.values import Handle
from tilewright.relay import op
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.registry import Op

_FILLS = ("LookupTableImportV2", "InitializeTableV2", "LookupTableImport", "InitializeTable")
_CALLS = ("StatefulPartitionedCall", "PartitionedCall")


def table_of(
    name: str, nodes: Mapping[str, Record], functions: Mapping[str, Record], label: str
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """Keys and values of the table whose node is `name`; None where nothing constant is put into it."""
    for tensors in _filled(nodes, functions):
        found = [nodes.get(node_of(tensor)) for tensor in tensors]
        if node_of(tensors[0]) != name or any(one is None or one.op != "Const" for one in found[1:]):
            continue
        keys, values = (array_of(one.attr["value"].tensor, label) for one in found[1:] if one is not None)
        return keys.reshape(-1), values.reshape(-1)
    return None


def _filled(nodes: Mapping[str, Record], functions: Mapping[str, Record]) -> Iterator[Sequence[str]]:
    """Table, keys and values, as tensors of the graph, of each operator that fills a table."""
    for node in nodes.values():
        if node.op in _FILLS and len(node.input) >= 3:
            yield node.input[:3]
        function = functions.get(node.attr["f"].func.name) if node.op in _CALLS and "f" in node.attr else None
        given = [one for one in node.input if not one.startswith("^")]
        arguments = {} if function is None else dict(zip((arg.name for arg in function.signature.input_arg), given))
        for inner in function.node_def if function is not None else ():
            if inner.op in _FILLS and all(one in arguments for one in inner.input[:3]):
                yield [arguments[one] for one in inner.input[:3]]


@converts("HashTableV2", "HashTable", "MutableHashTableV2")
def convert_table(node: TfNode) -> Handle:
    for side in ("key_dtype", "value_dtype"):
        kind = node.type_code(side)
        if type_name(kind) is None:
            node.unsupported(
                f"a table of {described(kind)}s; look them up before the model, or compile the .keras file"
            )
    return Handle(node.name)


@converts("LookupTableFindV2", "LookupTableFind")
def convert_find(node: TfNode) -> Expr:
    """The value of each key, the default (input 2) for unknown keys."""
    handle = node.values[0]
    table = node.importer.table(handle.name) if isinstance(handle, Handle) else None
    if table is None:
        node.unsupported("a table that is filled while the model runs")
    wanted, default = cast(node[1], "int64"), node[2]
    if not len(table[0]):
        return full(0, shape_of(wanted), dtype_of(default)) + default
    return looked_up(wanted, *table, default)


@converts("DenseBincount")
def convert_bincount(node: TfNode) -> Expr:
    """The number of times that each number below the size (input 1) comes in a row, or whether it does."""
    size = _bounded(node[1])
    if size is None:
        node.unsupported("counts of as many numbers as the data hold")
    weights = node.shape(2)
    if not (len(weights) == 1 and weights[0] == 0):
        node.unsupported("weighted counts")
    hot = one_hot(cast(node[0], "int32"), size)
    axis = node.rank() - 1
    counted = op.max(hot, axis=(axis,)) if node.attr("binary_output", False) else op.sum(hot, axis=(axis,))
    return cast(counted, node.dtype(2))


def _bounded(value: Expr) -> int | None:
    """A number that is known: of the form min(n, max(n, ...)) too."""
    if isinstance(value, Constant):
        return int(value.data)
    if not isinstance(value, Call) or not isinstance(value.op, Op) or value.op.name != "minimum":
        return None
    for bound, other in (value.args, value.args[::-1]):
        least = (
            other.args if isinstance(other, Call) and isinstance(other.op, Op) and other.op.name == "maximum" else ()
        )
        low = [int(one.data) for one in least if isinstance(one, Constant)]
        if isinstance(bound, Constant) and low and low[0] >= int(bound.data):
            return int(bound.data)
    return None
