"""Packages of ML programs, written without coremltools."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.frontend.protobuf import encode
from tilewright.frontend.coreml.schema import DTYPES, SCHEMA

_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_FIELDS = {"float32": "floats", "int32": "ints", "bool": "bools"}


def kind(dtype: str, shape: Sequence[int | None]) -> dict[str, Any]:
    """A ValueType; None leaves an extent open."""
    dims = [{"unknown": {}} if extent is None else {"constant": {"size": extent}} for extent in shape]
    return {"tensorType": {"dataType": _NAMES[dtype], "rank": len(shape), "dimensions": dims}}


def value(data: Any) -> dict[str, Any]:
    """A Value of an array or a text."""
    if isinstance(data, str):
        return {
            "type": {"tensorType": {"dataType": "STRING"}},
            "immediateValue": {"tensor": {"strings": {"values": [data]}}},
        }
    array = np.asarray(data)
    array = array.astype({"int64": "int32", "float64": "float32"}.get(str(array.dtype), array.dtype))
    tensor = {_FIELDS[str(array.dtype)]: {"values": array.ravel().tolist()}}
    return {"type": kind(str(array.dtype), array.shape), "immediateValue": {"tensor": tensor}}


def blob(dtype: str, shape: Sequence[int], offset: int, name: str = "@model_path/weights/weight.bin") -> dict[str, Any]:
    """A Value that lies in a file."""
    return {"type": kind(dtype, shape), "blobFileValue": {"fileName": name, "offset": offset}}


def operation(type_: str, output: str, **arguments: Any) -> dict[str, Any]:
    """An Operation: arguments that are texts beginning with % name values, others are constants."""
    inputs = {}
    for key, given in arguments.items():
        several = isinstance(given, list) and any(isinstance(item, str) for item in given)
        listed = given if several else [given]
        inputs[key] = {
            "arguments": [
                {"name": item[1:]} if isinstance(item, str) and item[:1] == "%"
                else {"value": item if isinstance(item, dict) else value(item)}
                for item in listed
            ]
        }  # fmt: skip
    return {"type": type_, "inputs": inputs, "outputs": [{"name": output, "type": kind("float32", [])}]}


def specification(inputs: Mapping[str, Sequence[int | None]], outputs: Sequence[str], *operations: Any) -> bytes:
    """A Model of one ML program."""
    block = {"outputs": list(outputs), "operations": list(operations)}
    entries = [{"name": name, "type": kind("float32", shape)} for name, shape in inputs.items()]
    function = {"inputs": entries, "opset": "CoreML7", "block_specializations": {"CoreML7": block}}
    description = {"input": [{"name": name} for name in inputs], "output": [{"name": name} for name in outputs]}
    program = {"version": 1, "functions": {"main": function}}
    return encode(SCHEMA, "Model", {"specificationVersion": 8, "description": description, "mlProgram": program})


def weights(*arrays: np.ndarray) -> tuple[bytes, list[int]]:
    """A file of blobs, and where each begins."""
    out, positions = bytearray(struct.pack("<II", len(arrays), 2).ljust(64, b"\0")), []
    for array in arrays:
        positions.append(len(out))
        head = struct.pack("<IIQQ", 0xDEADBEEF, 2, array.nbytes, len(out) + 64)
        out += head.ljust(64, b"\0") + array.tobytes().ljust(-(-array.nbytes // 64) * 64, b"\0")
    return bytes(out), positions


def package(folder: Path, spec: bytes, data: bytes = b"", path: str = "com.apple.CoreML/model.mlmodel") -> Path:
    """An .mlpackage of a specification and a file of weights."""
    root = folder / "model.mlpackage"
    inner = root / "Data" / "com.apple.CoreML"
    (inner / "weights").mkdir(parents=True)
    (inner / "model.mlmodel").write_bytes(spec)
    (inner / "weights" / "weight.bin").write_bytes(data)
    (root / "Manifest.json").write_text(
        json.dumps({"itemInfoEntries": {"A": {"path": path}}, "rootModelIdentifier": "A"})
    )
    return root
