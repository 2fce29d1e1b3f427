"""A program of the virtual machine whose segments run in a WebAssembly machine, interpreted in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tilewright.errors import InputError
from tilewright.runtime import host_ops
from tilewright.runtime.manifest import Manifest, Packed
from tilewright.runtime.memory import Array
from tilewright.runtime.module import failure_text
from tilewright.runtime.program import Caller
from tilewright.runtime.vm.debug import Step, watched
from tilewright.runtime.vm.executable import flatten, loaded_constant
from tilewright.runtime.vm.loop import repeated
from tilewright.runtime.vm.machine import execute
from tilewright.runtime.vm.program import Program

#: Runs a segment, by its number, on values: its results, and 0 or the code of a failed check.
Segment = Callable[[int, Sequence[Any]], tuple[list[Array], int]]


class Interpreted:
    """The program of a manifest around its segments; operators of the host are those in NumPy."""

    def __init__(self, manifest: Manifest, weights: Array, segment: Segment) -> None:
        assert manifest.program is not None
        self.manifest, self._segment = manifest, segment
        self._program = Program.from_manifest(manifest.program)
        self._constants = [loaded_constant(entry, weights) for entry in manifest.constants]
        self._packed = [self._callable(entry) for entry in manifest.packed]

    def run(self, values: Sequence[Any], see: Callable[[Step], None] | None = None) -> list[Any]:
        """The program's results; `see` is called with each operator as soon as it ran.

        Raises `InputError` where a check fails.
        """
        calls = self._packed
        if see is not None:
            calls = [watched(entry, call, see) for entry, call in zip(self.manifest.packed, calls)]
        return flatten(execute(self._program, calls, self._constants, values))

    def _callable(self, entry: Packed) -> Callable[..., tuple[Any, ...]]:
        if entry.segment is None:
            function = host_ops.find(entry.host, entry.attrs)
            return lambda *values: (function(*values),)
        call: Caller = partial(self._called, entry.segment)
        if entry.loop is not None:
            call = repeated(call, self.manifest.segments[entry.segment], entry.loop, lambda value: value)

        def run(*values: Any) -> tuple[Any, ...]:
            results, code = call(values, 1)
            if code:
                raise InputError(f"the model stopped: {failure_text(self.manifest.messages, code)}")
            return tuple(results)

        return run

    def _called(self, number: int, values: Sequence[Any], threads: int) -> tuple[list[Array], int]:
        return self._segment(number, values)
