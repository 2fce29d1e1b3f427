"""`relay.quantize`: this package's own, with the classic options that make no difference here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilewright.compat.classic.array import to_numpy
from tilewright.compat.classic.module import IRModule, as_module
from tilewright.errors import UnsupportedError
from tilewright.relay.transform.quantize import QConfig
from tilewright.relay.transform.quantize import qconfig as own_qconfig
from tilewright.relay.transform.quantize import quantize as own_quantize

_EIGHT = {"nbit_input": 8, "nbit_weight": 8, "nbit_activation": 32}
_TYPES = {"dtype_input": "int8", "dtype_weight": "int8", "dtype_activation": "int32"}


def qconfig(**options: Any) -> QConfig:
    """A configuration, to be opened by `with`. Raises `UnsupportedError` for integers of other than 8 bits."""
    for name, only in (_EIGHT | _TYPES).items():
        if options.pop(name, only) != only:
            raise UnsupportedError(
                f"relay.quantize.qconfig: {name} is {only} here: layers compute in int8, sums in int32"
            )
    if options.pop("partition_conversions", "disabled") != "disabled":
        raise UnsupportedError(
            'relay.quantize.qconfig: partition_conversions is "disabled" here: a model takes and gives floats'
        )
    for name in ("do_simulation", "round_for_shift", "debug_enabled_ops", "rounding"):
        options.pop(name, None)
    return own_qconfig(**options)


def quantize(
    mod: Any, params: Mapping[str, Any] | None = None, dataset: Iterable[Mapping[str, Any]] | None = None
) -> Any:
    """The module with the layers that the current configuration chooses in integers."""
    values = {name: to_numpy(value) for name, value in (params or {}).items()}
    batches = None if dataset is None else [{name: to_numpy(x) for name, x in batch.items()} for batch in dataset]
    return IRModule.of(own_quantize(as_module(mod), values, batches))
