"""Reference engines of models: those of their own framework, as `verify`, `bisect`, `bench` and `run --dump` ask.

A format that has some derives a `Reference`; its graph can be cut into smaller models by a `Graph`.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_, UnsupportedError

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Engine:
    """A loaded model: `run()` computes once on the inputs it was given and returns the outputs in the model's order.

    `feed` hands it other inputs of the same shapes.
    """

    name: str
    version: str
    run: Callable[[], list[Array]]
    feed: Callable[[Arrays], None] = lambda inputs: None


@dataclass(frozen=True)
class Node:
    """A node of a model's graph: its operator, the values that it reads (inner graphs too) and defines.

    `name` is what the model calls it, perhaps nothing; `span` what the calls are called that it becomes.
    """

    name: str
    span: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def names(self) -> set[str]:
        """All that messages and spans may call it."""
        return {name for name in (self.name, *self.outputs) if name}


class Graph(ABC):
    """A straight line of nodes for given inputs, of which any part is a model that `tilewright.compile` takes."""

    #: In an order in which they can be computed.
    nodes: Sequence[Node]
    #: The values that the model returns.
    outputs: Sequence[str]

    @abstractmethod
    def model(self, indices: Sequence[int], outputs: Sequence[str], given: Arrays, values: Arrays) -> Any:
        """The nodes `indices` as a model that returns `outputs`; `given` are its inputs beside those of the whole.

        `values` has an array of the type and shape of each output.
        """

    @abstractmethod
    def values(self, inputs: Arrays, names: Sequence[str], engine: str) -> dict[str, Any]:
        """The values `names` of the straight line, as `Reference.values`."""

    @abstractmethod
    def inputs(self, model: Any) -> Sequence[str]:
        """The names of the inputs of a part."""

    @abstractmethod
    def size(self, model: Any) -> int:
        """The number of nodes of a part."""

    @abstractmethod
    def save(self, model: Any, path: Path) -> None:
        """Write a part to a file."""

    def inexact_nodes(self, path: str, engine: str) -> list[str]:
        """As `Reference.inexact_nodes`, of a part that was written to `path`."""
        return []


#: What engines of some formats run.
_OTHERS = {
    "torch": "programs of torch.export, .pt2",
    "torch-gpu": "programs of torch.export, .pt2",
    "onnxruntime": "ONNX files",
    "onnxruntime-gpu": "ONNX files",
    "openvino": "ONNX files",
}


class Reference(ABC):
    """One model as its framework's engines see it. Raises `EnvironmentError_` where an engine is not installed."""

    #: The engines that run it, the usual one first.
    engines: tuple[str, ...]
    #: Those that return inner values too.
    engines_with_values: tuple[str, ...]
    #: How files of parts of it are called.
    suffix: str

    def check(self, engine: str) -> None:
        """Raise `UnsupportedError` with the known names unless `engine` is one of them."""
        if engine not in self.engines:
            runs = f" for this file ({engine} runs {_OTHERS[engine]})" if engine in _OTHERS else ""
            known = ", ".join(self.engines)
            raise UnsupportedError(f"there is no engine {engine!r} to compare with{runs}; known: {known}")

    @abstractmethod
    def open(self, engine: str, inputs: Arrays, threads: int, exact: bool = True) -> Engine:
        """`engine` with the model loaded: as exact as it can be had, or else as fast.

        Raises `UnsupportedError` when it refuses the model.
        """

    @abstractmethod
    def values(self, inputs: Arrays, names: Sequence[str], engine: str) -> dict[str, Any]:
        """The values `names`, inner ones too, as far as `engine` returns them.

        Raises `UnsupportedError` when it does not run the model.
        """

    @abstractmethod
    def nodes(self) -> Sequence[Node]:
        """The nodes of the main graph in order; the spans of what they become are their names."""

    @abstractmethod
    def straight_line(self, inputs: Arrays, engine: str) -> Graph:
        """The graph on these inputs, with the branches that `engine` takes."""

    @abstractmethod
    def number_kinds(self) -> set[str]:
        """NumPy names of the types that it computes in; "codes" where it quantizes."""

    def load(self, what_for: str) -> None:  # noqa: B027  (most formats have nothing to do here)
        """Make ready for inner values, before anything is compiled; `what_for` names the verb in messages.

        Raises `UnsupportedError` where there is no room for the model.
        """

    def cut_at(self, names: Sequence[str], folder: str) -> str:
        """Write the model with the values `names` as its outputs into `folder`; the path of the new file.

        Raises `InputError` with the nearest names for an unknown value, `UnsupportedError` where it cannot be cut.
        """
        raise UnsupportedError(f"files ending in {self.suffix} cannot be cut at inner values")

    def inexact_nodes(self, engine: str) -> list[str]:
        """The nodes in which `engine` does not compute what it should on this processor."""
        return []


def import_engine(name: str, extra: str = "compare") -> Any:
    """The module of an engine. Raises EnvironmentError_ with what installs it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise EnvironmentError_(f"{name} is not installed; `pip install tilewright[{extra}]` installs it") from None
