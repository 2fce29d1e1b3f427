"""Records: frozen dataclasses that are read from JSON data by the types of their fields, and written as such."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from tilewright.errors import ArtifactError

#: A size that follows from symbolic dimensions: a number, a dimension's name, or [operator, size, size …].
Size = Annotated[Any, "size"]

#: Numbers beyond this are no sizes of anything.
LARGEST = 2**62
#: How deep a size may be nested; Python's parser reads no more than 200 brackets.
DEEPEST = 150

R = TypeVar("R", bound="Record")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """Base of records. Fields with a default may be left out.

    A field is a str, bool, int (not negative), record, class with `from_json` and `to_json`, tuple of one type,
    mapping, union of these, or a `Size`. An `ArtifactError` of a `from_json` follows the field's name.
    """

    what: ClassVar[str] = ""

    @classmethod
    def from_json(cls, data: Any, where: str = "") -> Self:
        """The record that `data` describes. Raises `ArtifactError` that names the field that is wrong."""
        where = where or cls.what
        try:
            made = _record(cls, data, where)
            made.check(where)
        except RecursionError:
            raise ArtifactError(f"{where} is nested too deep") from None
        return made

    def to_json(self) -> dict[str, Any]:
        """Plain data, from which `from_json` makes an equal record; what is as by default is left out."""
        return {
            f.name: _plain(getattr(self, f.name))
            for f in dataclasses.fields(self)
            if getattr(self, f.name) != _default(f)
        }

    def check(self, where: str) -> None:
        """Raise `ArtifactError` where fields of the right types do not go together."""


def at(where: str, part: str | int) -> str:
    """The position of a part: ``kernels[3].name``."""
    return f"{where}[{part}]" if isinstance(part, int) else f"{where}.{part}"


@cache
def _types(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def _default(one: dataclasses.Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not dataclasses.MISSING else one.default


def _record(cls: type[R], data: Any, where: str) -> R:
    if not isinstance(data, Mapping):
        raise _wrong(where, "an object", data)
    values, types_of = {}, _types(cls)  # type: ignore[arg-type]
    for one in dataclasses.fields(cls):
        if one.name in data:
            values[one.name] = _value(types_of[one.name], data[one.name], at(where, one.name))
        elif _default(one) is dataclasses.MISSING:
            raise ArtifactError(f"{where} is incomplete: it has no {one.name!r}")
    return cls(**values)


def _value(kind: Any, data: Any, where: str) -> Any:
    """`data` as the type `kind` wants it."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _size(data, where)
    if origin is tuple:
        if not isinstance(data, list | tuple):
            raise _wrong(where, "a list", data)
        return tuple([_value(parts[0], item, at(where, i)) for i, item in enumerate(data)])
    if origin in (Union, types.UnionType):
        return _one_of(parts, data, where)
    if origin is not None or kind is Mapping:
        if not isinstance(data, Mapping):
            raise _wrong(where, "an object", data)
        return data
    if kind is bool:
        if not isinstance(data, bool):
            raise _wrong(where, "true or false", data)
        return data
    if kind is int:
        if not isinstance(data, int) or isinstance(data, bool) or not 0 <= data <= LARGEST:
            raise _wrong(where, "a number from 0", data)
        return int(data)
    if kind is str:
        if not isinstance(data, str):
            raise _wrong(where, "a text", data)
        return str(data)
    if issubclass(kind, Record):
        return _record(kind, data, where)
    try:
        return kind.from_json(data)
    except ArtifactError as error:
        raise ArtifactError(f"{where} {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(f"{where} is no {kind.__name__}: {error!r}") from None


def _one_of(kinds: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and types.NoneType in kinds:
        return None
    kinds = tuple(kind for kind in kinds if kind is not types.NoneType)
    if len(kinds) == 1:
        return _value(kinds[0], data, where)
    fitting = [kind for kind in kinds if isinstance(data, {tuple: (list, tuple)}.get(get_origin(kind) or kind, kind))]
    if not fitting:
        raise _wrong(where, " or ".join(_names(kinds)), data)
    return _value(fitting[0], data, where)


def _names(kinds: tuple[Any, ...]) -> list[str]:
    return [
        {str: "a text", int: "a number", tuple: "a list"}.get(get_origin(kind) or kind, str(kind)) for kind in kinds
    ]


def _size(data: Any, where: str, depth: int = 0) -> Any:
    if depth > DEEPEST:
        raise ArtifactError(f"{where} is nested more than {DEEPEST} deep")
    if isinstance(data, list | tuple):
        if not data or not isinstance(data[0], str):
            raise _wrong(where, "a size", data)
        return (data[0], *[_size(part, where, depth + 1) for part in data[1:]])
    if not isinstance(data, int | str) or isinstance(data, bool):
        raise _wrong(where, "a size", data)
    return data


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value.to_json() if hasattr(value, "to_json") else value


def _wrong(where: str, wanted: str, data: Any) -> ArtifactError:
    text = repr(data)
    return ArtifactError(f"{where} must be {wanted}; got {text if len(text) <= 60 else f'{text[:57]}...'}")
