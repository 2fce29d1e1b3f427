"""The layouts of a whole graph, chosen by cost: what the operators take in them, and what changes between them take.

Operators that can run in several layouts (convolutions) offer choices with their costs; the others follow what they
read. The plan begins with everyone's first choice and changes one operator's choice at a time while the sum of all
costs falls. A choice is looked at only where it could gain: where it is cheaper by itself, or where values that the
operator reads or writes are transformed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from tilewright.relay.ir.registry import LayoutChoice, Op
from tilewright.relay.ir.type import TensorType, tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children, post_order
from tilewright.relay.transform.layout.layout_problem import LayoutProblem
from tilewright.tir.size_hint import size_hint
from tilewright.topi.layout import transform_shape

_BLOCKS = re.compile(r"\d+[a-z]")

#: A change must lower the cost of the graph by this share of the operator's own cost: the figures are estimates.
_MARGIN = 0.002

#: A change of several operators together must lower the cost of the graph by this share of it.
_TOGETHER = 0.002

#: Rounds over all operators; the second finds what the changes of the first made worthwhile.
_ROUNDS = 2


#: What a choice of a call costs, in cycles.
Price = Callable[[Call, LayoutChoice], float]

#: Which of its choices a call takes: its number among what it offers, or itself (None: plain).
Taken = int | LayoutChoice | None


@dataclass
class LayoutPlan:
    """The choice of each call (None: all plain), the layout of each value (absent: plain), and their cost."""

    choices: dict[Call, LayoutChoice | None] = field(default_factory=dict)
    layouts: dict[Expr, str] = field(default_factory=dict)
    transforms: dict[tuple[Expr, str | None], float] = field(default_factory=dict)
    cost: float = 0.0

    @property
    def texts(self) -> list[str]:
        """Every choice in a few words, in order of evaluation; `follow_texts` makes the plan of them again."""
        return [text_of(choice) for choice in self.choices.values()]


def plan_layouts(root: Expr, backend: GraphBackend, price: Price | None = None) -> LayoutPlan:
    """The plan of least cost that is found for the graph under `root`; without a target, everyone's first choice.

    It is improved from everyone's first choice, one change at a time; where several would have to change together, the
    solution of the whole as a problem (`LayoutProblem`) is cheaper, and is where improving begins again. `price` says
    what choices cost where that is known better than by the operators' own expectation.
    """
    planner = Planner(root, backend, price)
    if not backend.has_target:
        return planner.simulate({})
    plan = _improved(planner, {})
    if not plan.choices:
        return plan
    solution: dict[Call, Taken] = dict(planner.problem().solved())
    if planner.simulate(solution).cost >= (1 - _TOGETHER) * plan.cost:
        return plan
    return _improved(planner, solution)


def follow_texts(planner: Planner, texts: Sequence[str]) -> LayoutPlan | None:
    """The plan whose choices are spelled so, in order (`LayoutPlan.texts`); None where the graph has others."""
    left = list(texts)
    fits = True

    def next_one(call: Call, offers: Sequence[LayoutChoice | None]) -> LayoutChoice | None:
        nonlocal fits
        text = left.pop(0) if left else ""
        named = [offer for offer in (*offers, None) if text_of(offer) == text]
        fits = fits and bool(named)
        return named[0] if named else offers[0]

    plan = planner.simulate_by(next_one)
    return plan if fits and not left else None


def text_of(choice: LayoutChoice | None) -> str:
    """A choice in a few words: "NCHW16c,OIHW16i16o>NCHW16c", with the tile of Winograd; "plain" for None."""
    if choice is None:
        return "plain"
    tile = choice.attrs.get("tile_size")
    inputs = ",".join(layout or "-" for layout in choice.inputs)
    return f"{inputs}>{choice.output}{f' m={tile}' if tile else ''}"


def _improved(planner: Planner, taken: dict[Call, Taken]) -> LayoutPlan:
    """The plan that changes of one choice at a time lead to from those `taken`."""
    best = planner.simulate(taken)
    for _ in range(_ROUNDS):
        before = best.cost
        for call in planner.open_calls(best):
            for index, offered in planner.alternatives(call, best, taken):
                plan = planner.simulate({**taken, call: index})
                if plan.cost < best.cost - _MARGIN * offered.cost:
                    taken[call], best = index, plan
        if best.cost == before:
            break
    return best


def flat_inputs(args: Sequence[Expr]) -> list[Expr]:
    """The arguments with the fields of tuples in place."""
    return [value for arg in args for value in (arg.fields if isinstance(arg, Tuple) else (arg,))]


def _results(root: Expr) -> list[Expr]:
    """The values of a result, tuples within tuples in place."""
    found = [root]
    while any(isinstance(value, Tuple) for value in found):
        found = flat_inputs(found)
    return found


def plain(layout: str) -> str:
    """The layout without its blocks: "NCHW" of "NCHW16c"."""
    return _BLOCKS.sub("", layout)


def blocked(layout: str | None) -> str | None:
    """`layout`, or None if it is a plain one."""
    return None if layout is None or layout == plain(layout) else layout


def keeps_order(shape: Sequence[object], source: str, result: Sequence[object], target: str) -> bool:
    """True if both layouts have the elements in the same order: what differs is only where axes of extent 1 stand."""
    return _long_axes(shape, source) == _long_axes(result, target)


def _long_axes(shape: Sequence[object], layout: str) -> list[tuple[str, object]]:
    """The axes longer than 1 with their extents, in order, neighbours of one letter merged.

    [("C", 32)] for [1, 2, 1, 1, 16] in NCHW16c, which is thus the same as for [1, 32, 1, 1] in NCHW.
    """
    merged: list[tuple[str, object]] = []
    for part, extent in zip(re.findall(r"[A-Z]|\d+[a-z]", layout), shape, strict=True):
        letter = part[-1].upper()
        if extent != 1 and merged and merged[-1][0] == letter:
            merged[-1] = (letter, merged[-1][1] * extent)  # type: ignore[operator]
        elif extent != 1:
            merged.append((letter, extent))
    return merged


def _taken(which: Taken, offers: Sequence[LayoutChoice | None]) -> LayoutChoice | None:
    """The offer that a call takes; the first where inputs arrive in another layout, so that the wanted one is not
    offered.
    """
    if which is None:
        return None
    if isinstance(which, int):
        return offers[min(which, len(offers) - 1)]
    text = text_of(which)
    return next((offer for offer in offers if offer is not None and text_of(offer) == text), offers[0])


def _known(node: Expr, layouts: Sequence[str | None]) -> dict[Expr, str]:
    """The layouts of an operator's inputs by value."""
    pairs = zip(flat_inputs(children(node)), layouts, strict=True)
    return {value: layout for value, layout in pairs if layout is not None}


class Planner:
    """Simulates the rewriting of one graph under given decisions, without building anything."""

    def __init__(self, root: Expr, backend: GraphBackend, price: Price | None = None) -> None:
        self.root, self.backend, self.price = root, backend, price
        self.nodes = [node for node in post_order(root) if not isinstance(node, Tuple)]
        self.offers: dict[tuple[Call, tuple[str | None, ...]], tuple[LayoutChoice | None, ...]] = {}
        self.constant = {node for node in self.nodes if isinstance(node, Constant)}

    def simulate(self, taken: Mapping[Call, Taken]) -> LayoutPlan:
        """The plan in which the calls of `taken` take that choice of theirs, and all others their first."""
        return self.simulate_by(lambda call, offers: _taken(taken.get(call, 0), offers))

    def simulate_by(self, take: Callable[[Call, Sequence[LayoutChoice | None]], LayoutChoice | None]) -> LayoutPlan:
        """The plan in which each call takes what `take` chooses of its offers."""
        plan = LayoutPlan()
        for node in self.nodes:
            offers = self.offered(node, plan)
            if offers:
                assert isinstance(node, Call)
                choice = take(node, offers)
                plan.choices[node] = choice
                if choice is not None:
                    self._take(node, choice, plan)
                    continue
            if isinstance(node, TupleGetItem) and node.tuple_value in plan.layouts:
                plan.layouts[node] = plan.layouts[node.tuple_value]
            else:
                for value in flat_inputs(children(node)):
                    self._need(value, None, plan)
        for value in _results(self.root):
            self._need(value, None, plan)
        plan.cost += sum(plan.transforms.values())
        return plan

    def offered(self, node: Expr, plan: LayoutPlan) -> tuple[LayoutChoice | None, ...]:
        """The choices of `node` given the layouts of its inputs; empty if it is no operator with a layout rule."""
        if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.layout is None:
            return ()
        inputs = flat_inputs(node.args)
        layouts = tuple([plan.layouts.get(value) for value in inputs])
        found = self.offers.get((node, layouts))
        if found is None:
            types = [type_of(value) for value in inputs]
            if all(isinstance(t, TensorType) for t in types):
                choice = node.op.layout(node.attrs, layouts, types, self.backend)  # type: ignore[arg-type]
                every = choice if isinstance(choice, tuple) else (choice,)
                found = tuple([self._priced(node, one) for one in every if self._is_possible(inputs, one)])
            else:
                found = ()
            self.offers[node, layouts] = found
        return found

    def _is_possible(self, inputs: Sequence[Expr], choice: LayoutChoice | None) -> bool:
        return choice is None or all(inputs[position] in self.constant for position in choice.constants)

    def _priced(self, call: Call, choice: LayoutChoice | None) -> LayoutChoice | None:
        if choice is None or self.price is None or not choice.cost:
            return choice
        return replace(choice, cost=self.price(call, choice))

    def open_calls(self, plan: LayoutPlan) -> list[Call]:
        """The calls that have several choices."""
        return [node for node in self.nodes if isinstance(node, Call) and len(self.offered(node, plan)) > 1]

    def alternatives(
        self, call: Call, plan: LayoutPlan, taken: Mapping[Call, Taken]
    ) -> Iterator[tuple[int, LayoutChoice]]:
        """The other choices of `call` that could lower the cost of `plan`."""
        offers = self.offered(call, plan)
        chosen = _taken(taken.get(call, 0), offers)
        at_a_change = self._meets_a_change(call, plan)
        for index, offer in enumerate(offers):
            if offer is None or offer is chosen:
                continue
            if at_a_change or chosen is None or offer.cost < chosen.cost:
                yield index, offer

    def _meets_a_change(self, call: Call, plan: LayoutPlan) -> bool:
        """True if a value in the neighbourhood of `call`, as far as operators only follow, is transformed."""
        around = {*flat_inputs(call.args), *self.followers[call]}
        return any(value in around for value, _ in plan.transforms)

    @functools.cached_property
    def followers(self) -> dict[Expr, set[Expr]]:
        """For each value, itself and what follows its layout, until operators that choose for themselves."""
        regions: dict[Expr, set[Expr]] = {}
        readers: dict[Expr, list[Expr]] = {}
        for node in self.nodes:
            for value in flat_inputs(children(node)):
                readers.setdefault(value, []).append(node)
        for node in reversed(self.nodes):
            regions[node] = {node}
            for reader in readers.get(node, ()):
                if isinstance(reader, TupleGetItem) or self._only_follows(reader):
                    regions[node] |= regions[reader]
        return regions

    def _only_follows(self, node: Expr) -> bool:
        return len(self.offered(node, LayoutPlan())) == 1

    def _take(self, call: Call, choice: LayoutChoice, plan: LayoutPlan) -> None:
        plan.cost += choice.cost
        for value, wanted in zip(flat_inputs(call.args), choice.inputs, strict=True):
            self._need(value, blocked(wanted), plan)
        if blocked(choice.output) is not None:
            plan.layouts[call] = choice.output

    def _need(self, value: Expr, wanted: str | None, plan: LayoutPlan) -> None:
        """Count the transform of `value` to `wanted`, once, unless it is free."""
        current = plan.layouts.get(value)
        if not self.backend.has_target or (value, wanted) in plan.transforms:
            return
        if cost := self.change(value, current, wanted):
            plan.transforms[value, wanted] = cost

    def problem(self) -> LayoutProblem:
        """The same choice as a problem that can be solved as a whole."""
        return LayoutProblem(
            self.nodes,
            lambda node: flat_inputs(children(node)),
            _results(self.root),
            lambda node, layouts: self.offered(node, LayoutPlan(layouts=_known(node, layouts))),
            self.change,
            lambda choice: blocked(choice.output),
            lambda choice: [blocked(wanted) for wanted in choice.inputs],
        )

    def change(self, value: Expr, current: str | None, wanted: str | None) -> float:
        """The cost of converting a value from one layout to another (None: plain)."""
        if current == wanted or value in self.constant:
            return 0.0
        return sum(self._transform_cost(t, current, wanted) for t in tensor_types(type_of(value)))

    def _transform_cost(self, type_: TensorType, current: str | None, wanted: str | None) -> float:
        source, target = current or plain(wanted or ""), wanted or plain(current or "")
        shape = (1,) * (len(plain(source)) - type_.ndim) + tuple(type_.shape)
        forms = [transform_shape(shape, plain(source), layout) for layout in (source, target)]
        if keeps_order(forms[0], source, forms[1], target):
            return 0.0
        return self.backend.transform_cost(size_hint(type_.size))
