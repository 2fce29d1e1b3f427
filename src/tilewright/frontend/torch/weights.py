"""Weights that a compiled graph holds as constants: which of its inputs they are, and whether they are what they were.

A module's parameters can change between two calls: by an optimizer, by `load_state_dict`, by an average kept of them.
PyTorch counts writes into a tensor, but for those through `.data` and through arrays on its memory; so some elements of
each tensor are compared as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

#: Elements of each tensor that are compared, spread over all of it.
_SAMPLES = 4

#: Operators that read a few rows of a table, which as a constant would gain nothing.
_LOOKUPS = ("aten.embedding.default", "aten.index.Tensor", "aten.index_select.default", "aten.gather.default")


def static_places(graph: Any) -> tuple[int, ...]:
    """Places of those inputs of a graph that are parameters or buffers and may become constants.

    To be asked while PyTorch compiles `graph`, a `torch.fx.Graph` of AOTAutograd for inference. Tables in which the
    graph only looks up rows are left out.
    """
    # torch is optional
    import torch

    context = torch._guards.TracingContext.try_get()
    known = context.fw_metadata.static_input_indices if context is not None and context.fw_metadata is not None else ()
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    return tuple(
        place
        for place in sorted(known or ())
        if place < len(inputs)
        and isinstance(inputs[place].meta.get("val"), torch.Tensor)
        and any(str(user.target) not in _LOOKUPS for user in inputs[place].users)
    )


class Snapshot:
    """What some tensors were at one time.

    Raises `RuntimeError`, as PyTorch does, for a tensor made in inference mode: writes into those are not counted.
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._marks = _marks(tensors)
        self._views = _samples(tensors)
        self._values = _values(self._views)

    def holds(self, tensors: Sequence[Any]) -> bool:
        """True if `tensors` are the same, with the same contents as far as versions and samples tell."""
        # torch is optional
        import torch

        return self._marks == _marks(tensors) and all(
            torch.equal(before, now) for before, now in zip(self._values, _values(self._views))
        )


def _marks(tensors: Sequence[Any]) -> list[int]:
    return [mark for tensor in tensors for mark in (tensor.data_ptr(), tensor._version)]


def _samples(tensors: Sequence[Any]) -> list[list[Any]]:
    """Views of some elements of each tensor, as integers, for NaN equals nothing; a list for each width."""
    # torch is optional
    import torch

    widths = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    views: dict[int, list[Any]] = defaultdict(list)
    for tensor in tensors:
        if tensor.numel():
            flat = tensor.detach().view(-1) if tensor.is_contiguous() else _first_elements(tensor.detach())
            bits = flat.view(widths[tensor.element_size()])
            views[tensor.element_size()].append(bits[:: max(bits.numel() // _SAMPLES, 1)])
    return list(views.values())


def _first_elements(tensor: Any) -> Any:
    """A line of elements of a tensor whose elements do not lie in order, along its longest axis."""
    axis = max(range(tensor.ndim), key=lambda axis: int(tensor.shape[axis]))
    return tensor[tuple(slice(None) if place == axis else 0 for place in range(tensor.ndim))]


def _values(views: list[list[Any]]) -> list[Any]:
    # torch is optional
    import torch

    return [torch.cat(group) for group in views]
