"""Reading the text form of protocol buffers by a schema, as prototxt files have it.

    net = read_text(text, SCHEMA, "NetParameter", label="net.prototxt")

Fields that the schema does not name are kept in `Record.extra`: parameters of layers that plug-ins know.
Grammar: https://protobuf.dev/reference/protobuf/textformat-spec
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from tilewright.errors import ModelError
from tilewright.frontend.messages import FLOATS, INTEGERS, Field, Record, Schema

_TOKEN = re.compile(
    r"""(?P<space>(?:\s+|\#[^\n]*)+)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?))
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<mark>[-{}<>\[\]:,;.])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_MOST_DEPTH = 100


def read_text(text: str, schema: Schema, kind: str, label: str) -> Record:
    """The message of `kind` that `text` is. Raises `ModelError` naming the line."""
    return _Parser(text, schema, label).whole(kind)


class _Parser:
    """One pass over the tokens of a text."""

    def __init__(self, text: str, schema: Schema, label: str) -> None:
        self._text = text
        self._schema = schema
        self._label = label
        self._position = 0
        self._kind = ""
        self._token = ""
        self._advance()

    def whole(self, kind: str) -> Record:
        """The whole text as a message of `kind`."""
        record = self._message(kind, "", 0)
        if self._kind:
            self._fail(f"{self._token!r} closes nothing")
        return record

    def _advance(self) -> None:
        while True:
            self._position += len(self._token)
            if self._position >= len(self._text):
                self._kind, self._token = "", ""
                return
            match = _TOKEN.match(self._text, self._position)
            if match is None:
                self._token = ""
                self._fail(f"{self._text[self._position]!r} begins nothing")
            self._kind, self._token = str(match.lastgroup), match.group()
            if self._kind != "space":
                return

    def _fail(self, what: str) -> NoReturn:
        line = self._text.count("\n", 0, self._position) + 1
        raise ModelError(f"{self._label}, line {line}: {what}")

    def _take(self, *marks: str) -> bool:
        """True where the next token is one of `marks`, which is then passed."""
        if self._kind == "mark" and self._token in marks:
            self._advance()
            return True
        return False

    def _message(self, kind: str, closing: str, depth: int) -> Record:
        if depth > _MOST_DEPTH:
            self._fail(f"messages within messages more than {_MOST_DEPTH} deep")
        record = self._schema.new(kind)
        values = record.given()
        known = self._schema.fields(kind)
        extra: dict[str, list[Any]] = {}
        while not (self._kind == "mark" and self._token in "}>"):
            if not self._kind:
                if closing:
                    self._fail(f"the text ends within a {kind}")
                break
            if self._kind != "name":
                self._fail(f"{self._token!r} stands where the name of a field of {kind} is expected")
            name = self._token
            self._advance()
            self._value(known.get(name), name, values, extra, depth)
            self._take(",", ";")
        if closing and self._token != closing:
            self._fail(f"{closing!r} is expected, and not {self._token!r}")
        record = self._schema.new(kind, **values)
        record.extra = extra
        return record

    def _value(
        self, field: Field | None, name: str, values: dict[str, Any], extra: dict[str, list[Any]], depth: int
    ) -> None:
        """The value of a field, entered into `values`, or into `extra` without a `field`."""
        colon = self._take(":")
        if self._take("["):
            items = [] if self._token == "]" else [self._one(field, name, True, depth)]
            while self._take(","):
                items.append(self._one(field, name, True, depth))
            if not self._take("]"):
                self._fail(f"']' is expected, and not {self._token!r}")
        else:
            items = [self._one(field, name, colon, depth)]
        if field is None:
            extra.setdefault(name, []).extend(items)
        elif field.kind.startswith("map/"):
            values.setdefault(name, {}).update((entry.key, entry.value) for entry in items)
        elif field.repeated:
            values.setdefault(name, []).extend(items)
        elif items:
            values[name] = items[-1]

    def _one(self, field: Field | None, name: str, colon: bool, depth: int) -> Any:
        if self._kind == "mark" and self._token in "{<":
            if field is not None and not field.is_message:
                self._fail(f"{name} is a {field.kind} and not a message")
            closing = {"{": "}", "<": ">"}[self._token]
            self._advance()
            record = self._message("" if field is None else field.kind, closing, depth + 1)
            self._advance()
            return record
        if field is not None and field.is_message:
            self._fail(f"{name} is a message ({field.kind}); '{{' is expected")
        if not colon:
            self._fail(f"':' is expected behind {name}")
        return self._scalar(field, name)

    def _scalar(self, field: Field | None, name: str) -> Any:
        kind, token = self._kind, self._token
        if kind == "string":
            return self._string(field, name)
        negative = kind == "mark" and token == "-"
        if negative:
            self._advance()
            kind, token = self._kind, self._token
        if kind not in ("number", "name"):
            self._fail(f"{token!r} is no value for {name}" if token else f"the text ends before the value of {name}")
        text = f"-{token}" if negative else token
        value = _plain(text) if field is None else self._typed(field, text, kind == "name")
        if value is None:
            self._fail(f"{text} is no value for {name}" + (f", a {field.kind}" if field is not None else ""))
        self._advance()
        return value

    def _string(self, field: Field | None, name: str) -> Any:
        if field is not None and field.kind not in ("string", "bytes"):
            self._fail(f"{self._token} is no value for {name}, a {field.kind}")
        text = ""
        while self._kind == "string":
            text += _ESCAPE.sub(_unescape, self._token[1:-1])
            self._advance()
        return text if field is None or field.kind == "string" else memoryview(text.encode("latin-1", "replace"))

    def _typed(self, field: Field, text: str, is_name: bool) -> Any:
        """The value of a field spelled `text`; None where it is none of the field's type."""
        if field.kind == "bool":
            return {"true": True, "t": True, "True": True, "1": True, "false": False, "f": False, "False": False,
                    "0": False}.get(text)  # fmt: skip
        if field.kind.startswith("enum/"):
            if not is_name:
                number = _integer(text)
                return None if number is None else self._schema.member(field.kind[5:], number)
            return text if self._schema.value(field.kind[5:], text) is not None else None
        if field.kind in INTEGERS:
            return _integer(text)
        return _float(text) if field.kind in FLOATS else None


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8) & 0xFF) if code[0].isdigit() and code[0] < "8" else _ESCAPES.get(code, code)


def _integer(text: str) -> int | None:
    digits = text.lstrip("+-")
    if not digits.isalnum() or len(digits) > 66:
        return None
    try:
        value = int(digits, 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10)
    except ValueError:
        return None
    value = -value if text.startswith("-") else value
    return value if -(1 << 63) <= value < 1 << 64 else None


def _float(text: str) -> float | None:
    try:
        return float(text.rstrip("fF") if not text.lstrip("+-").lower().startswith("inf") else text)
    except ValueError:
        return None


def _plain(text: str) -> Any:
    """A value of a field that no schema types: a number, true or false, or a name."""
    if text in ("true", "false"):
        return text == "true"
    number = _integer(text)
    return number if number is not None else text if _float(text) is None else _float(text)
