"""Few registers for many values: a register is used again when the value in it is not needed any more.

Jumps lead forward only, so a value lives from its first to its last appearance in the list of instructions. Fewer
registers also mean that the memory of tensors is released while a function still runs.
"""

from __future__ import annotations

import heapq

from tilewright.runtime.vm.instruction import REGISTER_OPERANDS, Opcode


def assign_registers(code: list[list[int]], params: int) -> tuple[list[list[int]], int]:
    """`code` with its registers renumbered, and how many there are; the first `params` stay where they are."""
    last: dict[int, int] = dict.fromkeys(range(params), -1)
    for position, instruction in enumerate(code):
        for index in _register_positions(instruction):
            last[instruction[index]] = position
    positions = {register: register for register in range(params)}
    free: list[int] = []
    count = params
    ends: dict[int, list[int]] = {}
    for register, position in last.items():
        ends.setdefault(position, []).append(register)
    renumbered = []
    for position, instruction in enumerate(code):
        fresh = list(instruction)
        for index in _register_positions(instruction):
            register = instruction[index]
            if register not in positions:
                if free:
                    positions[register] = heapq.heappop(free)
                else:
                    positions[register] = count
                    count += 1
            fresh[index] = positions[register]
        renumbered.append(fresh)
        for register in ends.get(position, ()):
            heapq.heappush(free, positions[register])
    return renumbered, count


def _register_positions(instruction: list[int]) -> list[int]:
    """The positions of an instruction that name registers."""
    fixed, rest = REGISTER_OPERANDS[Opcode(instruction[0])]
    positions = [1 + index for index in fixed]
    return positions if rest is None else positions + list(range(1 + rest, len(instruction)))
