"""Messages of protocol buffers by a schema that is a table of text: what `wire.py` and `text_format.py` read into.

    SCHEMA = Schema('''
    Layer name=1:string bottom=3:string* blobs=7:Blob* method=8:enum/Method=MAX
    Blob data=5:float* shape=7:[int64]
    enum Method MAX=0 AVE=1
    ''')

A line a message, `name=number:kind` a field. A kind is a scalar of protocol buffers, `enum/NAME`, `map/KEY/KIND` or the
name of a message; `*` makes it repeated, `=VALUE` is its default. Members of an enumeration without numbers are counted
from 0. Lines that begin with two spaces go on, those that begin with `#` are comments.
Enumerations are read as their names, what they do not name as its number in digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from importlib.resources import files
from typing import Any, NamedTuple

INTEGERS = frozenset(
    "int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64".split()  # noqa: SIM905
)
FLOATS = frozenset(("float", "double"))
SCALARS = INTEGERS | FLOATS | {"bool", "string", "bytes"}


class Field(NamedTuple):
    """One field of a message; `kind` without its marks."""

    name: str
    number: int
    kind: str
    repeated: bool
    default: str

    @property
    def is_message(self) -> bool:
        """True for a message, a map's entry among them."""
        return self.kind not in SCALARS and not self.kind.startswith("enum/")


class Record:
    """A message that was read: its fields as attributes, those left out with their defaults (an empty list, message).

    `values` may be a function that reads them: it is called when the first field is read, once, and raises where
    they are damaged. `extra` holds fields that the schema does not name, as far as the encoding names them: lists by
    name.
    """

    __slots__ = ("_read", "_schema", "_values", "extra", "kind")

    def __init__(self, schema: Schema, kind: str, values: dict[str, Any] | Callable[[], dict[str, Any]]) -> None:
        self._schema = schema
        if callable(values):
            self._read: Callable[[], dict[str, Any]] | None = values
        else:
            self._values = values
        self.kind = kind
        self.extra: dict[str, list[Any]] = {}

    def __getattr__(self, name: str) -> Any:
        if name == "_values" and self._read is not None:  # an empty slot: nobody has looked at the message yet
            self._values, self._read = self._read(), None
            return self._values
        if name.startswith("_"):
            raise AttributeError(f"a message has no field {name}")
        values = self._values
        if name in values:
            return values[name]
        field = self._schema.fields(self.kind).get(name)
        if field is None:
            raise AttributeError(f"{self.kind} has no field {name}")
        return self._schema.default(field)

    @property
    def schema(self) -> Schema:
        """The schema that the message is of."""
        return self._schema

    def has(self, name: str) -> bool:
        """True where the file has the field (a repeated one: not empty)."""
        return name in self._values

    def given(self) -> dict[str, Any]:
        """The fields that the file has, by name."""
        return dict(self._values)

    def replaced(self, **values: Any) -> Record:
        """The same message with other values of some fields."""
        record = Record(self._schema, self.kind, {**self._values, **values})
        record.extra = self.extra
        return record

    def __repr__(self) -> str:
        return f"{self.kind}({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"


class Schema:
    """The messages of one format, parsed when they are first read; of two of one name the later one holds."""

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def of(cls, package: str, more: str = "") -> Schema:
        """The schema in the file schema.txt of a package, and `more` lines."""
        return cls(schema_text(package) + more)

    def new(self, kind: str, **values: Any) -> Record:
        """A message of `kind` with these fields."""
        return Record(self, kind, values)

    def fields(self, kind: str) -> Mapping[str, Field]:
        """The fields of a message by name; none for one that the schema does not know."""
        if kind.startswith("map/"):
            return {field.name: field for field in _entry(kind)}
        return self._fields.get(kind, {})

    def numbers(self, kind: str) -> Mapping[int, Field]:
        """The fields of a message by number."""
        if kind.startswith("map/") and kind not in self._numbers:
            self._numbers[kind] = {field.number: field for field in _entry(kind)}
        return self._numbers.get(kind, {})

    def value(self, enum: str, name: str) -> int | None:
        """The number of a member of an enumeration."""
        return self._members.get(enum, {}).get(name)

    def members(self, enum: str) -> list[str]:
        """The names of the members of an enumeration."""
        return list(self._members.get(enum, {}))

    def member(self, enum: str, number: int) -> str:
        """The name of a member of an enumeration; digits where it has none."""
        return self._names.get(enum, {}).get(number, str(number))

    def default(self, field: Field) -> Any:
        """The default of a field that the file leaves out."""
        if field.kind.startswith("map/"):
            return {}
        if field.repeated:
            return []
        if field.is_message:
            return Record(self, field.kind, {})
        if field.kind.startswith("enum/"):
            return field.default or next(iter(self._members[field.kind[5:]]))
        if field.kind in INTEGERS:
            return int(field.default or 0)
        if field.kind in FLOATS:
            return float(field.default or 0)
        if field.kind == "bool":
            return field.default == "true"
        return field.default if field.kind == "string" else memoryview(b"")

    @cached_property
    def _fields(self) -> dict[str, dict[str, Field]]:
        messages = ((name, map(_field, fields)) for name, *fields in schema_entries(self._text) if name != "enum")
        return {name: {field.name: field for field in fields} for name, fields in messages}

    @cached_property
    def _numbers(self) -> dict[str, dict[int, Field]]:
        return {message: {field.number: field for field in fields.values()} for message, fields in self._fields.items()}

    @cached_property
    def _members(self) -> dict[str, dict[str, int]]:
        enums = [words[1:] for words in schema_entries(self._text) if words[0] == "enum"]
        return {enum: dict(_member(text, index) for index, text in enumerate(members)) for enum, *members in enums}

    @cached_property
    def _names(self) -> dict[str, dict[int, str]]:
        return {
            enum: {number: name for name, number in reversed(members.items())}
            for enum, members in self._members.items()
        }


def schema_text(package: str) -> str:
    """The file schema.txt of a package."""
    return (files(package) / "schema.txt").read_text(encoding="utf-8")


def schema_entries(text: str) -> list[list[str]]:
    """The words of each entry of a schema."""
    lines = [line for line in text.strip("\n").splitlines() if not line.startswith("#")]
    return [line.split() for line in "\n".join(lines).replace("\n  ", " ").splitlines() if line.strip()]


def _member(text: str, index: int) -> tuple[str, int]:
    name, _, number = text.partition("=")
    return name, int(number or index)


def _entry(kind: str) -> tuple[Field, Field]:
    """The fields of an entry of a map."""
    _, key, value = kind.split("/", 2)
    return Field("key", 1, key, False, ""), Field("value", 2, value, False, "")


def _field(text: str) -> Field:
    position, kind = text.split(":", 1)
    name, number = position.split("=")
    kind, _, default = kind.partition("=")
    return Field(name, int(number), kind.removesuffix("*"), kind.endswith("*"), default)
