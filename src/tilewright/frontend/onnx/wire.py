"""Weights straight from the file: the protobuf encoding is walked once, and large tensor data is left where it is.

Parsing a model with the protobuf package copies every weight into its messages and a second time out of them. Here
the encoding of the graph is cut at its initializers; their raw bytes become views of the file's memory map, and only
the small rest is parsed.

Wire format: https://protobuf.dev/programming-guides/encoding. Field numbers: onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.errors import ModelError
from tilewright.frontend.wire import BYTES, field_at

_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_NAME, _TENSOR_RAW = 7, 5, 8, 9
_LARGE = 4096  # bytes of tensor data from which cutting out is worth it

Field = tuple[int, int, int, int, int]
"""(field number, wire type, start of the tag, start of the payload, end)"""


def split_weights(data: memoryview) -> tuple[bytes, dict[str, memoryview]]:
    """The model without the raw data of its large initializers, and that data by initializer name.

    Raises `ModelError` when the encoding is not sound.
    """
    weights: dict[str, memoryview] = {}
    rest: list[bytes | memoryview] = []
    for number, kind, tag, start, end in fields(data):
        if number == _MODEL_GRAPH and kind == BYTES:
            graph = _without_weights(data[start:end], weights)
            rest += [_tag(_MODEL_GRAPH), _varint(len(graph)), graph]
        else:
            rest.append(data[tag:end])
    return b"".join(rest), weights


def _without_weights(graph: memoryview, weights: dict[str, memoryview]) -> bytes:
    kept: list[bytes | memoryview] = []
    for number, kind, tag, start, end in fields(graph):
        if number == _GRAPH_INITIALIZER and kind == BYTES and end - start > _LARGE:
            tensor = _without_raw_data(graph[start:end], weights)
            kept += [_tag(_GRAPH_INITIALIZER), _varint(len(tensor)), tensor]
        else:
            kept.append(graph[tag:end])
    return b"".join(kept)


def _without_raw_data(tensor: memoryview, weights: dict[str, memoryview]) -> bytes:
    name, raw, kept = "", None, []
    for number, kind, tag, start, end in fields(tensor):
        if number == _TENSOR_RAW and kind == BYTES and end - start >= _LARGE:
            raw = tensor[start:end]
            continue
        if number == _TENSOR_NAME and kind == BYTES:
            name = bytes(tensor[start:end]).decode("utf-8", "replace")
        kept.append(tensor[tag:end])
    if raw is None or not name or name in weights:
        return bytes(tensor)
    weights[name] = raw
    return b"".join(kept)


def fields(data: memoryview, whole: bool = True) -> Iterator[Field]:
    """The fields of a message in order. Raises `ModelError` when the encoding is not sound.

    Without `whole` the message may end within a field, which is then the last.
    """
    position, size = 0, len(data)
    while position < size:
        tag = position
        try:
            number, kind, start, position = field_at(data, tag)
        except ValueError as error:
            raise ModelError(str(error)) from None
        if number == 0 or (position > size and whole):
            raise ModelError(f"a field at byte {tag} runs over the end")
        yield number, kind, tag, start, position


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _tag(number: int) -> bytes:
    return _varint(number << 3 | BYTES)
