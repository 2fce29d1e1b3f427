"""Explorers: what they propose, that none proposes a point twice, and that they find the best of a smooth space."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import numpy as np
import pytest

from tests.autotvm.tasks import conv_task
from tilewright.autotvm.feature.samples import Samples
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.model.cost_model import AnalyticModel
from tilewright.autotvm.model.trees_model import has_xgboost
from tilewright.autotvm.task.points import EnumeratedPoints
from tilewright.autotvm.tuner.annealing import best_points
from tilewright.autotvm.tuner.explorer import DropletExplorer, Explorer, GeneticExplorer, GridExplorer, diverse
from tilewright.autotvm.tuner.explorers import EXPLORERS, make_explorer
from tilewright.errors import EnvironmentError_, InputError
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace

SIDE = 8


def points(honest: bool = True) -> EnumeratedPoints:
    """Pairs (a, b) with a + b even; the analytic model knows the truth, or the opposite."""
    space = ConfigSpace()
    space.define_knob("a", range(SIDE))
    space.define_knob("b", range(SIDE))
    space.require(lambda c: (c["a"] + c["b"]) % 2 == 0)
    space.rank_by(lambda c: Cost(arithmetic=1000 * (truth(c["a"], c["b"]) if honest else 300 - truth(c["a"], c["b"]))))
    return EnumeratedPoints(space, lambda cycles: cycles * 1e-9)


def truth(a: int, b: int) -> float:
    """The cost of a pair; (5, 3) has the least."""
    return 1 + (a - 5) ** 2 + 2 * (b - 3) ** 2


def measured(space: EnumeratedPoints, which: Iterable[int]) -> list[Trial]:
    found = []
    for point in which:
        config = space.plain(point)
        found.append(Trial(point, config, truth(config["a"], config["b"]) * 1e-6))
    return found


def available(name: str) -> None:
    if name == "xgb" and not has_xgboost():
        pytest.skip("xgboost is not installed (the extra `tune`)")


@pytest.mark.parametrize("name", EXPLORERS)
def test_every_point_is_proposed_once_until_there_are_none(name: str) -> None:
    available(name)
    space = points()
    explorer, seen = make_explorer(name, space, Random(1)), list[int]()
    while proposed := explorer.propose(5):
        seen += proposed
        explorer.learn(measured(space, proposed))
    assert sorted(seen) == list(range(len(space)))


@pytest.mark.parametrize("name", ["xgb", "droplet", "genetic"])
def test_an_explorer_that_learns_finds_the_best_though_the_analytic_model_is_wrong(name: str) -> None:
    available(name)
    space = points(honest=False)
    explorer = make_explorer(name, space, Random(3))
    for _ in range(6):
        explorer.learn(measured(space, explorer.propose(4)))
    assert explorer.best is not None and explorer.best.config == {"a": 5, "b": 3}
    assert len(explorer.seen) == 24 < len(space)


def test_droplet_and_the_learned_one_begin_where_the_analytic_model_does() -> None:
    assert DropletExplorer(points()).propose(4) == [0, 1, 2, 3]


def test_the_grid_goes_in_order_and_random_draws_depend_on_the_seed() -> None:
    assert GridExplorer(points()).propose(3) == [0, 1, 2]
    draws = [make_explorer("random", points(), Random(seed)).propose(6) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


def test_children_have_the_knobs_of_their_parents() -> None:
    space = points()
    explorer = GeneticExplorer(space, Random(0), population=2, elite=2, mutation=0.0)
    parents = [space.at((1, 1)), space.at((7, 7))]
    assert None not in parents
    explorer.learn(measured(space, [p for p in parents if p is not None]))
    first = explorer.propose(1)
    assert space.position(first[0]) in {(1, 7), (7, 1)}


def test_neighbours_skip_what_is_not_valid() -> None:
    space = points()
    at = space.at((4, 4))
    assert at is not None
    assert {space.position(p) for p in space.neighbours(at)} == {(2, 4), (6, 4), (4, 2), (4, 6)}


def test_points_are_found_by_position_and_by_configuration() -> None:
    space = points()
    for point in range(len(space)):
        assert space.at(space.position(point)) == point == space.find(space.plain(point))
    assert space.at((0, 1)) is None and space.find({"a": 0, "b": 1}) is None and space.find({"c": 0}) is None


def test_a_batch_is_not_one_neighbourhood() -> None:
    space = points()
    ranked = [p for p in (space.at((0, 2 * b)) for b in range(4)) if p is not None]
    ranked += [p for p in [space.at((7, 7))] if p is not None]
    assert space.at((7, 7)) in diverse(space, ranked, 3)


def test_annealing_ranks_small_spaces_whole_and_finds_the_best_of_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    space = points(honest=False)

    def score(which: Iterable[int]) -> np.ndarray:
        return np.array([-truth(*space.position(point)) for point in which], np.float32)

    best = space.at((5, 3))
    whole = best_points(space, score, [], Random(0))
    assert whole[0] == best and sorted(whole) == list(range(len(space)))
    monkeypatch.setattr("tilewright.autotvm.tuner.annealing.WHOLE", 0)
    assert best_points(space, score, [0], Random(0))[0] == best


def test_an_unknown_explorer_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"no explorer 'bayes'; there are: auto, xgb, droplet, genetic, random, grid"):
        make_explorer("bayes", points())


def test_without_xgboost_the_learned_one_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xgboost", None)
    with pytest.raises(EnvironmentError_, match=r"needs xgboost: `pip install"):
        make_explorer("xgb", points())
    assert isinstance(make_explorer("auto", points()), DropletExplorer)


def test_the_best_of_no_trials_is_none() -> None:
    explorer: Explorer = GridExplorer(points())
    assert explorer.best is None and explorer.fastest(3) == []


@pytest.mark.parametrize("model", ["gru", "analytic", "trees"])
def test_models_that_see_loops_rank_a_part_of_the_space(model: str) -> None:
    if model == "trees" and not has_xgboost():
        pytest.skip("xgboost is not installed (the extra `tune`)")
    task = conv_task()
    explorer = make_explorer("auto", task.points, Random(0), task, model)
    assert explorer.name == "xgb"
    found: list[int] = []
    while len(found) < min(20, len(task.points)) and (batch := explorer.propose(6)):
        explorer.learn(Trial(p, {}, seconds=1e-5 * (1 + (p % 5))) for p in batch)
        found += batch
    assert len(set(found)) == len(found) >= min(20, len(task.points))


def test_a_general_model_is_asked_once_and_decides_where_to_begin() -> None:
    task, asked = conv_task(), list[int]()

    class Last(AnalyticModel):
        """Likes the points that the analytic model likes least."""

        trained = True  # type: ignore[assignment]

        def score(self, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
            return -samples.prior, np.zeros_like(samples.prior)

    def general() -> Last:
        asked.append(1)
        return Last()

    explorer = make_explorer("xgb", task.points, Random(0), task, "gru", general)
    first = explorer.propose(3)
    explorer.propose(3)
    assert len(asked) == 1 and len(task.points) - 1 in first and 0 not in first


def test_a_model_of_another_name() -> None:
    with pytest.raises(InputError, match=r"no cost model 'oracle'; there are: knobs, trees, gru, analytic"):
        make_explorer("auto", points(), model="oracle")


def test_a_first_batch_tries_knobs_of_two_values_the_other_way() -> None:
    """Such a knob is measured: the analytic model's figure of it is else not put to the test."""
    available("xgb")
    space = ConfigSpace()
    space.define_knob("a", range(12))
    for flag in ("ahead", "shared"):
        space.define_knob(flag, (0, 1))
    space.rank_by(lambda c: Cost(arithmetic=1000 + c["a"] + 100 * (c["ahead"] + c["shared"])))
    flagged = EnumeratedPoints(space, lambda cycles: cycles * 1e-9)
    first = [flagged.plain(point) for point in make_explorer("xgb", flagged, Random(0)).propose(6)]
    assert [(c["ahead"], c["shared"]) for c in first] == [(0, 0)] * 4 + [(1, 0), (0, 1)]
    assert [c["a"] for c in first] == [0, 1, 2, 3, 0, 0]
