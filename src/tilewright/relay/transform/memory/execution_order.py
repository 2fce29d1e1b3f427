"""The order in which a straight graph is executed: such that the processor works while an accelerator does.

Before: %0 = launch(%a); %1 = wait(%0); %2 = f(%x); g(%1, %2)
After:  %0 = launch(%a); %2 = f(%x); %1 = wait(%0); g(%1, %2)

A list schedule on two clocks, the processor's and the accelerator's, in rough cycles: an operation or a byte takes the
processor one. A launch is made as soon as the accelerator is idle; then results are read that are there, which frees
their memory; then comes what the next launch needs, then what else needs no result that is not there. A wait for work
that goes on comes only when nothing else is left. At most one launch is prepared while another is under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import tensor_types
from tilewright.relay.ir.visitor import children, post_order
from tilewright.relay.op.cost import flops, moved_bytes
from tilewright.relay.op.views import single_call
from tilewright.tir.size_hint import size_hint

#: The attribute of calls that has their number in the order of execution, where a pass has set one.
TURN = "turn"


def execution_order(body: Expr) -> list[Expr]:
    """The nodes of a straight graph of fused calls, operands before what reads them; in post-order without launches.

    Where calls have turns, they come in these.
    """
    nodes = list(post_order(body))
    turns = [node for node in nodes if isinstance(node, Call) and TURN in node.attrs]
    if turns:
        return post_order(*sorted(turns, key=lambda call: int(call.attrs[TURN])), body)
    launches = {node: cycles for node in nodes if (cycles := _launched(node)) is not None}
    return _Schedule(nodes, launches).order() if launches else nodes


def _inner(node: Expr) -> Call | None:
    """The operator's call within a call of a function that has no other."""
    return single_call(node) if isinstance(node, Call) else None


def _launched(node: Expr) -> int | None:
    """The cycles of work that a node begins; None where it begins none."""
    call = _inner(node)
    begins = call.op.launches if call is not None and isinstance(call.op, Op) else None
    return None if begins is None or call is None else begins(call.attrs)


def _waits(node: Expr) -> bool:
    call = _inner(node)
    return call is not None and isinstance(call.op, Op) and call.op.waits


class _Schedule:
    """The nodes executed so far, and the two clocks."""

    def __init__(self, nodes: Sequence[Expr], launches: Mapping[Expr, int]) -> None:
        self.nodes, self.launches = nodes, launches
        self.number = {node: index for index, node in enumerate(nodes)}
        self.missing = {node: len(set(_operands(node, self.number))) for node in nodes}
        self.readers: dict[Expr, list[Expr]] = {node: [] for node in nodes}
        for node in nodes:
            for operand in set(_operands(node, self.number)):
                self.readers[operand].append(node)
        self.next_launch = self._launches_behind()
        self.done: list[Expr] = []
        self.ready = {node for node in nodes if not self.missing[node]}
        self.now = self.idle = 0
        self.ends: dict[Expr, int] = {}
        self.latest: Expr | None = None

    def _launches_behind(self) -> dict[Expr, int]:
        """Of each node the number of the first launch that needs it, directly or by others; none for the rest."""
        found: dict[Expr, int] = {}
        for launch in sorted(self.launches, key=self.number.__getitem__):
            stack = [launch]
            while stack:
                node = stack.pop()
                if node in self.number and node not in found:
                    found[node] = self.number[launch]
                    stack.extend(children(node))
        return found

    def order(self) -> list[Expr]:
        """All nodes in order of execution."""
        while self.ready:
            self._execute(self._choice())
        return self.done

    def _choice(self) -> Expr:
        """The next node: nothing that waits, as long as there is anything else."""
        ready = sorted(self.ready, key=self.number.__getitem__)
        free = [node for node in ready if not isinstance(node, Call)]
        launches = [node for node in ready if node in self.launches]
        if launches and self.idle <= self.now:
            return launches[0]
        if free:
            return free[0]
        waits = [node for node in ready if _waits(node)]
        ended = [node for node in waits if _token(node) is not self.latest]  # a later launch has waited for them
        work = [node for node in ready if node not in self.launches and not _waits(node)]
        if ended:
            return ended[0]
        toward = [node for node in work if node in self.next_launch]
        if toward and not launches:
            return min(toward, key=lambda node: (self.next_launch[node], self.number[node]))
        others = [node for node in work if node not in self.next_launch]
        others += [node for node in waits if self.ends[_token(node)] <= self.now]
        if others:
            return others[0]
        if launches:
            return launches[0]
        return waits[0] if waits else toward[0]

    def _execute(self, node: Expr) -> None:
        self.ready.remove(node)
        self.done.append(node)
        if node in self.launches:
            self.now = max(self.now, self.idle)
            self.latest = node
            self.idle = self.ends[node] = self.now + self.launches[node]
        elif _waits(node):
            self.now = max(self.now, self.ends[_token(node)]) + _work(node)
        elif isinstance(node, Call):
            self.now += _work(node)
        for reader in self.readers[node]:
            self.missing[reader] -= 1
            if not self.missing[reader]:
                self.ready.add(reader)


def _operands(node: Expr, known: Mapping[Expr, int]) -> Iterable[Expr]:
    """The nodes that a node reads; the function that a call is of is none."""
    return [child for child in children(node) if child in known and not (isinstance(node, Call) and child is node.op)]


def _token(wait: Expr) -> Expr:
    assert isinstance(wait, Call)
    return wait.args[0]


def _work(node: Expr) -> int:
    """Rough cycles of the processor; of a wait those that copy its results."""
    assert isinstance(node, Call)
    if _waits(node):
        return sum(size_hint(type_.nbytes) for type_ in tensor_types(node.checked_type))
    return size_hint(flops(node)) + size_hint(moved_bytes(node))
