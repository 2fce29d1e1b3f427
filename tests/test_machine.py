"""The table of processors and what a target makes of it."""

from __future__ import annotations

import dataclasses

import pytest

from tilewright.machine import BOARD_MACHINES, MACHINES, Bandwidth, Machine, l3_share, machine_of
from tilewright.target import PROCESSORS, Target
from tilewright.target.microcontrollers import MICROCONTROLLERS

#: Names that stand for no processor.
GENERIC = {"generic", "mvp"}


def test_a_target_gives_sizes_to_its_machine() -> None:
    target = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -l2=524288 -cores=6")
    assert target.machine.l2.size == 524288
    assert target.machine.cores == 6
    assert target.machine.read_l3 == MACHINES["skylake-avx512"].read_l3


def test_the_table_has_a_row_for_every_processor() -> None:
    names = {cpu for processors in PROCESSORS.values() for cpu in processors} - GENERIC
    assert names == set(MACHINES)


def test_the_table_has_a_row_for_every_processor_of_a_board() -> None:
    assert set(MICROCONTROLLERS) == set(BOARD_MACHINES)


@pytest.mark.parametrize(
    "machine", [*MACHINES.values(), *BOARD_MACHINES.values()], ids=lambda machine: f"{machine.name}-{machine.ghz}"
)
def test_figures_are_possible(machine: Machine) -> None:
    absent = ("dot_per_cycle", "pair_dot_per_cycle", "tile_product", "tile_begin", "step")
    for field in dataclasses.fields(machine):
        value = getattr(machine, field.name)
        if isinstance(value, Bandwidth):
            assert 0 < value.one <= value.all, field.name
        elif isinstance(value, int | float):
            assert value > 0 or (value == 0 and field.name in absent), field.name
    assert machine.l1.size < machine.l2.size <= machine.l3.size
    assert machine.read_l2.one > machine.read_l3.one > machine.read_memory.one
    assert machine.half_fma_per_cycle >= machine.fma_per_cycle
    assert machine.fma_per_cycle * machine.fma_latency <= machine.vector_registers


@pytest.mark.parametrize(
    ("architecture", "cpu", "features"),
    [(a, cpu, features) for a, processors in PROCESSORS.items() for cpu, features in processors.items()],
)
def test_the_features_of_a_processor_fit_its_row(architecture: str, cpu: str, features: tuple[str, ...]) -> None:
    machine = machine_of(cpu, features)
    assert cpu in GENERIC or machine.name == cpu
    target = Target(f"llvm -mtriple={architecture}-linux-gnu -mcpu={cpu}")
    assert target.machine.vector_bits == target.vector_bits <= machine.vector_bits
    assert (machine.dot_per_cycle > 0) == any(f in features for f in ("avx512vnni", "avxvnni", "dotprod"))
    assert (machine.pair_dot_per_cycle > 0) == ("avx512bf16" in features)
    assert (machine.tile_product > 0) == ("amx-tile" in features)


def test_features_decide_where_a_name_is_unknown() -> None:
    assert machine_of("anything", ("avx512f", "amx-tile", "avx512vnni")).name == "sapphirerapids"
    assert machine_of("anything", ("avx2",)).name == "haswell"
    assert machine_of("anything", ("neon", "dotprod")).name == "neoverse-n1"
    assert machine_of("znver6", ("avx2",)).name == "znver5"
    assert machine_of("anything").name == "generic"


def test_features_decide_where_they_contradict_the_name() -> None:
    """A virtual machine calls a server core with AMX what it likes."""
    assert machine_of("rocketlake", ("avx512f", "amx-tile", "avx512vnni")).name == "sapphirerapids"
    assert machine_of("haswell", ("avx2", "avx512f")).name == "skylake-avx512"
    assert machine_of("rocketlake", ("avx512f", "avx512vnni")).name == "rocketlake"


def test_dot_products_need_their_instruction() -> None:
    assert machine_of("skylake-avx512", ("avx512f",)).dot_per_cycle == 0
    assert machine_of("skylake-avx512", ("avx512f", "avx512vnni")).dot_per_cycle == 2
    assert machine_of("znver4", ("avx512f",)).dot_per_cycle == 0


def test_narrow_vectors_use_the_ports_that_wide_ones_join() -> None:
    zen = MACHINES["znver4"].narrowed(256)
    assert (zen.lanes(), zen.fma_per_cycle, zen.vector_loads, zen.stores) == (8, 2, 2, 1)
    assert zen.peak_gflops == MACHINES["znver4"].peak_gflops
    assert zen.narrowed(512) is zen
    target = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -mattr=-avx512f")
    assert target.machine.fma_per_cycle == 2


def test_lanes_of_wide_elements() -> None:
    assert [MACHINES["haswell"].lanes(bits) for bits in (8, 32, 64)] == [32, 8, 4]
    assert MACHINES["generic-rv64"].lanes(128) == 1


def test_more_is_shared_out_where_barriers_are_cheap() -> None:
    machine = MACHINES["znver4"]
    quick = dataclasses.replace(machine, barrier=machine.barrier / 2)
    assert quick.parallel_elements == machine.parallel_elements // 2
    assert 2000 < machine.parallel_elements < 20000


def test_the_peak_of_skylake_is_the_measured_one() -> None:
    assert abs(machine_of("skylake-avx512").peak_gflops - 159.5) < 1


def test_a_few_cores_do_not_have_a_cache_of_many() -> None:
    mebi = 1 << 20
    assert l3_share(480 * mebi, 2) == 96 * mebi
    assert l3_share(32 * mebi, 8) == 32 * mebi
