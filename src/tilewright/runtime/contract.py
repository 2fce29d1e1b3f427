"""The assumptions of a model's object code about its manifest, as the code itself states them.

Code has offsets in the arena and among the weights, numbers of arguments and sizes of tensors in it; a manifest that
says otherwise has it read and write where nothing is. The compiler therefore puts a text into the object code that
names each such field with its value, or the digest of it, and a model is linked only with the manifest that fits.
Names, sources and figures of kernels are for people to read and are no part of it.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tilewright.errors import ArtifactError
from tilewright.runtime.link import Linked
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.plan import ExecutionPlan
from tilewright.support.dtype import DType

#: The symbol of the text: its length in 8 bytes, then JSON.
SYMBOL = "tilewright_contract"

Facts = dict[str, Any]


def contract_of(manifest: Manifest, weights_bytes: int) -> bytes:
    """The text for code that was compiled with `manifest` and a section of weights of `weights_bytes`."""
    text = json.dumps(_facts(manifest, weights_bytes), separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text


def check_contract(linked: Linked, manifest: Manifest, weights_bytes: int) -> None:
    """Raise `ArtifactError` unless the code was compiled for this manifest. Code without a text is not checked."""
    address = linked.find(SYMBOL)
    if address is None:
        return
    length = int.from_bytes(ctypes.string_at(address, 8), "little")
    stated = json.loads(ctypes.string_at(address + 8, length))
    for name, value in _facts(manifest, weights_bytes).items():
        if stated.get(name) != value:
            raise ArtifactError(
                f"the model's manifest.{name} does not fit its code{_values(value, stated.get(name))}. "
                "Compile the model again"
            )


def _facts(manifest: Manifest, weights_bytes: int) -> Facts:
    weights = [(weight.offset, weight.bytes) for weight in manifest.weights]
    parts = manifest.program, manifest.packed, manifest.constants, [_segment_facts(s) for s in manifest.segments]
    program, packed, constants, segments = map(_digest, parts)
    return {
        **_segment_facts(manifest),
        "executor": manifest.executor,
        "arch": manifest.arch,
        "weights_bytes": weights_bytes,
        "weights": _digest(weights),
        "segments": segments,
        "program": program,
        "packed": packed,
        "constants": constants,
    }


def _segment_facts(segment: ExecutionPlan) -> Facts:
    return {
        "entry": segment.entry,
        "inputs": _digest(segment.inputs),
        "outputs": _digest(segment.outputs),
        "arena_bytes": segment.arena_bytes,
        "worker_workspace_bytes": segment.worker_workspace_bytes,
        "dynamic": _digest(segment.dynamic if segment.alignment == 64 else (segment.dynamic, segment.alignment)),
        "checks": _digest(segment.checks),
        "kernels": _digest([(kernel.name, kernel.args) for kernel in segment.kernels]),
    }


def _digest(value: Any) -> str:
    """A short digest of plain data and records; as data is compared after it was read from JSON, order counts."""
    text = json.dumps(value, default=_plain, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, DType) else dict(value) if isinstance(value, Mapping) else value.to_json()


def _values(value: Any, stated: Any) -> str:
    return f": it is {value}, and the code was compiled for {stated}" if isinstance(value, int) else ""
