"""Accelerators: what `lower` has to know of a decoupled machine, declared in one place by whoever builds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.codegen.source.c import EmittedSource, emit_c
from tilewright.tir.pipeline import ACCELERATOR, result
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.coproc_sync import LINKS, Queue
from tilewright.tir.transform.inject_copy_intrin import CopyIntrinsic


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """A machine of load, compute and store units that are joined by tokens only; a target of `te.lower`.

    `copy` makes the call of a copy from the loops under the pragma `copy_pragma`; `links` are the queues of tokens
    between units. For `emit_c`, `functions` names the C functions that push and pop a token, given the two units (keys
    "dep_push" and "dep_pop"); `memory` spells, for each storage scope of the machine, how an array there is declared,
    such as ``{"dae.input": "__attribute__((section(\".input\"))) static "}``; `header` is C text before all else.
    """

    name: str
    copy: CopyIntrinsic
    copy_pragma: str = "dma_copy"
    links: frozenset[Queue] = LINKS
    functions: Mapping[str, str] = field(default_factory=dict)
    memory: Mapping[str, str] = field(default_factory=dict)
    header: str = ""

    def emit_c(self, func: PrimFunc) -> EmittedSource:
        """The C99 text of a function lowered for this machine: copies, tokens and compute intrinsics as C calls.

        Raises UnsupportedError where a token, or memory in a scope, has no spelling in the declaration.
        """
        source = emit_c([result(ACCELERATOR.code, func, self)], scopes=self.memory)
        return EmittedSource(f"{self.header}\n{source.text}", source.messages)
