"""Paddle programs to Relay: PIR and its parameters, or a program of older versions; one converter an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.frontend.paddle.convert import convert_model
from tilewright.frontend.paddle.registry import converts
from tilewright.frontend.two_files import Part

if TYPE_CHECKING:
    from tilewright.frontend.inputs import InputSpec
    from tilewright.relay.ir.module import IRModule


def from_paddle(
    model: Part, parameters: Part | None = None, input_shapes: Mapping[str, Sequence[Any]] | None = None
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for an inference program that `paddle.jit.save` wrote, and the specs of its inputs in order.

    `model` is the .json of Paddle 3, or a .pdmodel (or a folder with `__model__`) of older versions; `parameters` the
    .pdiparams, without which that of the same name beside it is taken. Extents of -1 stay open.

    Raises `ModelError` for a bad file, `ShapeError` for a wrong shape, `UnsupportedError` naming every operator that
    cannot be converted.
    """
    return convert_model(model, parameters, input_shapes)


__all__ = ["converts", "from_paddle"]
