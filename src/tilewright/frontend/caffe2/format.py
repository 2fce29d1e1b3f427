"""Caffe2 among the formats: what its nets begin like, and who reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.frontend.caffe2 import converts, from_caffe2
from tilewright.frontend.caffe2.load import init_beside, is_net
from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Frontend, Shapes
from tilewright.frontend.source import Source
from tilewright.frontend.two_files import first_of, is_pair
from tilewright.relay.ir.module import IRModule


class Caffe2Frontend(Frontend):
    """A predict net with its init net beside it, or a pair of both."""

    name = "caffe2"
    kind = "a Caffe2 net"
    in_memory = "a tuple of a Caffe2 predict net and its init net"

    def recognizes(self, source: Source) -> bool:
        """A protocol buffer of operators."""
        return is_net(source.contents)

    def takes(self, model: object) -> bool:
        """A pair whose first part is a net."""
        source = first_of(model) if is_pair(model) else None  # type: ignore[arg-type]
        return source is not None and self.recognizes(source)

    def companions(self, path: Path) -> Sequence[Path]:
        """The init net."""
        found = init_beside(path)
        return () if found is None else (found,)

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        """As `from_caffe2`."""
        predict, init = model if is_pair(model) else (model, None)
        return from_caffe2(predict, init, input_shapes)

    def operators(self) -> dict[str, list[str]]:
        """By their types."""
        return {"operators": converts.supported()}
