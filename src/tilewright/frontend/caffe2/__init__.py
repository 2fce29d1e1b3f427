"""Caffe2 models to Relay: two NetDefs, one converter function an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.frontend.caffe2.convert import convert_model
from tilewright.frontend.caffe2.registry import converts
from tilewright.frontend.two_files import Part

if TYPE_CHECKING:
    from tilewright.frontend.inputs import InputSpec
    from tilewright.relay.ir.module import IRModule


def from_caffe2(
    predict_net: Part, init_net: Part | None = None, input_shapes: Mapping[str, Sequence[Any]] | None = None
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for a Caffe2 model, and the specs of its inputs in order.

    `init_net` fills the weights; without it the file beside `predict_net` is taken that has `init` in its name instead.
    Nets do not say what shapes their inputs have: `input_shapes` must.

    Raises `ModelError` for a bad file, `ShapeError` for a missing or wrong shape, `UnsupportedError` naming every
    operator that cannot be converted.
    """
    return convert_model(predict_net, init_net, input_shapes)


__all__ = ["converts", "from_caffe2"]
