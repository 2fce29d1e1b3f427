"""The description of a model in a section of its WebAssembly module, as JSON: tensors, memory, symbolic sizes, errors.

`wasm.mjs` and `WebModel` read nothing else of the model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.signature import TensorSpec
from tilewright.runtime.vm.c_program import program_interface
from tilewright.runtime.vm.flat import FlatProgram, flat_model

#: The name of the section.
SECTION = "tilewright"

#: Types of elements for which JavaScript has arrays; those of 16 bits are numbers of their bits where it has none.
TYPES = (
    "float32", "float64", "float16", "bfloat16", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32",
    "int64", "uint64",
)  # fmt: skip


_LARGEST = 2**53  # integers up to it are exact as doubles


def resolved(manifest: Manifest) -> tuple[Manifest, CInterface, FlatProgram | None]:
    """The manifest of a model with the outputs and errors that its program has, its interface, and the program's steps.

    A straight graph is its own. Raises `UnsupportedError`, with the node, for a program of sizes that only a run knows
    or with operators that Python computes.
    """
    if manifest.is_native:
        return manifest, CInterface.of(manifest), None
    flat, outputs = flat_model(manifest)
    interface = program_interface(manifest, flat, outputs)
    return replace(manifest, outputs=outputs, messages=(*manifest.messages, *flat.messages)), interface, flat


class Description:
    """The contents of the section of a model that is `resolved`. Raises `UnsupportedError` for types of elements."""

    def __init__(self, manifest: Manifest, interface: CInterface, weights_bytes: int, target: str) -> None:
        """Read off the manifest."""
        self._data: dict[str, Any] = {
            "format": 2,
            "version": manifest.tilewright_version,
            "target": target,
            "inputs": tensors(interface.inputs),
            "outputs": tensors(interface.outputs),
            "weights": weights_bytes,
            "arena": interface.arena_bytes,
            "scratch": interface.scratch_bytes,
            "workers": interface.max_threads,
            "alignment": interface.alignment,
            "messages": list(manifest.messages),
        }
        if manifest.dynamic is not None:
            self._data |= _sizes(manifest, interface)

    def section(self, heap: int) -> bytes:
        """The section's bytes, for a module whose `__heap_base` is `heap`."""
        return plain_json({**self._data, "heap": heap}).encode()


def tensors(specs: Sequence[TensorSpec]) -> list[dict[str, Any]]:
    """The entries of tensors. Raises `UnsupportedError` for types of elements that JavaScript has no arrays of."""
    for spec in specs:
        if str(spec.dtype) not in TYPES:
            raise UnsupportedError(f"{spec}: JavaScript has no arrays of {spec.dtype}; tensors of: {', '.join(TYPES)}")
    return [{"name": spec.name, "shape": list(spec.shape), "dtype": str(spec.dtype)} for spec in specs]


def plain_json(data: Any) -> str:
    """Data as JSON; numbers that JSON or JavaScript's doubles lack are `{"number": text}`: see `revived`."""
    return json.dumps(_plain(data), separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _plain(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return {"number": "NaN" if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"}
    if isinstance(data, int) and abs(data) > _LARGEST:
        return {"number": str(data)}
    return data


def _sizes(manifest: Manifest, interface: CInterface) -> dict[str, Any]:
    """Dimensions and what must hold between them, and the entries of what ``ENTRY__plan`` writes."""
    assert manifest.dynamic is not None
    return {
        "dims": [[dim.name, dim.input, dim.axis] for dim in manifest.dynamic.dims],
        "equal": [[check.input, check.axis, check.value] for check in manifest.dynamic.checks],
        "checks": list(manifest.checks or ()),
        "plan": interface.plan,
        "table": interface.table,
        "stride": interface.stride,
    }
