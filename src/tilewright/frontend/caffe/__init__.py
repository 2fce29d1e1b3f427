"""Caffe networks to Relay: a prototxt and its caffemodel, one converter function a type of layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.frontend.caffe.convert import convert_model
from tilewright.frontend.caffe.registry import converts
from tilewright.frontend.two_files import Part

if TYPE_CHECKING:
    from tilewright.frontend.inputs import InputSpec
    from tilewright.relay.ir.module import IRModule


def from_caffe(
    prototxt: Part, caffemodel: Part | None = None, input_shapes: Mapping[str, Sequence[Any]] | None = None
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for a Caffe network in the phase TEST, and the specs of its inputs in order.

    `caffemodel` holds the weights; without it that of the same name beside the prototxt, or the only one there. A
    caffemodel alone is a network too. The results are the blobs that no layer reads. `input_shapes` gives other
    extents than the file, or names for those that stay open.

    Raises `ModelError` for a bad file, `ShapeError` for a wrong shape, `UnsupportedError` naming every layer that
    cannot be converted.
    """
    return convert_model(prototxt, caffemodel, input_shapes)


__all__ = ["converts", "from_caffe"]
