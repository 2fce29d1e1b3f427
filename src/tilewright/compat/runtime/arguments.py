"""Arguments of compiled code: classic arrays as what the code takes, on the device that it runs on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.compat.runtime.array import DeviceNDArray
from tilewright.errors import InputError
from tilewright.runtime.gpu.module import DeviceFunction
from tilewright.runtime.tensor import Tensor
from tilewright.support.dtype import DType


def argument_values(function: Any, args: Sequence[Any]) -> list[Any]:
    """The arguments of a call of compiled code: arrays of the device where they are, others in the host's memory.

    Raises `InputError` for an array of a device that the code does not run on.
    """
    if not isinstance(function, DeviceFunction):
        for position, value in enumerate(args):
            if isinstance(value, DeviceNDArray):
                raise InputError(
                    f"argument {position} is an array of {value.device}, and the function runs on cpu(0): copy it with "
                    ".copyto(tvm.cpu()), or build the function for the device"
                )
        values = [value.numpy() if isinstance(value, Tensor) else value for value in args]
        shown = [param for param in function.info.params if not param.inferred]
        return [_bits(value, param.dtype) for value, param in zip(values, shown)] + values[len(shown) :]
    params = [param for param in function.info.params if not param.inferred]
    values = []
    for position, value in enumerate(args):
        if isinstance(value, DeviceNDArray):
            written = position < len(params) and bool(params[position].written)
            value = value.on(function.api, written)
        values.append(value.numpy() if isinstance(value, Tensor) else value)
    return values


def _bits(value: Any, dtype: str) -> Any:
    """An array of uint16 as the bfloat16 that its bits are, as classic programs hand them over."""
    if dtype == "bfloat16" and isinstance(value, np.ndarray) and value.dtype == np.uint16:
        return value.view(DType("bfloat16").numpy)
    return value
