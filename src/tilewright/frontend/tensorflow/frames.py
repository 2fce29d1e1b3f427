"""Loops of TensorFlow 1: frames of Enter, Merge, Switch, NextIteration and Exit, found as one loop each.

A value of a loop comes in by Enter, meets at Merge what NextIteration hands on, and leaves a Switch by LoopCond's word
either for another round or through Exit; what a loop only reads comes in by an Enter that says so. What is found is run
as `While` is: a test and a body, parts of the same graph whose first values are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.errors import ModelError
from tilewright.frontend.messages import Record

ENTERS, EXITS = ("Enter", "RefEnter"), ("Exit", "RefExit")
_MERGES, _NEXTS, _SWITCHES = ("Merge", "RefMerge"), ("NextIteration", "RefNextIteration"), ("Switch", "RefSwitch")


@dataclass
class Carried:
    """A loop-carried value by the names of its nodes; `exits` is empty for a value that is not read after the loop."""

    enter: str
    merge: str
    following: str
    switch: str | None = None
    exits: list[str] = field(default_factory=list)


@dataclass
class Frame:
    """A loop: the values that it changes, those that it only reads, by the names of their Enter, and its test."""

    name: str
    carried: list[Carried]
    read: list[str]
    test: str


def node_of(tensor: str) -> str:
    """The node that a tensor is a result of."""
    return tensor.lstrip("^").partition(":")[0]


class Frames:
    """The loops of one graph."""

    def __init__(self, nodes: Mapping[str, Record], label: str) -> None:
        self._nodes = nodes
        self._label = label
        self._readers: dict[str, list[Record]] = {}
        for node in nodes.values():
            for name in {node_of(one) for one in node.input if not one.startswith("^")}:
                self._readers.setdefault(name, []).append(node)
        self._found: dict[str, Frame] = {}

    def of_exit(self, exit_: Record) -> Frame:
        """The loop that an Exit leaves. Raises `ModelError` where the nodes do not make one."""
        switch = self._input(exit_, 0, _SWITCHES)
        merge = self._input(switch, 0, _MERGES)
        enter = next((node for node in self._inputs(merge) if node.op in ENTERS), None)
        if enter is None:
            raise ModelError(f"{self._label}: {merge.op} {merge.name!r} of a loop has no Enter")
        name = _frame_name(enter)
        if name not in self._found:
            self._found[name] = self._frame(name)
        return self._found[name]

    def _frame(self, name: str) -> Frame:
        carried, read, tests = [], [], set()
        for node in self._nodes.values():
            if node.op not in ENTERS or _frame_name(node) != name:
                continue
            merge = next((one for one in self._readers.get(node.name, []) if one.op in _MERGES), None)
            if merge is None or ("is_constant" in node.attr and node.attr["is_constant"].b):
                read.append(node.name)
                continue
            following = next((one for one in self._inputs(merge) if one.op in _NEXTS), None)
            if following is None:
                raise ModelError(f"{self._label}: {merge.op} {merge.name!r} of a loop has no NextIteration")
            found = Carried(node.name, merge.name, following.name)
            for switch in self._readers.get(merge.name, []):
                if switch.op in _SWITCHES and node_of(switch.input[0]) == merge.name:
                    found.switch = switch.name
                    tests.add(node_of(switch.input[1]))
                    found.exits += [one.name for one in self._readers.get(switch.name, []) if one.op in EXITS]
            carried.append(found)
        if len(tests) != 1:
            raise ModelError(f"{self._label}: the loop {name!r} has {len(tests)} tests; it needs one")
        return Frame(name, carried, read, tests.pop())

    def _inputs(self, node: Record) -> list[Record]:
        names = [node_of(one) for one in node.input if not one.startswith("^")]
        return [self._nodes[name] for name in names if name in self._nodes]

    def _input(self, node: Record, position: int, kinds: tuple[str, ...]) -> Record:
        found = self._inputs(node)
        if position >= len(found) or found[position].op not in kinds:
            raise ModelError(f"{self._label}: {node.op} {node.name!r} of a loop does not read a {kinds[0]}")
        return found[position]


def _frame_name(enter: Record) -> str:
    return bytes(enter.attr["frame_name"].s).decode("utf-8", "replace") if "frame_name" in enter.attr else ""
