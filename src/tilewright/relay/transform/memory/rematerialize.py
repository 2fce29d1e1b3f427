"""Values that are computed a second time instead of kept, so that the arena fits a limit (gradient checkpointing).

Before: %0 = f(%x); %1 = g(%0); %2 = h(%1); k(%0, %2)              main has "memory_limit": bytes
After:  %0 = f(%x); %1 = g(%0); %2 = h(%1); %3 = f(%x); k(%3, %2)

Kernels stay as they are, only how often and in which order they run changes, so results keep their bits. A run is
simulated under a budget of live bytes, kernel by kernel. Where the next does not fit, that value leaves which costs
least to compute again, with what is gone of all that leads to it, for a byte and for the time until it is read; it is
computed when it is needed (Kirisame and others, Dynamic Tensor Rematerialization, ICLR 2021, where values leave by the
time since they were read: here what will be read is known). What stays of a chain are checkpoints, as by Chen and
others (Training Deep Nets with Sublinear Memory Cost, 2016). Before that kernels are moved ahead that free as much as
they take, such as gradients of weights. The planner then says how many bytes it all takes, and the budget follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Call, Expr, Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import children, rebuild
from tilewright.relay.op.cost import flops, moved_bytes
from tilewright.relay.transform.memory.execution_order import TURN, execution_order
from tilewright.relay.transform.memory.in_place import update_order, written_over
from tilewright.relay.transform.memory.plan_memory import MemoryPlan, Where

#: The attribute of `main` that has the most bytes of its arena.
MEMORY_LIMIT = "memory_limit"

#: Operations that take as long as a byte from memory: the vectors of a processor do about so many more in a second.
_OPERATIONS_A_BYTE = 8

#: Runs for each kernel of the graph, on average, from which on a budget counts as too small.
_MOST_RUNS = 4

#: Budgets that are tried at most, for a plan within the limit and then for the smallest plan.
_TRIALS = 10


def rematerialize(mod: IRModule, plan: Callable[[IRModule], MemoryPlan]) -> IRModule:
    """The module, after fusion, in an order and with calls of kernels by which `plan` fits the limit that `main` has.

    Raises `UnsupportedError`, with the smallest limit that this finds, where none does, and where sizes are symbolic.
    """
    main = mod["main"]
    limit = main.attrs.get(MEMORY_LIMIT)
    if limit is None:
        return mod
    first = plan(mod)
    if first.buffers:
        raise UnsupportedError(
            "a memory limit needs sizes that are known: fix those of the inputs, the batch among them"
        )
    if first.arena_bytes <= limit:
        return mod
    graph = _Graph.of(main, first)

    def planned(budget: float) -> tuple[IRModule, int] | None:
        runs = _Simulation(graph, budget).runs()
        if runs is None:
            return None
        made = infer_type(mod.with_function("main", main.with_body(_rebuilt(main.body, graph, runs))))
        return made, plan(made).arena_bytes

    return _within(limit, graph.peak(), planned, first.arena_bytes)


def _within(limit: int, peak: int, planned: Callable[[float], tuple[IRModule, int] | None], smallest: int) -> IRModule:
    """The module `planned` for the largest budget by which it takes at most `limit` bytes."""
    budget, failed = float(peak), 0.0
    for _ in range(_TRIALS):
        found = planned(budget)
        if found is None:
            failed = budget
            break
        if found[1] <= limit:
            return found[0]
        smallest = min(smallest, found[1])
        budget *= 0.995 * limit / found[1]  # gaps of the plan, scratch memory: as large a part of less
    enough = float(peak)
    for _ in range(_TRIALS):
        found = planned((failed + enough) / 2)
        if found is None:
            failed = (failed + enough) / 2
            continue
        if found[1] <= limit:
            return found[0]
        smallest, enough = min(smallest, found[1]), (failed + enough) / 2
    raise UnsupportedError(
        f"values between inputs and results take {smallest} bytes at the least, and the memory limit is {limit}: "
        f"set it to {smallest} or more, or take a smaller batch"
    )


@dataclass(frozen=True)
class _Graph:
    """Kernels in order: what each reads of others, its bytes in the arena and its cost, both of one run.

    `uses` are the positions of its readers, that of the end for results; behind `until` it cannot be computed again,
    for an input that leads to it has been written over, or there is no kernel.
    """

    order: Sequence[Call]
    reads: Mapping[Call, tuple[Call, ...]]
    nbytes: Mapping[Call, int]
    cost: Mapping[Call, float]
    uses: Mapping[Call, list[int]]
    until: Mapping[Call, int]

    @staticmethod
    def of(main: Function, plan: MemoryPlan) -> _Graph:
        """The kernels of `main`, in an order in which those come early that free as much as they take."""
        nodes, runs = update_order(execution_order(main.body)), set(plan.order)
        made: dict[Expr, tuple[Call, ...]] = {}  # the kernels that make a value
        for node in nodes:
            of = [kernel for kid in _operands(node) for kernel in made[kid]]
            made[node] = (node,) if isinstance(node, Call) and node in runs else tuple(dict.fromkeys(of))
        reads = {call: tuple(dict.fromkeys(k for arg in call.args for k in made[arg])) for call in plan.order}
        within = {call: [s for s in plan.storage[call] if s.where is Where.ARENA] for call in plan.order}
        nbytes = {
            call: sum(-(-int(s.nbytes) // plan.alignment) * plan.alignment for s in within[call]) for call in plan.order
        }
        order = _early(plan.order, reads, nbytes, _behind(nodes, plan.order, made), set(made[main.body]))
        uses: dict[Call, list[int]] = {call: [] for call in order}
        for position, call in enumerate(order):
            for read in reads[call]:
                uses[read].append(position)
        for result in made[main.body]:
            uses[result].append(len(order))
        cost = {call: flops(call) / _OPERATIONS_A_BYTE + float(moved_bytes(call)) for call in order}
        return _Graph(order, reads, nbytes, cost, uses, _until(nodes, order))

    def peak(self) -> int:
        """The most live bytes, where everything is kept."""
        live = peak = 0
        for position, call in enumerate(self.order):
            live += self.nbytes[call]
            peak = max(peak, live)
            live -= sum(self.nbytes[read] for read in self.reads[call] if self.uses[read][-1] == position)
        return peak


def _operands(node: Expr) -> tuple[Expr, ...]:
    return tuple(node.args) if isinstance(node, Call) else tuple(children(node))


def _behind(
    nodes: Iterable[Expr], order: Sequence[Call], made: Mapping[Expr, tuple[Call, ...]]
) -> dict[Call, list[Call]]:
    """The kernels that a kernel which writes over an input comes after: those that read the input, renamed or not."""
    found: dict[Call, list[Call]] = {}
    for call in order:
        at = written_over(call)
        if at is None:
            continue
        same: set[Expr] = {call.args[at]}
        for node in nodes:
            if isinstance(node, Call) and not made[node] and not same.isdisjoint(node.args):
                same.add(node)
        found[call] = [one for one in order if one is not call and not same.isdisjoint(one.args)]
    return found


def _early(
    order: Sequence[Call],
    reads: Mapping[Call, tuple[Call, ...]],
    nbytes: Mapping[Call, int],
    behind: Mapping[Call, list[Call]],
    results: set[Call],
) -> list[Call]:
    """The kernels in order, but that those come as early as they can which free as many bytes as they take."""
    left = {call: len({*reads[call], *behind.get(call, ())}) for call in order}
    readers: dict[Call, int] = dict.fromkeys(order, 0)
    next_: dict[Call, list[Call]] = {call: [] for call in order}
    for call in order:
        for read in reads[call]:
            readers[read] += 1
        for one in {*reads[call], *behind.get(call, ())}:
            next_[one].append(call)
    done: dict[Call, None] = {}
    ready = dict.fromkeys(call for call in order if not left[call])

    def execute(call: Call) -> None:
        done[call] = None
        ready.pop(call, None)
        for read in reads[call]:
            readers[read] -= 1
        for one in next_[call]:
            left[one] -= 1
            if not left[one]:
                ready[one] = None

    def frees(call: Call) -> int:
        return sum(nbytes[read] for read in reads[call] if readers[read] == 1 and read not in results)

    for call in order:
        if call not in done:
            execute(call)
        while (more := next((one for one in ready if reads[one] and frees(one) >= nbytes[one]), None)) is not None:
            execute(more)
    return list(done)


def _until(nodes: Iterable[Expr], order: Sequence[Call]) -> dict[Call, int]:
    """The last position before which each kernel can run again: then the end, or what leads to it is written over."""
    positions = {call: position for position, call in enumerate(order)}
    found: dict[Expr, int] = {}
    for call in order:
        at = written_over(call)
        if at is not None:
            found[call.args[at]] = positions[call]
    for node in nodes:
        ends = min([found[kid] for kid in _operands(node)], default=len(order) - 1)
        found[node] = min(ends, found.get(node, len(order) - 1))
    return {call: found[call] for call in order}


class _Simulation:
    """A run of the kernels with at most `budget` live bytes."""

    def __init__(self, graph: _Graph, budget: float) -> None:
        self.graph, self.budget = graph, budget
        self.live: dict[Call, None] = {}
        self.used = self.now = 0
        self.done: list[Call] = []
        self.position = {call: position for position, call in enumerate(graph.order)}
        # of each value those that are gone and made of it, and when they are read
        self.wanted: dict[Call, dict[Call, int]] = {call: {} for call in graph.order}
        self.seen = dict.fromkeys(graph.order, 0)  # how many of the uses are over

    def runs(self) -> list[Call] | None:
        """The kernels in the order in which they run; None where the budget is too small."""
        for position, call in enumerate(self.graph.order):
            batch = [*sorted(self._gone(call), key=self.position.__getitem__), call]
            for index, one in enumerate(batch):
                needed = {read for other in batch[index:] for read in self.graph.reads[other]}
                self.now = position
                if not self._make_room(self.graph.nbytes[one], needed):
                    return None
                self.now = position + (one is call)
                self._execute(one, {read for other in batch[index + 1 :] for read in self.graph.reads[other]})
            if len(self.done) > _MOST_RUNS * len(self.graph.order):
                return None
        return self.done

    def _gone(self, call: Call) -> list[Call]:
        """The kernels that have to run again for `call`, in no order."""
        found: dict[Call, None] = {}
        ahead = [call]
        while ahead:
            for read in self.graph.reads[ahead.pop()]:
                if read not in self.live and read not in found:
                    found[read] = None
                    ahead.append(read)
        return list(found)

    def _execute(self, call: Call, needed: set[Call]) -> None:
        self.done.append(call)
        self.live[call] = None
        self.used += self.graph.nbytes[call]
        for read in self.graph.reads[call]:
            self.wanted[read].pop(call, None)
        for value in (*self.graph.reads[call], call):
            if value in self.live and value not in needed and self._next_use(value) is None:
                self._remove(value)

    def _remove(self, value: Call) -> None:
        del self.live[value]
        self.used -= self.graph.nbytes[value]

    def _next_use(self, value: Call) -> int | None:
        """The position of the next kernel for which `value` is read; None where there is none."""
        uses, seen = self.graph.uses[value], self.seen[value]
        while seen < len(uses) and uses[seen] < self.now:
            seen += 1
        self.seen[value] = seen
        return min([*uses[seen : seen + 1], *self.wanted[value].values()], default=None)

    def _make_room(self, nbytes: int, needed: set[Call]) -> bool:
        """Remove values until so many bytes fit; False where those left are needed."""
        while self.used + nbytes > self.budget:
            victim = min(
                (v for v in self.live if v not in needed and self._may_leave(v)), key=self._score, default=None
            )
            if victim is None:
                return False
            self._remove(victim)
            self._want(victim)
        return True

    def _may_leave(self, value: Call) -> bool:
        return self.graph.nbytes[value] > 0 and self.graph.uses[value][-1] <= self.graph.until[value]

    def _score(self, value: Call) -> float:
        """The cost of computing `value` again, for a byte and for each kernel that runs until it is read."""
        cost = self.graph.cost[value] + sum(self.graph.cost[one] for one in self._gone(value))
        return cost / (self.graph.nbytes[value] * ((self._next_use(value) or self.now) + 1 - self.now))

    def _want(self, value: Call) -> None:
        """Note of what a value is made, as long as it is gone."""
        ahead = [value]
        while ahead:
            gone = ahead.pop()
            at = self._next_use(gone)
            if at is None:
                continue
            for read in self.graph.reads[gone]:
                if self.wanted[read].get(gone) != at:
                    self.wanted[read][gone] = at
                    if read not in self.live:
                        ahead.append(read)


def _rebuilt(body: Expr, graph: _Graph, runs: Sequence[Call]) -> Expr:
    """The body with a call for each of `runs`, in turn; what is not run again reads the latest call."""
    kernels = set(graph.order)
    latest: dict[Call, Call] = {}
    views: dict[tuple[Expr, tuple[Expr, ...]], Expr] = {}

    def value(node: Expr) -> Expr:
        if isinstance(node, Call) and node in kernels:
            return latest[node]
        kids = tuple([value(kid) for kid in _operands(node)])
        if not kids:
            return node
        if (node, kids) not in views:
            made = Call(node.op, kids, node.attrs, node.span) if isinstance(node, Call) else rebuild(node, kids)
            views[node, kids] = made
        return views[node, kids]

    for turn, call in enumerate(runs):
        latest[call] = Call(call.op, [value(arg) for arg in call.args], {**call.attrs, TURN: turn}, call.span)
    return value(body)
