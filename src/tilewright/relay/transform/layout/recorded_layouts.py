"""Layouts that tuning has chosen for a whole graph: a record of the task "layouts", which the graph is the workload of.

    entry = Entry(layouts_key(planner), processor, {"choices": plan.texts}, kind=VERDICT)
    recorded_plan(planner, Database([entry]))           # the plan again; None where the records know none

Compiling with records looks here first (`alter_layout`); a graph that differs in anything has another key.
"""

from __future__ import annotations

from tilewright.records.database import Database, processor_of
from tilewright.records.entry import TaskKey, canonical
from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children
from tilewright.relay.transform.layout.layout_plan import LayoutPlan, Planner, flat_inputs, follow_texts
from tilewright.support.cache import digest

#: The template that records of layouts name, raised when the texts of choices mean something else.
TEMPLATE, VERSION = "layouts", 1

#: The knob that has the texts of all choices.
CHOICES = "choices"


def layouts_key(planner: Planner) -> TaskKey:
    """The key of a graph in records: its operators, attributes, types and wiring; contents of weights do not count."""
    row = {node: number for number, node in enumerate(planner.nodes)}
    lines = [
        f"{node.op.name} {sorted(map(str, node.attrs.items()))}" if isinstance(node, Call) and isinstance(node.op, Op)
        else type(node).__name__
        for node in planner.nodes
    ]  # fmt: skip
    wiring = [
        f"{line} {type_of(node)} {[row.get(value, -1) for value in flat_inputs(children(node))]}"
        for line, node in zip(lines, planner.nodes)
    ]
    return TaskKey(TEMPLATE, canonical({"graph": digest(*wiring)}), VERSION)


def recorded_plan(planner: Planner, records: Database | None) -> LayoutPlan | None:
    """The plan that records know of this graph on this processor; None where there is none, or none that fits."""
    if (
        records is None
        or not planner.backend.has_target
        or not any(e.task.template == TEMPLATE for e in records.entries)
    ):
        return None
    best = records.best(layouts_key(planner), processor_of(planner.backend.target))
    if best is None or best.config is None:
        return None
    return follow_texts(planner, best.config.get(CHOICES, ()))
