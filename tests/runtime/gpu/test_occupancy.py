"""Resident threads by what a kernel takes: cases worked out by NVIDIA's rules for compute capability 9.0."""

from __future__ import annotations

import pytest

from tilewright.runtime.gpu.occupancy import resident_share

H100 = {"warp": 32, "of_registers": 65536, "of_threads": 2048, "blocks": 32, "of_shared": 233472}


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "share"),
    [
        (256, 32, 1024, 1.0),
        (256, 64, 1024, 0.5),  # 16 warps a scheduler become 8: registers
        (256, 255, 1024, 0.125),  # 256 registers a thread
        (128, 32, 65536, 3 * 128 / 2048),  # three blocks' shared memory
        (32, 16, 1024, 0.5),  # 32 blocks at most
        (1024, 65, 1024, 0.0),  # a block that does not fit
    ],
)
def test_the_least_of_four_limits(threads: int, registers: int, shared: int, share: float) -> None:
    assert resident_share(threads, registers, shared, **H100) == share
