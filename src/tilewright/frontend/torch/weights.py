"""Weights that a compiled graph holds as constants: which of its inputs they are, and whether they are what they were.

A module's parameters can change between two calls: by an optimizer, by `load_state_dict`, by an average kept of them.
PyTorch counts writes into a tensor, but for those through `.data` and through arrays on its memory; so some elements of
each tensor are compared as well.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

#: Elements of each tensor that are compared, spread over all of it.
_SAMPLES = 4

#: Operators that read a few rows of a table, which as a constant would gain nothing.
_LOOKUPS = ("aten.embedding.default", "aten.index.Tensor", "aten.index_select.default", "aten.gather.default")


def static_positions(graph: Any, tables: bool = False) -> tuple[int, ...]:
    """Positions of those inputs of a graph that are parameters or buffers and may become constants.

    To be asked while PyTorch compiles `graph`, a `torch.fx.Graph` of AOTAutograd for inference or its forward one.
    Tables in which the graph only looks up rows are left out unless `tables` is True.
    """
    # torch is optional
    import torch

    context = torch._guards.TracingContext.try_get()
    known = context.fw_metadata.static_input_indices if context is not None and context.fw_metadata is not None else ()
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    return tuple(
        position
        for position in sorted(known or ())
        if position < len(inputs)
        and isinstance(inputs[position].meta.get("val"), torch.Tensor)
        and (tables or any(str(user.target) not in _LOOKUPS for user in inputs[position].users))
    )


def backward_positions(graph: Any) -> tuple[int, ...]:
    """The same of a backward graph, whose inputs are named by their positions among those of the forward one.

    To be asked while PyTorch compiles it, or keeps it to be compiled.
    """
    import torch

    context = torch._guards.TracingContext.try_get()
    known = context.fw_metadata.static_input_indices if context is not None and context.fw_metadata is not None else ()
    names = {f"primals_{position + 1}" for position in known or ()}
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    return tuple(position for position, node in enumerate(inputs) if node.name in names)


class Snapshot:
    """The contents of some tensors at one time.

    Raises `RuntimeError`, as PyTorch does, for a tensor made in inference mode: writes into those are not counted.
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._marks = _marks(tensors)
        self._tensors = [tensor.detach() for tensor in tensors]  # so that their memory stays
        positions = sorted(position for tensor in self._tensors for position in _sampled_bytes(tensor))
        first = positions[0] if positions else 0
        self._positions = np.array(positions, np.int64) - first
        # reading bytes by their addresses takes a tenth of the time of asking each tensor for elements
        memory: Any = (ctypes.c_uint8 * (positions[-1] - first + 1)).from_address(first) if positions else b""
        self._memory = np.frombuffer(memory, np.uint8)
        self._values = self._memory[self._positions].tobytes()

    def holds(self, tensors: Sequence[Any]) -> bool:
        """True if `tensors` are the same, with the same contents as far as versions and samples tell."""
        return self._marks == _marks(tensors) and self._values == self._memory[self._positions].tobytes()


def _marks(tensors: Sequence[Any]) -> list[int]:
    return [mark for tensor in tensors for mark in (tensor.data_ptr(), tensor._version)]


def _sampled_bytes(tensor: Any) -> list[int]:
    """Addresses of the bytes of some elements, spread over all of a tensor; none of one on another device."""
    count = tensor.numel()
    if not count or tensor.device.type != "cpu":
        return []
    stride = 1
    if not tensor.is_contiguous():  # a line of elements along its longest axis
        axis = max(range(tensor.ndim), key=lambda axis: int(tensor.shape[axis]))
        count, stride = tensor.shape[axis], tensor.stride(axis)
    width, start = tensor.element_size(), tensor.data_ptr()
    elements = range(0, count, max(count // _SAMPLES, 1))
    return [start + element * stride * width + byte for element in elements for byte in range(width)]
