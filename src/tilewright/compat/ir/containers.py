"""`tvm.ir.container`: mappings whose `items()`, `keys()` and `values()` are lists, as classic programs index them."""

from __future__ import annotations

from typing import Any


class Map(dict[Any, Any]):
    """A mapping in order of insertion."""

    def items(self) -> list[tuple[Any, Any]]:  # type: ignore[override]
        """Keys with values, as a list."""
        return list(super().items())

    def keys(self) -> list[Any]:  # type: ignore[override]
        """The keys, as a list."""
        return list(super().keys())

    def values(self) -> list[Any]:  # type: ignore[override]
        """The values, as a list."""
        return list(super().values())
