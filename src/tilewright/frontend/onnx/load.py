"""Reading an ONNX model from a path, bytes or memory, with one clear error for each way a file can be bad."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from onnx import ModelProto

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.onnx.functions import without_functions
from tilewright.frontend.onnx.wire import split_weights

MAX_OPSET = 28
"""The newest version of the default operator set whose definitions the converters were written against."""

DEFAULT_DOMAIN = ""


@dataclass(frozen=True)
class LoadedModel:
    """A parsed model, raw data of its large initializers, operator set versions by domain, place of external data."""

    proto: ModelProto
    weights: dict[str, memoryview]
    opsets: dict[str, int]
    directory: Path | None
    label: str


def load_model(model: str | os.PathLike[str] | bytes | ModelProto) -> LoadedModel:
    """Parse `model` and check that it is a whole ONNX model of a known version.

    Raises `ModelError` for a missing, foreign, truncated or empty file and `UnsupportedError` for a newer operator set.
    Functions that the model itself defines are inlined.
    """
    directory: Path | None = None
    weights: dict[str, memoryview] = {}
    if isinstance(model, ModelProto):
        proto, label = model, "the model"
    elif isinstance(model, bytes | bytearray | memoryview):
        label = "the model given as bytes"
        proto, weights = _parse(memoryview(model), label)
    else:
        path = Path(model)
        label, directory = str(path), path.parent
        proto, weights = _parse(_map(path), label)
    opsets = _check(proto, label)
    if proto.functions:
        proto = without_functions(proto, label)
    return LoadedModel(proto, weights, opsets, directory, label)


def normalize_domain(domain: str) -> str:
    """`ai.onnx` is another spelling of the default domain, the empty string."""
    return DEFAULT_DOMAIN if domain == "ai.onnx" else domain


def _map(path: Path) -> memoryview:
    """The contents of a file, memory-mapped: pages are read when they are used."""
    if path.is_dir():
        raise ModelError(f"{path} is a directory; give the path of an ONNX model file")
    try:
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b"")
    except FileNotFoundError:
        raise ModelError(f"no such file: {path}") from None
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error


def _parse(data: memoryview, label: str) -> tuple[ModelProto, dict[str, memoryview]]:
    if not data:
        raise ModelError(f"{label} is empty; it is not an ONNX model")
    proto = ModelProto()
    try:
        rest, weights = split_weights(data)
        proto.ParseFromString(rest)
    except (DecodeError, ModelError):
        kind = "a truncated or damaged ONNX model" if _begins_like_a_model(data) else "not an ONNX model"
        raise ModelError(f"{label} ({len(data)} bytes) is {kind}: its protobuf encoding does not parse") from None
    return proto, weights


def _begins_like_a_model(data: memoryview) -> bool:
    """True when the first field is `ir_version` (field 1, varint), which every ONNX writer emits first."""
    return len(data) > 1 and data[0] == 0x08 and 1 <= data[1] <= 64


def _check(proto: Any, label: str) -> dict[str, int]:
    if not proto.ir_version and not proto.graph.node:
        raise ModelError(f"{label} is not an ONNX model: it holds no version and no graph")
    if not proto.HasField("graph") or not proto.graph.output:
        raise ModelError(f"{label} holds no graph with outputs; the file is truncated or damaged")
    opsets = {normalize_domain(entry.domain): int(entry.version) for entry in proto.opset_import}
    if not opsets:
        raise ModelError(f"{label} names no operator set (opset_import); the file is truncated or damaged")
    for domain, number in opsets.items():
        if not 0 <= number < 1 << 31:
            raise ModelError(
                f"{label} asks for version {number} of the operator set {domain or 'ai.onnx'!r}, which is none"
            )
    version = opsets.setdefault(DEFAULT_DOMAIN, 1)
    if version > MAX_OPSET:
        raise UnsupportedError(
            f"{label} uses version {version} of the ONNX operator set; this version of Tilewright knows versions up to "
            f"{MAX_OPSET}. Export the model with an older opset, or convert it with onnx.version_converter"
        )
    return opsets
