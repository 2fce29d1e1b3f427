"""The list of devices in `tilewright doctor`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.gpu.fake_driver import FakeDriver
from tilewright.errors import EnvironmentError_
from tilewright.runtime.gpu import cuda, emulation, survey
from tilewright.runtime.gpu.cuda_driver import Driver


def test_each_kind_has_a_row() -> None:
    kinds = [kind.split()[0].partition(":")[0] for kind, _ in survey.survey()]
    assert {*kinds} >= {"cuda", "nvrtc", "opencl", "vulkan", "webgpu"}


def test_what_is_known_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Driver(FakeDriver(gpus=2))
    for module in (cuda, survey):
        monkeypatch.setattr(module, "driver", lambda: loaded)
    rows = dict(survey.survey())
    expected = "Fake GPU, sm_90, 132 multiprocessors, 1.0 GiB of 1.0 GiB free, 3352 GB/s; driver of CUDA 12.4"
    assert rows["cuda:0"] == rows["cuda:1"] == expected


def test_a_broken_driver_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Iterator[tuple[str, str]]:
        raise OSError("no such symbol")
        yield

    def absent() -> Iterator[tuple[str, str]]:
        raise EnvironmentError_("pip install it")
        yield

    monkeypatch.setattr(survey, "_KINDS", {"opencl": broken, "webgpu": absent, "cuda -emulate=1": survey._emulation})
    monkeypatch.setattr(emulation.shutil, "which", lambda name: f"/bin/{name}")
    assert survey.survey() == [
        ("opencl", "none: its driver failed: OSError: no such symbol"),
        ("webgpu", "none: pip install it"),
        ("cuda -emulate=1", "this processor, for checking results; /bin/c++"),
    ]


def test_what_brings_a_missing_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "opencl_devices", list)
    monkeypatch.setattr(survey, "webgpu_adapters", list)
    monkeypatch.setattr(survey, "physical_devices", list)
    monkeypatch.setattr(survey, "glsl_compiler", lambda: "glslc")
    rows = dict(survey.survey())
    assert "pip install pocl-binary-distribution" in rows["opencl"]
    assert "apt install mesa-vulkan-drivers" in rows["vulkan"]
    assert "apt install mesa-vulkan-drivers" in rows["webgpu"]
