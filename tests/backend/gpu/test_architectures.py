"""Models for several architectures of GPUs: what is in the file, and what a device takes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.backend.gpu import architectures
from tilewright.errors import EnvironmentError_
from tilewright.runtime.artifact import load_artifact
from tilewright.runtime.gpu.code import DeviceCode
from tilewright.runtime.link import split_objects
from tilewright.target import Target


@pytest.fixture(autouse=True)
def compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architectures, "compile_cubin", lambda source, arch: f"cubin for {arch}".encode())
    monkeypatch.setattr(architectures, "compile_ptx", lambda source, arch: f"PTX for {arch}".encode())


def _model(dtype: str = "float16", target: str = "cuda -arch=sm_90a,sm_80") -> tw.runtime.Model:
    x = relay.var("x", shape=(1024, 1024), dtype=dtype)
    weight = relay.const(np.ones((1024, 1024), dtype))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, weight))))
    return tw.compile(mod, target=target, cache=False)


def _codes(model: tw.runtime.Model) -> list[DeviceCode]:
    (group,) = split_objects(model.object_code)
    return [DeviceCode.decode(code) for code in split_objects(group)]


def test_schedules_of_each_architecture(tmp_path: Path) -> None:
    if backend_of(Target("cuda")).is_here:
        pytest.skip("this machine has an NVIDIA GPU, which does not take these binaries")
    model = _model()
    older, newer = _codes(model)
    assert (older.arch, newer.arch) == ("sm_80", "sm_90a")
    assert dict(older.binaries) == {"sm_80": b"cubin for sm_80", "compute_80": b"PTX for sm_80"}
    assert dict(newer.binaries) == {"sm_90a": b"cubin for sm_90a"}
    assert "wgmma" in newer.source and "wgmma" not in older.source
    assert [info.name for info in older.functions] == [info.name for info in newer.functions]
    model.save(tmp_path / "m.tw")
    manifest = load_artifact(tmp_path / "m.tw").manifest
    assert manifest.target.endswith(" -arch=sm_80,sm_90a")


def test_equal_texts_are_stored_once() -> None:
    (code,) = _codes(_model("float32", "cuda -arch=sm_89,sm_86"))
    assert list(code.binaries) == ["sm_86", "sm_89", "compute_86"]


def test_without_nvrtc_there_are_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(source: str, arch: str) -> bytes:
        raise EnvironmentError_("no NVRTC")

    monkeypatch.setattr(architectures, "compile_cubin", absent)
    assert [dict(code.binaries) for code in _codes(_model())] == [{}, {}]


def test_temporaries_have_the_memory_of_the_largest() -> None:
    def made(target: str) -> tuple[set[int], int]:
        x = relay.var("x", shape=(64, 4096), dtype="float16")
        weight = relay.const(np.ones((320, 4096), "float16"))
        mod = relay.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, weight)))
        model = tw.compile(mod, target=f"cuda -arch={target}", cache=False)
        sizes = {made["elements"] for code in _codes(model) for info in code.functions for made in info.temporaries}
        return sizes, model.manifest.arena_bytes

    one, other, both = made("sm_86"), made("sm_90a"), made("sm_86,sm_90a")
    assert one != other
    assert both == (one[0] | other[0], max(one[1], other[1]))
