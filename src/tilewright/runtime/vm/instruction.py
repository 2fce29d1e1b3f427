"""The instructions of the virtual machine: the classic register machine, one list of integers each.

A function has `registers` numbered from 0, its arguments first. Operands below are registers unless stated otherwise;
offsets of jumps count instructions from the jump itself. `…` is any number of registers.
"""

from __future__ import annotations

from enum import IntEnum


class Opcode(IntEnum):
    """The operation of an instruction. The numbers are those of the classic format where it has the instruction."""

    MOVE = 0
    """[destination, source]"""
    RET = 1
    """[value]: return to the caller"""
    INVOKE = 2
    """[destination, function number, …arguments]"""
    INVOKE_CLOSURE = 3
    """[destination, closure, …arguments]"""
    INVOKE_PACKED = 4
    """[packed number, how many results, …results, …arguments]: a compiled segment or a host operator"""
    ALLOC_ADT = 7
    """[destination, tag (an integer; -1 for a tuple), …fields]"""
    ALLOC_CLOSURE = 8
    """[destination, function number, …captured]: a captured register equal to the destination is the closure itself"""
    GET_FIELD = 9
    """[destination, object, field number]"""
    IF = 10
    """[condition, offset]: go on if the scalar is true, else jump"""
    LOAD_CONST = 11
    """[destination, constant number]"""
    GOTO = 12
    """[offset]"""
    GET_TAG = 13
    """[destination, object]"""
    LOAD_CONSTI = 14
    """[destination, integer]"""
    FATAL = 15
    """[]: no clause of a match fits"""
    SHAPE_OF = 17
    """[destination, tensor]: its shape as an int64 vector"""
    KILL_REGISTER = 20
    """[register]: forget the value"""
    TAIL_INVOKE = 32
    """[function number, …arguments]: call and return what it returns, in no more space"""
    TAIL_INVOKE_CLOSURE = 33
    """[closure, …arguments]"""
    IF_TAG = 34
    """[object, tag (an integer), offset]: go on if the object was made with the tag, else jump"""
    ALLOC_REFERENCE = 35
    """[destination, value]"""
    READ_REFERENCE = 36
    """[destination, reference]"""
    WRITE_REFERENCE = 37
    """[destination, reference, value]: the destination gets the empty tuple"""


#: Positions, among an instruction's integers after the opcode, that are registers: (fixed ones, first of the rest).
REGISTER_OPERANDS: dict[Opcode, tuple[tuple[int, ...], int | None]] = {
    Opcode.MOVE: ((0, 1), None),
    Opcode.RET: ((0,), None),
    Opcode.INVOKE: ((0,), 2),
    Opcode.INVOKE_CLOSURE: ((0, 1), 2),
    Opcode.INVOKE_PACKED: ((), 2),
    Opcode.ALLOC_ADT: ((0,), 2),
    Opcode.ALLOC_CLOSURE: ((0,), 2),
    Opcode.GET_FIELD: ((0, 1), None),
    Opcode.IF: ((0,), None),
    Opcode.LOAD_CONST: ((0,), None),
    Opcode.GOTO: ((), None),
    Opcode.GET_TAG: ((0, 1), None),
    Opcode.LOAD_CONSTI: ((0,), None),
    Opcode.FATAL: ((), None),
    Opcode.SHAPE_OF: ((0, 1), None),
    Opcode.KILL_REGISTER: ((0,), None),
    Opcode.TAIL_INVOKE: ((), 1),
    Opcode.TAIL_INVOKE_CLOSURE: ((0,), 1),
    Opcode.IF_TAG: ((0,), None),
    Opcode.ALLOC_REFERENCE: ((0, 1), None),
    Opcode.READ_REFERENCE: ((0, 1), None),
    Opcode.WRITE_REFERENCE: ((0, 1, 2), None),
}


def instruction_text(instruction: list[int]) -> str:
    """``invoke_packed 0 1 $3 $1 $2``: an instruction as people read it, registers with a dollar sign."""
    opcode, operands = Opcode(instruction[0]), instruction[1:]
    fixed, rest = REGISTER_OPERANDS[opcode]
    shown = [f"${n}" if i in fixed or (rest is not None and i >= rest) else str(n) for i, n in enumerate(operands)]
    return " ".join([opcode.name.lower(), *shown])
