"""Figures of a processor: all that a choice of schedule, layout or algorithm rests on, in one value.

    machine_of("skylake-avx512")          # from the shipped table
    Target("cpu").machine                 # this machine's: the table's, or what was measured here

All rates are of one core and in cycles of the clock that it keeps under vector load, so that figures of processors
compare; `ghz` turns them into seconds. `docs/machine.md` says where each figure comes from; `machine_store.py` keeps
what `tilewright doctor --calibrate` measured.
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

    def share(self, workers: int) -> float:
        """Bytes a cycle of one of `workers` cores that read at once."""
        return min(self.one, self.all / workers)


@dataclass(frozen=True)
class Machine:
    """One processor.

    Arithmetic: `fma_per_cycle` multiply-adds in vectors of `vector_bits` (of half that width: `half_fma_per_cycle`),
    each ready after `fma_latency` cycles; `vector_registers` hold operands. `dot_per_cycle` is the same of dot products
    of bytes (0 without the instruction), `pair_dot_per_cycle` of pairs of bfloat16; `tile_product` are the cycles of a
    product of two matrix registers of 16 rows of 64 bytes (0 without them), `tile_begin` of
    which it takes whatever its rows.

    Load ports: `vector_loads` whole vectors and `broadcast_loads` single floats spread over one, a cycle, from L1, as
    loops keep it up; `stores` vectors a cycle. `load_latency` cycles from L1 to a register.

    Memory: `l1`, `l2` of a core, `l3` shared; what is read from each in bytes a cycle, `write_factor` times as long for
    a byte that is written; `line` and `page` in bytes; `huge_page_gain` is how much faster 2 MB pages make what lies
    beyond L2 (1: not at all).

    Latency: `lines_in_flight` that a core waits for at a time, `jumps_in_flight` where no prefetcher sees the next one;
    `streams` that a prefetcher follows at a time; `window` instructions from the oldest that waits to the last begun.

    Fixed costs in cycles: `kernel_start` of one call of a kernel, `barrier` between workers, `tile_start` to begin and
    end a register tile with its loops, `row_start` a short run without a reduction; `step` of a register tile, for the
    counter and addresses of a loop where multiply-adds share their ports; `shuffle` of one vector through one round of
    permutations.

    Cycles of what templates weigh, each for one whole vector of float32 and one after the other without waiting for
    results: `gather` from as many positions as it has lanes, `horizontal_sum` of its lanes, `division`, `exp`.

    Shares, fitted to measured kernels: weights that a register tile reads for the first time come at `first_read` of a
    rate, as it requests fewer lines at a time than a loop that only reads; prefetching hides `prefetched` of the lesser
    of data from beyond L2 and of the work meanwhile; a core waits for `l2_stall` of the time that L2 needs, or of
    weights from beyond that were not prefetched; each further stream of weights from L2 takes `l2_stream` longer.
    What is kept may fill `kept_l1` and `kept_l2` of the caches, the rest passes through; beside packed panels, which
    are written, fetched ahead and left behind in one stream, `panels_l1` and `panels_l2`. Convolutions without blocks
    of channels run at `plain_rate` of the rate of whole vectors.
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
    lines_in_flight: float = 12.0
    jumps_in_flight: float = 4.0
    streams: int = 32
    window: int = 224
    kernel_start: float = 300.0
    barrier: float = 600.0
    tile_start: float = 20.0
    row_start: float = 8.0
    step: float = 0.0
    shuffle: float = 1.0
    gather: float = 14.0
    horizontal_sum: float = 3.4
    division: float = 10.0
    exp: float = 10.0
    first_read: float = 0.5
    prefetched: float = 0.85
    l2_stall: float = 0.6
    l2_stream: float = 0.2
    kept_l1: float = 0.85
    kept_l2: float = 0.75
    panels_l1: float = 0.75
    panels_l2: float = 0.55
    plain_rate: float = 0.64
    pair_dot_per_cycle: float = 0.0
    tile_product: float = 0.0
    tile_begin: float = 0.0

    def lanes(self, bits: int = 32) -> int:
        """Elements of `bits` bits in one vector register, at least one."""
        return max(1, self.vector_bits // bits)

    @property
    def peak_gflops(self) -> float:
        """10^9 float32 operations a second of one core, two for each multiply-add."""
        return 2 * self.fma_per_cycle * self.lanes() * self.ghz

    @property
    def parallel_elements(self) -> int:
        """Elements of float32 that are read and written within a few barriers' time: fewer are left to one worker."""
        cycles = 4 * (1 + self.write_factor) / self.read_l2.one
        return int(_BARRIERS_WORTH_SHARING * self.barrier / cycles)

    def seconds(self, cycles: float) -> float:
        """`cycles` of this machine's clock as time."""
        return cycles / (self.ghz * 1e9)

    def narrowed(self, bits: int) -> Machine:
        """The same processor with vectors of `bits` bits, where these are narrower than its own.

        Ports count whole vectors: those that split a wide one take two narrow ones, as broadcasts show of loads.
        """
        if bits >= self.vector_bits:
            return self
        share = bits / self.vector_bits
        narrow = self.half_fma_per_cycle / self.fma_per_cycle
        dots, pairs = self.dot_per_cycle * narrow, self.pair_dot_per_cycle * narrow
        return replace(
            self, vector_bits=bits, fma_per_cycle=self.half_fma_per_cycle, dot_per_cycle=dots,
            pair_dot_per_cycle=pairs,
            vector_loads=max(self.vector_loads, self.broadcast_loads), stores=max(self.stores, 1.0),
            gather=self.gather * share, division=self.division * share, exp=self.exp * self.fma_per_cycle
            / self.half_fma_per_cycle,
        )  # fmt: skip


#: A loop is shared out if one core would take longer than so many barriers for it.
_BARRIERS_WORTH_SHARING = 4

_KIB, _MIB = 1 << 10, 1 << 20

#: The most of a third-level cache that a processor has for each core: 96 MiB for two of them (EPYC 9184X).
_MOST_L3_OF_CORE = 48 * _MIB


def l3_share(size: int, cores: int) -> int:
    """Bytes of a third-level cache of `size` bytes that these cores have, as far as that is known without measuring.

    A virtual machine with a few cores sees the size of a cache that many others fill as well.
    """
    return min(size, cores * _MOST_L3_OF_CORE)


# ------------------------------------------------------------------------------------------------ x86-64, Intel
_SKYLAKE_SP = Machine(
    name="skylake-avx512", ghz=2.49, cores=4, vector_bits=512, vector_registers=32,
    fma_per_cycle=2, half_fma_per_cycle=2, fma_latency=4, dot_per_cycle=0,
    vector_loads=2, broadcast_loads=2, stores=1, load_latency=7,
    l1=Cache(32 * _KIB, 8), l2=Cache(_MIB, 16), l3=Cache(33 * _MIB, 11),
    read_l2=Bandwidth(46, 96), read_l3=Bandwidth(9.2, 18.3), read_memory=Bandwidth(4.8, 9.6), huge_page_gain=1.15,
    step=1,
)  # fmt: skip

#: Dot products of bytes run on both ports of multiply-adds.
_CASCADE_LAKE = replace(_SKYLAKE_SP, name="cascadelake", dot_per_cycle=2)

_ICE_LAKE_SP = replace(
    _CASCADE_LAKE, name="icelake-server", ghz=2.9, l1=Cache(48 * _KIB, 12), l2=Cache(1280 * _KIB, 20),
    l3=Cache(36 * _MIB, 12), read_l2=Bandwidth(48, 96), read_l3=Bandwidth(9, 18), read_memory=Bandwidth(4.3, 8.6),
    window=352,
)  # fmt: skip

#: Measured on a virtual machine with two cores whose clock reaches 3.8 GHz.
_SAPPHIRE_RAPIDS = replace(
    _ICE_LAKE_SP, name="sapphirerapids", ghz=3.78, vector_loads=1.7, broadcast_loads=1.5, l2=Cache(2 * _MIB, 16),
    l3=Cache(60 * _MIB, 15), read_l2=Bandwidth(49, 98), read_l3=Bandwidth(7.9, 15.8), read_memory=Bandwidth(4.4, 8.6),
    window=512, step=1.5, pair_dot_per_cycle=0.5, tile_product=16, tile_begin=5,
)  # fmt: skip

#: Client cores join two ports of 256 bits for one vector of 512; a ring instead of a mesh makes their L3 near.
_ICE_LAKE = replace(
    _ICE_LAKE_SP, name="icelake-client", ghz=3.5, fma_per_cycle=1, dot_per_cycle=1, l2=Cache(512 * _KIB, 8),
    l3=Cache(8 * _MIB, 16), read_l3=Bandwidth(16, 50), read_memory=Bandwidth(6, 10), huge_page_gain=1.1,
    exp=16,
)  # fmt: skip

_HASWELL = Machine(
    name="haswell", ghz=3.0, cores=4, vector_bits=256, vector_registers=16,
    fma_per_cycle=2, half_fma_per_cycle=2, fma_latency=5, dot_per_cycle=0,
    vector_loads=2, broadcast_loads=2, stores=1, load_latency=7,
    l1=Cache(32 * _KIB, 8), l2=Cache(256 * _KIB, 8), l3=Cache(8 * _MIB, 16),
    read_l2=Bandwidth(28, 112), read_l3=Bandwidth(14, 56), read_memory=Bandwidth(5, 7),
    gather=8, horizontal_sum=3, division=14, window=192,
)  # fmt: skip

_SKYLAKE = replace(
    _HASWELL, name="skylake", ghz=3.5, fma_latency=4, l2=Cache(256 * _KIB, 4), read_l2=Bandwidth(30, 120),
    division=5, window=224,
)  # fmt: skip

#: Golden Cove without its 512-bit vectors.
_ALDER_LAKE = replace(
    _SKYLAKE, name="alderlake", ghz=4.7, dot_per_cycle=2, vector_loads=3, broadcast_loads=3, stores=2,
    l1=Cache(48 * _KIB, 12), l2=Cache(1280 * _KIB, 10), l3=Cache(30 * _MIB, 12), read_l2=Bandwidth(40, 160),
    read_l3=Bandwidth(14, 48), read_memory=Bandwidth(6, 12), window=512,
)  # fmt: skip

#: One port multiplies and one adds: a multiply-add is an instruction on each.
_SANDY_BRIDGE = replace(
    _HASWELL, name="sandybridge", fma_per_cycle=1, half_fma_per_cycle=1, fma_latency=8, vector_loads=1, stores=0.5,
    read_l2=Bandwidth(20, 80), read_l3=Bandwidth(12, 48), division=28, exp=20, window=168,
)  # fmt: skip

_NEHALEM = replace(
    _SANDY_BRIDGE, name="nehalem", ghz=2.8, vector_bits=128, fma_latency=7, broadcast_loads=1, stores=1,
    read_l2=Bandwidth(12, 48), read_l3=Bandwidth(8, 24), read_memory=Bandwidth(3.5, 7), gather=4, horizontal_sum=2.5,
    division=14, exp=20, window=128,
)  # fmt: skip

# -------------------------------------------------------------------------------------------------- x86-64, AMD
_ZEN2 = replace(
    _HASWELL, name="znver2", ghz=3.3, l2=Cache(512 * _KIB, 8), l3=Cache(16 * _MIB, 16), read_l2=Bandwidth(28, 112),
    read_l3=Bandwidth(18, 72), read_memory=Bandwidth(6, 9), division=6, window=224,
)  # fmt: skip

#: 128-bit units: a vector of 256 bits takes two turns.
_ZEN1 = replace(
    _ZEN2, name="znver1", ghz=3.0, fma_per_cycle=1, vector_loads=1, stores=0.5, l3=Cache(8 * _MIB, 16),
    read_l2=Bandwidth(26, 104), read_l3=Bandwidth(16, 56), division=12, exp=20, shuffle=2,
    window=192,
)  # fmt: skip

_ZEN3 = replace(_ZEN2, name="znver3", ghz=3.5, fma_latency=4, l3=Cache(32 * _MIB, 16), read_memory=Bandwidth(7, 10),
                division=3.5, window=256)  # fmt: skip

_ZEN4 = Machine(
    name="znver4", ghz=3.69, cores=4, vector_bits=512, vector_registers=32,
    fma_per_cycle=1, half_fma_per_cycle=2, fma_latency=4, dot_per_cycle=1,
    vector_loads=1, broadcast_loads=2, stores=0.5, load_latency=7,
    l1=Cache(32 * _KIB, 8), l2=Cache(_MIB, 8), l3=Cache(32 * _MIB, 16),
    read_l2=Bandwidth(31, 64), read_l3=Bandwidth(21, 54), read_memory=Bandwidth(9, 10.3), division=7, exp=16,
    window=320, pair_dot_per_cycle=1,
)  # fmt: skip

_ZEN5 = replace(
    _ZEN4, name="znver5", ghz=4.1, fma_per_cycle=2, dot_per_cycle=2, vector_loads=2, stores=1, l1=Cache(48 * _KIB, 12),
    l2=Cache(_MIB, 16), read_l2=Bandwidth(55, 220), read_l3=Bandwidth(24, 90), read_memory=Bandwidth(9, 14), exp=8,
    window=448, pair_dot_per_cycle=2,
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------ AArch64
_NEOVERSE_N1 = Machine(
    name="neoverse-n1", ghz=2.6, cores=4, vector_bits=128, vector_registers=32,
    fma_per_cycle=2, half_fma_per_cycle=2, fma_latency=4, dot_per_cycle=2,
    vector_loads=2, broadcast_loads=2, stores=1, load_latency=5,
    l1=Cache(64 * _KIB, 4), l2=Cache(_MIB, 8), l3=Cache(32 * _MIB, 16),
    read_l2=Bandwidth(20, 80), read_l3=Bandwidth(10, 40), read_memory=Bandwidth(6, 20),
    gather=4, horizontal_sum=2.5, division=10, exp=10, window=128,
)  # fmt: skip

_NEOVERSE_N2 = replace(_NEOVERSE_N1, name="neoverse-n2", ghz=3.0, vector_loads=3, broadcast_loads=3, stores=2,
                       window=160)  # fmt: skip
_NEOVERSE_V1 = replace(_NEOVERSE_N2, name="neoverse-v1", ghz=2.6, fma_per_cycle=4, half_fma_per_cycle=4,
                       dot_per_cycle=4, read_l2=Bandwidth(28, 112), division=7, exp=6, window=256)  # fmt: skip
_NEOVERSE_V2 = replace(_NEOVERSE_V1, name="neoverse-v2", ghz=3.1, l2=Cache(2 * _MIB, 8), l3=Cache(114 * _MIB, 12),
                       window=320)  # fmt: skip

_CORTEX_A76 = replace(_NEOVERSE_N1, name="cortex-a76", ghz=2.4, l2=Cache(512 * _KIB, 8), l3=Cache(4 * _MIB, 16),
                      read_memory=Bandwidth(5, 8))  # fmt: skip
_CORTEX_A78 = replace(_CORTEX_A76, name="cortex-a78", ghz=2.6, stores=2)
_CORTEX_X1 = replace(_CORTEX_A78, name="cortex-x1", ghz=2.8, fma_per_cycle=4, half_fma_per_cycle=4, dot_per_cycle=4,
                     l2=Cache(_MIB, 8), l3=Cache(8 * _MIB, 16), division=7, exp=6, window=224)  # fmt: skip

_CORTEX_A72 = replace(
    _CORTEX_A76, name="cortex-a72", ghz=1.8, fma_per_cycle=1, half_fma_per_cycle=2, fma_latency=7, dot_per_cycle=0,
    vector_loads=1, broadcast_loads=1, l1=Cache(32 * _KIB, 2), l2=Cache(512 * _KIB, 16), l3=Cache(2 * _MIB, 16),
    read_l2=Bandwidth(9, 18), read_l3=Bandwidth(5, 10), read_memory=Bandwidth(2.5, 3), gather=6, division=20, exp=30,
)  # fmt: skip
_CORTEX_A57 = replace(_CORTEX_A72, name="cortex-a57", fma_latency=9)

#: In-order cores with paths of 64 bits to their L1.
_CORTEX_A53 = replace(
    _CORTEX_A72, name="cortex-a53", ghz=1.4, fma_latency=8, half_fma_per_cycle=1, vector_loads=0.5, stores=0.5,
    l1=Cache(32 * _KIB, 4), read_l2=Bandwidth(5, 10), read_l3=Bandwidth(3, 6), read_memory=Bandwidth(1.7, 2.2),
    gather=10, division=26, exp=40, window=8,
)  # fmt: skip
_CORTEX_A55 = replace(_CORTEX_A53, name="cortex-a55", ghz=1.8, fma_latency=4, dot_per_cycle=1,
                      l2=Cache(256 * _KIB, 4))  # fmt: skip

_APPLE_M1 = replace(
    _CORTEX_X1, name="apple-m1", ghz=3.1, vector_loads=3, broadcast_loads=3, stores=2, l1=Cache(128 * _KIB, 8),
    l2=Cache(3 * _MIB, 12), l3=Cache(8 * _MIB, 16), read_l2=Bandwidth(32, 100), read_l3=Bandwidth(20, 40),
    read_memory=Bandwidth(18, 20), line=128, page=16384, division=4,
    window=630,
)  # fmt: skip
_APPLE_M2 = replace(_APPLE_M1, name="apple-m2", ghz=3.4, l2=Cache(4 * _MIB, 16), read_l3=Bandwidth(22, 48),
                    read_memory=Bandwidth(20, 28))  # fmt: skip

# ------------------------------------------------------------------------------------------------------- others
#: One scalar multiply-add a cycle at best; the "vector" of 64 bits is the width of its registers.
_RISC_V = replace(
    _CORTEX_A53, name="generic-rv64", ghz=1.4, vector_bits=64, fma_per_cycle=0.5, half_fma_per_cycle=1, fma_latency=5,
    l2=Cache(256 * _KIB, 8), gather=2, horizontal_sum=2, division=30, exp=60,
)  # fmt: skip
_SIFIVE_U74 = replace(_RISC_V, name="sifive-u74", l2=Cache(2 * _MIB, 16))

#: An engine on a processor of today: V8 keeps one of 16 registers to itself, loads and broadcasts of 128 bits have two
#: ports, a product and a sum take one each. There is one worker, and no instruction fetches ahead.
_WASM = replace(
    _NEHALEM, name="wasm", cores=1, vector_registers=15, fma_latency=8, vector_loads=2, broadcast_loads=2,
    l2=Cache(512 * _KIB, 8), read_l2=Bandwidth(20, 80), division=5, prefetched=0, window=224,
)  # fmt: skip

#: Processors of boards: one instruction a cycle, 13 of 16 registers for values, memory as near as a cache. Cycles of
#: their templates are instructions; flash and RAM answer in a cycle where no wait states are set.
_CORTEX_M3 = Machine(
    name="cortex-m3", ghz=0.1, cores=1, vector_bits=32, vector_registers=13,
    fma_per_cycle=0.5, half_fma_per_cycle=0.5, fma_latency=2, dot_per_cycle=0,
    vector_loads=1, broadcast_loads=1, stores=1, load_latency=2,
    l1=Cache(64 * _KIB, 1), l2=Cache(128 * _KIB, 1), l3=Cache(256 * _KIB, 1),
    read_l2=Bandwidth(4, 4), read_l3=Bandwidth(2, 2), read_memory=Bandwidth(1, 1),
    kernel_start=40, barrier=1, tile_start=10, row_start=4, gather=2, horizontal_sum=1, division=12, exp=200, window=1,
)  # fmt: skip
_CORTEX_M0 = replace(_CORTEX_M3, name="cortex-m0", ghz=0.048, vector_registers=8, division=60, exp=600)
_CORTEX_M4 = replace(_CORTEX_M3, name="cortex-m4", fma_per_cycle=1, half_fma_per_cycle=1, exp=60)
_CORTEX_M7 = replace(_CORTEX_M4, name="cortex-m7", ghz=0.4, window=2)
_RISCV32 = replace(_CORTEX_M3, name="riscv32-imac", vector_registers=28, division=34)

#: Anything else: 128-bit vectors and half of what is usual.
_GENERIC = replace(
    _NEHALEM, name="generic", ghz=2.0, read_l2=Bandwidth(16, 32), read_l3=Bandwidth(8, 16),
    read_memory=Bandwidth(3, 6),
)  # fmt: skip

_ROWS = (
    _SKYLAKE_SP, _CASCADE_LAKE, _ICE_LAKE_SP, _SAPPHIRE_RAPIDS, _ICE_LAKE, _HASWELL, _SKYLAKE, _ALDER_LAKE,
    _SANDY_BRIDGE, _NEHALEM, _ZEN1, _ZEN2, _ZEN3, _ZEN4, _ZEN5, _NEOVERSE_N1, _NEOVERSE_N2, _NEOVERSE_V1, _NEOVERSE_V2,
    _CORTEX_A53, _CORTEX_A55, _CORTEX_A57, _CORTEX_A72, _CORTEX_A76, _CORTEX_A78, _CORTEX_X1, _APPLE_M1, _APPLE_M2,
    _RISC_V, _SIFIVE_U74,
    replace(_HASWELL, name="broadwell", division=8),
    replace(_SANDY_BRIDGE, name="ivybridge", division=14),
    replace(_CASCADE_LAKE, name="cooperlake", ghz=2.9, pair_dot_per_cycle=2),
    replace(_ICE_LAKE, name="rocketlake", ghz=4.6, l3=Cache(16 * _MIB, 16)),
    replace(_ICE_LAKE, name="tigerlake", ghz=4.2, l2=Cache(1280 * _KIB, 20), l3=Cache(12 * _MIB, 12)),
    replace(_SAPPHIRE_RAPIDS, name="emeraldrapids", l3=Cache(160 * _MIB, 16)),
    replace(_SAPPHIRE_RAPIDS, name="graniterapids", l3=Cache(480 * _MIB, 16)),
    replace(_NEHALEM, name="x86-64"), replace(_NEHALEM, name="x86-64-v2"),
    replace(_HASWELL, name="x86-64-v3"), replace(_SKYLAKE_SP, name="x86-64-v4"),
)  # fmt: skip

#: The shipped figures by LLVM's processor names.
MACHINES: Mapping[str, Machine] = MappingProxyType({machine.name: machine for machine in _ROWS})

#: The figures of processors of boards (`target/microcontrollers.py`).
BOARD_MACHINES: Mapping[str, Machine] = MappingProxyType({
    machine.name: machine for machine in (
        _CORTEX_M0, _CORTEX_M3, _CORTEX_M4, _CORTEX_M7, _RISCV32, replace(_CORTEX_M4, name="cortex-m33"),
        replace(_CORTEX_M7, name="cortex-m55"), replace(_RISCV32, name="riscv32-imafc", exp=60),
        replace(_CORTEX_M3, name="generic"),
    )
})  # fmt: skip

#: What a processor of an unknown name is taken for: the first whose feature it has.
_BY_FEATURE = (
    ("amx-tile", _SAPPHIRE_RAPIDS), ("avx512vbmi2", _ICE_LAKE_SP), ("avx512f", _SKYLAKE_SP), ("avxvnni", _ALDER_LAKE),
    ("avx2", _HASWELL), ("avx", _SANDY_BRIDGE), ("sse2", _NEHALEM), ("dotprod", _NEOVERSE_N1), ("neon", _CORTEX_A72),
    ("simd128", _WASM), ("d", _RISC_V),
)  # fmt: skip
_WITH_AMX = ("sapphirerapids", "emeraldrapids", "graniterapids")
_DOT_FEATURES = ("avx512vnni", "avxvnni", "dotprod")


def machine_of(cpu: str, features: Collection[str] = ()) -> Machine:
    """The shipped figures of a processor: those of its name, else of the nearest kind with these LLVM features.

    A virtual machine may name its processor anything, so a name that contradicts the features counts for nothing: one
    of a processor without AMX or without 512-bit vectors where these are there.
    """
    known = MACHINES.get(cpu) or (_ZEN5 if cpu.startswith("znver") else None)
    hidden = ("amx-tile" in features and cpu not in _WITH_AMX) or (
        known is not None and "avx512f" in features and known.vector_bits < 512
    )
    if known is None or hidden:
        known = next((machine for feature, machine in _BY_FEATURE if feature in features), _GENERIC)
    if not features:
        return known
    dots = known.dot_per_cycle or known.fma_per_cycle
    return replace(
        known,
        dot_per_cycle=dots if any(f in features for f in _DOT_FEATURES) else 0.0,
        pair_dot_per_cycle=(known.pair_dot_per_cycle or known.fma_per_cycle) if "avx512bf16" in features else 0.0,
        tile_product=known.tile_product if "amx-tile" in features else 0.0,
        fma_per_cycle=2 * known.fma_per_cycle if "relaxed-simd" in features else known.fma_per_cycle,
    )
