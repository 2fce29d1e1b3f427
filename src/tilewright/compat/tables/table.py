"""The type of a table of classic names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """One namespace of the classic API.

    `name` is its dotted name and `doc` its docstring. `names` says where each name leads, as "module:attribute", or
    "module" for a module. All public names of the modules in `open` are there too. `absent` has, for names that are
    not there on purpose, what to use instead; `refused` has it for those that may be imported, since programs import
    them at their top and use them in some branch, but raise it when they are used. `python -m` runs the `main`
    of a `program`.
    """

    name: str
    doc: str
    names: Mapping[str, str] = field(default_factory=dict)
    open: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    program: bool = False


def leads_to(module: str, *names: str, **renamed: str) -> dict[str, str]:
    """Entries for `names` of `module`, and for those that have another name there: `NDArray="Tensor"`."""
    return {name: f"{module}:{name}" for name in names} | {name: f"{module}:{real}" for name, real in renamed.items()}
