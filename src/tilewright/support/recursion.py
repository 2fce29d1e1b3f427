"""Functions that call themselves once per level of nesting of what they read, at any depth.

A network may be a chain of thousands of calls, an expression a sum of thousands of terms. Where a walk over them is
written as a function that calls itself, `@nested` on that function lets it go as deep as memory allows: each time
`SEGMENT` calls of such functions are open on a stack, the next one runs on the stack of a thread of its own while the
caller waits. So neither Python's recursion limit, which counts per thread and stays as it is, nor the C stack under it
is used up. (The compiler of Rust does the same, as `ensure_sufficient_stack`.) A walk that is no deeper than `SEGMENT`
starts no thread.

    @nested
    def depth(x):
        return 1 + max((depth(child) for child in children(x)), default=0)
"""

from __future__ import annotations

import threading
from _thread import start_new_thread
from collections.abc import Callable
from contextvars import copy_context
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: Open calls of nested functions on one stack. Up to six frames lie between two of them (a handler, a comprehension, a
#: question to the analyzer), and the limit is 1,000 frames by default, of which the caller has used some.
SEGMENT = 90


class _Stack(threading.local):
    """The depth of nested calls on the stack of this thread."""

    level = 0


STACK = _Stack()


def nested(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which calls itself, directly or through others, as deep as what it walks is nested."""

    @wraps(function)
    def walk(*args: P.args, **kwargs: P.kwargs) -> R:
        level = STACK.level
        if level >= SEGMENT:
            return on_fresh_stack(function, *args, **kwargs)
        STACK.level = level + 1
        try:
            return function(*args, **kwargs)
        finally:
            STACK.level = level

    return walk


def on_fresh_stack(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The return value or exception of `function`, run on the stack of another thread, in the context of the caller."""
    outcome: list[Any] = []
    context = copy_context()
    done = threading.Lock()
    done.acquire()

    def run() -> None:
        try:
            outcome.extend((True, context.run(function, *args, **kwargs)))
        except BaseException as error:  # goes on in the thread that waits
            outcome.extend((False, error))
        finally:
            done.release()

    start_new_thread(run, ())  # a `threading.Thread` costs twice the time
    done.acquire()
    fine, value = outcome
    if fine:
        return value
    try:
        raise value
    finally:
        outcome.clear()
        del value
