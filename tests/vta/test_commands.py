"""The command buffer: where tokens go, and micro-ops that stay on the chip."""

from __future__ import annotations

import pytest

from tilewright.errors import InputError
from tilewright.vta import Commands, Config, Dram, Isa, make_uop

ISA = Isa(Config(log_uop_buff_size=5))  # room for 8 micro-ops


def commands() -> Commands:
    return Commands(ISA, Dram(ISA, 1 << 16))


def test_tokens_are_flags_of_the_instructions_beside_them() -> None:
    made = commands()
    made.load("INP", 0, 0, (1, 4), 4)
    made.signal("load", "compute")
    made.wait("compute", "load")
    made.gemm(made.uops((make_uop(ISA),)))
    load, uops, gemm = made.program()
    assert load["push_next"] and uops["pop_prev"] and not gemm["pop_prev"]


def test_a_flag_that_is_taken_needs_another_instruction() -> None:
    made = commands()
    made.signal("load", "compute")
    made.signal("load", "compute")
    for _ in range(2):
        made.wait("compute", "load")
    made.finish()
    program = made.program()
    assert sum(x["push_next"] for x in program if x.name == "LOAD" and x["mem_id"] == 2) == 3  # one more for FINISH
    assert sum(x["pop_prev"] for x in program) == 3 and all(x["x_size"] == 0 for x in program if x.name == "LOAD")


def test_micro_ops_are_loaded_once_while_there_is_room() -> None:
    made = commands()
    first, second = ([make_uop(ISA, dst=i + n) for i in range(5)] for n in range(2))
    where = [made.uops(tuple(words)) for words in (first, first, second, first)]
    assert [(x.begin, x.end) for x in where] == [(0, 5), (0, 5), (0, 5), (0, 5)]
    loads = made.program()
    assert [x["x_size"] for x in loads] == [5, 5, 5] and loads[0]["dram"] == loads[2]["dram"] != loads[1]["dram"]


def test_what_cannot_be_recorded_is_refused() -> None:
    with pytest.raises(InputError, match="9 micro-ops do not fit on the chip, which holds 8"):
        commands().uops(tuple(range(9)))
    with pytest.raises(InputError, match="load and store are no neighbours"):
        commands().wait("load", "store")
