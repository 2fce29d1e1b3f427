"""The reference that `verify`, `bisect`, `bench` and `run --dump --against` share: that of the model's own format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.errors import InputError

if TYPE_CHECKING:
    from tilewright.frontend.reference import Reference


def reference_of(model: Any) -> Reference:
    """The reference that the model at a path, or an object in memory, is compared with.

    Raises `ModelError` where it is of no known format, `UnsupportedError` where there is nothing to compare it with.
    """
    # only when it runs: `tilewright --help` reads this module, and the formats bring the graph language
    from tilewright.frontend.formats.table import frontend_of

    return frontend_of(model).reference(model)


def check_against(reference: Reference, engine: str | None, inner: bool = False) -> str:
    """The engine called so, or the usual one for None.

    Raises `UnsupportedError` for an unknown name, `InputError` where `inner` values are requested of one that has none.
    """
    name = engine or reference.engines[0]
    reference.check(name)
    if inner and name not in reference.engines_with_values:
        raise InputError(f"{name} has no inner values; known: {', '.join(reference.engines_with_values)}")
    return name


def advice(engine: str, nodes: Sequence[str], path: str) -> str:
    """Advice for a result that differs from that of an engine which saturates in `nodes` of the model at `path`."""
    return (
        f"{engine} itself may be wrong from {nodes[0]} on; compare with exact integer products: "
        f"tilewright verify {path} --against reference"
    )
