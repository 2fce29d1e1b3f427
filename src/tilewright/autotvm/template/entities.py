"""The values of a user template's knobs: lengths of a split, an order of loops, annotations, any value.

Each entity applies itself to a schedule, and has the two codes by which logs of the classic stack name it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright import te
from tilewright.errors import ArtifactError, ScheduleError
from tilewright.tir.op import as_const


class Entity(ABC):
    """One value of a knob; `code` is its kind in logs."""

    code: ClassVar[str]

    @property
    @abstractmethod
    def data(self) -> Any:
        """The value as logs have it."""

    def to_json(self) -> list[Any]:
        """Kind and value: ["sp", [-1, 4]]."""
        return [self.code, self.data]


@dataclass
class SplitEntity(Entity):
    """The lengths that a loop is split into, the outermost first; -1 is what is left."""

    size: Sequence[int]
    code: ClassVar[str] = "sp"

    @property
    def data(self) -> Any:
        return list(self.size)

    def apply(self, sch: te.Schedule, op: Any, axis: te.IterVar) -> list[te.IterVar]:
        """Split `axis` of the stage of `op`; the loops, the outermost first."""
        made = []
        for length in self.size[:0:-1]:
            axis, inner = sch[op].split(axis, factor=int(length))
            made.append(inner)
        return [axis, *reversed(made)]

    def __repr__(self) -> str:
        return str(list(self.size))


@dataclass
class ReorderEntity(Entity):
    """An order of loops: `perm` has the number of each in the order given to `apply`."""

    perm: Sequence[int]
    code: ClassVar[str] = "re"

    @property
    def data(self) -> Any:
        return list(self.perm)

    def apply(self, sch: te.Schedule, op: Any, axes: Sequence[te.IterVar]) -> list[te.IterVar]:
        """Reorder `axes`; them in their new order."""
        if len(axes) != len(self.perm):
            raise ScheduleError(f"the order {list(self.perm)} is one of {len(self.perm)} loops, {len(axes)} are given")
        ordered = [axes[position] for position in self.perm]
        sch[op].reorder(*ordered)
        return ordered

    def __repr__(self) -> str:
        return str(list(self.perm))


@dataclass
class AnnotateEntity(Entity):
    """The annotation of each loop: "none", "unroll", "vec", or the name of a thread axis, "threadIdx.x"."""

    anns: Sequence[str]
    code: ClassVar[str] = "an"

    @property
    def data(self) -> Any:
        return list(self.anns)

    def apply(
        self,
        sch: te.Schedule,
        op: Any,
        axes: Sequence[te.IterVar],
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: Any = None,
        source: Any = None,
    ) -> list[te.IterVar]:
        """Annotate `axes`, of `axis_lens` iterations where that is known.

        Longer loops than `max_unroll` stay as they are, and so do those whose length is not in `vec_size`.
        """
        if source is not None:
            raise ScheduleError(
                "annotations that move loads (`source`) are not supported: annotate the stages' own loops"
            )
        for number, (axis, note) in enumerate(zip(axes, self.anns, strict=True)):
            length = axis_lens[number] if axis_lens is not None else _length(axis)
            if note == "unroll" and (max_unroll is None or length is None or length <= max_unroll):
                sch[op].unroll(axis)
            elif note == "vec" and (vec_size is None or length in vec_size):
                sch[op].vectorize(axis)
            elif note not in ("none", "unroll", "vec"):
                sch[op].bind(axis, te.thread_axis(note))
        return list(axes)

    def __repr__(self) -> str:
        return str(list(self.anns))


@dataclass
class OtherOptionEntity(Entity):
    """Any value of plain data."""

    val: Any
    code: ClassVar[str] = "ot"

    @property
    def data(self) -> Any:
        return self.val

    def __repr__(self) -> str:
        return str(self.val)


_KINDS: dict[str, type[Any]] = {
    kind.code: kind for kind in (SplitEntity, ReorderEntity, AnnotateEntity, OtherOptionEntity)
}


def entity_from_json(code: str, data: Any) -> Entity:
    """The inverse of `Entity.to_json`. Raises `ArtifactError` for an unknown kind."""
    if code not in _KINDS:
        raise ArtifactError(f"a configuration has an entity of the unknown kind {code!r}; known: {', '.join(_KINDS)}")
    entity: Entity = _KINDS[code](data)
    return entity


def _length(axis: te.IterVar) -> int | None:
    found = as_const(axis.dom.extent) if axis.dom is not None else None
    return None if found is None else int(found)
