"""Refusals of models on devices: one message each, the process alive, the device's memory free again."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.runtime.gpu import fake_driver
from tests.runtime.gpu.emulating_driver import EmulatingDevice, EmulatingDriver
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.errors import EnvironmentError_, InputError, TargetError, UserError
from tilewright.runtime.gpu import cuda, program
from tilewright.runtime.gpu.cuda_driver import Driver
from tilewright.target import Target

X = np.ones((4, 64), np.float32)


def _module(dtype: str = "float32") -> relay.IRModule:
    x = relay.var("x", shape=(4, 64), dtype=dtype)
    weight = relay.const(np.ones((64, 64), dtype))
    return relay.IRModule.from_expr(relay.Function([x], relay.exp(relay.nn.dense(x, weight))))


@pytest.fixture
def device() -> Iterator[EmulatingDevice]:
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        pytest.skip("emulation needs a C++ compiler")
    made = EmulatingDevice(EmulatingDriver())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "open_device", lambda *_: made)
        yield made


def test_memory_that_does_not_suffice(device: EmulatingDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = 64 * 64 * 4 + 100  # more than the weights, too little for inputs and outputs beside them
    monkeypatch.setattr(fake_driver, "MEMORY", memory)
    asked = r"out of device memory: [\d,]+ bytes requested, [\d,]+ of 16,484 free .*; use a smaller batch or free other"
    with pytest.raises(EnvironmentError_, match=asked):
        tw.compile(_module(), target="cuda -emulate=1", cache=False)
    gc.collect()
    assert device.fake.used == 0
    monkeypatch.setattr(fake_driver, "MEMORY", 1 << 20)  # others have freed theirs
    model = tw.compile(_module(), target="cuda -emulate=1", cache=False)
    np.testing.assert_allclose(model(X), np.exp(np.full((4, 64), 64.0)), rtol=1e-5)

    device.fake.pending = 1 << 30  # a kernel that does not end
    monkeypatch.setenv("TILEWRIGHT_DEVICE_TIMEOUT", "0.05")
    with pytest.raises(EnvironmentError_, match=r"not done after 0.05 seconds; queued last: .*fused_") as first:
        model(X)
    with pytest.raises(EnvironmentError_) as second:
        model(X)
    assert str(second.value) == str(first.value)


def test_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    if backend_of(Target("cuda")).is_here:
        pytest.skip("this machine has an NVIDIA GPU")
    with pytest.raises(TargetError, match="this machine has no device cuda"):
        tw.compile(_module(), target="cuda", cache=False, tune_seconds=1.0)
    for spec in ("opencl:99", "vulkan:99", "webgpu:99"):
        if backend_of(Target(spec.partition(":")[0])).is_here:
            assert not backend_of(Target(spec)).is_here


def test_an_artifact_for_a_device_that_is_not_here(tmp_path: Path) -> None:
    if backend_of(Target("cuda")).is_here:
        pytest.skip("this machine has an NVIDIA GPU")
    tw.compile(_module(), target="cuda -arch=sm_80", cache=False).save(tmp_path / "m.tw")
    with pytest.raises(EnvironmentError_, match=r"needs an NVIDIA GPU and its driver \(libcuda.so.1 was not found\)"):
        tw.load(tmp_path / "m.tw")
    assert "libcuda.so.1 was not found" in backend_of(Target("cuda")).obstacle()


def test_a_driver_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_driver.FakeDriver(missing="cuGraphInstantiateWithFlags")
    monkeypatch.setattr(cuda, "_OPENED", {})
    monkeypatch.setattr(cuda, "driver", lambda: Driver(old))
    model = tw.compile(_module(), target="cuda -arch=sm_80", cache=False)
    with pytest.raises(TargetError, match="cannot run"):
        model(X)
    assert (
        "the NVIDIA driver is too old: it has no cuGraphInstantiateWithFlags" in backend_of(Target("cuda")).obstacle()
    )


def test_memory_that_does_not_suffice_within_a_program(
    device: EmulatingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = relay.var("x", shape=(4, 64))
    inner = relay.on_device(relay.exp(relay.on_device(relay.sqrt(x), "cuda")), "cpu")
    mod = relay.IRModule.from_expr(relay.Function([x], relay.on_device(relay.negative(inner), "cuda")))
    model = tw.compile(mod, target="cuda -emulate=1", cache=False)
    wanted = -np.exp(np.sqrt(X))
    np.testing.assert_allclose(model(X), wanted, rtol=1e-5)
    gc.collect()
    before = device.fake.used
    monkeypatch.setattr(fake_driver, "MEMORY", before + X.nbytes)  # not enough for an input and a result
    for _ in range(2):
        with pytest.raises(EnvironmentError_, match="out of device memory: 1,024 bytes requested"):
            model(X)
    monkeypatch.setattr(fake_driver, "MEMORY", 1 << 20)
    np.testing.assert_allclose(model(X), wanted, rtol=1e-5)
    gc.collect()
    assert device.fake.used == before


@pytest.mark.parametrize(("kind", "dtype"), [("webgpu", "float64"), ("metal -emulate=1", "float64")])
def test_types_that_a_device_has_not(kind: str, dtype: str) -> None:
    with pytest.raises(UserError, match=dtype):
        tw.compile(_module(dtype), target=kind, cache=False)


def test_another_type_than_the_models(device: EmulatingDevice) -> None:
    model = tw.compile(_module(), target="cuda -emulate=1", cache=False)
    with pytest.raises(InputError, match=r"input 'x' has the wrong dtype: float64\[4, 64\] given, float32"):
        model(X.astype("float64"))
