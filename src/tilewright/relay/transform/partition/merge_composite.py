"""Pieces of the graph that an external code generator computes as one operator become calls of composite functions.

Before: nn.relu(nn.dense(%x, %w))                                  (pattern table: "mylib.dense_relu", dense then relu)
After:  %0 = fn (%p0, %p1, Composite="mylib.dense_relu") { nn.relu(nn.dense(%p0, %p1)) }; %0(%x, %w)

`annotate_target` takes a composite function for the code generator whose name its own begins with. What no code
generator took is put back in place when the module is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tilewright.errors import InputError
from tilewright.relay.dataflow_pattern import DFPattern, partition
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule

#: (name of the composite function, pattern) and, optionally, a check of the piece that was found.
Entry = tuple[str, DFPattern] | tuple[str, DFPattern, Callable[[Expr], bool]]


def merge_composite(mod: IRModule, pattern_table: Iterable[Entry]) -> IRModule:
    """Make functions of what the patterns match, the first pattern first; see the module's docstring."""
    for entry in pattern_table:
        if len(entry) not in (2, 3) or not isinstance(entry[1], DFPattern):
            raise InputError(f"a pattern table has entries (name, pattern) or (name, pattern, check), not {entry!r}")
        name, pattern = entry[0], entry[1]
        check: Any = entry[2] if len(entry) == 3 else lambda found: True
        attrs = {"Composite": name}
        mod = infer_type(mod).map_functions(
            lambda func, p=pattern, a=attrs, c=check: func.with_body(partition(p, func.body, a, c))  # type: ignore[misc]
        )
    return infer_type(mod)
