"""Arrays in the memory of a GPU into models and out of them, on a driver's stand-in that runs emulated kernels."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.runtime.gpu.emulating_driver import EmulatingDevice, EmulatingDriver
from tests.runtime.gpu.test_cuda_dlpack import _Producer
from tilewright import relay
from tilewright.errors import InputError, UnsupportedError
from tilewright.runtime.gpu import exchange, program
from tilewright.runtime.gpu.array import DeviceArray
from tilewright.runtime.gpu.emulation import emulated_device

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")), reason="emulation needs a C++ compiler"
)
X = np.arange(8, dtype=np.float32).reshape(2, 4)
#: Calls by which bytes of inputs and outputs pass between host and device.
BETWEEN = {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"}


def _module() -> relay.IRModule:
    x, y = relay.var("x", shape=(2, 4)), relay.var("y", shape=(2, 4))
    return relay.IRModule.from_expr(relay.Function([x, y], relay.Tuple([relay.add(x, y), relay.multiply(x, y)])))


@pytest.fixture(scope="module")
def device() -> Iterator[EmulatingDevice]:
    made = EmulatingDevice(EmulatingDriver())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "open_device", lambda *_: made)
        yield made


@pytest.fixture(scope="module")
def model(device: EmulatingDevice) -> tw.runtime.Model:
    return tw.compile(_module(), target="cuda -emulate=1", cache=False)


def _producer(array: np.ndarray[Any, Any], **options: Any) -> _Producer:
    return _Producer(array.ctypes.data, array.shape, **options)


def test_arrays_on_the_device_stay_there(model: tw.runtime.Model, device: EmulatingDevice) -> None:
    mine, other = model.on_device(X), X + 3
    device.fake.calls.clear()
    total, product = model(mine, _producer(other))
    assert not BETWEEN & {*device.fake.names()}
    assert isinstance(total, DeviceArray) and total.__dlpack_device__() == (2, 0)
    np.testing.assert_array_equal(total.numpy(), X + other)
    np.testing.assert_array_equal(product.numpy(), X * other)
    again, _ = model(total, mine)  # a result is an input of the next run
    np.testing.assert_array_equal(again.numpy(), X + other + X)
    np.testing.assert_array_equal(total.numpy(), X + other)  # which results of another run are no part of


def test_host_arrays_beside_them(model: tw.runtime.Model) -> None:
    total, _ = model(X, model.on_device(X))
    np.testing.assert_array_equal(total.numpy(), 2 * X)
    plain, _ = model(X, X)
    assert isinstance(plain, np.ndarray)
    np.testing.assert_array_equal(plain, 2 * X)


def test_a_run_is_on_the_stream_of_the_library(
    model: tw.runtime.Model, device: EmulatingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(X, X)  # recorded
    stream = [0x51]
    monkeypatch.setattr(exchange, "current_stream", lambda value, ordinal: stream[0])
    producer = _producer(X)
    device.fake.calls.clear()
    results = model(producer, producer)
    assert producer.streams == [0x51, 0x51]
    calls = device.fake.calls
    queued = {args[-1] for name, *args in calls if name in ("cuMemcpyDtoDAsync_v2", "cuGraphLaunch")}
    assert queued == {0x51}
    assert not {"cuStreamQuery", "cuEventQuery"} & {name for name, *_ in calls}  # nobody waits on the host
    marked = [args for name, *args in calls if name == "cuEventRecord"][-1]
    assert marked[1] == 0x51

    calls.clear()
    results[0].__dlpack__(stream=0x51)
    assert "cuStreamWaitEvent" not in device.fake.names()
    results[0].__dlpack__(stream=0x52)  # a consumer on another stream waits for the run
    assert [args[:2] for name, *args in calls if name == "cuStreamWaitEvent"] == [[0x52, marked[0]]]

    calls.clear()
    stream[0] = 0x53
    model(producer, producer)  # so does a run on another stream, which uses the same memory
    assert [0x53, marked[0]] in [args[:2] for name, *args in calls if name == "cuStreamWaitEvent"]


def test_memory_of_a_library_whose_stream_is_not_known_is_kept_until_the_run_is_done(
    model: tw.runtime.Model, device: EmulatingDevice
) -> None:
    producer = _producer(X)
    model(producer, X)
    gc.collect()
    assert producer.released == 0
    device.fake.pending = 3
    model(X, X)
    gc.collect()
    assert device.fake.pending < 0 and producer.released == 1


def test_outputs_are_filled_where_they_are(model: tw.runtime.Model, device: EmulatingDevice) -> None:
    target, host = np.zeros_like(X), np.zeros_like(X)
    producer = _producer(target)
    results = model.run({"x": X, "y": X}, outputs=[producer, host])
    assert results[0] is producer and results[1] is host
    np.testing.assert_array_equal(target, 2 * X)
    np.testing.assert_array_equal(host, X * X)
    with pytest.raises(InputError, match="must be filled into an array that may be written to"):
        model.run({"x": X, "y": X}, outputs=[_producer(target, flags=1), host])
    with pytest.raises(InputError, match=r"wrong shape: float32\[8\] given"):
        model.run({"x": X, "y": X}, outputs=[_producer(target.reshape(8)), host])


def test_what_is_refused(model: tw.runtime.Model) -> None:
    with pytest.raises(InputError, match=r"input 'x' has the wrong shape: float32\[8\] given"):
        model(_producer(X.reshape(8)), X)
    with pytest.raises(InputError, match=r"input 'y' has the wrong dtype: int32\[2, 4\] given"):
        model(X, _producer(X, kind=(0, 32, 1)))
    with pytest.raises(InputError, match="the array is on cuda:1, the model on cuda:0"):
        model(X, _producer(X, number=1))
    other = DeviceArray(EmulatingDevice(EmulatingDriver()), X.shape, X.dtype)
    with pytest.raises(InputError, match=r"the model on CUDA Fake GPU; .numpy\(\) copies it"):
        model(X, other)
    host = tw.compile(_module(), cache=False)
    with pytest.raises(InputError, match=r"not in CPU memory; copy it there first, for instance with .cpu"):
        host(_producer(X), X)
    with pytest.raises(UnsupportedError, match="works in the host's memory"):
        host.on_device(X)


def test_programs_of_the_virtual_machine_take_them(device: EmulatingDevice) -> None:
    model = tw.compile(_module(), target="cuda -emulate=1", executor="vm", cache=False)
    given = _producer(X), model.on_device(X)
    device.fake.calls.clear()
    total, product = model(*given)
    assert not BETWEEN & {*device.fake.names()}
    np.testing.assert_array_equal(total.numpy(), 2 * X)
    np.testing.assert_array_equal(product.numpy(), X * X)
    assert isinstance(model(X, X)[0], np.ndarray)


def test_arrays_of_devices_without_dlpack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "open_device", lambda *_: emulated_device("cuda"))
    model = tw.compile(_module(), target="cuda -emulate=1", cache=False)
    total, _ = model(model.on_device(X), X)
    assert isinstance(total, DeviceArray)
    again, _ = model(total, total)
    np.testing.assert_array_equal(again.numpy(), 4 * X)


def test_no_memory_is_left_behind(model: tw.runtime.Model, device: EmulatingDevice) -> None:
    def run() -> None:
        for result in model(model.on_device(X), X):
            capsule = result.__dlpack__(stream=-1)
            del capsule

    run()
    before = device.fake.used
    for _ in range(3):
        run()
    assert device.fake.used == before
