"""The device of a graph of PyTorch: the processor, or one NVIDIA GPU, whose tensors are read and returned there.

Parameters on a GPU stay at their addresses from call to call. `FixedTensors` has recorded plans read them in place, so
that they are neither copied before each run nor held twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.runtime.gpu import nvrtc
from tilewright.runtime.gpu.array import DeviceArray
from tilewright.runtime.gpu.cuda import cuda_device

#: Addresses that a parameter may have, one after the other, before it is copied like any other input.
_MOST_MOVES = 8


def gpu_of(graph: Any) -> int | None:
    """The number of the NVIDIA GPU that a `torch.fx.Graph` computes on; None for the processor.

    Raises `UnsupportedError` for several GPUs, and for devices of other kinds.
    """
    found: dict[tuple[str, int], str] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        for one in value if isinstance(value, tuple | list) else (value,):
            device = getattr(one, "device", None)
            if device is not None and device.type not in ("cpu", "meta"):
                found.setdefault((device.type, device.index or 0), node.name)
    others = [f"{kind}:{number} ({name})" for (kind, number), name in found.items() if kind != "cuda"]
    if others:
        raise UnsupportedError(f"the graph computes on {others[0]}; graphs of the processor and of CUDA are compiled")
    if len(found) > 1:
        names = " and ".join(f"cuda:{number} ({name})" for (_, number), name in [*found.items()][:2])
        raise UnsupportedError(f"the graph computes on {names}; a graph is compiled for one GPU: break it between them")
    return next((number for _, number in found), None)


def gpu_target(number: int) -> str:
    """The target of an NVIDIA GPU of this machine, with its architecture.

    Raises `EnvironmentError_` where its driver or NVRTC is missing.
    """
    nvrtc.version()
    return f"cuda:{number} -arch={cuda_device(number).own_architecture}"


class FixedTensors:
    """Parameters of a graph on a GPU, at the positions of its inputs, as arrays that recordings read in place."""

    def __init__(self, number: int, positions: Sequence[int]) -> None:
        self._device = cuda_device(number)
        self._moves = dict.fromkeys(positions, 0)
        self._known: dict[int, tuple[int, DeviceArray]] = {}

    def array(self, position: int, tensor: Any, stream: int) -> Any:
        """The array of a contiguous tensor, to be used on a stream; the tensor itself where it does not stay."""
        address = int(tensor.data_ptr()) if self._moves.get(position, _MOST_MOVES) < _MOST_MOVES else 0
        if not address or address % self._device.alignment or not tensor.is_contiguous():
            return tensor
        known = self._known.get(position)
        if known is None or known[0] != address or known[1].shape != tuple(tensor.shape):
            self._moves[position] += 1
            with self._device.on_stream(stream):
                array = DeviceArray.from_dlpack(tensor, self._device)
            array.is_fixed = True
            known = self._known[position] = address, array
        known[1].stream = stream
        return known[1]
