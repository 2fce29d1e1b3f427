"""Operators on text of models that do not come from ONNX: hashes, tables, tokens. Text is `str`, in `object` arrays.

Elements that are `bytes` are read as UTF-8; numbers are hashed as their decimals, floats cut to integers before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.registry import host_op
from tilewright.support.dtype import DType
from tilewright.support.text_hash import crossed, fingerprint, keyed_hash

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]

_PUNCTUATION = str.maketrans("", "", "!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~'")


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _flat(values: Any) -> list[Any]:
    """The elements: text as `str`, numbers as Python's."""
    array = np.asarray(values)
    if array.dtype.kind in "OSU":
        return [_text(value) for value in array.reshape(-1).tolist()]
    return list(array.reshape(-1).tolist())


def _array(values: list[Any], dtype: str, shape: tuple[int, ...]) -> Array:
    if dtype != "string":
        return np.array(values, DType(dtype).numpy).reshape(shape)
    result = np.empty(len(values), object)
    result[:] = values
    return result.reshape(shape)


def _bytes(value: Any) -> bytes:
    return (value if isinstance(value, str) else str(int(value))).encode()


@host_op("text.hash")
def text_hash(attrs: Attrs, values: Any) -> Array:
    """The bin of each element, by its fingerprint, or with `key` by a keyed hash."""
    key, bins = attrs.get("key"), int(attrs["bins"])
    digest: Callable[[bytes], int] = fingerprint
    if key:
        first, second = (int(word) for word in key)
        digest = lambda data: keyed_hash(data, (first, second))  # noqa: E731
    return _array([digest(_bytes(value)) % bins for value in _flat(values)], "int64", np.shape(values))


@host_op("text.cross")
def text_cross(attrs: Attrs, *columns: Any) -> Array:
    """The bin of each row of elements, one of each column, text or integers."""
    bins, found = int(attrs["bins"]), []
    for row in zip(*map(_flat, columns), strict=True):
        hashes = [fingerprint(value.encode()) if isinstance(value, str) else int(value) for value in row]
        found.append(crossed(hashes) % bins)
    return _array(found, "int64", np.shape(columns[0]))


@host_op("text.look_up")
def look_up(attrs: Attrs, values: Any) -> Array:
    """The table's entry for each element, or the default; without one, a missing element is an `InputError`."""
    table: dict[Any, Any] = dict(zip(attrs["keys"], attrs["values"], strict=True))
    default, found = attrs.get("default"), []
    for value in _flat(values):
        given = table.get(value, default)
        if given is None:
            raise InputError(f"{value!r} is not in the model's table of {len(table)} entries, which has no default")
        found.append(given)
    return _array(found, attrs["dtype"], np.shape(values))


@host_op("text.tokens")
def tokens(attrs: Attrs, texts: Any) -> Array:
    """The tokens of each text in a row, filled up with empty ones, to `length` if that is given.

    A text is first spelled small or freed of punctuation (`lower`, `strip`), then split at spaces or into characters
    (`split`: "whitespace", "character" or "", which leaves rows of tokens as they are), then joined to runs of `ngrams`
    tokens, the shortest first.
    """
    rows: list[list[str]] = []
    array = np.asarray(texts, object)
    split = attrs["split"]
    for row in array.reshape(-1, 1) if split or array.ndim < 2 else array.reshape(-1, array.shape[-1]):
        parts = [_standard(attrs, _text(one)) for one in row]
        if split:
            parts = _ascii_words(parts[0]) if split == "whitespace" else list(parts[0])
        counts = attrs.get("ngrams")
        if counts:
            runs = [(size, at) for size in counts for at in range(len(parts) - size + 1)]
            parts = [" ".join(parts[at : at + size]) for size, at in runs]
        rows.append(parts)
    length = attrs.get("length")
    width = max(map(len, rows), default=0) if length is None else int(length)
    padded = [(row + [""] * width)[:width] for row in rows]
    return _array([token for row in padded for token in row], "string", (len(rows), width))


def _standard(attrs: Attrs, text: str) -> str:
    if attrs["lower"]:
        text = re.sub("[A-Z]+", lambda found: found.group().lower(), text)
    return text.translate(_PUNCTUATION) if attrs["strip"] else text


def _ascii_words(text: str) -> list[str]:
    """The words between ASCII spaces."""
    return [word for word in re.split("[ \t\n\v\f\r]+", text) if word]
