"""Layouts of a network chosen by measuring: ways, prices, and what the comparison of networks decides."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.autotvm.network.test_network import QUICK, Seen
from tests.autotvm.tasks import outcome
from tilewright import relay
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.network import layouts
from tilewright.autotvm.network.compare import Comparison
from tilewright.autotvm.network.settle import Verdict, settle_layouts
from tilewright.autotvm.network.tune import TuneOptions, tune
from tilewright.backend import backend_of
from tilewright.records.database import Database
from tilewright.records.entry import VERDICT, Entry, TaskKey
from tilewright.records.file import read_records
from tilewright.relay.transform.layout.layout_plan import Planner, text_of
from tilewright.relay.transform.layout.recorded_layouts import CHOICES
from tilewright.target import Target

TARGET = Target("cpu -cores=1")


def network() -> relay.IRModule:
    """Two convolutions that can run blocked and plain."""
    generator = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 16, 14, 14))
    first, second = (
        relay.const(generator.standard_normal(shape).astype("float32")) for shape in ((16, 16, 1, 1), (32, 16, 1, 1))
    )
    y = relay.nn.relu(relay.nn.conv2d(x, first))
    return relay.IRModule.from_expr(relay.Function([x], relay.nn.conv2d(y, second)))


def planner() -> Planner:
    return Planner(layouts.graph_before_layouts(network(), TARGET)["main"].body, backend_of(TARGET))


def own_ways() -> set[str]:
    """The compiler's choice for that network, by its own expectation; on each processor something else."""
    graph = planner()
    return set(layouts.priced_plan(graph, layouts.ways_of(graph))[0].texts)


def test_each_way_of_a_convolution_is_a_task_of_its_own() -> None:
    ways = list(dict.fromkeys(layouts.ways_of(planner()).values()))
    assert len(ways) == 2
    for way in ways:
        tasks = [layouts.way_task(way.call, choice, TARGET) for choice in way.choices]
        expected = [choice.cost for choice in way.choices]
        assert len(way.choices) > 1
        for task, cost in zip(tasks, expected, strict=True):
            assert task is not None
            assert task.points.space.ranked[0][0].cycles == pytest.approx(cost, rel=0.01)


def test_ways_are_measured_once_and_known_from_records_then() -> None:
    ways = list(dict.fromkeys(layouts.ways_of(planner()).values()))
    kept: list[Entry] = []
    trials = layouts.measured_ways(ways, TARGET, lambda tasks: Measurer(tasks, QUICK), 60.0, kept.append)
    assert trials == len(kept) > 0
    assert all(set(way.seconds) == {text_of(choice) for choice in way.choices} for way in ways)
    again = list(dict.fromkeys(layouts.ways_of(planner()).values()))
    assert not layouts.measured_ways(again, TARGET, lambda tasks: pytest.fail("measured"), 60.0, known=Database(kept))
    assert all(way.seconds for way in again)


def test_a_plan_follows_prices_and_stays_where_they_say_little() -> None:
    graph = planner()
    ways = layouts.ways_of(graph)
    own, gain = layouts.priced_plan(graph, ways)
    assert gain == pytest.approx(1.0)
    one = TARGET.machine.seconds(1.0)
    for factor, moves in ((1.01, False), (100.0, True)):
        for way in ways.values():
            way.seconds = {text_of(choice): choice.cost * one for choice in way.choices}
            way.seconds |= {text: value * factor for text, value in way.seconds.items() if text in own.texts}
        plan, gain = layouts.priced_plan(graph, ways)
        assert (plan.texts != own.texts and gain > 1.5) == moves


def _chosen(monkeypatch: pytest.MonkeyPatch, times: tuple[float, float]) -> tuple[Entry | None, list[Entry]]:
    """The choice where the compiler's ways are measured as slow, and the networks compare so."""
    one, own = TARGET.machine.seconds(1.0), own_ways()

    def measured(ways, *_):
        for way in ways:
            way.seconds = {text_of(c): 1.0 if text_of(c) in own else c.cost * one for c in way.choices}
        return 3

    monkeypatch.setattr(layouts, "measured_ways", measured)
    recorded: list[Entry] = []
    found, trials = layouts.choose_layouts(
        network(), TARGET, 1.0, lambda tasks: pytest.fail("measured"), lambda records, limit: outcome(*times),
        recorded.append,
    )  # fmt: skip
    assert trials == 3
    return found, recorded


def test_layouts_that_make_the_network_faster_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    entry, recorded = _chosen(monkeypatch, (1.0, 0.5))
    assert entry is not None and entry.config is not None and recorded == [entry]
    model = tw.compile(network(), target=TARGET, records=Database([entry]), cache=False)
    assert model(np.ones((1, 16, 14, 14), np.float32)).shape == (1, 32, 14, 14)
    again, trials = layouts.choose_layouts(
        network(), TARGET, 1.0, lambda tasks: pytest.fail("measured"), lambda records, limit: outcome(1, 1),
        known=Database(recorded),
    )  # fmt: skip
    assert again == entry and trials == 0


def test_layouts_that_do_not_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    entry, recorded = _chosen(monkeypatch, (1.0, 1.0))
    assert entry is not None and entry.config is None and recorded == [entry]


def test_what_was_hardly_measured_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "measured_ways", lambda *_: 0)
    nothing = pytest.fail
    found = layouts.choose_layouts(network(), TARGET, 1.0, nothing, nothing, nothing)  # type: ignore[arg-type]
    assert found == (None, 0)


@pytest.mark.parametrize(("seconds", "proposed"), [(4.0, False), (30.0, True)])
def test_a_short_run_proposes_nothing_before_it_knows_enough(
    seconds: float, proposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, own, compared = TARGET.machine.seconds(1.0), own_ways(), list[float]()

    def measured(ways, *_):
        way = max(ways, key=lambda way: way.expected)
        way.seconds = {text_of(c): 1.0 if text_of(c) in own else c.cost * one for c in way.choices}
        return 1

    def faster(records: Database, limit: float) -> Comparison:
        compared.append(limit)
        return outcome(1.0, 1.0)

    monkeypatch.setattr(layouts, "measured_ways", measured)
    monkeypatch.setattr(layouts, "_share_known", lambda ways: 0.5)
    found = layouts.choose_layouts(network(), TARGET, seconds, lambda tasks: pytest.fail("measured"), faster)
    assert found == (None, 1) and bool(compared) == proposed


class _Network:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def time(self, inputs, repeat=10, warmup=1):
        return [self.seconds] * repeat

    def profile(self, inputs, repeat=1):
        return []


@pytest.mark.parametrize(("tuned", "kept"), [(0.5, True), (1.0, False), (2.0, False)])
def test_what_was_tuned_for_other_layouts_stands_and_falls_with_them(tuned: float, kept: bool) -> None:
    layout = Entry(TaskKey("layouts", "{}"), "p", {CHOICES: ["plain"]}, kind=VERDICT)
    kernel = Entry(TaskKey("conv", "{}"), "p", {"tile": 1}, kind=VERDICT)
    verdict = Verdict(1.0, 0.9, (kernel.task,), (), (kernel,))
    found = settle_layouts(verdict, layout, _Network(1.0), _Network(1.0), lambda records: _Network(tuned), {}, 0.01)
    assert found.speedup == (2.0 if kept else 1.0)
    assert [entry.config is not None for entry in found.entries] == [kept, kept]


def test_a_long_run_chooses_layouts_first(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.autotvm.network.session._LEAST_LAYOUTS", 0.1)
    monkeypatch.setattr("tilewright.autotvm.network.settle._paying", lambda a, b, best, *_: best)
    path, seen = tmp_path / "r.jsonl", Seen()
    result = tune(network(), TARGET, TuneOptions(400.0, trials=4, explorer="grid", measure=QUICK), path, seen)
    assert any("ways to run each convolution" in note for note in seen.notes)
    assert any(entry.task.template == "layouts" for entry in read_records(path))
    assert result.verdict.speedup >= 1.0
    model = tw.compile(network(), target=TARGET, records=path, cache=False)
    assert model(np.ones((1, 16, 14, 14), np.float32)).shape == (1, 32, 14, 14)
