"""The formats that models come in: one table, and which of them a model is of, by its contents."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.caffe.format import CAFFE
from tilewright.frontend.caffe2.format import CAFFE2
from tilewright.frontend.coreml.format import CoremlFrontend
from tilewright.frontend.darknet.format import DARKNET
from tilewright.frontend.interface import Frontend, Metadata
from tilewright.frontend.keras.format import KerasFrontend
from tilewright.frontend.mxnet.format import MXNET
from tilewright.frontend.not_models import not_a_model
from tilewright.frontend.onnx.format import OnnxFrontend
from tilewright.frontend.paddle.format import PADDLE
from tilewright.frontend.source import Source
from tilewright.frontend.tensorflow.format import TensorflowFrontend
from tilewright.frontend.tflite.format import TfliteFrontend
from tilewright.frontend.torch.format import TorchFrontend
from tilewright.frontend.torch.script.format import ScriptFrontend
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.container import MAGIC
from tilewright.runtime.memory import Array
from tilewright.support import plugins
from tilewright.support.entry_points import CONVERTERS, OPERATORS, PASSES, load_plugins
from tilewright.support.entry_points import FRONTENDS as FRONTEND_GROUP

#: A line a format, in the order in which they are asked.
FRONTENDS: tuple[Frontend, ...] = (
    OnnxFrontend(),
    TfliteFrontend(),
    KerasFrontend(),  # before PyTorch: on that backend a model of Keras is a module of PyTorch too
    ScriptFrontend(),
    TorchFrontend(),
    DARKNET,
    CAFFE2,
    CAFFE,
    CoremlFrontend(),
    PADDLE,
    MXNET,
    TensorflowFrontend(),
)


#: A model: its path or bytes, a Relay module, or an object that a format takes, such as an `onnx.ModelProto`. Which
#: objects those are depends on the plug-ins that are installed, so a type checker lets all of them pass.
ModelSource: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | IRModule | object

#: Those of plug-ins, asked behind ours.
_added: list[Frontend] = []


def add_frontend(frontend: Frontend) -> None:
    """Enter the format of a plug-in. Raises `UnsupportedError` where it is no `Frontend`, or its name is taken."""
    if not isinstance(frontend, Frontend):
        raise UnsupportedError(f"a {type(frontend).__name__} is no tilewright.frontend.interface.Frontend")
    if any(one.name == frontend.name for one in (*FRONTENDS, *_added)):
        raise UnsupportedError(f"there are two formats called {frontend.name!r}")
    _added.append(frontend)
    plugins.note("frontend", frontend.name, frontend)


def load_all_plugins() -> None:
    """Load the plug-ins of all groups that are not loaded yet; operators first, of which converters make calls."""
    load_plugins(OPERATORS, PASSES, CONVERTERS)
    for frontend in load_plugins(FRONTEND_GROUP):
        add_frontend(frontend)


def known_frontends() -> tuple[Frontend, ...]:
    """The formats of this package, then those of plug-ins."""
    load_all_plugins()
    return (*FRONTENDS, *_added)


def frontend_of(model: ModelSource) -> Frontend:
    """The format of a model: a path, bytes, or an object in memory.

    Raises `ModelError` where there is no such file or it is of no known format, `UnsupportedError` for another object.
    """
    known = known_frontends()
    if isinstance(model, str | os.PathLike | bytes | bytearray | memoryview):
        source = Source.of(model)
        found = next((one for one in known if one.recognizes(source)), None)
        if found is None:
            raise ModelError(_not_a_model(source, " or ".join(_kinds(known))))
        return found
    for one in known:
        if one.takes(model):
            return one
    objects = [one.in_memory for one in known if one.in_memory]
    raise UnsupportedError(
        f"cannot compile a {type(model).__name__}; pass the path or bytes of {' or '.join(_kinds(known))}, "
        f"{', '.join(objects)} or a Relay module"
    )


def frontend_for(model: ModelSource, signature: str | None) -> Frontend:
    """`frontend_of` a model, for its entry called `signature`; None is the one that it has, or calls the default."""
    found = frontend_of(model)
    return found if signature is None else found.with_signature(signature)


def initial_states(model: ModelSource, signature: str | None = None) -> dict[str, Array]:
    """The contents before the first run of the inputs of a model that are states between runs, by name; {} without
    states.

    A state is an input behind the model's own, NAME, and a result behind its own, `NAME:next`. Raises as `frontend_of`.
    """
    return dict(frontend_for(model, signature).first_states(model))


def metadata(model: ModelSource) -> Metadata:
    """The metadata in a model's file: labels of classes, normalization of inputs, its author.

    Empty where the file, or its format, says nothing of it. Raises as `frontend_of`.
    """
    return frontend_of(model).metadata(model)


def is_model_folder(path: Path) -> bool:
    """True for a folder that is a model of a known format."""
    return path.is_dir() and any(one.recognizes(Source.of(path)) for one in known_frontends())


def kinds_of_models() -> str:
    """The models of all formats as messages name them: `an ONNX model or ...`."""
    return " or ".join(_kinds(known_frontends()))


def _kinds(known: tuple[Frontend, ...]) -> list[str]:
    return [one.kind for one in known]


def _not_a_model(source: Source, kinds: str) -> str:
    if source.is_folder:
        return f"{source.label} is a directory, and not {kinds}; pass the path of a model file"
    if bytes(source.contents[: len(MAGIC)]) == MAGIC:
        return f"{source.label} is compiled already: it is an artifact, which tilewright.load(PATH) brings into memory"
    if not source.contents:
        return f"{source.label} is empty; it is not {kinds}"
    known = not_a_model(source)
    if known is not None:
        return f"{source.label} is no model: {known}. Models are {kinds}"
    return f"{source.label} ({len(source.contents)} bytes) is not {kinds}: its contents begin like none of these"
