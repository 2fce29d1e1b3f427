"""All explorers by name, and which of them is taken where nobody says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType

from tilewright.autotvm.model.rank_model import has_xgboost
from tilewright.autotvm.task.points import Points
from tilewright.autotvm.tuner.explorer import (
    DropletExplorer,
    Explorer,
    GeneticExplorer,
    GridExplorer,
    RandomExplorer,
)
from tilewright.autotvm.tuner.model_explorer import ModelExplorer
from tilewright.errors import InputError

_ALL: tuple[Callable[[Points, Random | None], Explorer], ...] = (
    ModelExplorer, DropletExplorer, GeneticExplorer, RandomExplorer, GridExplorer,
)  # fmt: skip

EXPLORERS: Mapping[str, Callable[[Points, Random | None], Explorer]] = MappingProxyType(
    {str(kind.name): kind for kind in _ALL}  # type: ignore[attr-defined]
)


def make_explorer(name: str, points: Points, generator: Random | None = None) -> Explorer:
    """The explorer `name`; "auto" is the one that learns, where xgboost is there, else coordinate descent.

    Raises `InputError` for another name.
    """
    if name == "auto":
        name = ModelExplorer.name if has_xgboost() else DropletExplorer.name
    if name not in EXPLORERS:
        raise InputError(f"there is no explorer {name!r}; there are: auto, {', '.join(EXPLORERS)}")
    return EXPLORERS[name](points, generator)
