"""A whole Keras model to a Relay module: read, fix the input shapes, apply the layers, gather the outputs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.inputs import Declared, InputSpec, resolve_inputs
from tilewright.frontend.keras import families, graph  # noqa: F401  (importing a family registers its converters)
from tilewright.frontend.keras.archive import Archive, open_archive, saved
from tilewright.frontend.keras.importer import Importer
from tilewright.frontend.keras.layer import flatten
from tilewright.frontend.keras.models import Body
from tilewright.relay.ir.expr import Expr, Function, GlobalVar, Tuple, var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.support.dtype import DType


def convert_model(model: Any, input_shapes: Mapping[str, Sequence[Any]] | None) -> tuple[IRModule, list[InputSpec]]:
    """See `tilewright.frontend.keras.from_keras`."""
    archive = _archive(model)
    importer, body = _importer(archive)
    specs = resolve_inputs(_declared(body, archive), input_shapes)
    params = [var(spec.name, spec.type) for spec in specs]
    result = body.run(params)
    importer.missing.refuse(archive.label)
    results = [leaf for leaf in flatten([result]) if isinstance(leaf, Expr)]
    if not results:
        raise ModelError(f"{archive.label}: its model has no outputs")
    kept = [name for name in importer.states if name in importer.next_states]
    names = [*_output_names(body, len(results)), *(f"{name}:next" for name in kept)]
    specs += [InputSpec(name, tensor_type_of(state)) for name, state in importer.states.items()]
    params += importer.states.values()
    results += [importer.next_states[name] for name in kept]
    whole = results[0] if len(results) == 1 else Tuple(results)
    main = Function(params, whole, attrs={"output_names": tuple(names)})
    return IRModule({GlobalVar("main"): main}), specs


def first_states(model: Any) -> dict[str, np.ndarray]:
    """See `tilewright.frontend.keras.initial_states`."""
    own = convert_model(model, None)[1]
    archive = _archive(model)
    stated = {entry.name for entry in _declared(_importer(archive)[1], archive)}
    return {spec.name: np.zeros(spec.shape, spec.dtype.numpy) for spec in own if spec.name not in stated}


def _archive(model: Any) -> Archive:
    if isinstance(model, str | os.PathLike | bytes | bytearray | memoryview):
        return open_archive(bytes(model) if isinstance(model, bytearray | memoryview) else model)
    with tempfile.TemporaryDirectory() as folder:
        return open_archive(saved(model, folder).read_bytes())


def _importer(archive: Archive) -> tuple[Importer, Body]:
    item = archive.config
    importer = Importer(archive)
    if not isinstance(item.get("class_name"), str):
        raise ModelError(f"{archive.label}: its configuration describes no model")
    if not graph.is_model(item):
        raise UnsupportedError(
            f"{archive.label}: the model is of the class {graph.class_of(item)}, whose Python code is not in the file; "
            "build it as a functional or sequential model"
        )
    return importer, Body(item, archive.weights, importer, archive.label, "")


def _declared(body: Body, archive: Archive) -> list[Declared]:
    """The inputs as the file declares them."""
    names = body.inputs()
    if not names:
        shape = body.item["config"].get("build_input_shape") or (body.item.get("build_config") or {}).get("input_shape")
        if not isinstance(shape, list):
            raise ModelError(f"{archive.label}: the model was saved before the shape of its input was known")
        return [Declared("input", _dims(shape), DType("float32"))]
    result = []
    for name in names:
        config = body.entries[name]["config"] if name in body.entries else {}
        shape = config.get("batch_shape", config.get("batch_input_shape"))
        if config.get("sparse") or config.get("ragged"):
            raise UnsupportedError(f"{archive.label}: the input {name!r} is sparse or ragged, which is not supported")
        if not isinstance(shape, list):
            raise ModelError(f"{archive.label}: the input {name!r} has no shape")
        try:
            dtype = DType(str(config.get("dtype") or "float32"))
        except (ValueError, TypeError, KeyError):
            raise UnsupportedError(f"{archive.label}: the input {name!r} holds {config.get('dtype')}") from None
        result.append(Declared(name, _dims(shape), dtype))
    return result


def _dims(shape: Sequence[Any]) -> tuple[int | str, ...]:
    if not all(extent is None or (isinstance(extent, int) and 0 <= extent < 1 << 40) for extent in shape):
        raise ModelError(f"{list(shape)} is no shape")
    return tuple(("?" if axis else "batch") if extent is None else extent for axis, extent in enumerate(shape))


def _output_names(body: Body, count: int) -> list[str]:
    """The names of the layers of the results, numbered where one has several."""
    found = [one.layer for one in flatten([body.outputs()])]
    names: list[str] = []
    for index in range(count):
        name = found[index] if index < len(found) else (found or ["output"])[-1]
        again = sum(1 for one in names if one == name or one.startswith(f"{name}:"))
        names.append(f"{name}:{again}" if again else name)
    return names
