"""The C source of a model as the writers of projects take it, and the options that its compiler needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.driver.build_source import SourceModel

#: For every compiler that knows GCC's options: integers wrap, buffers of several types share memory.
OPTIONS = ("-O2", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=on", "-fno-math-errno")
#: For GCC alone.
GCC_OPTIONS = ("-fno-tree-loop-if-convert",)

#: The version of a project: that of the interface, which a new export of the same model keeps.
VERSION = "1.0.0"


@dataclass(frozen=True)
class Sources:
    """Models in C: the `name` of source and header, their texts, and the processor `cpu` they were made for or ""."""

    name: str
    models: Sequence[SourceModel]
    source: str
    header: str
    cpu: str = ""

    @property
    def needs_libm(self) -> bool:
        """True if functions of <math.h> are called."""
        return "#include <math.h>" in self.source

    @property
    def sentence(self) -> str:
        """A description in one line."""
        names = ", ".join(model.name for model in self.models)
        return f"The model{'s' * (len(self.models) > 1)} {names} as C99, compiled by Tilewright."
