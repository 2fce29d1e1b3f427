"""Modules of PyTorch to exported programs, by example inputs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tilewright.errors import ShapeError, UnsupportedError
from tilewright.support.open_sizes import shapes_by_name


def exported(module: Any, example_inputs: Any, input_shapes: Mapping[str, Sequence[Any]] | None) -> Any:
    """The program that `torch.export` makes of a module called with `example_inputs`: a tuple, a mapping, one tensor.

    `input_shapes` names the symbolic axes, by the names of the arguments: {"x": ("batch", 3, 224, 224)}.
    Raises `UnsupportedError` with the reason of PyTorch where it exports nothing, `ShapeError` for a shape that is not
    that of the example.
    """
    if not isinstance(module, torch.nn.Module):
        raise UnsupportedError("example inputs are for a torch.nn.Module; an exported program knows its inputs")
    by_name = isinstance(example_inputs, Mapping)
    args = () if by_name else (example_inputs,) if isinstance(example_inputs, torch.Tensor) else tuple(example_inputs)
    kwargs = dict(example_inputs) if by_name else {}
    dynamic = _open_axes(module, args, kwargs, input_shapes) if input_shapes else None
    try:
        with torch.no_grad():
            return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic, strict=False)
    except Exception as error:  # torch.export raises whatever the module's own code, or its own, meets
        first = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        raise UnsupportedError(
            f"torch.export cannot make a program of this {type(module).__name__} ({type(error).__name__}: {first}); "
            'torch.compile(module, backend="tilewright") runs what cannot be exported in PyTorch'
        ) from error


def _open_axes(module: Any, args: Any, kwargs: Any, input_shapes: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The dynamic shapes of `torch.export`: the axes of each argument that have a name."""
    try:
        given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except TypeError as error:
        raise UnsupportedError(f"the example inputs do not fit the module's forward: {error}") from None
    input_shapes = shapes_by_name(input_shapes, list(given))
    unknown = [name for name in input_shapes if not isinstance(given.get(name), torch.Tensor)]
    if unknown:
        tensors = [name for name, value in given.items() if isinstance(value, torch.Tensor)]
        raise ShapeError(f"the module has no tensor input named {unknown[0]!r}; its tensor inputs are: {tensors}")
    sizes: dict[str, Any] = {}
    found: dict[str, Any] = dict.fromkeys(given)
    for name, shape in input_shapes.items():
        have = tuple(given[name].shape)
        if len(have) != len(shape) or any(isinstance(want, int) and want != is_ for want, is_ in zip(shape, have)):
            raise ShapeError(f"the example for {name!r} has the shape {list(have)}, not {list(shape)}")
        found[name] = {
            axis: sizes.setdefault(want, torch.export.Dim(want))
            for axis, want in enumerate(shape)
            if isinstance(want, str)
        }
    return found
