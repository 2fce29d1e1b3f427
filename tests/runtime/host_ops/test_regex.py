"""Regular expressions: what they match beside Python's where both mean the same, and that none takes for ever."""

from __future__ import annotations

import random
import re

import pytest

from tilewright.errors import InputError
from tilewright.runtime.host_ops.regex import Regex

_ATOMS = ["a", "b", "c", ".", "[ab]", "[^a]", r"\d", r"\w", "[a-c1]", r"\bb", "^", "$", r"\S", "(?:)", r"[^\d]", r"\."]
_OFTEN = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "{1,2}?"]


def drawn(rng: random.Random, depth: int) -> str:
    """A pattern that Python and RE2 understand alike."""
    kind = rng.random()
    if depth <= 0 or kind < 0.3:
        return rng.choice(_ATOMS)
    if kind < 0.5:
        return drawn(rng, depth - 1) + drawn(rng, depth - 1)
    if kind < 0.65:
        return f"({drawn(rng, depth - 1)}|{drawn(rng, depth - 1)})"
    if kind < 0.9:
        return f"(?:{drawn(rng, depth - 1)}){rng.choice(_OFTEN)}"
    return f"(?i:{drawn(rng, depth - 1)})"


def test_random_patterns_beside_python() -> None:
    rng = random.Random(0)
    for _ in range(400):
        pattern = drawn(rng, 3)
        ours, theirs = Regex(pattern), re.compile(pattern.replace("$", r"\Z"), re.ASCII)
        for _ in range(8):
            text = "".join(rng.choice("abcAB1. \n") for _ in range(rng.randint(0, 5)))
            assert ours.full_match(text) == (theirs.fullmatch(text) is not None), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"[[:alpha:]]+\p{Lu}\pN", "abÄ5", True),
        (r"[[:^digit:]]\PL", "a5", True),
        ("(?i)k+", "K\u212a", True),
        (r"\Qa.b\E+", "a.bb", True),
        (r"\Qa.b\E+", "a.ba.b", False),
        ("a{,2}", "a{,2}", True),
        ("[]a-]+", "]-a", True),
        ("(?s).", "\n", True),
        ("(?m)a$\n^b", "a\nb", True),
        ("a$\nb", "a\nb", False),
        (r"\x{1F600}\101\x42", "\U0001f600AB", True),
        (r"(?P<word>\w+)(?<other>\.)", "ab.", True),
        (r"\Aa\z", "a", True),
        (r"\d", "\u0663", False),
        ("(?i:a)b", "AB", False),
    ],
)
def test_syntax_of_re2(pattern: str, text: str, matches: bool) -> None:
    assert Regex(pattern).full_match(text) is matches


@pytest.mark.parametrize("pattern", ["(a|a)*b", "(a*)*(a*)*c", "(a+a+)+y", "(a?){1000}a{1000}b", "(.*)*.*=.*"])
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    assert not Regex(pattern).full_match("a" * 400)


def test_nothing_a_thousand_times_a_thousand_times() -> None:
    assert Regex("((((){1000}){1000}){1000}){1000}a").full_match("a")


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", "a)", "[", "[b-a]", "a**", "a{2000}", "(?=a)", r"\1", "a{2}{2}", "(((a{30}){30}){30})", "(" * 300, "*"),
        *(r"\p{Greek}", "\\", "(?P<1>a)", "(?P<n>a", "[[:foo:]]", r"\x{FFFFFFFFFF}", "[a", "(?", r"\p{", "[[:"),
        *("a{2,1}", r"\C", r"[\d-z]"),
    ],
)
def test_what_is_no_pattern_is_one_clear_error(pattern: str) -> None:
    with pytest.raises(InputError, match=r"the pattern .* is (not valid|too large)"):
        Regex(pattern)
