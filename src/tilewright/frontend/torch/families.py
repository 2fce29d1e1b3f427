"""The table of converters with all families in it: importing a family registers its converters."""

from __future__ import annotations

from tilewright.frontend.torch import (  # noqa: F401
    activation,
    attention,
    creation,
    indexing,
    logic,
    loss,
    math,
    nn,
    normalization,
    pooling,
    recurrent,
    reduce,
    sampling,
    shape,
    sort,
)
from tilewright.frontend.torch.registry import find_converter, supported_operators

__all__ = ["find_converter", "supported_operators"]
