"""Choice of layouts and algorithms over a whole network by measured times.

    entry, trials = choose_layouts(mod, target, 60, …)   # an Entry that `tw.compile(records=…)` follows
    entry.config                                         # None: what the compiler chooses by itself is as fast

Each distinct convolution is measured in every way that it may run in (blocked or plain, by sums or Winograd),
of each the first configurations of the analytic ranking. With these prices, and the expected ones of changes of layout,
the choice is made again for the graph as a whole (`plan_layouts`). What comes of it is run in turns with the
network as the compiler has it, and kept if it is faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.network.compare import Comparison
from tilewright.autotvm.task.extract import network_calls, tasks_of
from tilewright.autotvm.task.task import KernelTask
from tilewright.autotvm.tuner.explorer import GridExplorer
from tilewright.autotvm.tuner.task_tuner import TaskTuner
from tilewright.backend import backend_of
from tilewright.driver.optimize import optimize_stages
from tilewright.errors import TilewrightError
from tilewright.records.database import Database, processor_of
from tilewright.records.entry import TRIAL, VERDICT, Entry, this_compiler
from tilewright.relay.ir.expr import Call, Constant, Function, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import LayoutChoice
from tilewright.relay.transform.layout.layout_plan import (
    LayoutPlan,
    Planner,
    follow_texts,
    plan_layouts,
    text_of,
)
from tilewright.relay.transform.layout.recorded_layouts import CHOICES, layouts_key
from tilewright.target import Target

#: Ways that are expected to take more than so many times the best are not measured.
_HOPELESS = 1.5

#: Configurations measured of each way: the first of the analytic ranking.
TOP = 3

#: Ways other than the compiler's are priced so many times what they were measured: prices are as inexact as that, and a
#: network of many changes that gain nothing is no better.
_OTHER_WAY = 1.03

#: By how much a plan must be expected to be cheaper for it to be compared.
_EXPECTED_GAIN = 0.01

#: The share of the work that must have been measured before the compiler's layouts are kept.
_ENOUGH = 0.8

#: With fewer seconds nothing is proposed before so much was measured: building another network takes about as long.
_SECONDS_TO_PROPOSE = 15.0

#: The share of the time that the comparison of the two networks takes.
_COMPARING = 0.2


@dataclass(eq=False)
class Ways:
    """A distinct convolution: one of its calls in the graph, how many there are, and the choices that may pay."""

    call: Call
    choices: list[LayoutChoice]
    calls: int = 1
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def expected(self) -> float:
        """Cycles of all calls, by the cheapest choice."""
        return self.calls * min(choice.cost for choice in self.choices)

    def price(self, choice: LayoutChoice, target: Target, general: float) -> float:
        """Cycles of a choice: measured, or as expected times how far measuring is from that elsewhere."""
        one = target.machine.seconds(1.0)
        taken = self.seconds.get(text_of(choice))
        return choice.cost * (self.slowness(one) or general) if taken is None else taken / one

    def slowness(self, one: float) -> float:
        """The ratio of measured to expected seconds of the choices; 0 where none was measured."""
        known = [c for c in self.choices if text_of(c) in self.seconds]
        return float(np.median([self.seconds[text_of(c)] / (c.cost * one) for c in known])) if known else 0.0


def graph_before_layouts(mod: IRModule, target: Target) -> IRModule:
    """The module as `alter_layout` sees it."""
    before = mod
    for name, after in optimize_stages(mod, target):
        if name == "alter_layout":
            return before
        before = after
    return before


def ways_of(planner: Planner) -> dict[Call, Ways]:
    """For each convolution that has a choice its ways; equal ones share them."""
    found: dict[str, Ways] = {}
    of: dict[Call, Ways] = {}
    for call, options in planner.problem().options.items():
        choices = [choice for choice in options if choice is not None and choice.cost > 0]
        if not isinstance(call, Call) or len(choices) < 2:
            continue
        least = min(choice.cost for choice in choices)
        choices = [choice for choice in choices if choice.cost <= _HOPELESS * least]
        same = f"{call.op} {sorted(map(str, call.attrs.items()))} {[arg.checked_type for arg in call.args]}"
        if same in found:
            found[same].calls += 1
        else:
            found[same] = Ways(call, choices)
        of[call] = found[same]
    return of


def way_task(call: Call, choice: LayoutChoice, target: Target) -> KernelTask | None:
    """The kernel of a convolution by itself in one of its ways; None where that has no search space."""
    params = [Var(f"x{i}", arg.checked_type) for i, arg in enumerate(call.args) if not isinstance(arg, Constant)]
    left = iter(params)
    args = [arg if isinstance(arg, Constant) else next(left) for arg in call.args]
    mod = infer_type(IRModule.from_expr(Function(params, Call(call.op, args, call.attrs))))
    single = graph_before_layouts(mod, target)["main"].body
    key = layouts_key(Planner(single, backend_of(target).rules()))
    entry = Entry(key, processor_of(target), {CHOICES: [text_of(choice)]}, kind=VERDICT)
    calls = network_calls(mod, target, Database([entry]))
    return next(iter(tasks_of(calls, target)), None)


def measured_ways(
    ways: list[Ways],
    target: Target,
    measurer_of: Callable[[Sequence[KernelTask]], Measurer],
    seconds: float,
    record: Callable[[Entry], None] = lambda entry: None,
    known: Database | None = None,
) -> int:
    """Fill in the seconds of the choices of `ways`, those that matter most first, until `seconds` have passed.

    How many trials that took. Of a convolution of which all ways are in the records `known` nothing is measured.
    """
    end, trials = time.monotonic() + seconds, 0
    rows = {one: list(_tasks(one, target)) for one in sorted(ways, key=lambda way: -way.expected)}
    for one, own in rows.items():
        before = {text_of(choice): _known_seconds(task, known) for choice, task in own}
        if all(before.values()):
            one.seconds |= before
    left = [one for one in rows if not one.seconds and rows[one]]
    if not left:
        return 0
    with measurer_of([task for one in left for _, task in rows[one]]) as measurer:
        measurer.deadline = end
        for one in left:
            for choice, task in rows[one]:
                if time.monotonic() >= end:
                    return trials
                tuner = TaskTuner(task, measurer, GridExplorer(task.points), record)
                trials += len(tuner.step(TOP))
                if np.isfinite(tuner.seconds):
                    one.seconds[text_of(choice)] = tuner.seconds
    return trials


def _known_seconds(task: KernelTask, known: Database | None) -> float:
    """The least that records have of a task; 0 where they have less than is measured."""
    entries = [] if known is None else known.of(task.key, task.processor)
    timed = [entry.seconds for entry in entries if entry.kind == TRIAL and entry.seconds]
    return min(timed) if len(timed) >= TOP else 0.0


def _tasks(ways: Ways, target: Target) -> Iterator[tuple[LayoutChoice, KernelTask]]:
    for choice in ways.choices if len(ways.choices) > 1 else ():
        try:
            task = way_task(ways.call, choice, target)
        except TilewrightError:
            continue
        if task is not None:
            yield choice, task


def prices_of(planner: Planner, ways: Mapping[Call, Ways]) -> Callable[[Call, LayoutChoice], float]:
    """The cost of choices, in cycles, as far as they were measured."""
    target = planner.backend.target
    one = target.machine.seconds(1.0)
    known = [slowness for way in ways.values() if (slowness := way.slowness(one))]
    general = float(np.median(known)) if known else 1.0

    def price(call: Call, choice: LayoutChoice) -> float:
        return ways[call].price(choice, target, general) if call in ways else choice.cost * general

    return price


def priced_plan(planner: Planner, ways: Mapping[Call, Ways]) -> tuple[LayoutPlan, float]:
    """The plan of least cost by measured prices, and how many times that the compiler's own plan costs."""
    backend, price = planner.backend, prices_of(planner, ways)
    own = plan_layouts(planner.root, backend)

    def careful(call: Call, choice: LayoutChoice) -> float:
        as_own = text_of(own.choices.get(call)) == text_of(choice)
        return price(call, choice) * (1.0 if as_own else _OTHER_WAY)

    plan = plan_layouts(planner.root, backend, careful)
    costs = [follow_texts(Planner(planner.root, backend, price), texts) for texts in (own.texts, plan.texts)]
    known = [one.cost for one in costs if one is not None]
    return plan, known[0] / known[1] if len(known) == 2 and known[1] else 1.0


def choose_layouts(
    mod: IRModule,
    target: Target,
    seconds: float,
    measurer_of: Callable[[Sequence[KernelTask]], Measurer],
    compared: Callable[[Database, float], Comparison],
    record: Callable[[Entry], None] = lambda entry: None,
    known: Database | None = None,
) -> tuple[Entry | None, int]:
    """A record of the best layouts of a straight module, found in about `seconds` seconds; and the trials that took.

    No record where nothing is to be chosen. `compared` compiles the module with records and compares it, for so
    many seconds, with the module without them.
    """
    planner = Planner(graph_before_layouts(mod, target)["main"].body, backend_of(target).rules())
    key, processor = layouts_key(planner), processor_of(target)
    before = None if known is None else known.best(key, processor)
    if before is not None and before.kind == VERDICT:
        return before, 0
    ways = ways_of(planner)
    if not ways:
        return None, 0
    distinct = list(dict.fromkeys(ways.values()))
    trials = measured_ways(distinct, target, measurer_of, (1 - _COMPARING) * seconds, record, known)
    known_enough = _share_known(distinct) >= _ENOUGH
    if not known_enough and seconds < _SECONDS_TO_PROPOSE:
        return None, trials  # the next run goes on measuring
    plan, gain = priced_plan(planner, ways)
    verdict = Entry(key, processor, None, kind=VERDICT, compiler=this_compiler(), time=time.time())
    if gain > 1 + _EXPECTED_GAIN:
        proposed = replace(verdict, config={CHOICES: plan.texts})
        found = compared(Database([proposed]), _COMPARING * seconds)
        if found.faster:
            verdict = replace(proposed, seconds=found.second)
    if verdict.config is None and not known_enough:
        return None, trials
    record(verdict)
    return verdict, trials


def _share_known(ways: Sequence[Ways]) -> float:
    """The share of the expected cycles of convolutions with several ways whose ways were all measured."""
    open_ = [one for one in ways if len(one.choices) > 1]
    known = sum(one.expected for one in open_ if len(one.seconds) == len(one.choices))
    return known / sum(one.expected for one in open_) if open_ else 1.0
