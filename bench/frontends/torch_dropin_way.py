"""Ways to run a program of `torch_dropin.py`, and the visible properties of its results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

Program = Callable[["Way"], Any]


class Way:
    """A way to run a program: eagerly (`backend` None) or by `torch.compile`. `inputs` are tensors that results may
    share memory with, in the order in which the program made them; `short`, that it computes in floats of 16 bits."""

    def __init__(self, backend: str | None) -> None:
        self.backend = backend
        self.inputs: list[torch.Tensor] = []
        self.short = False

    def compiled(self, function: Any, **options: Any) -> Any:
        """`function` or module, compiled where this way compiles."""
        return function if self.backend is None else torch.compile(function, backend=self.backend, **options)

    def given(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor that the program hands to what is compiled."""
        self.inputs.append(tensor)
        return tensor

    def draw(self, *shape: int, dtype: Any = torch.float32, grad: bool = False) -> torch.Tensor:
        """Normal random numbers, as an input."""
        return self.given(torch.randn(*shape, dtype=dtype).requires_grad_(grad))


def seen_of(result: Any, way: Way) -> tuple[Any, Any, Any, list[torch.Tensor]]:
    """The visible properties of a result: structure, kinds of tensors, shared memory, values."""
    leaves: list[Any] = []
    structure = _structure(result, leaves)
    tensors = [one for one in leaves if isinstance(one, torch.Tensor)]
    described = [
        (str(one.dtype), tuple(one.shape), _steps(one), one.storage_offset(), one.is_conj(), one.is_neg(),
         one.requires_grad, one.is_inference())
        if one.layout == torch.strided and not one.is_quantized
        else (str(one.dtype), tuple(one.shape), str(one.layout))
        for one in tensors
    ]  # fmt: skip
    strided = [one for one in tensors if one.layout == torch.strided]
    known: dict[int, int] = {}
    for tensor in (*way.inputs, *strided):
        if tensor.layout == torch.strided:
            known.setdefault(_memory(tensor), len(known))
    memory = [known[_memory(one)] for one in strided]
    same = [[one is other for other in tensors] for one in tensors] if len(tensors) < 12 else []
    values = [_plain(one) for one in tensors]
    values = [one.bfloat16() if way.short and one.is_floating_point() else one for one in values]
    return structure, described, (memory, same), values


def _steps(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(tensor.stride())


def _memory(tensor: torch.Tensor) -> int:
    # tensors without elements have no address; each has a storage of its own
    return tensor.untyped_storage().data_ptr() or id(tensor)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    dense = tensor.detach()
    if dense.layout != torch.strided:
        dense = dense.to_dense()
    return (dense.dequantize() if dense.is_quantized else dense).clone()


def _structure(value: Any, leaves: list[Any]) -> Any:
    """The kinds of things that `value` is made of, numbers as they are; its tensors are entered into `leaves`."""
    if isinstance(value, torch.Tensor):
        leaves.append(value)
        return type(value).__name__
    if isinstance(value, Mapping):
        return type(value).__name__, [(key, _structure(one, leaves)) for key, one in value.items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, [_structure(getattr(value, one.name), leaves) for one in dataclasses.fields(value)]
    if isinstance(value, list | tuple):
        return type(value).__name__, [_structure(one, leaves) for one in value]
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return value if isinstance(value, bool | int | str | None) else type(value).__name__
