"""What a processor can do: every figure that a choice of schedule, layout or algorithm rests on, in one value.

    machine_of("skylake-avx512")          # from the shipped table
    Target("cpu").machine                 # this machine's: the table's, with what was measured here

All rates are of one core and in cycles of the clock that it keeps under vector load, so that figures of processors
compare; `ghz` turns them into seconds. `docs/machine.md` says where each figure comes from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType


@dataclass(frozen=True)
class Cache:
    """One level: `size` in bytes (of one core, or of all where they share it), `ways` of associativity."""

    size: int
    ways: int


@dataclass(frozen=True)
class Bandwidth:
    """Bytes a cycle that one core reads from a level while the others rest, and all cores together."""

    one: float
    all: float


@dataclass(frozen=True)
class Machine:
    """One processor.

    Arithmetic: `fma_per_cycle` multiply-adds in vectors of `vector_bits` (of half that width: `half_fma_per_cycle`),
    each ready after `fma_latency` cycles; `vector_registers` hold operands. `dot_per_cycle` is the same of dot products
    of bytes (0 without the instruction).

    Load ports: `vector_loads` whole vectors and `broadcast_loads` single floats spread over one, a cycle, from L1;
    `stores` vectors a cycle. `load_latency` cycles from L1 to a register.

    Memory: `l1`, `l2` of a core, `l3` shared; what is read from each in bytes a cycle, `write_factor` times as long for
    a byte that is written; `line` and `page` in bytes; `huge_page_gain` is how much faster 2 MB pages make what lies
    beyond L2 (1: not at all).

    Fixed costs in cycles: `kernel_start` of one call of a kernel, `barrier` between workers, `shuffle` of one vector
    through one round of permutations.
    """

    name: str
    ghz: float
    cores: int
    vector_bits: int
    vector_registers: int
    fma_per_cycle: float
    half_fma_per_cycle: float
    fma_latency: int
    dot_per_cycle: float
    vector_loads: float
    broadcast_loads: float
    stores: float
    load_latency: int
    l1: Cache
    l2: Cache
    l3: Cache
    read_l2: Bandwidth
    read_l3: Bandwidth
    read_memory: Bandwidth
    write_factor: float = 2.0
    line: int = 64
    page: int = 4096
    huge_page_gain: float = 1.1
    kernel_start: float = 300.0
    barrier: float = 600.0
    shuffle: float = 1.0

    def lanes(self, bits: int = 32) -> int:
        """Elements of `bits` bits in one vector register."""
        return self.vector_bits // bits

    @property
    def peak_gflops(self) -> float:
        """10^9 float32 operations a second of one core, two for each multiply-add."""
        return 2 * self.fma_per_cycle * self.lanes() * self.ghz

    def seconds(self, cycles: float) -> float:
        """`cycles` of this machine's clock as time."""
        return cycles / (self.ghz * 1e9)


_KIB, _MIB = 1 << 10, 1 << 20

_SKYLAKE_SP = Machine(
    name="skylake-avx512", ghz=2.49, cores=4, vector_bits=512, vector_registers=32,
    fma_per_cycle=2, half_fma_per_cycle=2, fma_latency=4, dot_per_cycle=0,
    vector_loads=2, broadcast_loads=2, stores=1, load_latency=7,
    l1=Cache(32 * _KIB, 8), l2=Cache(_MIB, 16), l3=Cache(33 * _MIB, 11),
    read_l2=Bandwidth(46, 96), read_l3=Bandwidth(9.2, 18.3), read_memory=Bandwidth(4.8, 9.6), huge_page_gain=1.15,
)  # fmt: skip

_ZEN4 = Machine(
    name="znver4", ghz=3.69, cores=4, vector_bits=512, vector_registers=32,
    fma_per_cycle=1, half_fma_per_cycle=2, fma_latency=4, dot_per_cycle=1,
    vector_loads=1, broadcast_loads=2, stores=0.5, load_latency=7,
    l1=Cache(32 * _KIB, 8), l2=Cache(_MIB, 8), l3=Cache(32 * _MIB, 16),
    read_l2=Bandwidth(31, 64), read_l3=Bandwidth(21, 54), read_memory=Bandwidth(9, 10.3),
)  # fmt: skip

#: Haswell and its successors without 512-bit vectors; AMD's first Zens come near.
_AVX2 = replace(
    _SKYLAKE_SP, name="haswell", ghz=3.0, vector_bits=256, vector_registers=16, half_fma_per_cycle=2, fma_latency=5,
    l2=Cache(256 * _KIB, 8), l3=Cache(8 * _MIB, 16), read_l2=Bandwidth(28, 56), read_l3=Bandwidth(14, 28),
    read_memory=Bandwidth(5, 7),
)  # fmt: skip

_SAPPHIRE_RAPIDS = replace(
    _SKYLAKE_SP, name="sapphirerapids", ghz=3.78, dot_per_cycle=2, l1=Cache(48 * _KIB, 12), l2=Cache(2 * _MIB, 16),
    l3=Cache(60 * _MIB, 15), read_l2=Bandwidth(49, 98), read_l3=Bandwidth(7.9, 15.8), read_memory=Bandwidth(4.4, 8.6),
)  # fmt: skip

_GENERIC = replace(
    _AVX2, name="generic", ghz=2.0, vector_bits=128, vector_registers=32, fma_per_cycle=1, half_fma_per_cycle=1,
    vector_loads=1, broadcast_loads=1, read_l2=Bandwidth(16, 32), read_l3=Bandwidth(8, 16),
    read_memory=Bandwidth(3, 6),
)  # fmt: skip

#: The shipped figures by LLVM's processor names.
MACHINES: Mapping[str, Machine] = MappingProxyType(
    {machine.name: machine for machine in (_SKYLAKE_SP, _ZEN4, _AVX2, _SAPPHIRE_RAPIDS, _GENERIC)}
)


def machine_of(cpu: str, features: Collection[str] = ()) -> Machine:
    """The shipped figures of a processor: those of its name, else of the nearest kind with these LLVM features.

    A virtual machine may give its processor any name, so features come before families of names.
    """
    if cpu in MACHINES:
        return MACHINES[cpu]
    if "avx512f" in features:
        if cpu.startswith("znver"):
            return _ZEN4
        kind = _SAPPHIRE_RAPIDS if "amx-tile" in features else _SKYLAKE_SP
        return replace(kind, dot_per_cycle=2.0 if "avx512vnni" in features else 0.0)
    return _AVX2 if "avx2" in features else _GENERIC
