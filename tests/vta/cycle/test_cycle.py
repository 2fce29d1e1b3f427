"""The cycle simulator: cycles that can be counted by hand, what they depend on, what it refuses; results as ever."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.vta.test_programs import made
from tilewright.errors import ProgramError
from tilewright.vta import Isa, assemble, make_uop, pack
from tilewright.vta.cycle import CycleDriver, simulate
from tilewright.vta.cycle.chip import Chip
from tilewright.vta.dram import Dram
from tilewright.vta.driver import open_driver
from tilewright.vta.hardware import Hardware


def timed(text: str, hardware: Hardware | None = None) -> Chip:
    """The run of a program of the default configuration; micro-op 0 of DRAM is all 0, the next has dst 1024."""
    isa = Isa()
    dram = np.zeros(1 << 16, np.uint8)
    dram[:8] = np.array([make_uop(isa), make_uop(isa, 1024)], "<u4").view(np.uint8)
    return simulate(isa, assemble(isa, text), dram, hardware)


def test_a_load_is_latency_and_beats() -> None:
    """Another 100 tiles of 16 bytes are 200 beats more, another 10 cycles of latency come twice: fetch, and load."""
    text = "LOAD push_next mem_id=INP y_size=1 x_size={} x_stride=1\nFINISH pop_prev"
    short, long = (timed(text.format(n)).usage().cycles for n in (100, 200))
    assert long - short == 200
    slow = timed(text.format(100), Hardware(latency=26)).usage().cycles
    assert slow - short == 20
    wide = timed(text.format(200), Hardware(port_bytes=16)).usage().cycles
    assert 195 <= long - wide <= 205


LOOP = "uop_begin={u} uop_end={e} iter_out=10 iter_in=100"


def test_gemm_and_alu_work_side_by_side_where_they_reach_other_accumulators() -> None:
    load = "LOAD mem_id=UOP y_size=1 x_size=2 x_stride=2\n"
    gemm = f"GEMM {LOOP.format(u=0, e=1)}\n"
    cycles = {}
    for name, u in (("same", 0), ("other", 1)):
        vector = f"ALU op=ADD use_imm imm=1 {LOOP.format(u=u, e=u + 1)}\n"
        usage = timed(load + gemm + vector + "FINISH").usage()
        assert (usage.busy["GEMM"], usage.busy["ALU"]) == (1000, 1000)
        cycles[name] = usage.cycles
    assert cycles["same"] - cycles["other"] > 950


def test_what_units_wait_for_and_the_trace() -> None:
    chip = timed("LOAD push_next mem_id=WGT y_size=1 x_size=100 x_stride=1\nFINISH pop_prev")
    usage = chip.usage()
    assert usage.busy["compute waits for a token"] > 3200
    assert usage.share("load moves") > 0.9
    assert f"cycles{usage.cycles:>34}" in usage.table()
    events = json.loads(usage.perfetto(Isa().config))["traceEvents"]
    assert {x["args"]["name"] for x in events if x["name"] == "thread_name"} >= {"fetch", "load", "compute", "store"}
    (load,) = [x for x in events if x["name"] == "0 LOAD WGT"]
    assert 3200 <= load["dur"] <= 3250


def test_results_are_the_oracles() -> None:
    for seed in range(40):
        isa, program, _, dram, expected = made(seed)
        memory = Dram(isa, 1 << 14)
        memory.data[: dram.size] = dram
        code = pack(isa, program)
        memory.data[dram.size : dram.size + len(code)] = np.frombuffer(code, np.uint8)
        driver = open_driver("cycle", isa, memory)
        assert driver.run(dram.size, len(program))["cycles"] > 0
        assert isinstance(driver, CycleDriver)
        np.testing.assert_array_equal(memory.data[: dram.size], expected, err_msg=f"{seed}")


def test_a_queue_that_is_full_of_those_that_wait() -> None:
    """Legal where queues have no bound: the loads wait for tokens of instructions that fetch cannot hand over."""
    loads = "LOAD mem_id=INP pop_next\n" * 20
    gives = "LOAD mem_id=UOP push_prev\n" * 20
    assert timed(loads + gives + "FINISH", Hardware(queue=64)).finished
    with pytest.raises(ProgramError, match="a queue of 8 that is full") as error:
        timed(loads + gives + "FINISH", Hardware(queue=8))
    assert error.value.kind == "deadlock"
