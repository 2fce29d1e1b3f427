"""The table of converters with all families in it: importing a family registers its converters."""

from __future__ import annotations

from tilewright.frontend.torch import (  # noqa: F401
    activation,
    attention,
    backward,
    complex_tensors,
    creation,
    distance,
    embedding_bag,
    experts,
    histogram,
    indexing,
    linalg,
    logic,
    loss,
    math,
    nn,
    normalization,
    pooling,
    quantized,
    random_numbers,
    recurrent,
    reduce,
    sampling,
    selection,
    shape,
    sort,
    special,
    vision,
)
from tilewright.frontend.torch.registry import find_converter, supported_operators

__all__ = ["find_converter", "supported_operators"]
