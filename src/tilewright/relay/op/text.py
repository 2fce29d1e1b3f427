"""Operators on text: bins of hashes, look-up in tables, tokens. The host runs them (`runtime/host_ops/texts.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any as AnyValue

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.type import Any, TensorType, Type
from tilewright.relay.op.common import Types, call, require, tensor
from tilewright.relay.op.host import register_host


def _hash_type(types: Types, attrs: Attrs) -> Type:
    require(attrs["bins"] > 0, f"a positive number of bins is needed, not {attrs['bins']}")
    return TensorType(tensor(types[0]).shape, "int64")


register_host(
    "text.hash",
    num_inputs=1,
    type_rule=_hash_type,
    attributes={"bins": attr.integer(), "key": attr.optional(attr.integers())},
)
register_host("text.cross", num_inputs=-1, type_rule=_hash_type, attributes={"bins": attr.integer()})
register_host(
    "text.look_up",
    num_inputs=1,
    type_rule=lambda types, attrs: TensorType(tensor(types[0]).shape, attrs["dtype"]),
    attributes={
        "keys": attr.anything(),
        "values": attr.anything(),
        "default": attr.anything(),
        "dtype": attr.dtype("int64"),
    },
)


def _tokens_type(types: Types, attrs: Attrs) -> Type:
    texts = tensor(types[0])
    require(texts.dtype.is_string and texts.ndim <= 2, f"one or two axes of text are needed, not {texts}")
    rows = texts.shape[0] if texts.ndim else 1
    return TensorType((rows, Any() if attrs["length"] is None else attrs["length"]), "string")


register_host(
    "text.tokens",
    num_inputs=1,
    type_rule=_tokens_type,
    attributes={
        "lower": attr.flag(False),
        "strip": attr.flag(False),
        "split": attr.text(""),
        "ngrams": attr.optional(attr.integers()),
        "length": attr.optional(attr.integer()),
    },
)


def text_hash(values: Expr, bins: int, key: Sequence[int] | None = None) -> Call:
    """The bin of each element, text or a number, by its fingerprint, or with two words of a `key` by a keyed hash."""
    return call("text.hash", values, bins=bins, key=None if key is None else tuple(key))


def text_cross(columns: Sequence[Expr], bins: int) -> Call:
    """The bin of each row of elements, one of each of `columns`."""
    return call("text.cross", *columns, bins=bins)


def look_up(
    values: Expr, keys: Sequence[AnyValue], found: Sequence[AnyValue], default: AnyValue, dtype: str = "int64"
) -> Call:
    """The table's entry for each element; without a default, a missing element is an error of the run."""
    return call("text.look_up", values, keys=tuple(keys), values=tuple(found), default=default, dtype=dtype)


def tokens(
    texts: Expr,
    *,
    lower: bool = False,
    strip: bool = False,
    split: str = "",
    ngrams: Sequence[int] | None = None,
    length: int | None = None,
) -> Call:
    """The tokens of each text in a row, filled up with empty ones."""
    runs = None if ngrams is None else tuple(ngrams)
    return call("text.tokens", texts, lower=lower, strip=strip, split=split, ngrams=runs, length=length)
