"""Contracts: a model is linked only with the manifest that its code was compiled for, and its weights are all there."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay, te
from tilewright.errors import ArtifactError
from tilewright.runtime.artifact import FORMAT
from tilewright.runtime.container import Container, read_container, write_container

KINDS = {"graph": 4, "aot": te.size_var("H"), "vm": relay.Any()}


@pytest.fixture(scope="module", params=list(KINDS))
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Container:
    """An artifact of each executor, read back."""
    x = relay.var("x", shape=(KINDS[request.param], 8))
    body = relay.nn.softmax(relay.nn.dense(relay.nn.relu(x), relay.const(np.ones((16, 8), "float32"))))
    path = tmp_path_factory.mktemp("saved") / "model.tw"
    mod = relay.IRModule.from_expr(relay.Function([x], body))
    tw.compile(mod, cache=False, executor=request.param, threads=1).save(path)
    return read_container(path, FORMAT)


def forged(found: Container, path: Path, manifest: dict[str, Any] | None = None, weights: Any = None) -> Path:
    """The artifact with another manifest or other weights, its checksums right."""
    kept = found.weights if weights is None else weights
    write_container(path, manifest or found.manifest, found.object_code, [(0, kept)], kept.size, False, found.pool)
    return path


def segment_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """The part of a manifest that tells of compiled code."""
    return manifest["segments"][0] if manifest.get("segments") else manifest


CHANGES: list[Callable[[dict[str, Any]], Any]] = [
    lambda m: segment_of(m)["inputs"][0].update(dtype="float16"),
    lambda m: segment_of(m)["inputs"][0]["shape"].__setitem__(1, 4),
    lambda m: segment_of(m)["outputs"][0]["shape"].__setitem__(1, 1),
    lambda m: segment_of(m).update(worker_workspace_bytes=1 << 20),
    lambda m: segment_of(m)["kernels"][-1]["args"].pop(),
    lambda m: m["weights"].append({"name": "more", "offset": 0, "bytes": 4}),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_manifest_that_is_not_the_codes_own_is_refused(
    saved: Container, change: Callable[[dict[str, Any]], Any], tmp_path: Path
) -> None:
    assert tw.load(forged(saved, tmp_path / "same.tw"), threads=1) is not None
    manifest = copy.deepcopy(saved.manifest)
    change(manifest)
    with pytest.raises(ArtifactError, match=r"manifest"):
        tw.load(forged(saved, tmp_path / "model.tw", manifest), threads=1)


def test_sizes_that_do_not_fit_the_code_are_told(saved: Container, tmp_path: Path) -> None:
    manifest = copy.deepcopy(saved.manifest) | {"arena_bytes": 1 << 20}
    with pytest.raises(
        ArtifactError, match=r"manifest.arena_bytes does not fit its code: it is 1048576, and the code was compiled for"
    ):
        tw.load(forged(saved, tmp_path / "model.tw", manifest), threads=1)


def test_what_is_for_people_to_read_may_change(saved: Container, tmp_path: Path) -> None:
    manifest = copy.deepcopy(saved.manifest) | {"tilewright_version": "another"}
    segment_of(manifest)["kernels"][0]["source"] = "renamed"
    assert tw.load(forged(saved, tmp_path / "model.tw", manifest), threads=1).version == "another"


@pytest.mark.parametrize("missing", [1, 64, 10**6])
def test_weights_that_are_too_short_are_refused(saved: Container, missing: int, tmp_path: Path) -> None:
    assert saved.weights.size
    weights = saved.weights[: max(saved.weights.size - missing, 0)]
    with pytest.raises(ArtifactError, match=r"is damaged: its weights take \d+ bytes, and its manifest lists \d+"):
        tw.load(forged(saved, tmp_path / "model.tw", None, weights), threads=1)


def test_weights_that_are_longer_are_refused(saved: Container, tmp_path: Path) -> None:
    weights = np.concatenate([saved.weights, np.zeros(64, np.uint8)])
    with pytest.raises(ArtifactError, match=r"manifest.weights_bytes does not fit its code"):
        tw.load(forged(saved, tmp_path / "model.tw", None, weights), threads=1)
