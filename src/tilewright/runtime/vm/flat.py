"""A function of a virtual machine's program as steps without calls, allocation or recursion, where its sizes are fixed.

The bytecode is run on *positions* instead of values: functions open where they are called, a closure or a tuple is
known by its parts, and what is left are segments to run on addresses, branches and loops. Where two ways meet that
leave a value at different positions, a pointer says which; what a loop carries has two positions that take turns.

    v0 = slot0; L0: run segment 1 on v0 and arena + 64; unless arena + 128, to L1; … carry v0 = arena + 64, to L0

Memory is planned here once: no two results share any, so a value stays as long as the run lasts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.runtime.manifest import Manifest
from tilewright.runtime.shape_program import ShapeProgram
from tilewright.runtime.signature import TensorSpec
from tilewright.runtime.vm.flat_calls import PackedCalls
from tilewright.runtime.vm.instruction import Opcode
from tilewright.runtime.vm.machine import unmatched
from tilewright.runtime.vm.positions import (
    NOWHERE,
    Collected,
    Function,
    Location,
    State,
    Unusable,
    Writer,
    leaves,
    refuse,
    require_fixed,
    tensor,
    usable,
)
from tilewright.runtime.vm.program import Program, VMFunction
from tilewright.runtime.vm.steps import (
    Address,
    Again,
    Assign,
    Carry,
    Copy,
    Count,
    Jump,
    Label,
    Point,
    Stop,
    Unless,
    tidy,
)
from tilewright.support.dtype import DType
from tilewright.support.recursion import nested

#: Steps that a program may become: functions are copied to each of their calls.
MOST_STEPS = 50_000


@dataclass
class _Edge:
    """A way to a label: the state that comes along it, and the assignments before its jump."""

    state: State
    before: list[Point | Count]


@dataclass
class _Frame:
    """A function that is being opened: its labels, its parameters, those that it changes as a loop, the ways out."""

    function: VMFunction
    number: int
    begin: str
    end: str
    params: list[Any]
    changing: list[int]
    parts: list[_Carried] = field(default_factory=list)
    returns: list[_Edge] = field(default_factory=list)


@dataclass(frozen=True)
class _Carried:
    """A loop-carried value, with its two buffers (of alternate iterations) if it is a tensor."""

    value: Any
    positions: tuple[Address, Address] = (NOWHERE, NOWHERE)


class FlatProgram(Writer):
    """The steps of one function of a program and of all that it calls, and its `result`: None where it never returns.

    With `shapes`, the symbolic sizes of each segment (None: it has none), these are those of a run: sizes are what the
    arguments have, and lists may grow.
    """

    def __init__(
        self,
        manifest: Manifest,
        program: Program,
        shapes: Sequence[ShapeProgram | None] | None = None,
        most_steps: int = MOST_STEPS,
    ) -> None:
        super().__init__(manifest)
        self.manifest = manifest
        self.program = program
        self.calls = PackedCalls(manifest, self, shapes)
        self.most_steps = most_steps
        self._open: list[_Frame] = []

    def open(self, number: int, arguments: Sequence[Any]) -> Any:
        """Write the steps of the function `number` on `arguments`; its result, None where it never returns.

        Raises `UnsupportedError` that names the node or input which stands in the way.
        """
        return self._call(number, arguments, State([], frozenset()))

    # ----------------------------------------------------------------------------------------------------- functions
    @nested
    def _call(self, number: int, arguments: Sequence[Any], state: State) -> Any:
        """Inline the code of a function; its result, None if it never returns."""
        function = self.program.functions[number]
        if any(frame.number == number for frame in self._open):
            refuse(f"its function {function.name!r} calls itself, and not as the last thing it does")
        again = _tail_calls(function, number)
        changing = _changing(function, again)
        frame = _Frame(function, number, self.label(), self.label(), list(arguments), changing)
        self._open.append(frame)
        if again:
            for index in changing:
                frame.params[index] = self._carried(frame, frame.params[index])
            self.steps.append(Label(frame.begin))
        inner = State([*frame.params, *[None] * (function.registers - function.params)], state.extended)
        self._run(frame, inner)
        self._open.pop()
        if not frame.returns:
            return None
        merged = self._meet(frame.returns, frame.end)
        state.extended = merged.extended
        return merged.registers[0]

    def _carried(self, frame: _Frame, value: Any) -> Any:
        """`value` as a variable of the loop, which begins with it."""
        if isinstance(value, tuple):
            return tuple(self._carried(frame, part) for part in value)
        inside = value
        positions = (NOWHERE, NOWHERE)
        if isinstance(value, Location):
            inside = Location(Address(self.pointer()), value.shape, value.dtype)
            positions = (self.memory(value.nbytes), self.memory(value.nbytes))
            self.steps.append(Point(inside.address.base, value.address))
        elif isinstance(value, Collected):
            inside = value.longer(self.count(), self.version())
            self.steps.append(Count(inside.count, value.count))
        frame.parts.append(_Carried(inside, positions))
        return inside

    def _again(self, frame: _Frame, arguments: Sequence[Any], state: State) -> None:
        """The jump back to the beginning of a loop, with what it carries on."""
        new = [leaf for index in frame.changing for leaf in leaves(arguments[index])]
        for leaf in leaves(tuple(arguments)):
            if isinstance(leaf, Collected) and leaf.version in state.extended:
                refuse(f"the loop {frame.function.name!r} adds to one list in each turn, and forgets what it added")
        if len(frame.parts) != len(new):
            refuse(f"the loop {frame.function.name!r} carries tuples of different lengths")
        carried: list[Carry] = []
        counts: list[Count] = []
        for part, value in zip(frame.parts, new):
            known, value = part.value, usable(value)
            if isinstance(known, Location) and isinstance(value, Location):
                if (known.shape, known.dtype) != (value.shape, value.dtype):
                    refuse(f"the loop {frame.function.name!r} carries a value whose sizes change")
                if known.address != value.address:
                    carried.append(Carry(known.address.base, value.address, *part.positions, known.nbytes))
            elif isinstance(known, Collected) and isinstance(value, Collected) and known.address == value.address:
                counts.append(Count(known.count, value.count))
            elif known != value:
                refuse(f"the loop {frame.function.name!r} carries a value that C has no variable for")
        self.steps.append(Again(tuple(carried), tuple(counts), frame.begin))

    # -------------------------------------------------------------------------------------------------- instructions
    def _run(self, frame: _Frame, start: State) -> None:
        """The lines of a function's instructions; its returns are noted in the frame."""
        code = frame.function.code
        ways: dict[int, list[_Edge]] = {}
        labels: dict[int, str] = {}
        state: State | None = start
        for position, (opcode, *x) in enumerate(code):
            arrivals = ways.pop(position, [])
            if arrivals:
                if state is not None:
                    arrivals.insert(0, self._fall_through(state))
                state = self._meet(arrivals, labels[position])
            if state is None:
                continue
            if len(self.steps) > self.most_steps:
                refuse(f"its functions, written out at each of their calls, take more than {self.most_steps} steps")
            if opcode == Opcode.IF:
                target = position + x[1]
                labels.setdefault(target, self.label())
                condition = tensor(state.registers[x[0]])
                edge = _Edge(State(list(state.registers), state.extended), [])
                self.steps.append(Unless(condition.address, labels[target], edge.before))
                ways.setdefault(target, []).append(edge)
            elif opcode in (Opcode.GOTO, Opcode.IF_TAG):
                if opcode == Opcode.IF_TAG and self._tag(state.registers[x[0]]) == x[1]:
                    continue
                target = position + x[-1]
                labels.setdefault(target, self.label())
                edge = _Edge(state, [])
                self.steps.append(Jump(labels[target], edge.before))
                ways.setdefault(target, []).append(edge)
                state = None
            elif opcode in (Opcode.RET, Opcode.TAIL_INVOKE, Opcode.TAIL_INVOKE_CLOSURE):
                self._leave(frame, state, opcode, x)
                state = None
            elif not self._instruction(state, opcode, x):
                state = None

    def _fall_through(self, state: State) -> _Edge:
        edge = _Edge(state, [])
        self.steps.append(Assign(edge.before))
        return edge

    def _leave(self, frame: _Frame, state: State, opcode: int, x: list[int]) -> None:
        """Return from a function, or what a call instead of it returns."""
        registers = state.registers
        if opcode == Opcode.RET:
            value = registers[x[0]]
        else:
            number, arguments = self._callee(opcode, x, registers)
            if number == frame.number:
                self._again(frame, arguments, state)
                return
            value = self._call(number, arguments, state)
            if value is None:
                return
        edge = _Edge(State([value], state.extended), [])
        self.steps.append(Jump(frame.end, edge.before))
        frame.returns.append(edge)

    def _callee(self, opcode: int, x: list[int], registers: list[Any]) -> tuple[int, list[Any]]:
        """The function that an instruction calls, and its arguments."""
        callee, *given = x
        values = [registers[r] for r in given]
        if opcode in (Opcode.INVOKE, Opcode.TAIL_INVOKE):
            return callee, values
        closure = usable(registers[callee])
        if not isinstance(closure, Function):
            refuse("a function is called that only a run knows")
        return closure.number, [*closure.captured, *values]

    def _instruction(self, state: State, opcode: int, x: list[int]) -> bool:
        """Emit an instruction that is no jump; False if it always ends the run."""
        registers = state.registers
        if opcode == Opcode.INVOKE_PACKED:
            return self._packed(state, x)
        if opcode in (Opcode.INVOKE, Opcode.INVOKE_CLOSURE):
            number, arguments = self._callee(opcode, x[1:], registers)
            registers[x[0]] = value = self._call(number, arguments, state)
            return value is not None
        if opcode == Opcode.MOVE:
            registers[x[0]] = registers[x[1]]
        elif opcode == Opcode.ALLOC_ADT:
            fields = tuple(registers[r] for r in x[2:])
            registers[x[0]] = fields if x[1] < 0 else (x[1], fields)
        elif opcode == Opcode.GET_FIELD:
            registers[x[0]] = self._field(registers[x[1]], x[2])
        elif opcode == Opcode.LOAD_CONST:
            registers[x[0]] = self._constant(x[1])
        elif opcode == Opcode.ALLOC_CLOSURE:
            if x[0] in x[2:]:
                refuse("a function that is a value captures itself")
            registers[x[0]] = Function(x[1], tuple(registers[r] for r in x[2:]))
        elif opcode == Opcode.KILL_REGISTER:
            registers[x[0]] = None
        elif opcode == Opcode.FATAL:
            self.steps.append(Stop(self.error(unmatched(self._open[-1].function))))
            return False
        else:
            refuse(f"it has references or looks at constructors ({Opcode(opcode).name.lower()})")
        return True

    def _field(self, holder: Any, index: int) -> Any:
        whole = usable(holder)
        if not isinstance(whole, tuple):
            refuse("a field is read of a value that is no tuple")
        is_data = len(whole) == 2 and isinstance(whole[0], int)
        return whole[1][index] if is_data else whole[index]

    def _tag(self, holder: Any) -> int:
        whole = usable(holder)
        tag = usable(whole[0]) if isinstance(whole, tuple) and whole else None
        if not isinstance(tag, int):
            refuse("a match looks at a value that is no constructor's")
        return tag

    def _constant(self, number: int) -> Any:
        entry = self.manifest.constants[number]
        if entry.value is not None:
            return Unusable("a constant of texts")
        return Location(Address("weights", entry.offset), entry.shape, DType(entry.dtype))

    def _packed(self, state: State, x: list[int]) -> bool:
        """A packed call; False where it ends the run."""
        results = self.calls.call(x[0], [state.registers[r] for r in x[2 + x[1] :]], state)
        for register, result in zip(x[2 : 2 + x[1]], results or ()):
            state.registers[register] = result
        return results is not None

    @property
    def most_slots(self) -> int:
        """Addresses that a segment takes at most."""
        segments = self.manifest.segments
        return max([len(s.inputs) + len(s.outputs) + 3 + (s.dynamic is not None) for s in segments], default=1)

    def _meet(self, edges: list[_Edge], label: str) -> State:
        """Join control flow at `label`; the joined state. Each predecessor writes the pointers in which they differ."""
        self.steps.append(Label(label))
        if len(edges) == 1:
            return edges[0].state
        columns = zip(*[edge.state.registers for edge in edges])
        registers = [self._merged(list(values), edges) for values in columns]
        return State(registers, frozenset().union(*[edge.state.extended for edge in edges]))

    def _merged(self, values: list[Any], edges: list[_Edge]) -> Any:
        first = values[0]
        if all(value == first for value in values):
            return first
        if any(isinstance(value, Unusable) for value in values):
            return next(value for value in values if isinstance(value, Unusable))
        if all(isinstance(value, tuple) and len(value) == len(first) for value in values):
            return tuple(self._merged(list(parts), edges) for parts in zip(*values))
        if all(isinstance(value, Location) for value in values):
            if any((value.shape, value.dtype) != (first.shape, first.dtype) for value in values):
                shapes = " and ".join(dict.fromkeys(f"{v.dtype}{list(v.shape)}" for v in values))
                return Unusable(f"a value that is {shapes}, as branches decide,")
            pointer = self.pointer()
            for value, edge in zip(values, edges):
                edge.before.append(Point(pointer, value.address))
            return Location(Address(pointer), first.shape, first.dtype)
        if all(isinstance(value, Collected) and value.address == first.address for value in values):
            count = self.count()
            for value, edge in zip(values, edges):
                edge.before.append(Count(count, value.count))
            return first.longer(count, self.version())
        return Unusable("a value that branches make in different ways")


def flat_model(manifest: Manifest) -> tuple[FlatProgram, tuple[TensorSpec, ...]]:
    """The steps of a whole model that write its outputs to their slots, and the outputs in the sizes that they have.

    Raises `UnsupportedError` that names the node or input which stands in the way.
    """
    assert manifest.program is not None
    require_fixed(manifest.inputs)
    program = Program.from_manifest(manifest.program)
    flat = FlatProgram(manifest, program)
    arguments = [Location(Address(f"slot{i}"), spec.static_shape, spec.dtype) for i, spec in enumerate(manifest.inputs)]
    result = flat.open(program.main, arguments)
    outputs = manifest.outputs if result is None else tuple(_write_outputs(flat, result))
    flat.steps = tidy(flat.steps)
    return flat, outputs


def _write_outputs(flat: FlatProgram, result: Any) -> Iterator[TensorSpec]:
    """Copy what the program returns to the caller's memory; the outputs in the sizes that they have."""
    first = len(flat.manifest.inputs)
    for index, (value, spec) in enumerate(zip(leaves(result), flat.manifest.outputs)):
        position = tensor(value)
        yield TensorSpec(spec.name, position.shape, position.dtype)
        flat.steps.append(Copy(Address(f"slot{first + index}"), position.address, position.nbytes))


def _tail_calls(function: VMFunction, number: int) -> list[list[int]]:
    """The arguments with which a function calls itself as the last thing it does: a loop's ways back."""
    return [list(x[1:]) for opcode, *x in function.code if opcode == Opcode.TAIL_INVOKE and x[0] == number]


def _changing(function: VMFunction, again: Sequence[Sequence[int]]) -> list[int]:
    """The parameters that are not the same in every turn of a loop."""
    written = {register for opcode, *x in function.code for register in _destinations(opcode, x)}
    return [i for i in range(function.params) if i in written or any(given[i] != i for given in again)]


def _destinations(opcode: int, x: Sequence[int]) -> Sequence[int]:
    """The registers that an instruction writes."""
    if opcode == Opcode.INVOKE_PACKED:
        return x[2 : 2 + x[1]]
    return x[:1] if opcode in _WRITES else ()


_WRITES = frozenset(Opcode) - {
    Opcode.RET, Opcode.IF, Opcode.GOTO, Opcode.FATAL, Opcode.IF_TAG, Opcode.TAIL_INVOKE, Opcode.TAIL_INVOKE_CLOSURE,
}  # fmt: skip
