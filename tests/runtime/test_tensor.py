"""`Tensor` and its exchange with NumPy, DLPack and the buffer protocol, in both directions and without copies."""

from __future__ import annotations

import array
import gc
import sys
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import UnsupportedError
from tilewright.runtime.device import cpu
from tilewright.runtime.tensor import Tensor

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64",
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (2, 3, 4)])
def test_empty_is_aligned_and_of_the_dtype(dtype: str, shape: tuple[int, ...]) -> None:
    tensor = Tensor.zeros(shape, dtype)
    assert tensor.address % 64 == 0 or tensor.nbytes == 0
    assert (tensor.dtype, tensor.shape, tensor.ndim) == (dtype, shape, len(shape))
    assert tensor.numpy().dtype == tensor.dtype.numpy and not tensor.numpy().any()


def test_numpy_shares_memory_both_ways() -> None:
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = Tensor.from_numpy(source)
    source[0, 0] = 9
    tensor.numpy()[1, 2] = 8
    assert np.asarray(tensor)[0, 0] == 9 and source[1, 2] == 8 and tensor.address == source.ctypes.data
    assert not np.shares_memory(Tensor.from_numpy(source, copy=True).numpy(), source)
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="without a copy"):
        tensor.__array__(np.float64, copy=False)


def test_other_layouts_are_copied() -> None:
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    for odd in (source.T, source[:, ::2], source.astype(">f4")):
        tensor = Tensor.from_numpy(odd)
        np.testing.assert_array_equal(tensor.numpy(), odd)
        assert tensor.address % 64 == 0
        with pytest.raises(ValueError, match="C-contiguous"):
            Tensor(odd)


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "bfloat16"])
def test_dlpack_with_numpy_both_ways(dtype: str) -> None:
    source = np.arange(6).reshape(2, 3).astype(dtype)
    tensor = Tensor.from_dlpack(source)
    assert np.shares_memory(tensor.numpy(), source)
    back = np.from_dlpack(tensor)
    assert back.dtype == source.dtype and np.shares_memory(back, source)
    np.testing.assert_array_equal(back, source)


def test_bfloat16_through_dlpack() -> None:
    tensor = Tensor.from_numpy(np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16))
    again = Tensor.from_dlpack(tensor)
    assert again.dtype == "bfloat16" and again.address == tensor.address
    np.testing.assert_array_equal(again.numpy(), tensor.numpy())


def test_torch_both_ways() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        source = torch.arange(6).reshape(2, 3).to(dtype)
        tensor = Tensor.from_dlpack(source)
        assert tensor.address == source.data_ptr()
        assert torch.equal(torch.from_dlpack(tensor), source)


def test_dlpack_keeps_memory_alive_and_lets_go() -> None:
    memory = np.arange(4).astype(ml_dtypes.bfloat16)
    owner = weakref.ref(memory)
    view = Tensor.from_dlpack(Tensor.from_numpy(memory)).numpy()
    unused = Tensor.from_numpy(memory).__dlpack__()
    del memory
    gc.collect()
    assert owner() is not None
    np.testing.assert_array_equal(view.astype(np.float32), [0, 1, 2, 3])
    del view, unused
    gc.collect()
    assert owner() is None


def test_a_capsule_is_used_once() -> None:
    class Twice:
        capsule = Tensor.zeros((4,), "bfloat16").__dlpack__()

        def __dlpack__(self, **options: Any) -> Any:
            return self.capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    assert Tensor.from_dlpack(Twice()).dtype == "bfloat16"
    with pytest.raises(BufferError, match="used already"):
        Tensor.from_dlpack(Twice())


def test_strided_producers_are_copied() -> None:
    source = np.arange(12, dtype=np.int16).reshape(3, 4)[:, 1::2]
    np.testing.assert_array_equal(Tensor.from_dlpack(source).numpy(), source)


def test_read_only_memory_is_not_shared_through_dlpack() -> None:
    source = np.zeros(3, np.float32)
    source.flags.writeable = False
    tensor = Tensor.from_numpy(source)
    assert not tensor.writable
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__()
    copied = np.from_dlpack(tensor, copy=True)
    assert not np.shares_memory(copied, source)


def test_other_devices_are_refused() -> None:
    class OnGpu:
        def __dlpack__(self, **options: Any) -> Any:
            raise AssertionError("must not be asked")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    with pytest.raises(BufferError, match=r"\.cpu\(\)"):
        Tensor.from_dlpack(OnGpu())
    with pytest.raises(BufferError, match="CPU memory"):
        Tensor.zeros((2,)).__dlpack__(dl_device=(2, 0))
    assert str(Tensor.zeros((2,)).device) == "cpu(0)" == str(cpu())
    with pytest.raises(UnsupportedError, match="one CPU device"):
        cpu(1)


def test_buffers_are_shared_in_both_directions() -> None:
    source = array.array("f", [1, 2, 3, 4])
    tensor = Tensor.from_buffer(source)
    source[0] = 7
    assert (tensor.dtype, tensor.shape) == ("float32", (4,)) and tensor.numpy()[0] == 7
    raw = Tensor.from_buffer(bytearray(range(8)), dtype="bfloat16", shape=(2, 2))
    assert (raw.dtype, raw.shape) == ("bfloat16", (2, 2))
    exported = memoryview(tensor) if sys.version_info >= (3, 12) else memoryview(tensor.numpy())
    assert exported.format == "f" and exported.shape == (4,)
    assert len(tensor) == 4 and repr(tensor).startswith("Tensor(float32[4])")
