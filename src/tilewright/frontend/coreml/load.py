"""The files of a Core ML model: the specification, a protocol buffer, and weights that lie beside it as blobs.

An .mlpackage is a folder whose Manifest.json says where the specification lies; an .mlmodel is the specification alone.
Nothing outside of the folder is read, whatever the files name.
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.coreml.schema import DTYPES, SCHEMA
from tilewright.frontend.messages import Record
from tilewright.frontend.source import Source
from tilewright.frontend.wire import looks_like, read_message
from tilewright.support.dtype import DType

MANIFEST = "Manifest.json"
_PREFIX = "@model_path/"
_SENTINEL = 0xDEADBEEF
_MOST_MANIFEST = 1 << 20
#: What a model may be that is read here, as the fields of `Model`.
_READ = ("mlProgram", "neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")


def is_specification(contents: memoryview) -> bool:
    """True for what begins as a specification: its version, then a description."""
    if bytes(contents[:1]) != b"\x08" or len(contents) < 4:
        return False
    seen = looks_like(contents[: 1 << 16], SCHEMA, "Model", most=2)
    return seen == {"specificationVersion", "description"}


@dataclass
class MlModel:
    """The specification of a model, and the folder that its blobs lie in."""

    label: str
    spec: Record
    folder: Path | None

    def blob(self, name: str, offset: int, dtype: str, shape: tuple[int, ...], where: str) -> np.ndarray:
        """The numbers at `offset` of the file `name`. Raises `ModelError` for another folder, or a bad position."""
        path = self._blob_path(name, where)
        contents = Source.of(path).contents
        begin, size = _position(contents, offset, where)
        wanted = int(np.prod(shape, dtype=object)) * DType(dtype).numpy.itemsize
        if size != wanted or begin + size > len(contents):
            raise ModelError(
                f"{where}: {wanted} bytes at {begin} of {path.name} ({len(contents)} bytes) are needed for {dtype}"
                f"{list(shape)}; the file has {size} there"
            )
        data = np.frombuffer(contents, DType(dtype).numpy, wanted // DType(dtype).numpy.itemsize, begin)
        return data.reshape(shape)

    def _blob_path(self, name: str, where: str) -> Path:
        parts = PurePosixPath(name.removeprefix(_PREFIX)).parts
        if not name.startswith(_PREFIX) or not parts or any(part in ("..", "/", ".") for part in parts) or "\0" in name:
            raise ModelError(f"{where} names the file {name!r}, which is not within the model")
        if self.folder is None:
            raise ModelError(f"{where} has its weights in the file {name!r}; pass the path of the .mlpackage")
        path = self.folder.joinpath(*parts)
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise ModelError(f"{where} names the file {name!r}, which is not within the model")
        return path


def _position(contents: memoryview, offset: int, where: str) -> tuple[int, int]:
    """The offset of the data of the blob at `offset`, and its number of bytes."""
    if not 0 <= offset <= len(contents) - 64:
        raise ModelError(f"{where} names byte {offset} of a file of weights of {len(contents)} bytes")
    sentinel, _, size, begin = struct.unpack_from("<IIQQ", contents, offset)
    if sentinel != _SENTINEL:
        raise ModelError(f"{where} names byte {offset} of the file of weights, where no blob begins")
    return begin, size


def load_model(model: str | os.PathLike[str] | bytes) -> MlModel:
    """The specification read and checked to be an ML program or a neural network."""
    source = Source.of(model)
    if source.is_folder and source.path is not None:
        path = specification_path(source.path)
        source = Source.of(path)
    spec = read_message(source.contents, SCHEMA, "Model", source.label, "a Core ML model")
    if not any(spec.has(kind) for kind in _READ):
        kind = "a pipeline" if spec.has("pipeline") else "no network"
        raise UnsupportedError(
            f"{source.label} holds {kind}, neither an ML program nor a neural network; convert its parts one by one"
        )
    return MlModel(source.label, spec, None if source.path is None else source.path.parent)


def specification_path(folder: Path) -> Path:
    """The path of the specification of an .mlpackage, by its manifest. Raises `ModelError`."""
    manifest = folder / MANIFEST
    try:
        if manifest.stat().st_size > _MOST_MANIFEST:
            raise ModelError(f"{manifest} has more than {_MOST_MANIFEST} bytes")
        listed = json.loads(manifest.read_text(encoding="utf-8"))
        name = str(listed["itemInfoEntries"][listed["rootModelIdentifier"]]["path"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{manifest} names no model: {type(error).__name__}: {error}") from None
    path = folder / "Data" / name
    if ".." in PurePosixPath(name).parts or "\0" in name or not path.resolve().is_relative_to(folder.resolve()):
        raise ModelError(f"{manifest} names {name!r}, which is not within the model")
    return path


def value_array(value: Record, model: MlModel, where: str) -> np.ndarray | str | list[object]:
    """A constant of a program: an array, a text, or a list of either."""
    if value.type.has("listType") or value.immediateValue.has("list"):
        return [value_array(item, model, where) for item in value.immediateValue.list.values]
    if value.type.has("tupleType") or value.immediateValue.has("tuple"):
        return [value_array(item, model, where) for item in value.immediateValue.tuple.values]
    tensor = value.type.tensorType
    shape = tuple(int(dim.constant.size) for dim in tensor.dimensions)
    if tensor.dataType == "STRING":
        texts = value.immediateValue.tensor.strings.values
        return texts[0] if not shape and texts else list(texts)
    dtype = DTYPES.get(tensor.dataType)
    if dtype is None:
        raise UnsupportedError(f"{where} is of the element type {tensor.dataType}, which is not supported")
    if value.has("blobFileValue"):
        blob = value.blobFileValue
        return model.blob(blob.fileName, int(blob.offset), dtype, shape, where)
    return _immediate(value.immediateValue.tensor, dtype, shape, where)


def _immediate(tensor: Record, dtype: str, shape: tuple[int, ...], where: str) -> np.ndarray:
    if tensor.has("bytes"):
        raw = tensor.bytes.values
        itemsize = DType(dtype).numpy.itemsize
        data = np.frombuffer(raw, DType(dtype).numpy, len(raw) // itemsize)
    else:
        kind = next((name for name in ("floats", "ints", "bools", "longInts", "doubles") if tensor.has(name)), "floats")
        data = np.asarray(getattr(tensor, kind).values)
        with np.errstate(over="ignore", invalid="ignore"):
            data = data.astype(DType(dtype).numpy)
    count = int(np.prod(shape, dtype=object))
    if data.size != count:
        raise ModelError(f"{where} has {data.size} numbers for the shape {list(shape)}")
    return data.reshape(shape)
