"""A graph pass as one value: its name, the level from which it runs, its classic name and its function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.manager.pass_info import PassInfo


@dataclass(frozen=True)
class GraphPass:
    """A pass of `relay/transform/passes.py`; `classic` is "" where classic programs have no name for it.

    The function maps a module to a module. Its parameters after the module have the names of what it asks of a
    compilation (`backend`, `records`), or are the arguments of the classic constructor.
    """

    name: str
    level: int
    classic: str
    function: Callable[..., IRModule] = field(repr=False)

    @property
    def info(self) -> PassInfo:
        """The name and the level, as contexts and instruments know the pass."""
        return PassInfo(self.level, self.name)

    def apply(self, mod: IRModule, **given: object) -> IRModule:
        """Return the module after the pass; the function receives those of `given` that it has parameters for."""
        asked = inspect.signature(self.function).parameters
        return self.function(mod, **{name: value for name, value in given.items() if name in asked})
