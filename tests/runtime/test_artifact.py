"""The artifact file: every kind of damage is one clear `ArtifactError`, and nothing half-written is left."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tilewright.errors import ArtifactError
from tilewright.load import load
from tilewright.runtime import processor
from tilewright.runtime.artifact import is_artifact, load_artifact, save_artifact, weight_parts, weights_bytes
from tilewright.runtime.container import MAGIC, WeightPart, write_container
from tilewright.runtime.memory import round_up
from tilewright.runtime.module import FunctionInfo, Module, Param
from tilewright.runtime.native import PoolCode, _chosen, native
from tilewright.runtime.weights_sum import weights_sum

WEIGHTS = [np.arange(8, dtype=np.float32), np.ones(8, np.float32)]


@pytest.fixture
def artifact(kernels: ModuleType, tmp_path: Path) -> Path:
    path = tmp_path / "model.tw"
    save_artifact(path, kernels.MANIFEST, kernels.object_of(kernels.MODEL), WEIGHTS)
    return path


def test_layout_of_the_file(artifact: Path, kernels: ModuleType) -> None:
    data = artifact.read_bytes()
    offset, length = (int.from_bytes(data[at : at + 8], "little") for at in (24, 32))
    manifest = json.loads(data[offset : offset + length])
    pool, total = manifest.pop("pool"), manifest.pop("weights_sum")
    assert data[:16] == MAGIC and manifest == {k: v for k, v in kernels.DATA.items() if k != "entry"}
    behind = _position_of_pool(data)
    assert hashlib.sha256(data[behind : behind + pool["bytes"]]).hexdigest() == pool["sha256"]
    weights = int.from_bytes(data[56:64], "little")
    assert total == weights_sum([(0, np.frombuffer(data, np.uint8, offset=weights))], len(data) - weights)
    assert weights % 4096 == 0
    np.testing.assert_array_equal(np.frombuffer(data, np.float32, 8, weights), WEIGHTS[0])
    np.testing.assert_array_equal(np.frombuffer(data, np.float32, 8, weights + 64), WEIGHTS[1])
    assert len(data) == weights + 96


def test_every_truncation_is_noticed(artifact: Path) -> None:
    data = artifact.read_bytes()
    for length in (0, 1, 15, 16, 19, 24, 100, 127, 128, 600, len(data) // 2, len(data) - 1):
        artifact.write_bytes(data[:length])
        with pytest.raises(ArtifactError, match="not a Tilewright artifact" if length < 16 else "truncated|damaged"):
            load(artifact)


def test_flipped_bytes_are_noticed(artifact: Path) -> None:
    data = bytearray(artifact.read_bytes())
    weights = int.from_bytes(data[56:64], "little")
    manifest_bytes, code, code_bytes = (int.from_bytes(data[at : at + 8], "little") for at in (32, 40, 48))
    positions = [*range(0, 112, 3), *range(128, 128 + manifest_bytes, 41), *range(code, code + code_bytes, 97)]
    assert max(positions) < weights
    for position in positions:
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        artifact.write_bytes(damaged)
        with pytest.raises(ArtifactError):
            load(artifact)


def test_foreign_files_are_no_artifacts(tmp_path: Path, kernels: ModuleType) -> None:
    other = tmp_path / "other.tw"
    other.write_bytes(b"\x08\x07\x12\x07pytorch" * 50)
    assert not is_artifact(other) and not is_artifact(tmp_path / "absent")
    with pytest.raises(ArtifactError, match=r"other\.tw is not a Tilewright artifact"):
        load(other)
    with pytest.raises(ArtifactError, match=r"cannot read .*absent: No such file"):
        load(tmp_path / "absent")
    with pytest.raises(ArtifactError, match=r"cannot read .*Is a directory"):
        load(tmp_path)
    params = (Param("x", "float32"), Param("y", "float32"))
    Module(kernels.object_of(kernels.AXPY), [FunctionInfo("axpy", params)]).save(other)
    with pytest.raises(ArtifactError, match="holds a tilewright-module, not a tilewright-artifact"):
        load(other)


def test_another_version_is_named(artifact: Path) -> None:
    data = bytearray(artifact.read_bytes())
    data[16] = 9
    artifact.write_bytes(data)
    with pytest.raises(ArtifactError, match="artifact version 9; this Tilewright reads version 2"):
        load(artifact)


def test_another_machine_is_named(kernels: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, code = tmp_path / "model.tw", kernels.object_of(kernels.MODEL)
    host = processor.host_architecture()
    save_artifact(path, replace(kernels.MANIFEST, arch=host, cpu_features=("avx1024", "zz")), code, WEIGHTS)
    with pytest.raises(ArtifactError, match=r"features this one lacks: avx1024, zz\. Compile .*llvm -mcpu=test"):
        load(path)
    save_artifact(path, replace(kernels.MANIFEST, arch="riscv64"), code, WEIGHTS)
    with pytest.raises(ArtifactError, match=f"compiled for riscv64 and this machine is {host}"):
        load(path)


def test_an_incomplete_manifest_names_the_missing_field(kernels: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "model.tw"
    code = kernels.object_of(kernels.MODEL)
    write_container(path, {**kernels.DATA, "inputs": [{"name": "x"}]}, code, pool=native().pool)
    with pytest.raises(ArtifactError, match=r"damaged: its manifest.inputs\[0\] is no TensorSpec"):
        load(path)
    write_container(path, {k: v for k, v in kernels.DATA.items() if k != "outputs"}, code, pool=native().pool)
    with pytest.raises(ArtifactError, match="its manifest is incomplete: it has no 'outputs'"):
        load(path)


def test_a_failed_save_leaves_the_old_file(artifact: Path, kernels: ModuleType) -> None:
    before = artifact.read_bytes()
    with pytest.raises(ArtifactError, match="weight 'b' has"):
        save_artifact(artifact, kernels.MANIFEST, b"", [WEIGHTS[0], WEIGHTS[1][:3]])
    assert artifact.read_bytes() == before and os.listdir(artifact.parent) == ["model.tw"]
    with pytest.raises(ArtifactError, match=r"cannot write .*absent/model\.tw: No such file"):
        save_artifact(artifact.parent / "absent" / "model.tw", kernels.MANIFEST, b"", WEIGHTS)


def test_weights_are_mapped_not_read(artifact: Path) -> None:
    found = load_artifact(artifact)
    assert found.weights.ctypes.data % 4096 == 0 and not found.weights.flags.writeable
    artifact.unlink()
    np.testing.assert_array_equal(found.weights[:32].view(np.float32), WEIGHTS[0])


def _position_of_pool(data: bytes) -> int:
    """The offset of the worker pool's code: behind the object code."""
    return round_up(sum(int.from_bytes(data[at : at + 8], "little") for at in (40, 48)), 64)


def test_the_pool_goes_with_the_model(artifact: Path) -> None:
    found = load_artifact(artifact)
    assert found.pool == native().pool
    data = bytearray(artifact.read_bytes())
    data[_position_of_pool(data) + 300] ^= 1
    artifact.write_bytes(data)
    with pytest.raises(ArtifactError, match="damaged: the checksum of its native runtime"):
        load(artifact)


def test_a_pool_of_another_runtime_is_left_alone(kernels: ModuleType, tmp_path: Path) -> None:
    path, code = tmp_path / "model.tw", kernels.object_of(kernels.MODEL)
    parts = artifact_parts(kernels)
    write_container(path, kernels.DATA, code, *parts, pool=PoolCode("of another text", b"no code at all"))
    assert load_artifact(path).pool == PoolCode("of another text", b"no code at all")
    assert _chosen(load_artifact(path).pool) == native().pool
    write_container(path, kernels.DATA, code, *parts)
    assert load_artifact(path).pool is None and _chosen(None) == native().pool
    for note in ({"bytes": 3}, {"bytes": "3", "sha256": "", "key": ""}, 5):
        write_container(path, {**kernels.DATA, "pool": note}, code, *parts)
        with pytest.raises(ArtifactError, match=r"damaged|incomplete manifest"):
            load(path)


def test_a_process_without_a_compiler_says_that_it_needs_the_pool(kernels: ModuleType, tmp_path: Path) -> None:
    path, code = tmp_path / "model.tw", kernels.object_of(kernels.MODEL)
    program = f"import tilewright as tw; tw.load({str(path)!r})"
    for pool, said in ((None, "no worker pool"), (PoolCode("0-x86_64", b""), r"another runtime \(0-x86_64\)")):
        write_container(path, kernels.DATA, code, *artifact_parts(kernels), pool=pool)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert re.search(f"ArtifactError: the artifact holds .*{said}.* Compile the model again", done.stderr)
    write_container(path, kernels.DATA, code, *artifact_parts(kernels), pool=native().pool)
    program += "; import sys; print('llvmlite' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )


def artifact_parts(kernels: ModuleType) -> tuple[list[WeightPart], int]:
    return list(weight_parts(kernels.MANIFEST, WEIGHTS)), weights_bytes(kernels.MANIFEST, WEIGHTS)


def test_damaged_weights_are_found_when_asked_for(artifact: Path) -> None:
    load(artifact, check=True)
    data = bytearray(artifact.read_bytes())
    data[-3] ^= 1
    artifact.write_bytes(data)
    load(artifact)
    with pytest.raises(ArtifactError, match=r"model\.tw is damaged: the checksum of its weights does not match"):
        load(artifact, check=True)


@pytest.mark.parametrize("sizes", [[], [5], [8, 3, 1 << 20, 64], [(5 << 20) + 12, 7]])
def test_the_checksum_of_parts_is_that_of_the_whole(sizes: list[int]) -> None:
    generator, offset, parts = np.random.default_rng(3), 0, []
    for size in sizes:
        parts.append((offset, generator.integers(0, 256, size, np.uint8)))
        offset = round_up(offset + size, 64)
    whole = np.zeros(offset, np.uint8)
    for start, part in parts:
        whole[start : start + part.size] = part
    assert weights_sum(parts, offset) == weights_sum([(0, whole)], offset)
    for position in generator.integers(0, max(offset, 1), 5 if offset else 0):
        whole[position] ^= 4
        assert weights_sum(parts, offset) != weights_sum([(0, whole)], offset)
        whole[position] ^= 4
