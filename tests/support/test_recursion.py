"""Functions that call themselves go as deep as they have to, and nothing of the interpreter is changed for it."""

from __future__ import annotations

import sys
import threading
from contextvars import ContextVar

import pytest

from tilewright.support.recursion import SEGMENT, STACK, nested

DEEP = 20_000
SETTING: ContextVar[str] = ContextVar("setting", default="outside")


@nested
def depth(levels: int) -> int:
    return 0 if levels == 0 else 1 + depth(levels - 1)


@nested
def fail_at(levels: int) -> None:
    if levels == 0:
        raise KeyError("at the bottom")
    fail_at(levels - 1)


@nested
def setting_at(levels: int) -> str:
    return SETTING.get() if levels == 0 else setting_at(levels - 1)


@nested
def threads_of(levels: int) -> set[int]:
    below = threads_of(levels - 1) if levels else set()
    return {*below, threading.get_ident()}


def test_a_function_goes_deeper_than_the_limit_which_stays() -> None:
    before = sys.getrecursionlimit()
    assert before < DEEP
    assert depth(DEEP) == DEEP
    assert sys.getrecursionlimit() == before
    assert STACK.level == 0


def test_an_error_at_the_bottom_reaches_the_caller() -> None:
    with pytest.raises(KeyError, match="at the bottom"):
        fail_at(5 * SEGMENT)
    assert STACK.level == 0
    assert depth(DEEP) == DEEP


def test_the_bottom_sees_the_context_of_the_caller() -> None:
    token = SETTING.set("inside")
    assert setting_at(5 * SEGMENT) == "inside"
    SETTING.reset(token)


def test_a_shallow_walk_stays_on_its_stack() -> None:
    assert threads_of(SEGMENT - 1) == {threading.get_ident()}


def test_a_walk_works_in_a_thread_too() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(depth(DEEP)))
    thread.start()
    thread.join()
    assert found == [DEEP]
