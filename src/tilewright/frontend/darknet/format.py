"""Darknet among the formats: what its cfg files begin like, and who reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.frontend.darknet import converts, from_darknet, initial_states
from tilewright.frontend.darknet.cfg import is_cfg
from tilewright.frontend.darknet.convert import weights_beside
from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.interface import Shapes
from tilewright.frontend.source import Source
from tilewright.frontend.two_files import PairFrontend, parts_of
from tilewright.relay.ir.module import IRModule


class DarknetFrontend(PairFrontend):
    """A cfg file with its weights beside it, or a pair of both."""

    name = "darknet"
    kind = "a Darknet cfg"
    in_memory = "a tuple of a Darknet cfg and its weights"
    weights_beside = staticmethod(weights_beside)

    def recognizes(self, source: Source) -> bool:
        """The section [net] before any other."""
        return is_cfg(bytes(source.contents[:4096]))

    def convert(self, model: Any, input_shapes: Shapes | None) -> tuple[IRModule, list[InputSpec]]:
        return from_darknet(*parts_of(model), input_shapes)

    def first_states(self, model: Any) -> Mapping[str, np.ndarray[Any, Any]]:
        """Zeros, for recurrent layers."""
        return initial_states(*parts_of(model))

    def operators(self) -> dict[str, list[str]]:
        """By the names of their sections."""
        return {"layers": converts.supported()}
