"""Device code as bytes: which of its machine code a device loads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.gpu.fake_driver import FakeDriver
from tilewright.errors import ArtifactError, EnvironmentError_
from tilewright.runtime.gpu.code import DeviceCode, load_best
from tilewright.runtime.gpu.cuda import CudaDevice
from tilewright.runtime.gpu.cuda_driver import Driver, DriverError


def test_the_best_that_the_driver_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    device, taken = CudaDevice(0, Driver(FakeDriver())), list[bytes]()
    refused = {b"for 90a"}

    def load(binary: bytes, names: Any) -> dict[str, Any]:
        taken.append(binary)
        if binary in refused:
            raise DriverError("too new", 209)
        return {}

    monkeypatch.setattr(device, "load", load)
    monkeypatch.setattr(device, "compile", lambda source, names: {"compiled": source})
    code = DeviceCode("cuda", False, "text", [], {"sm_80": b"for 80", "compute_80": b"ptx", "sm_90a": b"for 90a"})
    again = DeviceCode.decode(code.encode())
    assert again == code
    assert load_best([again], device) == (again, {})
    assert taken == [b"for 90a", b"ptx"]
    refused.add(b"ptx")
    assert load_best([again], device) == (again, {"compiled": "text"})


def _device(capability: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> CudaDevice:
    """A GPU that takes all machine code, and texts only where NVRTC is, which it is not."""
    device = CudaDevice(0, Driver(FakeDriver()))
    device.capability, device.arch = capability, "sm_{}{}".format(*capability)
    device.own_architecture = device.arch

    def compile_text(source: str, names: Any) -> dict[str, Any]:
        raise EnvironmentError_("compiling CUDA code needs NVRTC")

    monkeypatch.setattr(device, "load", lambda binary, names: {"loaded": binary})
    monkeypatch.setattr(device, "compile", compile_text)
    return device


@pytest.mark.parametrize(
    ("capability", "loaded"),
    [((8, 0), b"80"), ((8, 6), b"80"), ((9, 0), b"90a"), ((10, 0), b"ptx of 80"), ((12, 0), b"ptx of 80")],
)
def test_the_best_of_several_architectures(
    capability: tuple[int, int], loaded: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = DeviceCode("cuda", False, "older", [], {"sm_80": b"80", "compute_80": b"ptx of 80"}, "sm_80")
    newer = DeviceCode("cuda", False, "newer", [], {"sm_90a": b"90a"}, "sm_90a")
    taken, kernels = load_best([older, newer], _device(capability, monkeypatch))
    assert kernels == {"loaded": loaded}
    assert taken is (newer if loaded == b"90a" else older)


def test_the_text_of_the_best_architecture_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = [DeviceCode("cuda", False, arch, [], arch=arch) for arch in ("sm_75", "sm_80", "sm_90a")]
    device = _device((8, 9), monkeypatch)
    monkeypatch.setattr(device, "compile", lambda source, names: {"text": source})
    assert load_best(codes, device) == (codes[1], {"text": "sm_80"})


def test_no_architecture_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = [DeviceCode("cuda", False, "text", [], {arch: b""}, arch) for arch in ("sm_80", "sm_90a")]
    message = "compiled for sm_80, sm_90a, and CUDA Fake GPU is sm_75: compile it with -arch=sm_75, or for several"
    with pytest.raises(ArtifactError, match=message):
        load_best(codes, _device((7, 5), monkeypatch))
    message = "is sm_100, and the model's machine code for sm_80, sm_90a does not run on it.*needs NVRTC.*-arch=sm_100"
    with pytest.raises(EnvironmentError_, match=message):
        load_best(codes, _device((10, 0), monkeypatch))


def test_damaged_code_is_an_artifact_error() -> None:
    code = DeviceCode("cuda", False, "text", (), {"sm_80": b"1234"}).encode()
    for damaged in (code[:-1], b"", b"{}\n", code[5:]):
        with pytest.raises(ArtifactError, match="Compile the model again"):
            DeviceCode.decode(damaged)
