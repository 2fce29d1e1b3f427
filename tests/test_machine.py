"""The table of processors and what a target makes of it."""

from __future__ import annotations

from tilewright.machine import MACHINES, machine_of
from tilewright.target import Target


def test_a_target_gives_sizes_to_its_machine() -> None:
    target = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -l2=524288 -cores=6")
    assert target.machine.l2.size == 524288
    assert target.machine.cores == 6
    assert target.machine.read_l3 == MACHINES["skylake-avx512"].read_l3


def test_features_decide_where_a_name_is_unknown() -> None:
    assert machine_of("anything", ("avx512f", "amx-tile", "avx512vnni")).name == "sapphirerapids"
    assert machine_of("anything", ("avx2",)).name == "haswell"
    assert machine_of("anything").name == "generic"


def test_the_peak_of_skylake_is_the_measured_one() -> None:
    assert abs(machine_of("skylake-avx512").peak_gflops - 159.5) < 1
