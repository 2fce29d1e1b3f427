"""The interface of a model format to the compiler and its command line: one `Frontend` each (`formats/table.py`)."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.frontend.description import Description, describe_module
from tilewright.frontend.inputs import Declared, InputSpec
from tilewright.frontend.interpreter_reference import InterpreterReference
from tilewright.frontend.outputs import choose_outputs
from tilewright.frontend.reference import Reference
from tilewright.frontend.source import Source
from tilewright.relay.ir.module import IRModule

Shapes = Mapping[str, Sequence[Any]]


class Frontend(ABC):
    """One format. Making and asking one must not need the format's own package: that is for `convert`."""

    #: How it is called in options and cases of tests: "onnx".
    name: str
    #: How messages call a model of it: "an ONNX model".
    kind: str
    #: How messages call what `takes` accepts, "an onnx.ModelProto"; empty where there is no such object.
    in_memory: str = ""

    @abstractmethod
    def recognizes(self, source: Source) -> bool:
        """True where `source`, which may be damaged or of any other format, begins as a model of this one does.

        Only looks at contents, few of them, and never raises.
        """

    def takes(self, model: object) -> bool:
        """True for an object in memory, neither path nor bytes, that `convert` takes. Imports nothing."""
        return False

    @abstractmethod
    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        """A module for a path, bytes, or what `takes` accepts, and its inputs in order.

        `input_shapes` fixes dynamic dimensions by the input's name (`resolve_inputs`). The calls of the module have the
        name of the node that they come from as their span; the attribute `output_names` of `main` names its results.
        Raises `ModelError` for a bad file, `ShapeError` for a wrong shape, `UnsupportedError` naming every operator
        that cannot be converted (`Unsupported`), `EnvironmentError_` where a package is missing.
        """

    def with_signature(self, signature: str) -> Frontend:
        """This format, reading the entry of models that is called `signature`.

        Raises `UnsupportedError` where models of the format have one entry only.
        """
        raise UnsupportedError(f"{self.kind} has one entry, and no signatures; leave out signature={signature!r}")

    def convert_outputs(self, model: Any, input_shapes: Shapes | None, outputs: Sequence[str] | None) -> IRModule:
        """As `convert`, with the results called `outputs`, of the model or of nodes within it (`choose_outputs`)."""
        return choose_outputs(self.convert(model, input_shapes)[0], outputs, self.kind)

    def by_example(self, model: Any, example_inputs: Any, input_shapes: Shapes | None) -> IRModule:
        """A module for a program that is got by running it on examples, a tuple or by name.

        Raises `UnsupportedError` where the format says of itself what its inputs are.
        """
        raise UnsupportedError(f"{self.kind} says what its inputs are; pass shapes as input_shapes, no example inputs")

    def operators(self) -> dict[str, list[str]]:
        """The operators with a converter, sorted, by the format's kinds of operator; none where the format keeps no
        list.

        For docs/frontends.md; must not need the format's own package.
        """
        return {}

    def missing(self) -> list[str] | None:
        """The operators of the format's own list without a converter; None where there is no such list here."""
        return None

    def companions(self, path: Path) -> Sequence[Path]:
        """Files beside the one at `path` that the model is made of too; the cache's key covers them."""
        return ()

    def declared(self, model: str | os.PathLike[str]) -> list[Declared]:
        """The inputs of the model at a path as it declares them. Raises as `convert` does."""
        return [_declared(spec) for spec in self.convert(model, None)[1]]

    def index_limits(self, model: str | os.PathLike[str]) -> Mapping[str, int]:
        """The number of entries of the smallest table that an input of integers indexes, by input; as far as known."""
        return {}

    def first_states(self, model: Any) -> Mapping[str, np.ndarray[Any, Any]]:
        """The contents before the first run of the inputs that are states between runs, by name; as far as there are
        any.
        """
        return {}

    def metadata(self, model: Any) -> Metadata:
        """The metadata in the file: labels, normalization of inputs, names; empty where it has none."""
        return Metadata()

    def describe(self, model: str | os.PathLike[str]) -> Description:
        """The description of the model at a path. Raises as `convert` does, unless the format can tell without
        converting.
        """
        return describe_module(self.convert(model, None)[0], self.kind)

    def reference(self, model: Any) -> Reference:
        """The reference of the model at a path, or an object that `takes` accepts: engines of its framework.

        Where a format has none here, the Relay interpreter.
        """
        return InterpreterReference(lambda shapes: self.convert(model, shapes)[0])


class OfEntries(Frontend):
    """A format whose models may have several entries: signatures, or functions. `signature` is the one to read."""

    def __init__(self, signature: str | None = None) -> None:
        self.signature = signature

    def with_signature(self, signature: str) -> Frontend:
        return type(self)(signature)


def _declared(spec: InputSpec) -> Declared:
    if not spec.is_tensor:
        return Declared(spec.name, None, None, spec.type)
    dims = tuple(extent if isinstance(extent, int) else str(extent) for extent in spec.shape)
    return Declared(spec.name, dims, spec.dtype)


# ------------------------- What a model's file says for people: classes by name, how inputs are normalized, who made it
@dataclass(frozen=True)
class Normalization:
    """The normalization of raw values x of an input: (x - mean) / deviation, one number for all or one a channel."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


@dataclass(frozen=True)
class Metadata:
    """`labels` are by the name of an output, `normalization` by that of an input; `about` is free text by its key."""

    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    normalization: Mapping[str, Normalization] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
