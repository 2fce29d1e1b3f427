"""`relay.quantize`: this package's own, with the classic options that make no difference here."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from tilewright.compat.ir.module import IRModule, as_module
from tilewright.compat.runtime.array import to_numpy
from tilewright.errors import UnsupportedError
from tilewright.quantize.calibrate import run_compiled
from tilewright.relay.ir.type import TensorType
from tilewright.relay.transform.quantize import QConfig
from tilewright.relay.transform.quantize import qconfig as own_qconfig
from tilewright.relay.transform.quantize import quantize as own_quantize
from tilewright.relay.transform.quantize.qconfig import current_qconfig

_EIGHT = {"nbit_input": 8, "nbit_weight": 8, "nbit_activation": 32,
          "dtype_input": "int8", "dtype_weight": "int8", "dtype_activation": "int32"}  # fmt: skip
#: Options that have one value here: scales are floats, so nothing is rounded to a shift and nothing simulated.
_ONLY = {
    "do_simulation": (False, 0),
    "round_for_shift": (True, 1),
    "debug_enabled_ops": (None,),
    "rounding": ("UPWARD",),
}


def qconfig(**options: Any) -> QConfig:
    """A configuration, to be opened by `with`. Raises `UnsupportedError` for integers of other than 8 bits, and for
    other values of the options that have one value here. Names that it does not have are ignored, with a warning.

    `calibrate_chunk_by`, over how many processes the data set is spread, changes no result: batches run one by one.
    """
    for name, only in _EIGHT.items():
        if options.pop(name, only) != only:
            raise UnsupportedError(f"relay.quantize.qconfig: {name} is {only} here: int8 layers, sums in int32")
    for name, allowed in _ONLY.items():
        if (given := options.pop(name, allowed[0])) not in allowed:
            raise UnsupportedError(f"relay.quantize.qconfig: {name} is {allowed[0]!r} here, not {given!r}")
    if not isinstance(options.pop("calibrate_chunk_by", -1), int):
        raise UnsupportedError("relay.quantize.qconfig: calibrate_chunk_by is a number of batches")
    for name in [name for name in options if name not in QConfig.__dataclass_fields__]:
        near = get_close_matches(name, QConfig.__dataclass_fields__, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        warnings.warn(f"relay.quantize.qconfig has no option {name!r}, which is ignored{hint}", stacklevel=2)
        del options[name]
    return own_qconfig(**options)


def quantize(
    mod: Any, params: Mapping[str, Any] | None = None, dataset: Iterable[Mapping[str, Any]] | None = None
) -> Any:
    """The module with the layers that the current configuration chooses in integers.

    Raises `AssertionError` where it requires a fully integral network and an operator stays a float.
    """
    values = {name: to_numpy(value) for name, value in (params or {}).items()}
    subject = as_module(mod)
    types = {param.name: param.type_annotation for param in subject["main"].params}

    def fed(name: str, value: Any) -> Any:
        """The array in the dtype of the parameter, as the classic executors copy numbers into buffers of their own."""
        type_ = types.get(name)
        array = to_numpy(value)
        return array.astype(type_.dtype.numpy, copy=False) if isinstance(type_, TensorType) else array

    batches = None if dataset is None else [{name: fed(name, x) for name, x in batch.items()} for batch in dataset]
    try:
        return IRModule.of(own_quantize(subject, values, batches, run_compiled))
    except UnsupportedError as error:
        if current_qconfig().partition_conversions != "fully_integral":
            raise
        raise AssertionError(str(error)) from error
