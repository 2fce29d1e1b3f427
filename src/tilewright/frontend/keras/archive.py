"""Keras files: `.keras` archives (zip of JSON and HDF5) and legacy `.h5` files, read with bounds on everything.

No path of an archive is ever written to disk, so none can lead out of a folder; what an entry says it unpacks to is
compared with what the archive has before it is unpacked. Nothing is deserialized but JSON and arrays of numbers.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.errors import ModelError, TilewrightError, UnsupportedError
from tilewright.frontend.keras.weights import Weights, flat_weights, no_weights, open_hdf5, stored_weights
from tilewright.frontend.source import Source

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
#: What JSON of a configuration takes at most.
_MOST_JSON = 1 << 28
#: What is unpacked at most from an archive of n bytes: n times this, and the constant.
_MOST_GROWTH, _ALWAYS_ALLOWED = 20, 1 << 26
#: Levels of layers within layers, and of lists within their arguments.
_MOST_DEPTH = 200


class Archive:
    """`config` is the model's as Keras serializes it; `assets` are the files of layers, such as vocabularies."""

    def __init__(
        self, label: str, config: dict[str, Any], weights: Weights, assets: Mapping[str, bytes], legacy: bool
    ) -> None:
        self.label = label
        self.config = config
        self.weights = weights
        self.assets = assets
        self.legacy = legacy


def is_keras(source: Source) -> bool:
    """True for an archive with a configuration and metadata beside it, and for HDF5."""
    if bytes(source.contents[:8]) == HDF5_MAGIC:
        return True
    return {"config.json", "metadata.json"} <= source.members and not source.is_folder


def open_archive(model: str | os.PathLike[str] | bytes) -> Archive:
    """The model of a path or of bytes. Raises `ModelError` where it is damaged or none."""
    source = Source.of(model)
    if bytes(source.contents[:8]) == HDF5_MAGIC:
        return _legacy(source.label, bytes(source.contents))
    if not is_keras(source):
        raise ModelError(f"{source.label} is neither a .keras archive (a zip file with config.json) nor an HDF5 file")
    try:
        with zipfile.ZipFile(io.BytesIO(source.contents)) as archive:
            return _zipped(source.label, archive, len(source.contents))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError, RuntimeError) as error:
        if isinstance(error, TilewrightError):
            raise
        raise ModelError(f"{source.label} is a damaged .keras archive: {error}") from None


def _zipped(label: str, archive: zipfile.ZipFile, size: int) -> Archive:
    entries = {info.filename: info for info in archive.infolist()}
    most = size * _MOST_GROWTH + _ALWAYS_ALLOWED
    total = sum(info.file_size for info in entries.values())
    if total > most:
        raise ModelError(f"{label} ({size} bytes) says that it unpacks to {total} bytes, more than {most}")

    def read(name: str) -> bytes:
        with archive.open(entries[name]) as file:
            data = file.read(entries[name].file_size + 1)
        if len(data) != entries[name].file_size:
            raise ModelError(f"{label}: {name} unpacks to another size than the archive says")
        return data

    config = _json(label, "config.json", read("config.json"))
    if "model.weights.h5" in entries:
        weights = stored_weights(open_hdf5(label, read("model.weights.h5")), label)
    elif "model.weights.json" in entries:
        raise UnsupportedError(f"{label}: weights in several files are not supported; save with one file of weights")
    elif "model.weights.npz" in entries:
        raise UnsupportedError(f"{label}: weights in .npz are not supported; save the model without weights_format")
    else:
        weights = no_weights(label)
    assets = {name: read(name) for name in entries if name.startswith("assets/") and not name.endswith("/")}
    return Archive(label, config, weights, assets, legacy=False)


def _legacy(label: str, data: bytes) -> Archive:
    """A file of `model.save("….h5")`: the configuration is an attribute, the weights are groups by layer."""
    file = open_hdf5(label, data)
    try:
        text = file.attrs.get("model_config")
    except Exception as error:  # whatever the library meets in a damaged file
        raise ModelError(f"{label}: its model_config cannot be read: {error}") from None
    if text is None:
        raise ModelError(f"{label} is an HDF5 file without a model (model_config); it may hold weights alone")
    raw = text if isinstance(text, bytes) else str(text).encode("utf-8", "replace")
    return Archive(label, _json(label, "model_config", raw), flat_weights(file, label), {}, legacy=True)


def _json(label: str, name: str, data: bytes) -> dict[str, Any]:
    if len(data) > _MOST_JSON:
        raise ModelError(f"{label}: {name} has {len(data)} bytes")
    try:
        found = json.loads(data)
        _check_depth(found, label)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{label}: {name} is damaged: {type(error).__name__}: {error}") from None
    if not isinstance(found, dict):
        raise ModelError(f"{label}: {name} holds a {type(found).__name__}, not the configuration of a model")
    return found


def _check_depth(value: Any, label: str) -> None:
    level = [value]
    for _ in range(_MOST_DEPTH):
        level = [
            kid
            for item in level
            if isinstance(item, dict | list)
            for kid in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise ModelError(f"{label}: its configuration is nested deeper than {_MOST_DEPTH} levels")


def saved(model: Any, folder: str) -> Path:
    """The archive of a `keras.Model` in memory, written into `folder`."""
    path = Path(folder) / "model.keras"
    model.save(path)
    return path
