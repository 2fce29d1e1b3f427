"""The table of converters with all families in it: importing a family registers its converters."""

from __future__ import annotations

from tilewright.frontend.converters import import_families
from tilewright.frontend.torch.registry import find_converter, supported_operators

import_families(
    "tilewright.frontend.torch",
    "activation attention backward complex_tensors creation indexing linalg loss math nn normalization pooling "
    "quantized random_numbers reduce sampling selection shape sort special",
)

__all__ = ["find_converter", "supported_operators"]
