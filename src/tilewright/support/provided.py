"""What lower layers ask of upper ones by name: the package says here, when it is imported, who answers.

provide("tune", lambda *given: tilewright.autotvm…)      # in tilewright/__init__.py
provided("tune")(mod, target, 20.0)                      # in a module that may not import the tuner
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_answers: dict[str, Callable[..., Any]] = {}


def provide(name: str, answer: Callable[..., Any]) -> None:
    """`answer` is what `name` stands for from now on."""
    _answers[name] = answer


def provided(name: str) -> Callable[..., Any]:
    """What `name` stands for. Raises `KeyError` where nobody has said."""
    return _answers[name]
