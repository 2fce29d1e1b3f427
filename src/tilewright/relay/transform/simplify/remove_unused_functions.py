"""Functions that no entry function reaches go.

Before: def @main(%x) { @used(%x) }    def @used(%x) { exp(%x) }    def @unused(%x) { log(%x) }
After:  def @main(%x) { @used(%x) }    def @used(%x) { exp(%x) }
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import InputError
from tilewright.relay.ir.expr import GlobalVar
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import global_vars


def remove_unused_functions(mod: IRModule, entry_functions: Sequence[str] = ("main",)) -> IRModule:
    """Keep what `entry_functions` reach, themselves included. Raises `InputError` for one that is not there."""
    for name in entry_functions:
        if name not in mod:
            raise InputError(f"remove_unused_functions: the module has no function {name!r}")
    live: dict[GlobalVar, None] = {}
    stack = [mod.global_var(name) for name in entry_functions]
    while stack:
        gvar = stack.pop()
        if gvar not in live:
            live[gvar] = None
            stack += [callee for callee in global_vars(mod[gvar].body) if callee in mod.functions]
    if len(live) == len(mod.functions):
        return mod
    return mod.with_functions({gvar: func for gvar, func in mod.functions.items() if gvar in live})
