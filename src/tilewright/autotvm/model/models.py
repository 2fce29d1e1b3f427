"""All cost models by name, and which of them is taken where nobody says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilewright.autotvm.model.cost_model import AnalyticModel, CostModel
from tilewright.autotvm.model.gru_model import GruModel
from tilewright.autotvm.model.trees_model import TreesModel, require_xgboost
from tilewright.errors import InputError

#: name -> a new model with a seed.
MODELS: Mapping[str, Callable[[int], CostModel]] = MappingProxyType(
    {"trees": TreesModel, "gru": GruModel, "analytic": lambda seed: AnalyticModel()}
)


def make_model(name: str, seed: int = 0) -> CostModel:
    """A new model. Raises `InputError` for another name, `EnvironmentError_` where it needs what is not installed."""
    if name not in MODELS:
        raise InputError(f"there is no cost model {name!r}; there are: {', '.join(MODELS)}")
    if name == "trees":
        require_xgboost()
    return MODELS[name](seed)
