"""Darknet networks to Relay: a cfg file and its weights, one converter function a kind of layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.frontend.darknet.convert import convert_model
from tilewright.frontend.darknet.convert import initial_states as _initial_states
from tilewright.frontend.darknet.registry import converts
from tilewright.frontend.two_files import Part

if TYPE_CHECKING:
    import numpy as np

    from tilewright.frontend.inputs import InputSpec
    from tilewright.relay.ir.module import IRModule


def from_darknet(
    cfg: Part, weights: Part | None = None, input_shapes: Mapping[str, Sequence[Any]] | None = None, decode: bool = True
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for a Darknet network, and the specs of its inputs: `data`, [batch, channels, height, width].

    `weights` is the file that goes with the cfg; without it that of the same name beside it, or the only one there.
    The results are the detection heads and the last layer. With `decode` a head gives rows: the centre, width and
    height of a box as fractions of the image, its objectness, and the scores of its classes, those not above the
    threshold as zero. Without it, what the layer itself leaves: its input with the activations applied.

    The states of recurrent layers are inputs and outputs, as `initial_states` says. Raises `ModelError` for a bad file,
    `ShapeError` for a wrong shape, `UnsupportedError` naming every layer that cannot be converted.
    """
    return convert_model(cfg, weights, input_shapes, decode)


def initial_states(cfg: Part, weights: Part | None = None) -> dict[str, np.ndarray]:
    """The zeros that recurrent layers begin with, by the names of the inputs that they are."""
    return _initial_states(cfg, weights)


__all__ = ["converts", "from_darknet", "initial_states"]
