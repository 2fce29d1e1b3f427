"""What a format of models is to the compiler and its command line: a `Frontend` each, entered in `frontends.py`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.frontend.description import Description, describe_module
from tilewright.frontend.inputs import Declared, InputSpec
from tilewright.frontend.interpreter_reference import InterpreterReference
from tilewright.frontend.metadata import Metadata
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
        raise UnsupportedError(f"{self.kind} says what its inputs are; give shapes as input_shapes, no example inputs")

    def operators(self) -> dict[str, list[str]]:
        """What has a converter, sorted, by what the format calls such things; none where the format keeps no list.

        For docs/frontends.md; must not need the format's own package.
        """
        return {}

    def missing(self) -> list[str] | None:
        """What the format's own list has and no converter; None where there is no such list here."""
        return None

    def companions(self, path: Path) -> Sequence[Path]:
        """Files beside the one at `path` that the model is made of too; the cache's key covers them."""
        return ()

    def declared(self, model: str | os.PathLike[str]) -> list[Declared]:
        """The inputs of the model at a path as it declares them. Raises as `convert` does."""
        return [_declared(spec) for spec in self.convert(model, None)[1]]

    def index_limits(self, model: str | os.PathLike[str]) -> Mapping[str, int]:
        """How many entries the smallest table has that an input of integers looks up in, by input; as far as known."""
        return {}

    def first_states(self, model: Any) -> Mapping[str, np.ndarray[Any, Any]]:
        """What the inputs that are states between runs hold before the first one, by name; as far as there are any."""
        return {}

    def metadata(self, model: Any) -> Metadata:
        """What the file says for people: labels, how inputs are normalized, names; empty where it says nothing."""
        return Metadata()

    def describe(self, model: str | os.PathLike[str]) -> Description:
        """What the model at a path is. Raises as `convert` does, unless the format can tell without converting."""
        return describe_module(self.convert(model, None)[0], self.kind)

    def reference(self, model: Any) -> Reference:
        """What the model at a path, or an object that `takes` accepts, is compared with: engines of its framework.

        Where a format has none here, the Relay interpreter.
        """
        return InterpreterReference(lambda shapes: self.convert(model, shapes)[0])


def _declared(spec: InputSpec) -> Declared:
    if not spec.is_tensor:
        return Declared(spec.name, None, None, spec.type)
    dims = tuple(extent if isinstance(extent, int) else str(extent) for extent in spec.shape)
    return Declared(spec.name, dims, spec.dtype)
