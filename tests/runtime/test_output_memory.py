"""Memory of outputs that are gone is filled again; that of outputs still held never is."""

from __future__ import annotations

import gc

import numpy as np

from tilewright.runtime.memory import address_of
from tilewright.runtime.output_memory import OutputMemory

SHAPE, FLOAT = (256, 256), np.dtype(np.float32)


def test_an_array_is_aligned_and_writable() -> None:
    for shape in ((3,), SHAPE, (1024, 1024, 2)):
        array = OutputMemory(2).empty(shape, FLOAT)
        assert array.shape == shape and array.dtype == FLOAT and array.flags.c_contiguous and array.flags.writeable
        assert address_of(array) % 64 == 0
        array[...] = 1
        assert (array == 1).all()


def test_memory_of_an_array_that_is_gone_is_used_again() -> None:
    memory = OutputMemory(2)
    first = memory.empty(SHAPE, FLOAT)
    address = address_of(first)
    del first
    gc.collect()
    assert address_of(memory.empty(SHAPE, FLOAT)) == address
    other = memory.empty((2, *SHAPE), FLOAT)
    assert address_of(other) != address


def test_memory_of_a_view_that_is_held_is_not() -> None:
    memory = OutputMemory(2)
    view = memory.empty(SHAPE, FLOAT)[3:5, 1:].T
    view[...] = 7
    gc.collect()
    for _ in range(3):
        memory.empty(SHAPE, FLOAT)[...] = 0
    assert (view == 7).all()
    capsule = np.from_dlpack(memory.empty(SHAPE, FLOAT))
    capsule[...] = 5
    gc.collect()
    memory.empty(SHAPE, FLOAT)[...] = 0
    assert (capsule == 5).all()


def test_no_more_is_kept_than_the_limit() -> None:
    memory = OutputMemory(2)
    arrays = [memory.empty(SHAPE, FLOAT) for _ in range(5)]
    addresses = [address_of(array) for array in arrays]
    while arrays:
        del arrays[0]
    assert len(memory._free) == 2 and {region.address for region in memory._free} == set(addresses[-2:])
