"""Relay text as tokens, each of which knows where it stands."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import NoReturn

from tilewright.errors import ParseError
from tilewright.relay.ir.excerpt import underlined

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_TOKENS = re.compile(
    rf"""
      (?P<space>\s+|//[^\n]*)
    | (?P<local>%(?:[A-Za-z_][A-Za-z0-9_]*|{_QUOTED}))
    | (?P<graph>%[0-9]+)
    | (?P<global>@(?:[A-Za-z_][A-Za-z0-9_.]*|{_QUOTED}))
    | (?P<string>{_QUOTED})
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)
        (?P<suffix>bf16|f64|f32|f16|f|[iu](?:8|16|32|64))?(?![A-Za-z0-9_]))
    | (?P<field>\.[0-9]+)
    | (?P<ident>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
    | (?P<punct>->|=>|==|!=|<=|>=|[-+*/<>=(){{}}\[\],;:?])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is a group name above or "end"; `text` is the name without its sigil and quotes, or the spelling."""

    kind: str
    text: str
    start: int
    end: int
    suffix: str = ""


class Tokens:
    """The tokens of a text, with a position that moves on."""

    def __init__(self, text: str) -> None:
        self.source = text
        self._lines = [0, *[match.end() for match in re.finditer("\n", text)]]
        self._tokens = list(self._split())
        self.position = 0

    def _behind_comment(self, start: int) -> int:
        """The position behind the comment that begins at `start`; comments may hold others."""
        depth = 0
        for mark in re.finditer(r"/\*|\*/", self.source[start:]):
            depth += 1 if mark.group() == "/*" else -1
            if depth == 0:
                return start + mark.end()
        self.fail("this comment is never closed", start, start + 2)

    def _split(self) -> list[Token]:
        found: list[Token] = []
        at = 0
        while at < len(self.source):
            if self.source.startswith("/*", at):
                at = self._behind_comment(at)
                continue
            match = _TOKENS.match(self.source, at)
            if match is None:
                self.fail(f"a {self.source[at]!r} means nothing here", at, at + 1)
            kind, text = match.lastgroup or "", match.group()
            if kind == "suffix":
                kind = "number"
            if kind != "space":
                found.append(Token(kind, _content(kind, text), at, match.end(), match.group("suffix") or ""))
            at = match.end()
        return [*found, Token("end", "the end of the text", at, at + 1)]

    @property
    def next(self) -> Token:
        """The token at the position."""
        return self._tokens[self.position]

    def peek(self, ahead: int = 1) -> Token:
        """A token further on; the last one at the end."""
        return self._tokens[min(self.position + ahead, len(self._tokens) - 1)]

    def take(self) -> Token:
        """The token at the position, which moves on."""
        token = self.next
        self.position = min(self.position + 1, len(self._tokens) - 1)
        return token

    def at(self, *texts: str) -> bool:
        """True if the next token is one of these keywords or punctuation marks."""
        return self.next.kind in ("punct", "ident") and self.next.text in texts

    def accept(self, text: str) -> bool:
        """Take the next token if it is `text`."""
        if self.at(text):
            self.take()
            return True
        return False

    def expect(self, text: str) -> Token:
        """Take `text`, or fail."""
        if not self.at(text):
            self.fail(f"{text!r} is expected here, not {self.next.text!r}")
        return self.take()

    def expect_kind(self, kind: str, what: str) -> Token:
        """Take a token of `kind`, or fail."""
        if self.next.kind != kind:
            self.fail(f"{what} is expected here, not {self.next.text!r}")
        return self.take()

    def skip_braces(self) -> None:
        """Move behind the block in braces that begins at the next `{`."""
        while not self.at("{"):
            if self.next.kind == "end":
                self.fail("a block in braces is expected here")
            self.take()
        opening, depth = self.next, 0
        while True:
            token = self.take()
            if token.kind == "end":
                self.fail("this brace is never closed", opening.start, opening.end)
            if token.kind == "punct":
                depth += (token.text == "{") - (token.text == "}")
            if depth == 0:
                return

    def line_and_column(self, start: int) -> tuple[int, int]:
        """Line and column of a position in the text, both from 1."""
        line = bisect_right(self._lines, start)
        return line, start - self._lines[line - 1] + 1

    def fail(self, message: str, start: int | None = None, end: int | None = None) -> NoReturn:
        """Raise `ParseError` about the next token or the given position."""
        if start is None or end is None:
            start, end = self.next.start, self.next.end
        line, column = self.line_and_column(start)
        position = underlined(self.source + " ", start, end)
        raise ParseError(f"line {line}, column {column}: {message}\n{position}")


def _content(kind: str, text: str) -> str:
    if kind in ("local", "graph", "global", "field"):
        text = text[1:]
    return unquote(text) if text.startswith('"') else text


def unquote(text: str) -> str:
    """The contents of a string in double quotes."""
    return re.sub(r"\\(.)", lambda m: "\n" if m.group(1) == "n" else m.group(1), text[1:-1], flags=re.DOTALL)
