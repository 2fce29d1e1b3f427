"""MXNet models to Relay: a symbol and its parameters, one converter function an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.frontend.mxnet.convert import convert_model
from tilewright.frontend.mxnet.registry import converts
from tilewright.frontend.two_files import Part

if TYPE_CHECKING:
    import numpy as np

    from tilewright.frontend.inputs import InputSpec
    from tilewright.relay.ir.module import IRModule


def from_mxnet(
    symbol: Part,
    parameters: Part | Mapping[str, np.ndarray] | None = None,
    input_shapes: Mapping[str, Sequence[Any]] | None = None,
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for an MXNet symbol (NAME-symbol.json), and the specs of its inputs in order.

    `parameters` is NAME-0000.params, or arrays by name; without it those of the latest epoch beside the symbol are
    taken. A symbol seldom says what shapes its inputs have: `input_shapes` must. Labels of losses are no inputs.

    Raises `ModelError` for a bad file, `ShapeError` for a missing or wrong shape, `UnsupportedError` naming every
    operator that cannot be converted.
    """
    return convert_model(symbol, parameters, input_shapes)


__all__ = ["converts", "from_mxnet"]
