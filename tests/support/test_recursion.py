"""Deep recursion within the block, and the old limit after it."""

from __future__ import annotations

import sys

import pytest

from tilewright.support.recursion import deep_recursion


def depth(levels: int) -> int:
    return 0 if levels == 0 else 1 + depth(levels - 1)


def test_functions_may_nest_deep_within_and_not_after() -> None:
    before = sys.getrecursionlimit()
    with deep_recursion():
        assert depth(20_000) == 20_000
    assert sys.getrecursionlimit() == before
    with pytest.raises(RecursionError):
        depth(20_000)


def test_a_thread_that_leaves_does_not_lower_the_limit_of_another() -> None:
    before = sys.getrecursionlimit()
    first, second = deep_recursion(), deep_recursion()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert depth(20_000) == 20_000
    second.__exit__(None, None, None)
    assert sys.getrecursionlimit() == before
