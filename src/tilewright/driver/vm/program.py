"""The shared tables of a program: numbers of functions, segments, host operators and constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tilewright.driver.vm.loops import Repetition
from tilewright.driver.vm.placement import Placement
from tilewright.driver.vm.scopes import Scopes
from tilewright.driver.vm.segments import SegmentNodes, segment_function
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, GlobalVar, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import TensorType
from tilewright.relay.op.host import plain_attrs
from tilewright.runtime.host_ops import HOST_OPS
from tilewright.runtime.manifest import Packed


class ProgramBuilder:
    """Collects what the functions of a module need: see the attributes, all in the order of their numbers.

    With `one_by_one` every operator is a segment of its own; `placement` divides a function's operators.
    """

    def __init__(
        self, mod: IRModule, one_by_one: bool = False, placement: Callable[[Function], Placement] | None = None
    ) -> None:
        self.mod = mod
        self.one_by_one = one_by_one
        self.placement = placement
        self.segments: list[Function] = []
        #: Numbers of the segments that the host computes beside a device.
        self.on_host: list[int] = []
        self.packed: list[Packed] = []
        self.constants: list[Constant] = []
        self._constant_numbers: dict[Constant, int] = {}
        self._global_numbers: dict[GlobalVar, int] = {}
        self.functions: list[tuple[str, Function, Sequence[Var]]] = []
        self._count = 0

    def function_number(self, gvar: GlobalVar) -> int:
        """The number of a function of the module."""
        gvar = self.mod.global_var(gvar.name)
        if gvar not in self._global_numbers:
            self._global_numbers[gvar] = self._add(gvar.name, self.mod[gvar], ())
        return self._global_numbers[gvar]

    def closure_number(self, function: Function, captured: Sequence[Var]) -> int:
        """The number of a function inside another, to be called with the values of `captured` first."""
        return self._add(f"closure{len(self.functions)}", function, captured)

    def _add(self, name: str, function: Function, captured: Sequence[Var]) -> int:
        self.functions.append((name, function, captured))
        return len(self.functions) - 1

    def constant_number(self, constant: Constant) -> int:
        """The number of a constant that instructions load."""
        if constant not in self._constant_numbers:
            self._constant_numbers[constant] = len(self.constants)
            self.constants.append(constant)
        return self._constant_numbers[constant]

    def segment_number(self, segment: SegmentNodes, scopes: Scopes, function: Function) -> tuple[int, list[Expr]]:
        """The packed number of a segment, and the values to call it with."""
        body, arguments = segment_function(segment, scopes, function)
        entry = Packed(segment=len(self.segments))
        if self.one_by_one:
            (call,) = segment.members
            assert isinstance(call.op, Op)
            entry = replace(entry, operator=call.op.name, source=call.span)
        if segment.on_host:
            self.on_host.append(len(self.segments))
        self.packed.append(entry)
        self.segments.append(body)
        return len(self.packed) - 1, arguments

    def loop_number(self, found: Repetition) -> int:
        """The packed number of a loop that runs in native code."""
        self.packed.append(Packed(segment=len(self.segments), loop=found.loop))
        self.segments.append(found.body)
        return len(self.packed) - 1

    def host_number(self, call: Call) -> int:
        """The packed number of a call of a host operator. Raises `UnsupportedError` for any other operator."""
        assert isinstance(call.op, Op)
        if call.op.name not in HOST_OPS:
            where = f" (from {call.span})" if call.span else ""
            raise UnsupportedError(
                f"the operator {call.op.name}{where} has neither a compute nor a host function, so nothing can run it"
            )
        self.packed.append(Packed(host=call.op.name, attrs=plain_attrs(call.attrs), source=call.span))
        return len(self.packed) - 1

    def check_number(self, type_: TensorType, callee: str, argument: int) -> int:
        """The packed number of the check that an argument has the fixed extents of `type_`."""
        shape = [dim if isinstance(dim, int) else None for dim in type_.shape]
        attrs = {"shape": shape, "callee": callee, "argument": argument}
        self.packed.append(Packed(host="check_shape", attrs=attrs))
        return len(self.packed) - 1
