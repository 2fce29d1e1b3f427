"""Arguments of functions that are not called by address: on devices and in WebAssembly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.module import Param
from tilewright.support.dtype import DType


class Disagreement(NamedTuple):
    """Dimension `axis` of `param` has the extent `got`, but `name`, which it must equal, is `known`."""

    param: Param
    axis: int
    got: int
    name: str
    known: int


def bind_arguments(function: str, params: Sequence[Param], args: Sequence[Any]) -> dict[str, Any]:
    """The arguments by the names of their parameters, scalars as NumPy's; inferred parameters are not among them.

    Raises `InputError` for a wrong number of arguments, element type or shape.
    """
    given = [param for param in params if not param.inferred]
    if len(args) != len(given):
        expected = ", ".join(map(str, given))
        raise InputError(f"{function} takes {len(given)} arguments ({expected}), {len(args)} given")
    for param, value in zip(given, args):
        if not param.is_scalar and not _fits(param, value):
            got = f"{value.dtype}{list(value.shape)}" if hasattr(value, "shape") else type(value).__name__
            raise InputError(f"{function}: argument {param} got {got}")
    return {p.name: DType(p.dtype).numpy.type(v) if p.is_scalar else v for p, v in zip(given, args)}


def _fits(param: Param, value: Any) -> bool:
    if getattr(value, "shape", None) is None or value.dtype != DType(param.dtype).numpy:
        return False
    shape = param.shape
    return shape is None or (
        len(shape) == len(value.shape)
        and all(not isinstance(want, int) or want == got for want, got in zip(shape, value.shape))
    )


def infer_extents(params: Sequence[Param], values: dict[str, Any]) -> Iterator[Disagreement]:
    """Put the extents that shapes name into `values`; each one that differs from what is known is given."""
    for param in params:
        for axis, want in enumerate(param.shape or ()):
            if isinstance(want, str):
                got = int(values[param.name].shape[axis])
                known = int(values.setdefault(want, np.int32(got)))
                if known != got:
                    yield Disagreement(param, axis, got, want, known)
