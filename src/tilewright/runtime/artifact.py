"""Artifacts: a compiled model in one file, and whether this machine can run it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tilewright.errors import ArtifactError
from tilewright.runtime.container import Container, WeightPart, is_container, read_container, write_container
from tilewright.runtime.memory import Array, Region
from tilewright.runtime.native import native
from tilewright.runtime.processor import host_architecture, host_features
from tilewright.runtime.weights_sum import weights_sum

FORMAT = "tilewright-artifact"
_SUM = "weights_sum"  # the manifest's key for the checksum of the weights


def is_artifact(path: str | os.PathLike[str]) -> bool:
    """Whether the file looks like a saved artifact (rather than a model)."""
    return is_container(path)


def save_artifact(
    path: str | os.PathLike[str], manifest: Mapping[str, Any], object_code: bytes, weights: Any, durable: bool = True
) -> None:
    """Write one artifact file, whole or not at all. `weights` as `Executable` takes them.

    With it goes this process's native runtime, unless the model is for another architecture.
    """
    pool = native().pool if manifest.get("arch", host_architecture()) == host_architecture() else None
    size = weights_bytes(manifest, weights)
    noted = {"format": FORMAT, "version": 1, _SUM: weights_sum(weight_parts(manifest, weights), size)}
    write_container(path, {**manifest, **noted}, object_code, weight_parts(manifest, weights), size, durable, pool)


def load_artifact(path: str | os.PathLike[str], check: bool = False) -> Container:
    """Open an artifact and check that this machine can run it; with `check`, also that its weights are undamaged.

    Raises `ArtifactError`.
    """
    found = read_container(path, FORMAT)
    check_machine(found.manifest, str(path))
    expected = found.manifest.pop(_SUM, None)
    if check and expected is not None and weights_sum([(0, found.weights)], found.weights.size) != expected:
        raise ArtifactError(f"{path} is damaged: the checksum of its weights does not match. Compile the model again")
    return found


def check_machine(manifest: Mapping[str, Any], where: str) -> None:
    """Raise `ArtifactError` when the code is for another architecture, or for features this processor lacks."""
    architecture = manifest.get("arch")
    if architecture and architecture != host_architecture():
        raise ArtifactError(
            f"{where} was compiled for {architecture} and this machine is {host_architecture()}; "
            "compile the model for this machine"
        )
    required = manifest.get("cpu_features", ())
    missing = sorted(set(required) - host_features()) if required else []
    if missing:
        raise ArtifactError(
            f"{where} was compiled for a processor with features this one lacks: {', '.join(missing)}. "
            f"Compile the model here, or for a target both machines have (it was {manifest.get('target', 'unknown')})"
        )


def weights_bytes(manifest: Mapping[str, Any], weights: Any) -> int:
    """The size of the weights section: a single buffer's own size, or the end of the last listed weight."""
    if isinstance(weights, (list, tuple)):
        return max((entry["offset"] + entry["bytes"] for entry in manifest.get("weights", ())), default=0)
    return np.frombuffer(weights, np.uint8).size if len(weights) else 0


def weight_parts(manifest: Mapping[str, Any], weights: Any) -> Iterator[WeightPart]:
    """The weights as (offset, buffer) parts in order of offset."""
    if not isinstance(weights, (list, tuple)):
        yield 0, np.frombuffer(weights, np.uint8) if len(weights) else b""
        return
    entries = manifest.get("weights", ())
    if len(entries) != len(weights):
        raise ArtifactError(f"the manifest lists {len(entries)} weights, {len(weights)} were given")
    for entry, array in sorted(zip(entries, weights), key=lambda pair: pair[0]["offset"]):
        data = np.ascontiguousarray(array)
        if data.nbytes != entry["bytes"]:
            raise ArtifactError(f"weight {entry['name']!r} has {data.nbytes} bytes, the manifest says {entry['bytes']}")
        yield entry["offset"], data


def gather_weights(manifest: Mapping[str, Any], weights: Any) -> tuple[Array, Any]:
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
