"""Artifacts: a compiled model in one file, and whether this machine can run it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import ArtifactError
from tilewright.runtime.container import WeightPart, is_container, read_container, write_container
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array, Region
from tilewright.runtime.native import PoolCode, native
from tilewright.runtime.processor import host_architecture, host_features
from tilewright.runtime.signing import Key
from tilewright.runtime.weights_sum import weights_sum

FORMAT = "tilewright-artifact"
_VERSION = 2  # of the manifest
_SUM = "weights_sum"  # the manifest's key for the checksum of the weights


@dataclass(frozen=True)
class Artifact:
    """The contents of an artifact file: see `Container`."""

    manifest: Manifest
    object_code: bytes
    weights: Array
    pool: PoolCode | None = None

    def to_json(self) -> dict[str, Any]:
        """The manifest as it stands in the file, but for checksums."""
        return file_manifest(self.manifest)


def file_manifest(manifest: Manifest) -> dict[str, Any]:
    """The manifest as it stands in an artifact file."""
    return {"format": FORMAT, "version": _VERSION, **manifest.to_json()}


def is_artifact(path: str | os.PathLike[str]) -> bool:
    """True if the file looks like a saved artifact (rather than a model)."""
    return is_container(path)


def save_artifact(
    path: str | os.PathLike[str],
    manifest: Manifest,
    object_code: bytes,
    weights: Any,
    durable: bool = True,
    pool: PoolCode | None = None,
) -> None:
    """Write one artifact file, whole or not at all. `weights` as `Executable` takes them.

    With it goes the native runtime `pool`: this process's where none is given and the architecture is the same.
    """
    if pool is None and manifest.device in ("cpu", "heterogeneous") and manifest.arch in ("", host_architecture()):
        pool = native().pool
    size = weights_bytes(manifest, weights)
    noted = file_manifest(manifest) | {_SUM: weights_sum(weight_parts(manifest, weights), size)}
    write_container(path, noted, object_code, weight_parts(manifest, weights), size, durable, pool)


def load_artifact(path: str | os.PathLike[str], check: bool = False, verify: Key | None = None) -> Artifact:
    """Open an artifact and check that this machine can run it; with `check`, also that its weights are undamaged.

    With `verify`, a public key, first that its owner signed the file. Raises `ArtifactError`.
    """
    found = read_container(path, FORMAT, verify)
    try:
        manifest = Manifest.from_json(found.manifest)
    except ArtifactError as error:
        raise ArtifactError(f"{path} is damaged: its {error}. Compile the model again") from None
    check_machine(manifest, str(path))
    needed = max((entry.offset + entry.bytes for entry in manifest.weights), default=0)
    if found.weights.size < needed:
        raise ArtifactError(
            f"{path} is damaged: its weights take {found.weights.size} bytes, and its manifest lists {needed}. "
            "Compile the model again"
        )
    expected = found.manifest.get(_SUM)
    if check and expected is not None and weights_sum([(0, found.weights)], found.weights.size) != expected:
        raise ArtifactError(f"{path} is damaged: the checksum of its weights does not match. Compile the model again")
    return Artifact(manifest, found.object_code, found.weights, found.pool)


def check_machine(manifest: Manifest, where: str) -> None:
    """Raise `ArtifactError` when the code is for another architecture, or for features this processor lacks."""
    architecture = manifest.arch
    if architecture and architecture != host_architecture():
        raise ArtifactError(
            f"{where} was compiled for {architecture} and this machine is {host_architecture()}; "
            "compile the model for this machine"
        )
    required = manifest.cpu_features
    missing = sorted(set(required) - host_features()) if required else []
    if missing:
        raise ArtifactError(
            f"{where} was compiled for a processor with features this one lacks: {', '.join(missing)}. "
            f"Compile the model here, or for a target both machines have (it was {manifest.target or 'unknown'})"
        )


def weights_bytes(manifest: Manifest, weights: Any) -> int:
    """The size of the weights section: a single buffer's own size, or the end of the last listed weight."""
    if isinstance(weights, (list, tuple)):
        return max((entry.offset + entry.bytes for entry in manifest.weights), default=0)
    return np.frombuffer(weights, np.uint8).size if len(weights) else 0


def weight_parts(manifest: Manifest, weights: Any) -> Iterator[WeightPart]:
    """The weights as (offset, buffer) parts in order of offset."""
    if not isinstance(weights, (list, tuple)):
        yield 0, np.frombuffer(weights, np.uint8) if len(weights) else b""
        return
    entries = manifest.weights
    if len(entries) != len(weights):
        raise ArtifactError(f"the manifest lists {len(entries)} weights, {len(weights)} were given")
    for entry, array in sorted(zip(entries, weights), key=lambda pair: pair[0].offset):
        data = np.ascontiguousarray(array)
        if data.nbytes != entry.bytes:
            raise ArtifactError(f"weight {entry.name!r} has {data.nbytes} bytes, the manifest says {entry.bytes}")
        yield entry.offset, data


def gather_weights(manifest: Manifest, weights: Any) -> tuple[Array, Any]:
    """The weights as one block of aligned bytes, and its owner. A single buffer on a cache line is used as it is."""
    size = weights_bytes(manifest, weights)
    if not isinstance(weights, (list, tuple)) and size:
        block = np.frombuffer(weights, np.uint8)
        if block.__array_interface__["data"][0] % 64 == 0:
            return block, weights
    region = Region(size)
    block = region.array()
    for offset, part in weight_parts(manifest, weights):
        data = np.frombuffer(part, np.uint8) if not isinstance(part, np.ndarray) else part.reshape(-1).view(np.uint8)
        block[offset : offset + data.size] = data
    return block, region
