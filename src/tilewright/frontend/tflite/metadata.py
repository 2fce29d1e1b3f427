"""TFLite Metadata: labels of outputs and normalization of inputs, in a buffer of the model and an archive behind it.

https://ai.google.dev/edge/litert/models/metadata says what there is: a FlatBuffer in the buffer `TFLITE_METADATA`, and
the files that it names in a zip archive appended to the model.
"""

from __future__ import annotations

import io
import os
import zipfile
from typing import Any

from tilewright.errors import ModelError
from tilewright.frontend.interface import Metadata, Normalization
from tilewright.frontend.source import Source
from tilewright.frontend.tflite.flatbuffer import Reader
from tilewright.frontend.tflite.model import load_model

_NAME = "TFLITE_METADATA"
#: Bytes of a file of labels that are unpacked at most.
_MOST_BYTES = 1 << 24
#: What an associated file is, by its number: labels of an axis, or of values.
_LABELS = (2, 3)


def read_metadata(model: str | os.PathLike[str] | bytes) -> Metadata:
    """The metadata of a file; empty where it has none. Raises `ModelError` where it is damaged."""
    main = load_model(model).subgraphs[0]
    source = Source.of(model)
    data, label = source.contents, source.label
    root = Reader(data, label).root("Model")
    positions = [one.buffer for one in root.metadata or [] if one.name == _NAME]
    if not positions or positions[0] >= len(root.buffers) or root.buffers[positions[0]].data is None:
        return Metadata()
    whole = Reader(memoryview(root.buffers[positions[0]].data.tobytes()), f"the metadata of {label}").root(
        "ModelMetadata"
    )
    graph = (whole.subgraph_metadata or [None])[0]
    inputs = zip(main.inputs, [] if graph is None else graph.input_tensor_metadata or [])
    outputs = zip(main.outputs, [] if graph is None else graph.output_tensor_metadata or [])
    normalization = {main.tensors[position].name: _normalization(one) for position, one in inputs}
    labels = {main.tensors[position].name: _labels(data, one, label) for position, one in outputs}
    about = {key: getattr(whole, key) for key in ("name", "description", "version", "author", "license")}
    return Metadata(
        {name: one for name, one in labels.items() if one},
        {name: one for name, one in normalization.items() if one is not None},
        {key: text for key, text in about.items() if text},
    )


def _normalization(tensor: Any) -> Normalization | None:
    for unit in tensor.process_units or []:
        options = unit.options
        if options is not None and options.kind == "NormalizationOptions":
            mean, deviation = (() if part is None else tuple(part.tolist()) for part in (options.mean, options.std))
            return Normalization(mean, deviation) if mean and deviation else None
    return None


def _labels(data: memoryview, tensor: Any, label: str) -> list[str]:
    names = [one.name for one in tensor.associated_files or [] if one.type in _LABELS]
    if not names:
        return []
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(names[0]) as file:
            text = file.read(_MOST_BYTES)
    except (zipfile.BadZipFile, KeyError, OSError, NotImplementedError, RuntimeError) as error:
        raise ModelError(f"{label}: its metadata names the labels {names[0]!r}, which are not there: {error}") from None
    return text.decode("utf-8", "replace").splitlines()
