"""The share of a multiprocessor's threads that are resident while a kernel runs, by what the kernel takes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.runtime.gpu.api import DeviceApi, Launch
from tilewright.runtime.gpu.cuda import CudaDevice, CudaKernel

#: Schedulers of a multiprocessor, among which registers are divided, and registers of a thread that come at a time.
_PARTS, _UNIT = 4, 8


def resident_share(
    threads: int,
    registers: int,
    shared: int,
    *,
    warp: int,
    of_registers: int,
    of_threads: int,
    blocks: int,
    of_shared: int,
) -> float:
    """The share for blocks of `threads` with so many registers a thread and bytes of shared memory a block.

    The others are figures of a multiprocessor: threads of a warp, its registers, threads, blocks and shared bytes;
    `shared` counts what the system reserves of each block.
    """
    warps = -(-threads // warp)
    of_part = of_registers // _PARTS // (warp * (-(-max(1, registers) // _UNIT) * _UNIT))
    resident = min(_PARTS * of_part // warps, of_threads // threads, blocks, of_shared // max(1, shared))
    return resident * threads / of_threads


def occupancy(api: DeviceApi, launch: Launch) -> float | None:
    """The share of a launch by the driver's figures of the GPU and of the kernel; None where there are none."""
    if not isinstance(api, CudaDevice) or not isinstance(launch.kernel, CudaKernel):
        return None
    facts: Mapping[str, Any] = api.facts()
    used = launch.kernel.facts()
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    return resident_share(
        threads,
        used["registers"],
        used["shared_bytes"] + launch.shared_bytes + int(facts["reserved_shared_bytes_per_block"]),
        warp=int(facts["warp_size"]),
        of_registers=int(facts["registers_per_multiprocessor"]),
        of_threads=int(facts["max_threads_per_multiprocessor"]),
        blocks=int(facts["max_blocks_per_multiprocessor"]),
        of_shared=int(facts["shared_bytes_per_multiprocessor"]),
    )
