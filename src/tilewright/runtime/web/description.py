"""The description of a model in a section of its WebAssembly module, as JSON: tensors, memory, symbolic sizes, errors.

`wasm.mjs` and `WebModel` read nothing else of the model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import round_up
from tilewright.runtime.plan import ExecutionPlan
from tilewright.runtime.signature import TensorSpec, ValueSpec
from tilewright.runtime.threads import MAX_WORKERS
from tilewright.runtime.vm.c_program import ENTRY, program_interface
from tilewright.runtime.vm.debug import DebugMachine
from tilewright.runtime.vm.flat import FlatProgram, flat_model
from tilewright.runtime.web.host import host_operators

#: The name of the section.
SECTION = "tilewright"

#: Types of elements for which JavaScript has arrays; those of 16 bits are numbers of their bits where it has none.
TYPES = (
    "float32", "float64", "float16", "bfloat16", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32",
    "int64", "uint64",
)  # fmt: skip


#: Integers up to it are exact as doubles.
_LARGEST = 2**53


@dataclass(frozen=True)
class Resolved:
    """A model as a module runs it: as one piece, or as a program interpreted around its segments.

    `manifest` has the outputs and errors that it has there. One piece has an `interface`, and for a program of fixed
    sizes the `flat` steps; a program without an interface is interpreted.
    """

    manifest: Manifest
    interface: CInterface | None
    flat: FlatProgram | None = None

    @property
    def entry(self) -> str:
        """The name of the function that a run calls."""
        return ENTRY if self.interface is None else self.interface.entry

    @property
    def pieces(self) -> tuple[ExecutionPlan, ...]:
        """The plans of an interpreted program's segments, else the one of the whole."""
        if self.interface is None:
            return self.manifest.segments
        one = self.interface
        return (
            ExecutionPlan(
                entry=one.entry,
                inputs=one.inputs,
                outputs=one.outputs,
                arena_bytes=one.arena_bytes,
                worker_workspace_bytes=one.scratch_bytes,
                dynamic=self.manifest.dynamic,
                checks=self.manifest.checks,
                alignment=one.alignment,
            ),
        )

    @property
    def max_threads(self) -> int:
        """The workers that may share a run."""
        return min(self.manifest.max_workers or MAX_WORKERS, MAX_WORKERS)


def resolved(manifest: Manifest) -> Resolved:
    """The model as a module runs it. Raises `UnsupportedError`, with the node, for operators that JavaScript lacks."""
    if manifest.is_native:
        return Resolved(manifest, CInterface.of(manifest))
    try:
        flat, outputs = (None, ()) if manifest.executor == DebugMachine.executor else flat_model(manifest)
    except UnsupportedError:
        flat = None
    if flat is None:
        require_operators(manifest)
        return Resolved(manifest, None)
    interface = program_interface(manifest, flat, outputs)
    known = replace(manifest, outputs=outputs, messages=(*manifest.messages, *flat.messages))
    return Resolved(known, interface, flat)


def require_operators(manifest: Manifest) -> None:
    """Refuse a program with operators of the host that there are not in JavaScript."""
    for packed in manifest.packed:
        if packed.segment is None and packed.host not in host_operators():
            node = f" of the node {packed.source!r}" if packed.source else ""
            raise UnsupportedError(
                f"the operator {packed.host}{node} runs on the host, in Python, and there is none in JavaScript: "
                "leave it out of the model, with outputs=, or compile for a processor"
            )


class Description:
    """The contents of the section of a model that is `resolved`. Raises `UnsupportedError` for types of elements."""

    def __init__(self, model: Resolved, weights_bytes: int, target: str, threads: int) -> None:
        """Read off the manifest."""
        manifest, pieces = model.manifest, model.pieces
        self._data: dict[str, Any] = {
            "format": 3,
            "version": manifest.tilewright_version,
            "target": target,
            "weights": weights_bytes,
            "workers": threads,
            "alignment": manifest.alignment,
            "messages": list(manifest.messages),
            "pieces": [_piece(piece) for piece in pieces],
        }
        if model.interface is None:
            self._data["program"] = program_entry(manifest)
            self._data |= {"inputs": tensors(manifest.inputs), "outputs": tensors(manifest.outputs)}

    def section(self, heap: int) -> bytes:
        """The section's bytes, for a module whose `__heap_base` is `heap`."""
        return plain_json({**self._data, "heap": heap}).encode()


def tensors(specs: Sequence[TensorSpec]) -> list[dict[str, Any]]:
    """The entries of tensors; a value that is none has a type.

    Raises `UnsupportedError` for types of elements that JavaScript has no arrays of.
    """
    entries: list[dict[str, Any]] = []
    for spec in specs:
        if isinstance(spec, ValueSpec):
            entries.append({"name": spec.name, "type": spec.type})
            continue
        if str(spec.dtype) not in (*TYPES, "string"):
            raise UnsupportedError(f"{spec}: JavaScript has no arrays of {spec.dtype}; tensors of: {', '.join(TYPES)}")
        entries.append({"name": spec.name, "shape": list(spec.shape), "dtype": str(spec.dtype)})
    return entries


def program_entry(manifest: Manifest) -> dict[str, Any]:
    """The bytecode, what its instructions call, and the constants that they load."""
    assert manifest.program is not None
    packed = [
        {"host": one.host, "attrs": one.attrs, "source": one.source}
        if one.segment is None
        else {"segment": one.segment, "loop": None if one.loop is None else one.loop.carried}
        for one in manifest.packed
    ]
    constants = [
        {"shape": one.shape, "dtype": "string", "data": one.value}
        if one.value is not None
        else {"shape": one.shape, "dtype": one.dtype, "offset": one.offset}
        for one in manifest.constants
    ]
    return {**manifest.program, "packed": packed, "constants": constants}


def _piece(plan: ExecutionPlan) -> dict[str, Any]:
    """Tensors and memory of what runs in one call."""
    found = {
        "inputs": tensors(plan.inputs),
        "outputs": tensors(plan.outputs),
        "arena": round_up(plan.arena_bytes, plan.alignment),
        "scratch": plan.worker_workspace_bytes,
    }
    return found if plan.dynamic is None else found | _sizes(plan)


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


def _sizes(plan: ExecutionPlan) -> dict[str, Any]:
    """Dimensions and what must hold between them, and the entries of what ``ENTRY__plan`` writes."""
    assert plan.dynamic is not None
    sizes = plan.dynamic
    return {
        "dims": [[dim.name, dim.input, dim.axis] for dim in sizes.dims],
        "equal": [[check.input, check.axis, check.value] for check in sizes.checks],
        "checks": list(plan.checks or ()),
        "plan": sizes.table_entries + 1 + sum(map(len, sizes.output_shapes)),
        "table": sizes.table_entries,
        "stride": sizes.stride_entry,
    }
