"""Regular expressions of RE2's syntax, which ONNX's RegexFullMatch has, matched in time linear in the text.

A pattern becomes a program of single steps (Thompson, "Regular expression search algorithm", 1968), of which all states
that a text may have reached are followed at once, so no pattern makes a text take exponential time. What RE2 has no
syntax for (references back, looking around) is an `InputError`, and so is a pattern that is too large or too deep.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tilewright.errors import InputError

#: Steps of a program, repetitions of a part, and parts within each other that a pattern may have.
MOST_STEPS, MOST_REPETITIONS, MOST_NESTED = 20_000, 1000, 100
#: Transitions that are remembered: what is beyond is computed again.
_REMEMBERED = 20_000

Ranges = tuple[tuple[int, int], ...]


def _ranges(text: str) -> Ranges:
    """The pairs of first and last characters that a text lists."""
    return tuple((ord(first), ord(last)) for first, last in zip(text[::2], text[1::2]))


_PERL = {"d": _ranges("09"), "w": _ranges("09AZ__az"), "s": _ranges("\t\n\f\r  ")}
_POSIX = {
    "alnum": _ranges("09AZaz"), "alpha": _ranges("AZaz"), "ascii": ((0, 127),), "blank": _ranges("\t\t  "),
    "cntrl": ((0, 31), (127, 127)), "digit": _ranges("09"), "graph": _ranges("!~"), "lower": _ranges("az"),
    "print": _ranges(" ~"), "punct": _ranges("!/:@[`{~"), "space": _ranges("\t\r  "), "upper": _ranges("AZ"),
    "word": _ranges("09AZ__az"), "xdigit": _ranges("09AFaf"),
}  # fmt: skip
_CATEGORIES = frozenset(
    ["Any", "L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Ps",
     "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf", "Cs", "Co"]
)  # fmt: skip
_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_ANCHORS = {"A": "text begins", "z": "text ends", "b": "word edge", "B": "no word edge"}


@lru_cache(maxsize=1)
def _same_letters() -> dict[str, set[str]]:
    """Of each letter that has another case all letters that are the same but for that."""
    groups: dict[str, set[str]] = {}
    for code in range(0x1E944):
        letter = chr(code)
        plain = letter.upper().lower() if len(letter.upper()) == 1 else letter.lower()
        if len(plain) == 1 and plain != letter:
            groups.setdefault(plain, {plain}).add(letter)
    return {letter: group for group in groups.values() for letter in group}


@dataclass(frozen=True)
class Chars:
    """Characters by ranges of codes and by Unicode's categories, each of which may be all others instead."""

    ranges: Ranges = ()
    others: tuple[Ranges, ...] = ()
    categories: tuple[tuple[str, bool], ...] = ()
    negated: bool = False
    any_case: bool = False

    def __contains__(self, char: str) -> bool:
        same = _same_letters().get(char, {char}) if self.any_case else {char}
        return any(map(self._has, same)) != self.negated

    def _has(self, char: str) -> bool:
        code = ord(char)
        return (
            _within(self.ranges, code)
            or any(not _within(ranges, code) for ranges in self.others)
            or any(
                (name == "Any" or unicodedata.category(char).startswith(name)) == has for name, has in self.categories
            )
        )


def _within(ranges: Ranges, code: int) -> bool:
    return any(first <= code <= last for first, last in ranges)


@dataclass
class _Part:
    """A part of a pattern: "chars", "position", "sequence", "choice" or "repeat", and what it consists of."""

    kind: str
    parts: list[_Part] = field(default_factory=list)
    chars: Chars = Chars()
    position: str = ""
    least: int = 0
    most: int | None = None


@dataclass(frozen=True)
class _Flags:
    """The flags that letters in `(?ims)` switch on."""

    any_case: bool = False
    lines: bool = False
    all: bool = False


def _unquoted(pattern: str) -> str:
    r"""The pattern with a backslash before each special character between \Q and \E, and without these."""
    made, at, quoted = [], 0, False
    while at < len(pattern):
        pair = pattern[at : at + 2]
        if pair == ("\\E" if quoted else "\\Q"):
            quoted, at = not quoted, at + 2
        elif quoted:
            made.append(pattern[at] if pattern[at].isalnum() else f"\\{pattern[at]}")
            at += 1
        else:
            made.append(pair if pair.startswith("\\") else pattern[at])
            at += len(made[-1])
    return "".join(made)


class _Parser:
    """Reads a pattern from the left."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = _unquoted(pattern), 0

    def fail(self, why: str) -> InputError:
        """The error of this pattern."""
        return InputError(f"the pattern {self.pattern[:200]!r} is not valid: {why} at {self.at}")

    def take(self, text: str) -> bool:
        """True if `text` comes next; it is read if it does."""
        found = self.pattern.startswith(text, self.at)
        self.at += len(text) * found
        return found

    def next(self) -> str:
        """The next character, read."""
        if self.at >= len(self.pattern):
            raise self.fail("it ends too early")
        self.at += 1
        return self.pattern[self.at - 1]

    def parse(self) -> _Part:
        """The whole pattern."""
        made = self.choice(_Flags(), 0)
        if self.at < len(self.pattern):
            raise self.fail("a parenthesis is closed that is not open")
        return made

    def choice(self, flags: _Flags, depth: int) -> _Part:
        """Sequences between bars, up to a closing parenthesis or the end."""
        if depth > MOST_NESTED:
            raise self.fail(f"more than {MOST_NESTED} parentheses within each other")
        branches, here = [], _Part("sequence")
        while self.at < len(self.pattern) and self.pattern[self.at] != ")":
            if self.take("|"):
                branches.append(here)
                here = _Part("sequence")
            elif self.pattern.startswith("(?", self.at) and not self.pattern.startswith(("P<", "<"), self.at + 2):
                self.at += 2
                inner, grouped = self.flags(flags)
                if grouped:
                    here.parts.append(self.repeated(self.group(inner, depth)))
                else:
                    flags = inner
            else:
                here.parts.append(self.repeated(self.one(flags, depth)))
        return _Part("choice", [*branches, here]) if branches else here

    def group(self, flags: _Flags, depth: int) -> _Part:
        """The expression up to the closing parenthesis, which is read."""
        made = self.choice(flags, depth + 1)
        if not self.take(")"):
            raise self.fail("a parenthesis is not closed")
        return made

    def flags(self, before: _Flags) -> tuple[_Flags, bool]:
        """Behind "(?": the flags from here on, and whether they are those of a group that begins here."""
        after, on = before, True
        while True:
            letter = self.next()
            if letter in "ims":
                after = replace(after, **{{"i": "any_case", "m": "lines", "s": "all"}[letter]: on})
            elif letter == "-" and on:
                on = False
            elif letter in ":)":
                return after, letter == ":"
            elif letter != "U":  # which of two matches is found does not matter
                raise self.fail(f"(?{letter} is no syntax of RE2")

    def one(self, flags: _Flags, depth: int) -> _Part:
        """A character, a class, a position or a group."""
        letter = self.next()
        if letter == "(":
            if self.take("?P<") or self.take("?<"):
                name = ""
                while not self.take(">"):
                    name += self.next()
                if not name.isidentifier():
                    raise self.fail(f"{name!r} is no name of a group")
            return self.group(flags, depth)
        if letter in "*+?":
            raise self.fail(f"nothing to repeat by {letter!r}")
        if letter == ".":
            return _Part("chars", chars=Chars(() if flags.all else ((10, 10),), negated=True))
        if letter in "^$":
            what = "line" if flags.lines else "text"
            return _Part("position", position=f"{what} {'begins' if letter == '^' else 'ends'}")
        if letter == "[":
            return _Part("chars", chars=replace(self.klass(), any_case=flags.any_case))
        if letter != "\\":
            return _literal(letter, flags)
        if self.pattern[self.at : self.at + 1] in _ANCHORS:
            return _Part("position", position=_ANCHORS[self.next()])
        return _Part("chars", chars=replace(self.escaped(), any_case=flags.any_case))

    def repeated(self, part: _Part) -> _Part:
        """`part` as often as what follows it says."""
        if self.take("*"):
            least, most = 0, None
        elif self.take("+"):
            least, most = 1, None
        elif self.take("?"):
            least, most = 0, 1
        else:
            counts = self.counts()
            if counts is None:
                return part
            least, most = counts
        self.take("?")
        if self.pattern[self.at : self.at + 1] in tuple("*+?") or self.counts() is not None:
            raise self.fail("a repetition of a repetition")
        return _Part("repeat", [part], least=least, most=most)

    def counts(self) -> tuple[int, int | None] | None:
        """The bounds in {n}, {n,} or {n,m}; None where no such follows, for then the brace is a character."""
        end = self.pattern.find("}", self.at)
        if not self.pattern.startswith("{", self.at) or end < 0:
            return None
        first, comma, last = self.pattern[self.at + 1 : end].partition(",")
        if not (first.isascii() and first.isdigit()) or (last and not (last.isascii() and last.isdigit())):
            return None
        least = int(first[:9])
        most = least if not comma else int(last[:9]) if last else None
        if max(least, most or 0) > MOST_REPETITIONS or (most is not None and most < least):
            raise self.fail(
                f"a repetition of {{{first}{comma}{last}}}, beyond {MOST_REPETITIONS} or from more to fewer"
            )
        self.at = end + 1
        return least, most

    def escaped(self) -> Chars:
        """The characters denoted by an escape, in a class or outside."""
        letter = self.next()
        if letter in "dws":
            return Chars(_PERL[letter])
        if letter in "DWS":
            return Chars(others=(_PERL[letter.lower()],))
        if letter in "pP":
            name = self.next()
            if name == "{":
                name = ""
                while not self.take("}"):
                    name += self.next()
            has = (letter == "p") != name.startswith("^")
            name = name.removeprefix("^")
            if name not in _CATEGORIES:
                raise self.fail(f"{name!r} is no category of Unicode that is known here")
            return Chars(categories=((name, has),))
        return Chars(((code := self.code(letter), code),))

    def code(self, letter: str) -> int:
        """The character that a backslash and `letter` stand for."""
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter == "x":
            digits = self.next()
            if digits == "{":
                digits = ""
                while not self.take("}"):
                    digits += self.next()
            else:
                digits += self.next()
            try:
                return ord(chr(int(digits, 16)))
            except (ValueError, OverflowError):
                raise self.fail(f"{digits!r} is no code of a character") from None
        following = self.pattern[self.at : self.at + 1]
        if letter == "0" or (letter in "1234567" and following and following in "01234567"):
            digits = letter
            while len(digits) < 3 and self.pattern[self.at : self.at + 1] in tuple("01234567"):
                digits += self.next()
            return int(digits, 8)
        if letter.isascii() and letter.isalnum():
            raise self.fail(f"\\{letter} is no syntax of RE2")
        return ord(letter)

    def klass(self) -> Chars:
        """A class, behind its opening bracket."""
        found, negated, first = Chars(), self.take("^"), True
        while first or not self.take("]"):
            first = False
            if self.take("[:"):
                found = _joined(found, self.posix())
                continue
            low = self.bound()
            if self.pattern.startswith("-", self.at) and not self.pattern.startswith("-]", self.at):
                self.at += 1
                first_code, last_code = _single(low), _single(self.bound())
                if first_code is None or last_code is None or last_code < first_code:
                    raise self.fail("an invalid range of characters")
                low = Chars(((first_code, last_code),))
            found = _joined(found, low)
        return replace(found, negated=negated)

    def bound(self) -> Chars:
        """A character of a class, or a class in it."""
        letter = self.next()
        return self.escaped() if letter == "\\" else Chars(((ord(letter), ord(letter)),))

    def posix(self) -> Chars:
        """A class such as [:alpha:], behind its opening."""
        negated, name = self.take("^"), ""
        while not self.take(":]"):
            name += self.next()
        if name not in _POSIX:
            raise self.fail(f"there is no class {name!r}")
        return Chars(others=(_POSIX[name],)) if negated else Chars(_POSIX[name])


def _single(chars: Chars) -> int | None:
    """The code of the one character that there is; None where there are others."""
    (only,) = chars.ranges if len(chars.ranges) == 1 else ((0, 1),)
    return only[0] if only[0] == only[1] else None


def _literal(letter: str, flags: _Flags) -> _Part:
    return _Part("chars", chars=Chars(((ord(letter), ord(letter)),), any_case=flags.any_case))


def _joined(a: Chars, b: Chars) -> Chars:
    return Chars(a.ranges + b.ranges, a.others + b.others, a.categories + b.categories)


@dataclass(frozen=True)
class _Step:
    """Reads one of `chars`, is at a `position`, or neither; then goes on at any of `then`. The last step has none."""

    then: tuple[int, ...] = ()
    chars: Chars | None = None
    position: str = ""


class Regex:
    """A pattern that texts are matched with. Raises `InputError` where it is not valid or too large."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._steps: list[_Step] = [_Step()]  # made from the end: what comes behind is known
        parser = _Parser(pattern)
        self._start = self._emit(parser.parse(), 0)
        self._has_positions = any(step.position for step in self._steps)
        self._known: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}

    def full_match(self, text: str) -> bool:
        """True if the pattern matches the whole text."""
        states, before = frozenset([self._start]), ""
        for char in text:
            key = (states, before if self._has_positions else "", char)
            found = self._known.get(key)
            if found is None:
                here = self._reached(states, before, char)
                found = frozenset(step.then[0] for step in here if step.chars is not None and char in step.chars)
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[key] = found
            if not found:
                return False
            states, before = found, _kind(char)
        return any(not step.then for step in self._reached(states, before, ""))

    def _add(self, step: _Step) -> int:
        if len(self._steps) >= MOST_STEPS:
            raise InputError(f"the pattern {self._pattern[:200]!r} is too large: more than {MOST_STEPS} steps")
        self._steps.append(step)
        return len(self._steps) - 1

    def _emit(self, part: _Part, then: int) -> int:
        """Add the steps of a part that goes on at `then`; where it begins."""
        if part.kind == "chars":
            return self._add(_Step((then,), part.chars))
        if part.kind == "position":
            return self._add(_Step((then,), position=part.position))
        if part.kind == "choice":
            return self._add(_Step(tuple(self._emit(branch, then) for branch in part.parts)))
        if part.kind == "repeat":
            return self._emit_repeat(part, then)
        for inner in reversed(part.parts):
            then = self._emit(inner, then)
        return then

    def _emit_repeat(self, part: _Part, then: int) -> int:
        (inner,), end = part.parts, then
        if part.most is None:
            loop = self._add(_Step((then,)))
            self._steps[loop] = _Step((self._emit(inner, loop), then))
            then = loop
        for _ in range((part.most or part.least) - part.least):
            then = self._add(_Step((self._emit(inner, then), end)))
        for _ in range(part.least):
            then, behind = self._emit(inner, then), then
            if then == behind:  # nothing, however often
                break
        return then

    def _reached(self, states: frozenset[int], before: str, after: str) -> list[_Step]:
        """The steps that read a character, or end, which are reached without reading one."""
        seen, work, found = set(states), list(states), []
        while work:
            step = self._steps[work.pop()]
            if step.chars is not None or not step.then:
                found.append(step)
            elif not step.position or _AT[step.position](before, _kind(after)):
                work += [state for state in step.then if state not in seen]
                seen.update(step.then)
        return found


@lru_cache(maxsize=16)
def compiled_regex(pattern: str) -> Regex:
    """The pattern, kept for the next run. Raises `InputError` as `Regex` does."""
    return Regex(pattern)


def _kind(char: str) -> str:
    """The class of a character for assertions: a new line, a character of a word ("w"), another ("x"), or none."""
    if not char or char == "\n":
        return char
    return "w" if _within(_PERL["w"], ord(char)) else "x"


_AT: dict[str, Callable[[str, str], bool]] = {
    "text begins": lambda before, after: not before,
    "text ends": lambda before, after: not after,
    "line begins": lambda before, after: before in ("", "\n"),
    "line ends": lambda before, after: after in ("", "\n"),
    "word edge": lambda before, after: (before == "w") != (after == "w"),
    "no word edge": lambda before, after: (before == "w") == (after == "w"),
}
