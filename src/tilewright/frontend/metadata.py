"""What a model's file says for people: classes by name, how inputs are normalized, who made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Normalization:
    """What an input is to be given of raw values x: (x - mean) / deviation, one number for all or one a channel."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


@dataclass(frozen=True)
class Metadata:
    """`labels` are by the name of an output, `normalization` by that of an input; `about` is free text by its key."""

    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    normalization: Mapping[str, Normalization] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
