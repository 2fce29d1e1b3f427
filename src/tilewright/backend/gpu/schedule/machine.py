"""Figures of a GPU: all that a choice of a kernel's tiles rests on, in one value.

    machine_of(Target("cuda -arch=sm_90a"))     # an H100's
    TABLE["rtx-4090"]

Rates are of one multiprocessor (SM) and in cycles of its clock under load; `clock` turns them into seconds. The figures
are the vendor's: the architecture white papers for sizes and rates, CUDA's table of compute capabilities for limits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.target import DeviceTarget

#: Blocks that a multiprocessor should have: with fewer of them a product divides its terms too.
ENOUGH_BLOCKS = 2


@dataclass(frozen=True, kw_only=True)
class GpuMachine:
    """One GPU.

    `shared_per_block` and `shared_per_multiprocessor` are bytes of shared memory that one block may have and that all
    blocks of a multiprocessor share (`shared_reserved` more for each block); `registers` of 32 bits, `threads` and
    `blocks` are the most that a multiprocessor holds at a time, `registers_per_thread` the most that a thread has.

    `fma` are multiply-adds a cycle in float32; `tensor_float16` on tensor cores, of float16 or bfloat16 with sums in
    float32, as the vendor counts them; `tensor_int8` of bytes with sums in int32. `mma_sync` is the share of these that
    warps reach by `mma.sync`, `wgmma` what warpgroups do by theirs (0: there are none), `fma_share` that of `fma`
    which loops reach that load operands between them. `shared_bytes` a cycle that a multiprocessor reads from its
    shared memory.

    `l2` in bytes; `dram_bytes` and `l2_bytes` a second, of the whole GPU; `launch` the seconds from one kernel to the
    next, `latency` the seconds from a request of global memory to its answer. Copies to and from the host's memory
    take `link_latency` seconds and `link_bytes` a second: PCIe 4.0 of 16 lanes.

    `shares` is False where threads of a block had better compute alone than wait for each other at barriers, `together`
    the most threads that then still add up the terms of an element; `load` the multiply-adds in the time of a load that
    is in the first cache.
    """

    name: str
    multiprocessors: int
    clock: float
    l2: int
    dram_bytes: float
    l2_bytes: float
    shared_per_block: int
    shared_per_multiprocessor: int
    fma: int
    tensor_float16: int
    tensor_int8: int
    mma_sync: float = 1.0
    fma_share: float = 0.7
    wgmma: float = 0.0
    shared_reserved: int = 1024
    shared_bytes: int = 128
    registers: int = 65536
    registers_per_thread: int = 255
    threads: int = 2048
    blocks: int = 32
    warp: int = 32
    launch: float = 2.0e-6
    latency: float = 6.0e-7
    link_bytes: float = 2.5e10
    link_latency: float = 1.0e-5
    shares: bool = True
    together: int = 256
    load: int = 4

    @property
    def peak_float32(self) -> float:
        """Operations a second in float32, two for each multiply-add."""
        return 2 * self.fma * self.multiprocessors * self.clock

    @property
    def peak_float16(self) -> float:
        """Operations a second of float16 or bfloat16 on tensor cores, two for each multiply-add."""
        return 2 * self.tensor_float16 * self.multiprocessors * self.clock

    @property
    def peak_int8(self) -> float:
        """Operations a second of bytes on tensor cores, two for each multiply-add."""
        return 2 * self.tensor_int8 * self.multiprocessors * self.clock

    def seconds(self, cycles: float) -> float:
        """`cycles` of a multiprocessor's clock as time."""
        return cycles / self.clock


_KIB, _MIB = 1 << 10, 1 << 20

_A100 = GpuMachine(
    name="a100", multiprocessors=108, clock=1.41e9, l2=40 * _MIB, dram_bytes=2.039e12, l2_bytes=4.5e12,
    shared_per_block=163 * _KIB, shared_per_multiprocessor=164 * _KIB, fma=64, tensor_float16=1024, tensor_int8=2048,
    mma_sync=0.95,
)  # fmt: skip

_A100_40 = replace(_A100, name="a100-40", dram_bytes=1.555e12)

#: The SXM5 model. `mma.sync` has no way to keep Hopper's tensor cores fed: wgmma has.
_H100 = GpuMachine(
    name="h100", multiprocessors=132, clock=1.755e9, l2=50 * _MIB, dram_bytes=3.35e12, l2_bytes=5.5e12,
    shared_per_block=227 * _KIB, shared_per_multiprocessor=228 * _KIB, fma=128, tensor_float16=2048, tensor_int8=4096,
    mma_sync=0.63, wgmma=0.9,
)  # fmt: skip

_H200 = replace(_H100, name="h200", dram_bytes=4.8e12)

#: Its tensor cores add to float32 at half the rate of float16 sums.
_RTX_4090 = GpuMachine(
    name="rtx-4090", multiprocessors=128, clock=2.52e9, l2=72 * _MIB, dram_bytes=1.008e12, l2_bytes=5.0e12,
    shared_per_block=99 * _KIB, shared_per_multiprocessor=100 * _KIB, fma=128, tensor_float16=256, tensor_int8=1024,
    threads=1536, blocks=24,
)  # fmt: skip

_RTX_5090 = replace(
    _RTX_4090, name="rtx-5090", multiprocessors=170, clock=2.407e9, l2=96 * _MIB, dram_bytes=1.792e12, l2_bytes=6.3e12
)

#: Boards for servers add to float32 at the full rate.
_L40S = replace(
    _RTX_4090, name="l40s", multiprocessors=142, l2=96 * _MIB, dram_bytes=8.64e11, l2_bytes=5.5e12, tensor_float16=512
)
_L4 = replace(_L40S, name="l4", multiprocessors=58, clock=2.04e9, l2=48 * _MIB, dram_bytes=3.0e11, l2_bytes=1.8e12)

#: Compute capability 8.6. Its second-level cache: a third of the 64 bytes a cycle that each multiprocessor can take.
_RTX_3090 = GpuMachine(
    name="rtx-3090", multiprocessors=82, clock=1.695e9, l2=6 * _MIB, dram_bytes=9.36e11, l2_bytes=3.0e12,
    shared_per_block=99 * _KIB, shared_per_multiprocessor=100 * _KIB, fma=128, tensor_float16=256, tensor_int8=1024,
    threads=1536, blocks=16,
)  # fmt: skip
_A10 = replace(_RTX_3090, name="a10", multiprocessors=72, dram_bytes=6.0e11, l2_bytes=2.6e12, tensor_float16=512)

#: Compute capability 7.5, which has no asynchronous copies: its tensor cores are left idle here.
_T4 = GpuMachine(
    name="t4", multiprocessors=40, clock=1.59e9, l2=4 * _MIB, dram_bytes=3.2e11, l2_bytes=1.27e12,
    shared_per_block=64 * _KIB, shared_per_multiprocessor=64 * _KIB, fma=64, tensor_float16=512, tensor_int8=1024,
    threads=1024, blocks=16,
)  # fmt: skip

#: Without figures of how near warps come to its tensor cores' rate: that of the H100 stands for them. It has no wgmma,
#: which is Hopper's alone, and for its successor there is no template.
_B200 = replace(
    _H100, name="b200", multiprocessors=148, clock=1.85e9, l2=126 * _MIB, dram_bytes=8.0e12, l2_bytes=7.0e12,
    tensor_float16=4096, tensor_int8=8192, wgmma=0.0,
)  # fmt: skip

#: A small device of which nothing is known: the limits that every one since compute capability 7.5 keeps.
_GENERIC = GpuMachine(
    name="generic", multiprocessors=32, clock=1.5e9, l2=4 * _MIB, dram_bytes=3.0e11, l2_bytes=1.0e12,
    shared_per_block=48 * _KIB, shared_per_multiprocessor=64 * _KIB, fma=64, tensor_float16=256, tensor_int8=512,
    threads=1024, blocks=16, launch=5.0e-6,
)  # fmt: skip

#: The GPU of a browser: small, and maybe one that a processor stands in for (SwiftShader), where each group of threads
#: that waits at a barrier has a stack of its own, and memory of blocks is memory like any other.
_BROWSER = replace(_GENERIC, name="browser", multiprocessors=8, warp=16, shares=False, together=16)

#: The GPUs that are known, by name.
TABLE = {
    machine.name: machine
    for machine in (
        _T4,
        _A10,
        _RTX_3090,
        _A100,
        _A100_40,
        _L4,
        _L40S,
        _RTX_4090,
        _H100,
        _H200,
        _B200,
        _RTX_5090,
        _GENERIC,
        _BROWSER,
    )
}

#: The GPU that code for an architecture is chosen for.
_BY_ARCHITECTURE = {"80": "a100", "86": "rtx-4090", "89": "rtx-4090", "90": "h100", "100": "h200", "120": "rtx-4090"}


def machine_of(target: DeviceTarget) -> GpuMachine:
    """The figures to choose schedules by for `target`: of a GPU of its architecture, else of a small one.

    A target's own limit of shared memory or threads does not change them; templates keep both.
    """
    if target.kind == "webgpu":
        return _BROWSER
    number = target.arch.removeprefix("sm_").rstrip("af")
    return TABLE[_BY_ARCHITECTURE.get(number, "generic")]
