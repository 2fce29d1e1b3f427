"""Addresses, alignment and large regions."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import EnvironmentError_
from tilewright.runtime.memory import Region, address_of, aligned_empty, round_up


def test_address_of_every_kind_of_array() -> None:
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    arrays = (np.zeros(3), read_only, np.zeros((0, 2)), np.zeros((), np.int8), np.zeros(2, ml_dtypes.bfloat16))
    for array in arrays:
        assert address_of(array) == array.ctypes.data


def test_empty_arrays_begin_at_a_cache_line() -> None:
    for shape in ((), (1,), (3, 5), (0, 7)):
        array = aligned_empty(shape, np.dtype(np.float64))
        assert array.shape == shape and array.flags.c_contiguous and array.flags.writeable
        assert array.size == 0 or array.ctypes.data % 64 == 0


@pytest.mark.parametrize("size", [0, 1, 100, 5 << 20])
def test_regions_are_aligned_zeroed_and_writable(size: int) -> None:
    region = Region(size)
    array = region.array()
    assert array.size == size and not array.any()
    assert region.address % (2 << 20 if size > 4 << 20 else 64) == 0
    assert size == 0 or array.ctypes.data == region.address
    array[:] = 1


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="asks Linux for its mappings")
def test_regions_are_private_to_the_process() -> None:
    """Shared memory, the default of `mmap`, has huge pages on few systems."""
    region = Region(5 << 20)
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights = line.split()[:2]
        low, high = (int(end, 16) for end in span.split("-"))
        if low <= region.address < high:
            assert rights == "rw-p"
            return
    pytest.fail("the region is not mapped")


def test_a_region_that_cannot_be_had() -> None:
    with pytest.raises(EnvironmentError_, match=f"cannot allocate {1 << 60} bytes"):
        Region(1 << 60)


def test_sizes_are_rounded_up_to_multiples() -> None:
    assert [round_up(n, 64) for n in (0, 1, 64, 65)] == [0, 64, 64, 128]
