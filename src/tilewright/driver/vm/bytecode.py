"""A module to a program of the virtual machine: each of its functions to instructions.

fn (%n) { if (%n < 1) { 1 } else { %n * @f(%n - 1) } }      0  invoke_packed 0 1 $1 $0        %n < 1
                                                           1  if $1 4
                                                           2  …
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.driver.vm.closures import captured_vars
from tilewright.driver.vm.loops import Repetition, repetition
from tilewright.driver.vm.program import ProgramBuilder
from tilewright.driver.vm.registers import assign_registers
from tilewright.driver.vm.scopes import Scope
from tilewright.driver.vm.segments import SegmentNodes, cut_segments, fields_of, leaf_types
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.adt import (
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
)
from tilewright.relay.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from tilewright.relay.ir.type import FuncType, TensorType, TupleType
from tilewright.runtime.vm.instruction import Opcode
from tilewright.support.recursion import nested

#: Stands for the distance of a jump until its target is known.
_LATER = 0


def compile_program(builder: ProgramBuilder) -> dict[str, Any]:
    """The manifest's ``program``: `main` and the functions and closures that it comes to call."""
    main = builder.function_number(builder.mod.global_var("main"))
    functions: list[dict[str, Any]] = []
    while len(functions) < len(builder.functions):
        functions.append(compile_function(builder, *builder.functions[len(functions)]))
    return {"functions": functions, "main": main}


def compile_function(builder: ProgramBuilder, name: str, function: Function, captured: Sequence[Var]) -> dict[str, Any]:
    """The manifest entry of `function`, whose first arguments are the variables it captures."""
    writer = _Writer(builder, function, captured)
    found = None if builder.one_by_one else repetition(name, function, captured)
    if found is None:
        writer.scope(writer.cut.scopes.top, None)
    else:
        writer.loop(found)
    params = len(captured) + len(function.params)
    code, registers = assign_registers(writer.code, params)
    return {"name": name, "params": params, "registers": registers, "code": code}


class _Writer:
    """Instructions of one function, with as many registers as there are values; `assign_registers` makes them few."""

    def __init__(self, builder: ProgramBuilder, function: Function, captured: Sequence[Var]) -> None:
        self.builder = builder
        self.function = function
        placement = None if builder.placement is None else builder.placement(function)
        self.cut = cut_segments(function, builder.one_by_one, placement)
        self.code: list[list[int]] = []
        self.count = 0
        #: Register of each value that is there, one dictionary for each scope that is open.
        self.values: list[dict[Expr, int]] = [{}]
        for var in (*captured, *function.params):
            self.values[0][var] = self.register()

    def register(self) -> int:
        """A register of its own for one more value."""
        self.count += 1
        return self.count - 1

    def emit(self, opcode: Opcode, *operands: int) -> int:
        """Add an instruction; its position."""
        self.code.append([int(opcode), *operands])
        return len(self.code) - 1

    def land(self, jump: int) -> None:
        """Let the jump at position `jump` lead to what comes next."""
        self.code[jump][-1] = len(self.code) - jump

    # ------------------------------------------------------------------------------------------------- scopes
    @nested
    def scope(self, scope: Scope, destination: int | None) -> None:
        """The instructions of a scope, its result left in `destination`; None returns it from the function."""
        self.values.append({})
        steps = self.cut.steps[scope]
        result = self.cut.scopes.value(scope.result)
        for position, step in enumerate(steps):
            if isinstance(step, SegmentNodes):
                self.segment(step)
            elif step is result and destination is None and position == len(steps) - 1 and self.last(step):
                self.values.pop()
                return
            else:
                self.values[-1][step] = self.node(step)
        found = self.value(result)
        if destination is None:
            self.emit(Opcode.RET, found)
        else:
            self.emit(Opcode.MOVE, destination, found)
        self.values.pop()

    def loop(self, found: Repetition) -> None:
        """A function that is a loop: its test, all its repetitions as one instruction, and its results."""
        top = self.cut.scopes.top
        node = self.cut.scopes.value(top.result)
        assert isinstance(node, If)
        for step in self.cut.steps[top]:
            if isinstance(step, SegmentNodes):
                self.segment(step)
        changing = [*found.carried, *found.collected]
        final: dict[Expr, int] = {param: self.register() for param in changing}
        operands = [self.value(param) for param in (*found.reads, *found.collected)]
        never = self.emit(Opcode.IF, self.value(node.cond), _LATER)
        results = [self.register() for _ in changing]
        self.emit(Opcode.INVOKE_PACKED, self.builder.loop_number(found), len(results), *results, *operands)
        for param, result in zip(changing, results, strict=True):
            self.emit(Opcode.MOVE, final[param], result)
        end = self.emit(Opcode.GOTO, _LATER)
        self.land(never)
        for param in changing:
            self.emit(Opcode.MOVE, final[param], self.value(param))
        self.land(end)
        self.values.append(final)
        self.scope(self.cut.scopes.inner[node][1], None)
        self.values.pop()

    def last(self, node: Expr) -> bool:
        """Compute and return the value of `node`, the last thing that is done; False if there is no special way."""
        if isinstance(node, If):
            self.branches(node, None)
        elif isinstance(node, Match):
            self.match(node, None)
        elif isinstance(node, Call) and isinstance(node.op, GlobalVar):
            self.emit(Opcode.TAIL_INVOKE, self.builder.function_number(node.op), *self.arguments(node))
        elif isinstance(node, Call) and isinstance(node.op, Expr) and not isinstance(node.op, Constructor):
            self.emit(Opcode.TAIL_INVOKE_CLOSURE, self.value(node.op), *self.arguments(node))
        else:
            return False
        return True

    def branches(self, node: If, destination: int | None) -> None:
        """Either branch."""
        true, false = self.cut.scopes.inner[node]
        other = self.emit(Opcode.IF, self.value(node.cond), _LATER)
        self.scope(true, destination)
        end = None if destination is None else self.emit(Opcode.GOTO, _LATER)
        self.land(other)
        self.scope(false, destination)
        if end is not None:
            self.land(end)

    def match(self, node: Match, destination: int | None) -> None:
        """Clauses in order; each jumps on to the next where its pattern does not fit."""
        data = self.value(node.data)
        ends = []
        for clause, scope in zip(node.clauses, self.cut.scopes.inner[node], strict=True):
            self.values.append({})
            misses: list[int] = []
            self.pattern(clause.lhs, data, misses)
            self.scope(scope, destination)
            self.values.pop()
            if destination is not None:
                ends.append(self.emit(Opcode.GOTO, _LATER))
            for miss in misses:
                self.land(miss)
        self.emit(Opcode.FATAL)
        for end in ends:
            self.land(end)

    @nested
    def pattern(self, pattern: Pattern, data: int, misses: list[int]) -> None:
        """Test the value in register `data` and bind variables; the tests' jumps go to `misses`."""
        if isinstance(pattern, PatternVar):
            self.values[-1][pattern.var] = data
        elif isinstance(pattern, PatternConstructor | PatternTuple):
            if isinstance(pattern, PatternConstructor):
                misses.append(self.emit(Opcode.IF_TAG, data, pattern.constructor.tag, _LATER))
            for index, part in enumerate(pattern.patterns):
                if isinstance(part, PatternVar | PatternConstructor | PatternTuple):
                    item = self.register()
                    self.emit(Opcode.GET_FIELD, item, data, index)
                    self.pattern(part, item, misses)

    # ------------------------------------------------------------------------------------------------- values
    @nested
    def value(self, expr: Expr) -> int:
        """The register that holds the value of `expr`; tuples, fields and constants are made where they are needed."""
        node = self.cut.scopes.value(expr)
        for there in reversed(self.values):
            if node in there:
                return there[node]
        made = self.values[-1][node] = self.made(node)
        return made

    def made(self, node: Expr) -> int:
        """A register with the value of a node that no step computes."""
        if isinstance(node, Tuple):
            fields = [self.value(item) for item in node.fields]
            destination = self.register()
            self.emit(Opcode.ALLOC_ADT, destination, -1, *fields)
            return destination
        if isinstance(node, TupleGetItem):
            holder = self.value(node.tuple_value)
            destination = self.register()
            self.emit(Opcode.GET_FIELD, destination, holder, node.index)
            return destination
        destination = self.register()
        if isinstance(node, Constant):
            self.emit(Opcode.LOAD_CONST, destination, self.builder.constant_number(node))
        elif isinstance(node, GlobalVar):
            self.emit(Opcode.ALLOC_CLOSURE, destination, self.builder.function_number(node))
        else:
            name = getattr(node, "name", type(node).__name__)
            raise UnsupportedError(f"{name!r} is used as a value here; wrap it in a function, as eta_expand does")
        return destination

    def segment(self, segment: SegmentNodes) -> None:
        """A call of a compiled segment."""
        number, arguments = self.builder.segment_number(segment, self.cut.scopes, self.function)
        operands = [self.value(argument) for argument in arguments]
        results: list[int] = []
        tuples = []
        for output in segment.outputs:
            fields = [self.register() for _ in leaf_types(output.checked_type)]
            results += fields
            if isinstance(output.checked_type, TupleType):
                tuples.append((output, fields))
            else:
                self.values[-1][output] = fields[0]
        self.emit(Opcode.INVOKE_PACKED, number, len(results), *results, *operands)
        for output, fields in tuples:
            whole = self.values[-1][output] = self.register()
            self.emit(Opcode.ALLOC_ADT, whole, -1, *fields)

    def node(self, node: Expr) -> int:
        """The register with the value of a node that the machine computes itself."""
        if isinstance(node, If | Match):
            destination = self.register()
            if isinstance(node, If):
                self.branches(node, destination)
            else:
                self.match(node, destination)
            return destination
        if isinstance(node, Function):
            return self.closure(node)
        if isinstance(node, Call):
            return self.call(node)
        if isinstance(node, RefCreate | RefRead):
            source = self.value(node.value if isinstance(node, RefCreate) else node.ref)
            destination = self.register()
            opcode = Opcode.ALLOC_REFERENCE if isinstance(node, RefCreate) else Opcode.READ_REFERENCE
            self.emit(opcode, destination, source)
            return destination
        if isinstance(node, RefWrite):
            cell, new = self.value(node.ref), self.value(node.value)
            destination = self.register()
            self.emit(Opcode.WRITE_REFERENCE, destination, cell, new)
            return destination
        return self.made(node)

    def closure(self, function: Function) -> int:
        """A closure of `function`; it may capture itself."""
        captured = captured_vars(function)
        destination = self.register()
        self.values[-1][function] = destination
        operands = [self.value(var) for var in captured]
        self.emit(Opcode.ALLOC_CLOSURE, destination, self.builder.closure_number(function, captured), *operands)
        return destination

    def call(self, node: Call) -> int:
        """A call that is no tensor operator."""
        op = node.op
        if not isinstance(op, Expr):
            operands = [register for arg in node.args for register in self.flat(arg)]
            destination = self.register()
            self.emit(Opcode.INVOKE_PACKED, self.builder.host_number(node), 1, destination, *operands)
            return destination
        operands = self.arguments(node)
        callee = None if isinstance(op, GlobalVar | Constructor) else self.value(op)
        destination = self.register()
        if isinstance(op, GlobalVar):
            self.emit(Opcode.INVOKE, destination, self.builder.function_number(op), *operands)
        elif isinstance(op, Constructor):
            self.emit(Opcode.ALLOC_ADT, destination, op.tag, *operands)
        else:
            assert callee is not None
            self.emit(Opcode.INVOKE_CLOSURE, destination, callee, *operands)
        return destination

    def arguments(self, node: Call) -> list[int]:
        """Registers of a call's arguments. A tensor that only a run can tell to fit what is declared is checked."""
        registers = [self.value(arg) for arg in node.args]
        op = node.op
        declared = op.checked_type if isinstance(op, Expr) and not isinstance(op, Constructor) else None
        if not isinstance(declared, FuncType):
            return registers
        for position, (arg, type_) in enumerate(zip(node.args, declared.arg_types, strict=True)):
            given = arg.checked_type
            if not (isinstance(type_, TensorType) and isinstance(given, TensorType)):
                continue
            if any(isinstance(d, int) and not isinstance(g, int) for d, g in zip(type_.shape, given.shape)):
                callee = f"the function {node.op.name!r}" if isinstance(node.op, GlobalVar) else "a closure"
                number = self.builder.check_number(type_, callee, position)
                checked = self.register()
                self.emit(Opcode.INVOKE_PACKED, number, 1, checked, registers[position])
                registers[position] = checked
        return registers

    def flat(self, arg: Expr) -> list[int]:
        """Registers of an argument of a host operator, the fields of a tuple one by one."""
        node = self.cut.scopes.value(arg)
        if isinstance(node, Tuple):
            return [register for item in node.fields for register in self.flat(item)]
        return [self.value(item) for item in fields_of(node, self.cut.scopes)]
