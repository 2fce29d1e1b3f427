"""Abstract values of a flat program: locations of tensors instead of contents, and the memory that they use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from tilewright.errors import UnsupportedError
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import ALIGNMENT, round_up
from tilewright.runtime.signature import TensorSpec
from tilewright.runtime.vm.steps import Address, Step
from tilewright.support.dtype import DType
from tilewright.support.open_sizes import how_to_fix

#: The address of what has none yet.
NOWHERE = Address("")


@dataclass(frozen=True)
class Location:
    """A tensor: where it is, its sizes and its type."""

    address: Address
    shape: tuple[int, ...]
    dtype: DType

    @property
    def nbytes(self) -> int:
        """Its bytes in memory."""
        return math.prod(self.shape) * self.dtype.numpy.itemsize


@dataclass(eq=False)
class Growing:
    """The memory of a list that may get ever longer: `room` is the variable with the rows that it has room for.

    `row` is known once there was one; `argument` says which list the rows come behind, None for the empty one.
    """

    number: int
    room: str
    row: Location | None = None
    argument: int | None = None


@dataclass(frozen=True)
class Collected:
    """A list of tensors as rows at an address: of at most `most`, their number the variable `count`.

    `version` tells a list from the same list with one more element, whose rows lie in the same memory.
    """

    address: Address
    fixed: Location | None
    most: int
    count: str
    version: int
    growing: Growing | None = None

    @property
    def row(self) -> Location:
        """The location of one element. Raises `UnsupportedError` for data-dependent sizes."""
        row = self.fixed if self.growing is None else self.growing.row
        if row is None:
            refuse("a list is read to which nothing was ever added")
        return row

    def longer(self, count: str, version: int) -> Collected:
        """The same list with another length."""
        return replace(self, count=count, version=version)


@dataclass(frozen=True)
class Given:
    """An argument that is only handed on."""

    number: int


@dataclass(frozen=True)
class Function:
    """A closure: a function and the values that it captured."""

    number: int
    captured: tuple[Any, ...]


@dataclass(frozen=True)
class Unusable:
    """A value for which no C can be written; an error once it is read."""

    reason: str


@dataclass
class State:
    """The contents of the registers, and the versions of lists that have been added to."""

    registers: list[Any]
    extended: frozenset[int]


class Writer:
    """The `steps` written so far, how many variables and which tables they use, their memory, the texts of errors."""

    def __init__(self, manifest: Manifest) -> None:
        self.steps: list[Step] = []
        self.pointers = 0
        self.counts = 0
        self.tables: list[tuple[DType, tuple[int, ...]]] = []
        self.messages: list[str] = []
        self.lists: list[Growing] = []
        self.segment_bytes = max([s.arena_bytes for s in manifest.segments], default=0)
        self.scratch_bytes = max([s.worker_workspace_bytes for s in manifest.segments], default=0)
        self.workspace_bytes = round_up(self.segment_bytes, ALIGNMENT)
        self._labels = 0
        self._versions = 0

    def memory(self, nbytes: int) -> Address:
        """The address of memory that nothing else uses."""
        offset = self.workspace_bytes
        self.workspace_bytes += round_up(max(nbytes, 1), ALIGNMENT)
        return Address("arena", offset)

    def new_position(self, spec: TensorSpec) -> Location:
        """Memory for a tensor."""
        position = Location(NOWHERE, spec.static_shape, spec.dtype)
        return Location(self.memory(position.nbytes), position.shape, position.dtype)

    def pointer(self) -> str:
        """A new variable for an address."""
        self.pointers += 1
        return f"v{self.pointers - 1}"

    def count(self) -> str:
        """A new variable for the length of a list."""
        self.counts += 1
        return f"n{self.counts - 1}"

    def growing(self, row: Location | None, argument: int | None = None) -> Collected:
        """A new list that may get ever longer, with nothing in it yet."""
        memory = Growing(len(self.lists), self.count(), row, argument)
        self.lists.append(memory)
        return Collected(Address(f"rows{memory.number}"), None, 0, "0", self.version(), memory)

    def label(self) -> str:
        """A new label."""
        self._labels += 1
        return f"L{self._labels - 1}"

    def version(self) -> int:
        """A new version of a list."""
        self._versions += 1
        return self._versions

    def error(self, message: str) -> int:
        """The number of a message with which a run may end."""
        if message not in self.messages:
            self.messages.append(message)
        return self.messages.index(message)


def leaves(value: Any) -> list[Any]:
    """The values in nested tuples from left to right."""
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]


def refuse(reason: str) -> NoReturn:
    raise UnsupportedError(
        f"this model runs on the virtual machine, and cannot become C or WebAssembly: {reason}. In these, all sizes "
        "within branches and loops are fixed; an artifact (.tw) runs the model as it is"
    )


def require_fixed(inputs: Sequence[TensorSpec]) -> None:
    """Raise `UnsupportedError` that names every input of symbolic sizes, with what fixes them."""
    for spec in inputs:
        if type(spec) is not TensorSpec:
            refuse(f"the input {spec} is no tensor of known rank")
    loose = [spec for spec in inputs if not spec.is_static]
    if loose:
        fix = how_to_fix([(spec.name, spec.shape) for spec in loose])
        refuse(f"the sizes of {', '.join(map(str, loose))} are symbolic; fix them, for example with {fix}")


def usable(value: Any) -> Any:
    """`value`, unless nothing can be written for it."""
    if isinstance(value, Unusable):
        refuse(value.reason + " is needed")
    return value


def tensor(value: Any) -> Location:
    """`value`, which must be a tensor."""
    value = usable(value)
    if not isinstance(value, Location):
        refuse("a value that is no tensor is used as one")
    return value


def listed(value: Any) -> Collected:
    """`value`, which must be a list."""
    value = usable(value)
    if not isinstance(value, Collected):
        refuse("a sequence is used")
    return value
