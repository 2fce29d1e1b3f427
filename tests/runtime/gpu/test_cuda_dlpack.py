"""DLPack of GPU memory on a stand-in for the driver: structures made by hand in, and read by hand out."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.runtime.gpu.fake_driver import FakeDriver
from tilewright.errors import InputError
from tilewright.runtime.gpu.array import DeviceArray
from tilewright.runtime.gpu.cuda import CudaDevice
from tilewright.runtime.gpu.cuda_dlpack import is_on_cuda
from tilewright.runtime.gpu.cuda_driver import Driver
from tilewright.runtime.gpu.emulation import EmulatedDevice

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))


@pytest.fixture
def device() -> CudaDevice:
    return CudaDevice(0, Driver(FakeDriver(gpus=2)))


class _Producer:
    """An array of another library, as 64-bit words of the structure that it hands out."""

    def __init__(
        self,
        address: int,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        kind: tuple[int, int, int] = (2, 32, 1),
        versioned: bool = True,
        number: int = 0,
        offset: int = 0,
        flags: int = 0,
    ) -> None:
        self.released, self.streams, self.versioned, self.number = 0, [], versioned, number
        self.extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self.strides = (ctypes.c_int64 * max(1, len(shape)))(*(strides or ()))

        def release(pointer: int) -> None:
            assert pointer == ctypes.addressof(self.words)
            self.released += 1

        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release)
        code, bits, lanes = kind
        tensor = [
            address, 2 | number << 32, len(shape) | code << 32 | bits << 40 | lanes << 48,
            ctypes.addressof(self.extents), ctypes.addressof(self.strides) if strides else 0, offset,
        ]  # fmt: skip
        deleter = ctypes.cast(self.deleter, ctypes.c_void_p).value
        words = [1, 0, deleter, flags, *tensor] if versioned else [*tensor, 0, deleter]
        self.words = (ctypes.c_uint64 * len(words))(*words)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.number)

    def __dlpack__(self, stream: int | None = None, **options: Any) -> Any:
        if options and not self.versioned:
            raise TypeError("no versions here")
        self.streams.append(stream)
        return _new(ctypes.addressof(self.words), b"dltensor_versioned" if self.versioned else b"dltensor", None)


@pytest.mark.parametrize("versioned", [True, False])
def test_another_librarys_array(device: CudaDevice, versioned: bool) -> None:
    data = np.arange(24, dtype=np.float32)
    producer = _Producer(data.ctypes.data - 8, (2, 1, 12), (12, 99, 1), versioned=versioned, offset=8)
    assert is_on_cuda(producer)
    taken = DeviceArray.from_dlpack(producer, device)
    np.testing.assert_array_equal(taken.numpy(), data.reshape(2, 1, 12))
    assert taken.buffer.pointer == data.ctypes.data
    assert producer.streams == [device.own_stream]
    view = device.view(taken.buffer, 0, 16)
    del taken
    assert producer.released == 0
    del view  # without a collection: there is no circle
    assert producer.released == 1


def test_on_the_default_stream(device: CudaDevice) -> None:
    data, streams = np.zeros(4, np.float32), []
    for stream in (0, 0x99):
        producer = _Producer(data.ctypes.data, (4,))
        with device.on_stream(stream):
            DeviceArray.from_dlpack(producer, device)
        streams += producer.streams
    assert streams == [1, 0x99]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (2, 3), "strides": (1, 2)}, r"shape \[2, 3\] has the strides \[1, 2\]: .* call .contiguous"),
        ({"shape": (4,), "kind": (2, 4, 1)}, "type 2 of 4 bits, 1 lanes"),
        ({"shape": (4,), "kind": (2, 32, 4)}, "type 2 of 32 bits, 4 lanes"),
        ({"shape": (4,), "number": 1}, "the array is on cuda:1, the model on cuda:0"),
    ],
)
def test_what_is_refused(device: CudaDevice, options: dict[str, Any], message: str) -> None:
    producer = _Producer(0x1000, **options)
    with pytest.raises(InputError, match=message):
        DeviceArray.from_dlpack(producer, device)
    gc.collect()
    assert producer.released == len(producer.streams)  # what was taken was released


def test_a_read_only_array(device: CudaDevice) -> None:
    taken = DeviceArray.from_dlpack(_Producer(0x1000, (4,), flags=1), device)
    assert taken.read_only
    with pytest.raises(BufferError, match="only if it is writable"):
        taken.__dlpack__()


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "int64", "bool", "complex64", ml_dtypes.bfloat16,
                                   ml_dtypes.float8_e4m3fn])  # fmt: skip
@pytest.mark.parametrize("version", [None, (1, 1)])
def test_there_and_back(device: CudaDevice, dtype: Any, version: tuple[int, int] | None) -> None:
    data = np.arange(6).reshape(2, 3).astype(dtype)
    array = DeviceArray(device, data.shape, data.dtype).write(data)

    class Handed:
        def __dlpack_device__(self) -> tuple[int, int]:
            return array.__dlpack_device__()

        def __dlpack__(self, stream: int, max_version: object = None) -> Any:
            return array.__dlpack__(stream=stream, max_version=version)

    back = DeviceArray.from_dlpack(Handed(), device)
    assert back.buffer.pointer == array.buffer.pointer
    assert back.dtype == data.dtype
    np.testing.assert_array_equal(back.numpy().view(np.uint8), data.view(np.uint8))


def test_the_consumer_waits_and_keeps_the_memory(device: CudaDevice) -> None:
    array = DeviceArray(device, (2, 3), np.float32)
    address = array.buffer.pointer
    capsule = array.__dlpack__(stream=0x55)
    assert _name(capsule) == b"dltensor"
    words = (ctypes.c_uint64 * 8).from_address(_get(capsule, b"dltensor"))
    assert words[0] == address
    assert words[1] == 2
    assert words[2] == 2 | 2 << 32 | 32 << 40 | 1 << 48
    assert list((ctypes.c_int64 * 2).from_address(words[3])) == [2, 3]
    assert list((ctypes.c_int64 * 2).from_address(words[4])) == [3, 1]
    del array
    assert device.memory()[0] == (1 << 30) - 24
    del capsule  # nobody took it
    assert device.memory()[0] == 1 << 30


def test_other_devices_share_no_memory() -> None:
    array = DeviceArray(EmulatedDevice("cuda"), (4,), np.float32)
    with pytest.raises(BufferError, match=r"cuda emulated on the host is not shared"):
        np.from_dlpack(array)
