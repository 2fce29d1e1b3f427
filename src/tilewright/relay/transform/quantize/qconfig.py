"""Quantization settings: `with qconfig(calibrate_mode="kl_divergence"): mod = quantize(mod, dataset=images)`."""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import InputError

CALIBRATIONS = ("global_scale", "kl_divergence", "percentile")
WEIGHT_SCALES = ("power2", "max")
PARTITIONS = ("disabled", "enabled", "fully_integral")


@dataclass(frozen=True)
class QConfig:
    """Choices, by their classic names; open one with `with` to make it the current one.

    `calibrate_mode` says where the range of activations comes from: `global_scale` for all alike, or for each from a
    data set. `weight_scale` is the largest weight ("max"), or the power of two above it. Convolutions whose numbers in
    order of computation are in `skip_conv_layers` stay as they are, and so do dense layers with `skip_dense_layer`.
    `partition_conversions` makes the conversions of inputs and results functions of their own, "fully_integral" with
    nothing but integers between them.
    """

    calibrate_mode: str = "global_scale"
    global_scale: float = 8.0
    weight_scale: str = "power2"
    skip_conv_layers: tuple[int, ...] = (0,)
    skip_dense_layer: bool = True
    partition_conversions: str = "disabled"
    _tokens: list[Token[Any]] = field(default_factory=list, repr=False, compare=False)

    def __enter__(self) -> QConfig:
        self._tokens.append(_CURRENT.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._tokens.pop())


_CURRENT: ContextVar[QConfig | None] = ContextVar("tilewright_qconfig", default=None)


def current_qconfig() -> QConfig:
    """The innermost open configuration, or one with the defaults."""
    return _CURRENT.get() or QConfig()


def qconfig(**options: Any) -> QConfig:
    """A configuration from its fields. Raises `InputError` for a name or a value that it does not have."""
    known = [name for name in QConfig.__dataclass_fields__ if not name.startswith("_")]
    for name in options:
        if name not in known:
            raise InputError(f"qconfig has no option {name!r}; it has: {', '.join(known)}")
    choices = {
        "calibrate_mode": CALIBRATIONS, "weight_scale": WEIGHT_SCALES, "partition_conversions": PARTITIONS,
    }  # fmt: skip
    for name, values in choices.items():
        if name in options and options[name] not in values:
            raise InputError(f"qconfig: {name} is one of {', '.join(values)}; got {options[name]!r}")
    if "skip_conv_layers" in options:
        options["skip_conv_layers"] = tuple(options["skip_conv_layers"] or ())
    return QConfig(**options)
