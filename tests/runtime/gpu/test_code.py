"""Device code as bytes: which of its machine code a device loads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.gpu.fake_driver import FakeDriver
from tilewright.errors import ArtifactError
from tilewright.runtime.gpu.code import DeviceCode
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
    assert again.kernels(device) == {}
    assert taken == [b"for 90a", b"ptx"]
    refused.add(b"ptx")
    assert again.kernels(device) == {"compiled": "text"}


def test_damaged_code() -> None:
    code = DeviceCode("cuda", False, "text", (), {"sm_80": b"1234"}).encode()
    for damaged in (code[:-1], b"", b"{}\n", code[5:]):
        with pytest.raises(ArtifactError, match="Compile the model again"):
            DeviceCode.decode(damaged)
