"""Plans of layouts as records, and compiling by them; the whole graph's choice by prices."""

from __future__ import annotations

from tests.relay.helpers import assert_same, module, weights
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.records.database import Database, processor_of
from tilewright.records.entry import VERDICT, Entry
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform import alter_layout
from tilewright.relay.transform.layout.layout_plan import Planner, follow_texts, plan_layouts, text_of
from tilewright.relay.transform.layout.recorded_layouts import CHOICES, layouts_key, recorded_plan
from tilewright.target import Target

TARGET = Target("llvm -mcpu=znver4 -cores=2")
nn = relay.nn


def _network(filters: int = 64) -> relay.IRModule:
    x = relay.var("x", shape=(1, 64, 14, 14))
    y = nn.relu(nn.conv2d(x, weights(filters, 64, 3, 3), padding=1))
    left = nn.conv2d(y, weights(64, filters, 1, 1))
    return relay.transform.infer_type(module(relay.add(left, x)))


def _record(mod: relay.IRModule, choices: list[str]) -> Database:
    planner = Planner(mod["main"].body, backend_of(TARGET))
    return Database([Entry(layouts_key(planner), processor_of(TARGET), {CHOICES: choices}, kind=VERDICT)])


def _plain_plan(mod: relay.IRModule) -> list[str]:
    """All plain, whatever that costs."""
    planner = Planner(mod["main"].body, backend_of(TARGET))
    return planner.simulate_by(
        lambda call, offers: next(offer for offer in offers if text_of(offer) in ("plain", "NCHW,OIHW>NCHW"))
    ).texts


def test_a_module_is_compiled_by_the_layouts_of_a_record():
    mod = _network()
    records = _record(mod, _plain_plan(mod))
    after = alter_layout(mod, backend_of(TARGET), records)
    assert_same(mod, after, rtol=1e-4)
    layouts = [call.attrs.data_layout for call in calls(after["main"].body) if "data_layout" in call.attrs]
    assert layouts == ["NCHW", "NCHW"]
    default = alter_layout(mod, backend_of(TARGET))
    assert any("layout_transform" in str(call.op) for call in calls(default["main"].body))


def test_another_graph_or_processor_or_a_plan_that_does_not_fit_is_left_alone():
    mod, other = _network(), _network(filters=32)
    records = _record(mod, _plain_plan(mod))
    assert recorded_plan(Planner(mod["main"].body, backend_of(TARGET)), records) is not None
    assert recorded_plan(Planner(other["main"].body, backend_of(TARGET)), records) is None
    assert recorded_plan(Planner(mod["main"].body, backend_of(Target("llvm -mcpu=haswell -cores=2"))), records) is None
    for wrong in (["OIHW>NCHW99c"], [], [*_plain_plan(mod), "plain"]):
        assert recorded_plan(Planner(mod["main"].body, backend_of(TARGET)), _record(mod, wrong)) is None
    undone = Database([*records.entries, Entry(records.entries[0].task, processor_of(TARGET), None, kind=VERDICT)])
    assert recorded_plan(Planner(mod["main"].body, backend_of(TARGET)), undone) is None


def test_a_plan_is_spelled_and_read_again():
    mod = _network()
    planner, plan = Planner(mod["main"].body, backend_of(TARGET)), plan_layouts(mod["main"].body, backend_of(TARGET))
    again = follow_texts(planner, plan.texts)
    assert again is not None and again.cost == plan.cost and again.texts == plan.texts


def test_prices_decide_over_the_whole_graph():
    """Plain everywhere, where only the first convolution's plain way is cheap and changes would undo that."""
    mod = _network()
    body = mod["main"].body

    def price(call, choice):
        return 1.0 if choice.inputs[0] == "NCHW" and choice.output == "NCHW" else choice.cost

    plan = plan_layouts(body, backend_of(TARGET), price)
    assert plan.cost <= 2.0 and not plan.transforms
    default = follow_texts(Planner(body, backend_of(TARGET), price), plan_layouts(body, backend_of(TARGET)).texts)
    assert default is not None and default.cost > plan.cost


def test_several_convolutions_change_together_where_none_gains_alone():
    """Blocked is everyone's first choice, and one plain convolution among blocked ones costs two changes of layout."""
    x = relay.var("x", shape=(1, 16, 14, 14))
    y = nn.conv2d(nn.relu(nn.conv2d(x, weights(16, 16, 1, 1))), weights(32, 16, 1, 1))
    body = relay.transform.infer_type(module(y))["main"].body
    target = Target("llvm -mcpu=znver4 -cores=1")

    def price(call, choice):
        return 900.0 if choice.inputs[0] == "NCHW" and choice.output == "NCHW" else 1000.0

    plan = plan_layouts(body, backend_of(target), price)
    assert [text for text in plan.texts if text != "plain"] == ["NCHW,OIHW>NCHW"] * 2
    assert plan.cost == 1800.0
