"""Accelerators: what `lower` has to know of a decoupled machine, declared by whoever builds it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.codegen.source.c import EmittedSource, emit_c
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.coproc_sync import LINKS, Queue
from tilewright.tir.transform.inject_copy_intrin import CopyIntrinsic
from tilewright.tir.transform.pipeline import ACCELERATOR, result


@dataclass(frozen=True, kw_only=True)
class Accelerator(Target):
    """A machine of load, compute and store units that are joined by tokens only: a target that a program declares.

    `copy` makes the call of a copy from the loops under the pragma `copy_pragma`; `links` are the queues of tokens
    between units. With `copy_casts` a copy may be of another type than what it copies. `passes` are the machine's own,
    on the loops of the schedule before all others. For `emit_c`, `functions` names the C functions that push and pop a
    token, given the two units (keys "dep_push" and "dep_pop"); `memory` spells, for each storage scope of the machine,
    how an array there is declared, such as ``{"dae.input": "__attribute__((section(\".input\"))) static "}``; `header`
    is C text before all else.
    """

    name: str
    copy: CopyIntrinsic
    copy_pragma: str = "dma_copy"
    copy_casts: bool = False
    passes: tuple[Callable[[PrimFunc], PrimFunc], ...] = ()
    links: frozenset[Queue] = LINKS
    functions: Mapping[str, str] = field(default_factory=dict)
    memory: Mapping[str, str] = field(default_factory=dict)
    header: str = ""

    def __new__(cls, **_: Any) -> Accelerator:
        """A value of its own: a declaration is no spelling that `Target` could read."""
        return object.__new__(cls)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", "accelerator")
        object.__setattr__(self, "spelling", f"accelerator {self.name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (functools.partial(Accelerator, **vars(self)), ())

    def emit_c(self, func: PrimFunc) -> EmittedSource:
        """The C99 text of a function lowered for this machine: copies, tokens and compute intrinsics as C calls.

        Raises UnsupportedError where a token, or memory in a scope, has no spelling in the declaration.
        """
        source = emit_c([result(ACCELERATOR.code, func, self)], scopes=self.memory)
        return EmittedSource(f"{self.header}\n{source.text}", source.messages)
