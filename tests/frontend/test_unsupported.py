"""Unsupported operators are reported all at once: operator, count and first position."""

from __future__ import annotations

import pytest

from tilewright.errors import UnsupportedError
from tilewright.frontend.unsupported import Unsupported


def test_nothing_added_refuses_nothing() -> None:
    missing = Unsupported()
    missing.refuse("m")
    assert missing.lines() == []


def test_nodes_of_an_operator_are_one_line_with_their_number_and_the_first_of_them() -> None:
    missing = Unsupported()
    for position in ("node 'a' (Wave)", "node 'b' (Wave)", "node 'a' (Wave)"):
        missing.add("Wave", position, "no converter")
    missing.add("Wave", "node 'c' (Wave)", "mode 3")
    missing.add("Turn", "node 'd' (Turn)", "no converter")
    assert missing.lines() == [
        "node 'a' (Wave) (the first of 2 such nodes): no converter",
        "node 'c' (Wave): mode 3",
        "node 'd' (Turn): no converter",
    ]
    with pytest.raises(UnsupportedError, match=r"m\.x needs 3 things Tilewright does not support:\n  node 'a'"):
        missing.refuse("m.x")


def test_one_thing_takes_one_line() -> None:
    missing = Unsupported()
    missing.add("Wave", "node 'a' (Wave)", "no converter")
    with pytest.raises(UnsupportedError, match=r"^m needs something .*: node 'a' \(Wave\): no converter$"):
        missing.refuse("m")
