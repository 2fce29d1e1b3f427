"""Functions of a program that run without the interpreter: those that ran or looped often on arguments of one kind.

The interpreter asks at every call. Until a function was called often it goes on itself; then the function is written
down for the sizes at hand (`native_function.py`), from where it stands: a loop goes on with its next turn.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.runtime.cpu.program import Program as CpuProgram
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.vm.flat import FlatProgram
from tilewright.runtime.vm.kinds import Kind, kind_of, positions_of
from tilewright.runtime.vm.machine import INTERPRETED
from tilewright.runtime.vm.native_function import MOST_STEPS, NativeFunction
from tilewright.runtime.vm.program import Program

#: Calls and turns of a function before it is written down for the kind of arguments that it gets then: at first, and
#: where that was in vain so often that it is worth less.
OFTEN, _OFTEN_AT_MOST = 16, 128

#: Kinds of arguments for which a function is kept, and for which it may be refused before nobody asks again.
_KEPT, _MOST_REFUSED = 8, 4


class _Function:
    """The statistics of one function: calls since it was last encoded, their kinds; the number of failures to encode
    it.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.often = OFTEN
        self.known: OrderedDict[Kind, NativeFunction | None] = OrderedDict()
        self.refused = 0


class HotFunctions:
    """The functions of one program. Not for use by several threads at a time: the owner holds a lock."""

    def __init__(self, manifest: Manifest, program: Program, native: CpuProgram) -> None:
        self._manifest, self._program, self._native = manifest, program, native
        self._functions: list[_Function | None] = [_Function() for _ in program.functions]

    def run(self, number: int, values: Sequence[Any], threads: int, check: Callable[[int], None]) -> Any:
        """The results of function `number` for `values`; `INTERPRETED` where it has to be interpreted."""
        function = self._functions[number]
        if function is None:
            return INTERPRETED
        function.calls += 1
        if function.calls < function.often and not function.known:
            return INTERPRETED
        leaves: list[Any] = []
        kind = tuple([kind_of(value, leaves) for value in values])
        found = function.known.get(kind)
        if found is None and (kind in function.known or function.calls < function.often):
            return INTERPRETED
        if found is None:
            found = self._written(number, function, kind)
        if found is None:
            return INTERPRETED
        return found.run(leaves, threads, check)

    def _written(self, number: int, function: _Function, kind: Kind) -> NativeFunction | None:
        """The function for a kind of arguments, None where it cannot be without the interpreter."""
        function.calls, function.often = 0, min(2 * function.often, _OFTEN_AT_MOST)
        flat = FlatProgram(self._manifest, self._program, self._native.shapes, MOST_STEPS)
        arguments, first = [], 0
        for one in kind:
            position, first = positions_of(one, flat, first)
            arguments.append(position)
        found = None
        try:
            found = NativeFunction(flat, number, arguments, first, self._native)
        except UnsupportedError:
            function.refused += 1
            if function.refused >= _MOST_REFUSED:
                self._functions[number] = None
        function.known[kind] = found
        if len(function.known) > _KEPT:
            function.known.popitem(last=False)
        return found
