"""Tensors of PyTorch as arrays, and arrays as tensors, on the same memory wherever its order allows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.runtime.dlpack import import_array


def tensor_of(array: Any) -> Any:
    """A tensor on the memory of an array, which may be a GPU's."""
    # torch is optional
    import torch

    if not isinstance(array, np.ndarray):
        return torch.from_dlpack(array)
    if array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"uint{8 * array.itemsize}")).view(getattr(torch, array.dtype.name))


def array_of_memory(tensor: Any, order: tuple[int, ...] | None = None) -> Any:
    """The memory of a tensor, its axes in `order`, or of a copy where its elements do not lie in order; an integer as
    an axis of one. A tensor on an NVIDIA GPU stays one."""
    if isinstance(tensor, int):
        return np.empty((tensor, 0), "uint8")
    plain = tensor.detach() if order is None else tensor.detach().permute(order)
    if plain.is_complex():
        import torch

        plain = torch.view_as_real(plain.resolve_conj().resolve_neg())
    plain = plain.contiguous()
    if plain.device.type == "cuda":
        return plain.resolve_neg()
    try:
        return plain.numpy()
    except (TypeError, RuntimeError):  # types that NumPy does not know, other devices, a sign kept in a bit
        return import_array(plain.resolve_neg())


def random_key(gpu: int | None = None) -> Any:
    """A key that follows from the state of PyTorch's generator, and so from its seed; of a GPU's, in its memory."""
    import torch

    key = torch.zeros(10, dtype=torch.int64, device="cpu" if gpu is None else f"cuda:{gpu}")
    torch.randint(-(2**63), 2**63 - 1, (2,), out=key[:2])
    return key.view(torch.uint64)
