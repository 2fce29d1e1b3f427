"""One case of the fuzzer: a model, what it is fed, how it is compiled, and which of its values nobody defines."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx


@dataclass(frozen=True)
class Settings:
    """Options by which a case is compiled and run."""

    opt_level: int = 3
    threads: int = 1
    executor: str = "auto"
    #: Sizes that the model leaves open are fixed when it is compiled.
    fixed: bool = False
    target: str = "cpu"


@dataclass(frozen=True)
class Case:
    """`undefined` names values that ONNX leaves open (NaN as an integer): what depends on them is not compared."""

    seed: int
    model: onnx.ModelProto
    feeds: dict[str, Any]
    settings: Settings = Settings()
    undefined: frozenset[str] = frozenset()
    #: Operators of which the draft had to drop a call: no reference ran it.
    rejected: dict[str, int] = field(default_factory=dict)

    def with_model(self, model: onnx.ModelProto, feeds: dict[str, Any]) -> Case:
        """The case of another model."""
        return replace(self, model=model, feeds=feeds)

    def on(self, target: str) -> Case:
        """The case compiled for another target."""
        return replace(self, settings=replace(self.settings, target=target))

    def operators(self) -> list[str]:
        """The operators of the graph in order, bodies left out."""
        return [node.op_type for node in self.model.graph.node]

    def text(self) -> str:
        """Everything one needs to see what the case does."""
        head = {"seed": self.seed, **self.settings.__dict__, "undefined": sorted(self.undefined)}
        fed = "\n".join(f"{name} = {value!r}" for name, value in self.feeds.items())
        return f"{json.dumps(head)}\n{onnx.printer.to_text(self.model)}\n{fed}\n"

    def save(self, path: Path) -> None:
        """Write the case for `load`."""
        path.write_bytes(pickle.dumps(replace(self, model=self.model.SerializeToString())))  # type: ignore[arg-type]

    @staticmethod
    def load(path: Path) -> Case:
        """A case that `save` wrote; trusted, for this reads a pickle."""
        found = pickle.loads(path.read_bytes())
        return replace(found, model=onnx.ModelProto.FromString(found.model))
