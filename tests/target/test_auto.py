"""`target="auto"`: which of the devices of a machine it is."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runtime.gpu.fake_driver import FakeDriver
from tilewright.errors import EnvironmentError_
from tilewright.runtime.gpu import cuda, cuda_driver, nvrtc, opencl, spirv, vulkan, webgpu
from tilewright.runtime.gpu.cuda_driver import Driver
from tilewright.target import CpuTarget, Target
from tilewright.target.auto import auto_target


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with software that stands in for GPUs, and none."""

    def absent() -> Any:
        raise EnvironmentError_("no driver")

    monkeypatch.setattr(cuda_driver, "driver", absent)
    monkeypatch.setattr(opencl, "opencl_devices", lambda: ["PoCL"])
    monkeypatch.setattr(opencl, "is_gpu", lambda device: device != "PoCL")
    lavapipe = SimpleNamespace(kind="CPU", lacking=list, has_addresses=True)
    monkeypatch.setattr(vulkan, "physical_devices", lambda: [lavapipe])
    monkeypatch.setattr(webgpu, "webgpu_adapters", lambda: [SimpleNamespace(info={"adapter_type": "CPU"})])


def test_software_is_no_gpu(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tilewright"):
        assert isinstance(Target("auto"), CpuTarget)
    (text,) = [record.getMessage() for record in caplog.records if record.name == "tilewright"]
    assert text.startswith("target 'auto' is cpu; cuda: no driver; opencl: no GPU; vulkan: ")
    assert text.endswith("; webgpu: no GPU")


def test_a_gpu_without_integers_of_other_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [
        SimpleNamespace(kind="integrated GPU", lacking=list, has_addresses=False),
        SimpleNamespace(kind="integrated GPU", lacking=lambda: ["shaderInt64"], has_addresses=True),
    ]
    monkeypatch.setattr(vulkan, "physical_devices", lambda: gpus)
    monkeypatch.setattr(spirv, "glsl_compiler", lambda: "/bin/glslangValidator")
    assert auto_target() == "vulkan:1 -integer_bits=32"


def test_the_first_gpu_whose_driver_works(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeDriver(gpus=2)
    for module in (cuda, cuda_driver):
        monkeypatch.setattr(module, "driver", lambda: Driver(fake))
    monkeypatch.setattr(cuda, "_OPENED", {})
    monkeypatch.setattr(nvrtc, "version", lambda: "13.0")
    assert auto_target() == "cuda -arch=sm_90a"
    assert Target("auto").arch == "sm_90a"
    real = cuda.cuda_device
    monkeypatch.setattr(cuda, "cuda_device", lambda number: real(number) if number else _broken())
    assert auto_target() == "cuda:1 -arch=sm_90a"


def _broken() -> Any:
    raise EnvironmentError_("this one is broken")


def test_without_a_compiler_for_cuda_it_is_another_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> str:
        raise EnvironmentError_("compiling CUDA code needs NVRTC")

    monkeypatch.setattr(cuda_driver, "driver", lambda: Driver(FakeDriver()))
    monkeypatch.setattr(nvrtc, "version", absent)
    monkeypatch.setattr(webgpu, "webgpu_adapters", lambda: [SimpleNamespace(info={"adapter_type": "DiscreteGPU"})])
    assert auto_target() == "webgpu:0"
    monkeypatch.setattr(opencl, "opencl_devices", lambda: ["PoCL", "a GPU"])
    assert auto_target() == "opencl:1"
