"""Single instructions at their edges, races one by one, and refusals before anything runs."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import InputError, ProgramError
from tilewright.vta import Config, Dram, Isa, Simulator, assemble, check_program, make_uop
from tilewright.vta.functional import alu

ISA = Isa()
ONE = "y_size=1 x_size=1 x_stride=1"


def ready(isa: Isa = ISA, uops: tuple[int, ...] = (0,)) -> tuple[Simulator, Dram]:
    """A chip beside 64 KiB of numbers, with micro-ops at the beginning."""
    dram = Dram(isa, 1 << 16)
    dram.data[:] = np.random.default_rng(5).integers(0, 256, dram.data.size)
    dram.put("UOP", np.array(uops))
    return Simulator(isa, dram), dram


def test_padding_and_strides() -> None:
    simulator, dram = ready()
    simulator.acc[:] = 7
    simulator.run(assemble(ISA, """
        LOAD mem_id=ACC sram=2 dram=3 y_size=2 x_size=3 x_stride=5 y_pad_0=1 y_pad_1=2 x_pad_0=1 x_pad_1=2
        FINISH
    """))  # fmt: skip
    values = dram.read("ACC", 3, 8)
    expected = np.zeros((5, 6, 1, 16), np.int32)
    expected[1, 1:4], expected[2, 1:4] = values[:3], values[5:8]
    np.testing.assert_array_equal(simulator.acc[2:32].reshape(expected.shape), expected)
    assert (simulator.acc[:2] == 7).all() and (simulator.acc[32:] == 7).all()
    assert simulator.counters == {"ACC bytes": 6 * 64}


def test_narrow_loads_keep_the_sign_and_stores_truncate() -> None:
    simulator, dram = ready()
    simulator.run(assemble(ISA, f"""
        LOAD mem_id=ACC_8BIT dram=9 {ONE}
        LOAD push_next mem_id=ACC sram=1 dram=40 {ONE}
        STORE pop_prev push_prev mem_id=OUT dram=100 y_size=1 x_size=2 x_stride=2
        FINISH pop_next
    """))  # fmt: skip
    narrow = dram.read("OUT", 9, 1)
    assert narrow.min() < 0
    np.testing.assert_array_equal(simulator.acc[0], narrow[0])
    np.testing.assert_array_equal(dram.read("OUT", 100, 2), np.stack([narrow[0], simulator.acc[1].astype(np.int8)]))


def test_sums_wrap_and_wide_numbers_are_exact() -> None:
    """16-bit inputs and weights of the largest size: the 64 products of a tile are 2^36 and wrap to 0."""
    isa = Isa(Config(log_inp_width=4, log_wgt_width=4, log_block=6))
    simulator, _ = ready(isa)
    simulator.inp[0], simulator.wgt[0], simulator.acc[0] = -(2**15), -(2**15), 2**31 - 1
    simulator.inp[0, 0, 0] += 1
    simulator.run(assemble(isa, f"LOAD mem_id=UOP {ONE}\nGEMM uop_end=1 iter_out=1 iter_in=3\nFINISH"))
    total = 2**31 - 1 + 3 * (64 * 2**30 - 2**15)
    assert (simulator.acc[0] == (total + 2**31) % 2**32 - 2**31).all()


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        ("SHR", -5, 1, -3), ("SHR", -5, 31, -1), ("SHR", -5, 32, -1), ("SHR", 5, 2**31 - 1, 0),
        ("SHR", 3, -4, 48), ("SHR", 3, -31, -(2**31)), ("SHR", 3, -32, 0), ("SHR", -1, -(2**31), 0),
        ("ADD", 2**31 - 1, 1, -(2**31)), ("MUL", 2**16 + 1, 2**16, 2**16), ("MUL", -(2**31), -1, -(2**31)),
        ("MIN", -3, 2, -3), ("MAX", -3, 2, 2),
    ],
)  # fmt: skip
def test_the_alu_computes_and_wraps(op: str, left: int, right: int, expected: int) -> None:
    assert alu(op, np.array([left], np.int32), np.array([right], np.int32)).tolist() == [expected]


def test_alu_steps_see_those_before_them() -> None:
    """A running sum: each step adds what the step before has written."""
    simulator, _ = ready(uops=(make_uop(ISA, dst=1, src=0),))
    simulator.acc[:5, 0, 0] = [1, 2, 3, 4, 5]
    program = "ALU op=ADD uop_end=1 iter_out=1 iter_in=4 dst_factor_in=1 src_factor_in=1"
    simulator.run(assemble(ISA, f"LOAD mem_id=UOP {ONE}\n{program}\nFINISH"))
    assert simulator.acc[:5, 0, 0].tolist() == [1, 3, 6, 10, 15]


LOOPS = "uop_end=1 iter_out=1 iter_in=1"
RACES = {
    "compute reads what load writes": ("INP", f"""
        LOAD mem_id=UOP {ONE}
        LOAD push_next mem_id=WGT {ONE}
        LOAD mem_id=INP {ONE}
        GEMM pop_prev {LOOPS}
        LOAD push_next mem_id=INP x_size=0
        LOAD pop_prev mem_id=UOP x_size=0
        FINISH
     """),
    "load writes what compute reads": ("WGT", f"""
        LOAD mem_id=UOP {ONE}
        LOAD push_next mem_id=WGT {ONE}
        GEMM pop_prev {LOOPS}
        LOAD push_next mem_id=WGT {ONE}
        FINISH pop_prev
     """),
    "store reads what compute writes": ("ACC", f"""
        LOAD push_next mem_id=UOP {ONE}
        ALU use_imm {LOOPS}
        STORE pop_prev push_prev mem_id=OUT dram=64 {ONE}
        FINISH pop_next
     """),
    "load reads what store writes in DRAM": ("DRAM", f"""
        STORE push_prev mem_id=OUT dram=64 {ONE}
        LOAD push_next mem_id=INP dram=64 {ONE}
        LOAD pop_next mem_id=UOP x_size=0
        FINISH pop_prev
     """),
    "compute reads the same bytes as other elements": ("DRAM", f"""
        STORE push_prev mem_id=OUT dram=67 {ONE}
        LOAD mem_id=ACC sram=9 dram=16 {ONE}
        FINISH pop_next
     """),
}  # fmt: skip


@pytest.mark.parametrize("name", RACES)
def test_races_are_found_in_every_order(name: str) -> None:
    memory, program = RACES[name]
    for seed in range(6):
        simulator, _ = ready()
        with pytest.raises(ProgramError, match=f"both reach (byte|element) \\d+ of {memory}") as error:
            simulator.run(assemble(ISA, program), seed)
        assert error.value.kind == "race"


def test_the_host_must_not_see_unfinished_work() -> None:
    simulator, _ = ready()
    with pytest.raises(ProgramError, match="does not wait for the last 1 instructions of store"):
        simulator.run(assemble(ISA, f"STORE mem_id=OUT dram=64 {ONE}\nFINISH"))


def test_a_deadlock_says_who_waits_for_what() -> None:
    simulator, _ = ready()
    program = assemble(ISA, f"LOAD pop_next push_next mem_id=INP {ONE}\nFINISH pop_prev push_prev")
    with pytest.raises(ProgramError) as error:
        simulator.run(program)
    assert error.value.kind == "deadlock"
    assert "load: instruction 0 `LOAD pop_next" in str(error.value) and "from compute to load" in str(error.value)
    assert "compute: instruction 1 `FINISH pop_prev" in str(error.value)


@pytest.mark.parametrize(
    ("uop", "program", "kind", "says"),
    [
        ((2000, 0, 0), f"ALU use_imm {LOOPS} dst_factor_in=1", "", ""),
        ((2000, 0, 0), "ALU use_imm uop_end=1 iter_out=49 iter_in=1 dst_factor_out=1", "sram", "dst reaches"),
        ((0, 2047, 0), "ALU uop_end=1 iter_out=1 iter_in=2 src_factor_in=1", "sram", "src reaches element 2048 of ACC"),
        ((0, 2047, 0), f"GEMM {LOOPS[:-1]}2 src_factor_in=1", "sram", "src reaches element 2048 of INP"),
        ((0, 0, 1023), f"GEMM {LOOPS[:-1]}2 wgt_factor_in=1", "sram", "wgt reaches element 1024 of WGT"),
        ((0, 0, 1023), f"GEMM reset {LOOPS[:-1]}2 wgt_factor_in=1", "", ""),
        ((0, 0, 0), f"GEMM uop_begin=0 {LOOPS.replace('end=1', 'end=2')}", "uop", "micro-op 1 was never loaded"),
        ((0, 0, 0), f"GEMM {LOOPS.replace('end=1', 'end=8193')}", "uop", "uop_end is 8193"),
        ((0, 0, 0), f"ALU reset {LOOPS}", "field", "reset belongs to GEMM"),
        ((0, 0, 0), "LOAD mem_id=ACC x_size=1", "loop", "rows without a row"),
        ((0, 0, 0), f"LOAD mem_id=ACC sram=2047 dram=1023 {ONE}", "", ""),
        ((0, 0, 0), f"LOAD mem_id=ACC sram=2048 dram=1023 {ONE}", "sram", "element 2048 of ACC, which has 2048"),
        ((0, 0, 0), f"LOAD mem_id=ACC dram=1024 {ONE}", "dram", "element 1024 in DRAM, where 1024 of 64 bytes are"),
        ((0, 0, 0), "LOAD mem_id=ACC dram=1000 y_size=3 x_size=2 x_stride=11", "", ""),
        ((0, 0, 0), "LOAD mem_id=ACC dram=1000 y_size=3 x_size=3 x_stride=11", "dram", "element 1024 in DRAM"),
    ],
)  # fmt: skip
def test_the_edges_of_memories(uop: tuple[int, int, int], program: str, kind: str, says: str) -> None:
    simulator, _ = ready(uops=(make_uop(ISA, *uop),))
    whole = assemble(ISA, f"LOAD mem_id=UOP {ONE}\n{program}\nFINISH")
    if not kind:
        simulator.run(whole)
        return
    with pytest.raises(ProgramError, match=says) as error:
        simulator.run(whole)
    assert error.value.kind == kind


def test_micro_ops_with_strange_bits_are_refused() -> None:
    isa = Isa(Config(log_wgt_buff_size=17))
    simulator, _ = ready(isa, uops=(1 << 31,))
    with pytest.raises(ProgramError, match="is no UOP") as error:
        simulator.run(assemble(isa, f"LOAD mem_id=UOP {ONE}\nALU use_imm {LOOPS}\nFINISH"))
    assert error.value.kind == "reserved"


def test_what_does_not_fit_into_dram_is_refused() -> None:
    dram = Dram(ISA, 100)
    with pytest.raises(InputError, match=r"112 bytes at a multiple of 16 do not fit"):
        dram.reserve("INP", 7)
    with pytest.raises(InputError, match=r"an element of INP has shape \(1, 16\); the array has \(16,\)"):
        dram.put("INP", np.zeros((2, 16)))
    with pytest.raises(InputError, match="numbers of INP are int8, and some of the array are not"):
        dram.put("INP", np.full((2, 1, 16), 128))
    with pytest.raises(InputError, match="one row of bytes"):
        check_program(ISA, b"", np.zeros((2, 16)))
