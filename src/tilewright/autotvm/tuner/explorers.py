"""All explorers by name, and the default one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType

from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.model.cost_model import CostModel
from tilewright.autotvm.model.models import MODELS, make_model
from tilewright.autotvm.model.trees_model import has_xgboost
from tilewright.autotvm.task.points import Points
from tilewright.autotvm.task.task import Task
from tilewright.autotvm.tuner.explorer import (
    DropletExplorer,
    Explorer,
    GeneticExplorer,
    GridExplorer,
    RandomExplorer,
)
from tilewright.autotvm.tuner.model_explorer import ModelExplorer, View
from tilewright.errors import InputError

_ALL: tuple[Callable[[Points, Random | None], Explorer], ...] = (
    ModelExplorer, DropletExplorer, GeneticExplorer, RandomExplorer, GridExplorer,
)  # fmt: skip

EXPLORERS: Mapping[str, Callable[[Points, Random | None], Explorer]] = MappingProxyType(
    {str(kind.name): kind for kind in _ALL}  # type: ignore[attr-defined]
)

#: The model that sees knobs alone, beside `MODELS`, which see loops.
KNOBS = "knobs"


def make_explorer(
    name: str,
    points: Points,
    generator: Random | None = None,
    task: Task | None = None,
    model: str = KNOBS,
    general: Callable[[], CostModel | None] = lambda: None,
    measurer: Measurer | None = None,
) -> Explorer:
    """The explorer `name`; "auto" is the one that learns, where its model can, else coordinate descent.

    `model` is what that learns by: "knobs", boosted trees that see the values of knobs, or one of `MODELS`, which see
    the loops of `task`, read by the builders of `measurer`; `general` returns one of these trained on other tasks, or
    None. Raises `InputError` for another
    name, and `EnvironmentError_` for a model that needs what is not installed.
    """
    if model not in (KNOBS, *MODELS):
        raise InputError(f"there is no cost model {model!r}; there are: {', '.join((KNOBS, *MODELS))}")
    if name == "auto":
        able = has_xgboost() or model not in (KNOBS, "trees")
        name = ModelExplorer.name if able else DropletExplorer.name
    if name not in EXPLORERS:
        raise InputError(f"there is no explorer {name!r}; there are: auto, {', '.join(EXPLORERS)}")
    if name == ModelExplorer.name and model != KNOBS and task is not None:
        generator = generator or Random(0)
        own = make_model(model, generator.randrange(1 << 30))
        return ModelExplorer(points, generator, model=own, view=View.loops(task, measurer), general=general)
    return EXPLORERS[name](points, generator)
