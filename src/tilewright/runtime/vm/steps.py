"""The steps of a flat program: what it does on addresses, for printers of C and of machine code.

Variables are addresses, "v0", "v1", …, and lengths of lists, "n0", "n1", …; all are 0 at first.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Address:
    """`offset` bytes behind a base, and `count` times `stride` more: "arena", "weights", "slot3", "k0" or a variable.

    A slot is an input or output of the run, a k a table of sizes; "rows0" and so on are the memory of growing lists.
    """

    base: str
    offset: int = 0
    count: str = ""
    stride: int = 0


@dataclass(frozen=True)
class Point:
    """A variable gets an address."""

    variable: str
    address: Address


@dataclass(frozen=True)
class Count:
    """The length of a list becomes that of another (the name of a variable, or "0")."""

    variable: str
    value: str


@dataclass(frozen=True)
class Increment:
    """A list got one row more."""

    variable: str


@dataclass(frozen=True)
class Label:
    """A target of jumps."""

    name: str


@dataclass(frozen=True)
class Jump:
    """Go on elsewhere; `before` are the assignments of this way."""

    label: str
    before: list[Point | Count] = field(default_factory=list)


@dataclass(frozen=True)
class Unless:
    """Go on elsewhere if the byte at an address is 0."""

    test: Address
    label: str
    before: list[Point | Count] = field(default_factory=list)


@dataclass(frozen=True)
class Assign:
    """The assignments of a way that leads straight on."""

    before: list[Point | Count] = field(default_factory=list)


@dataclass(frozen=True)
class Repeat:
    """Go back to a label if the byte at an address is not 0."""

    test: Address
    label: str


@dataclass(frozen=True)
class Run:
    """Run a segment on the addresses of its inputs and outputs, with symbolic dimensions also on that of its table."""

    segment: int
    addresses: tuple[Address, ...]
    table: Address | None = None


@dataclass(frozen=True)
class Carry:
    """One tensor that a loop carries on: into whichever of two positions its variable does not hold now."""

    variable: str
    value: Address
    one: Address
    other: Address
    nbytes: int


@dataclass(frozen=True)
class Again:
    """The end of a loop's turn: all values are looked at, then carried on, and the next turn begins at the label."""

    carried: tuple[Carry, ...]
    counts: tuple[Count, ...]
    label: str


@dataclass(frozen=True)
class Swap:
    """A variable gets the one of two addresses that it does not hold."""

    variable: str
    one: Address
    other: Address


@dataclass(frozen=True)
class Copy:
    """Copy bytes."""

    target: Address
    source: Address
    nbytes: int


@dataclass(frozen=True)
class Stack:
    """`length` rows of `outer` pieces of `nbytes` become `outer` rows of `length` pieces."""

    target: Address
    source: Address
    length: int
    outer: int
    nbytes: int


@dataclass(frozen=True)
class Room:
    """End the run with an error where a list is as long as it may be."""

    count: str
    most: int
    error: int


@dataclass(frozen=True)
class Grow:
    """See that the memory of a growing list has room for one row more."""

    count: str
    room: str
    number: int


@dataclass(frozen=True)
class Expect:
    """End the run with an error unless a list has this length."""

    count: str
    length: int
    error: int


@dataclass(frozen=True)
class Stop:
    """End the run with an error: the number of its text."""

    error: int


Step = (
    Point | Count | Increment | Label | Jump | Unless | Assign | Repeat | Run | Again | Swap | Copy | Stack | Room
    | Grow | Expect | Stop
)  # fmt: skip


def tidy(steps: list[Step]) -> list[Step]:
    """The steps without jumps to what follows them, and without labels that nothing leads to."""
    kept: list[Step] = []
    for index, step in enumerate(steps):
        after = index + 1
        if isinstance(step, Jump):
            while after < len(steps) and isinstance(label := steps[after], Label) and label.name != step.label:
                after += 1
            following = steps[after] if after < len(steps) else None
            if isinstance(following, Label) and following.name == step.label:
                kept += [Assign(step.before)] if step.before else []
                continue
        kept.append(step)
    targets = {step.label for step in kept if isinstance(step, Jump | Unless | Repeat | Again)}
    return [step for step in kept if not isinstance(step, Label) or step.name in targets]
