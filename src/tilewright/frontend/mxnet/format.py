"""MXNet among the formats: what its symbols begin like, and who reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Frontend, Shapes
from tilewright.frontend.mxnet import converts, from_mxnet
from tilewright.frontend.mxnet.load import is_symbol, parameters_beside
from tilewright.frontend.source import Source
from tilewright.frontend.two_files import first_of, is_pair
from tilewright.relay.ir.module import IRModule


class MxnetFrontend(Frontend):
    """A symbol with its parameters beside it, or a pair of both."""

    name = "mxnet"
    kind = "an MXNet symbol"
    in_memory = "a tuple of an MXNet symbol and its parameters"

    def recognizes(self, source: Source) -> bool:
        """JSON whose first entry is a list of nodes with operators."""
        return is_symbol(source.contents)

    def takes(self, model: object) -> bool:
        """A pair whose first part is a symbol."""
        source = first_of(model) if is_pair(model) else None  # type: ignore[arg-type]
        return source is not None and self.recognizes(source)

    def companions(self, path: Path) -> Sequence[Path]:
        """The parameters."""
        found = parameters_beside(path)
        return () if found is None else (found,)

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        """As `from_mxnet`."""
        symbol, parameters = model if is_pair(model) else (model, None)
        return from_mxnet(symbol, parameters, input_shapes)

    def operators(self) -> dict[str, list[str]]:
        """By their names in symbols."""
        return {"operators": converts.supported()}
