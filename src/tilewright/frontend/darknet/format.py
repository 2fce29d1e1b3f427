"""Darknet among the formats: what its cfg files begin like, and who reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.frontend.darknet import converts, from_darknet, initial_states
from tilewright.frontend.darknet.cfg import is_cfg
from tilewright.frontend.darknet.convert import weights_beside
from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Frontend, Shapes
from tilewright.frontend.source import Source
from tilewright.frontend.two_files import first_of, is_pair
from tilewright.relay.ir.module import IRModule


class DarknetFrontend(Frontend):
    """A cfg file with its weights beside it, or a pair of both."""

    name = "darknet"
    kind = "a Darknet cfg"
    in_memory = "a tuple of a Darknet cfg and its weights"

    def recognizes(self, source: Source) -> bool:
        """The section [net] before any other."""
        return is_cfg(bytes(source.contents[:4096]))

    def takes(self, model: object) -> bool:
        """A pair whose first part is a cfg."""
        source = first_of(model) if is_pair(model) else None  # type: ignore[arg-type]
        return source is not None and self.recognizes(source)

    def companions(self, path: Path) -> Sequence[Path]:
        """The weights."""
        found = weights_beside(path)
        return () if found is None else (found,)

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        """As `from_darknet`."""
        cfg, weights = model if is_pair(model) else (model, None)
        return from_darknet(cfg, weights, input_shapes)

    def first_states(self, model: Any) -> Mapping[str, np.ndarray[Any, Any]]:
        """Zeros, for recurrent layers."""
        cfg, weights = model if is_pair(model) else (model, None)
        return initial_states(cfg, weights)

    def operators(self) -> dict[str, list[str]]:
        """By the names of their sections."""
        return {"layers": converts.supported()}
