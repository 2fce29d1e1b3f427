"""`ConfigSpace`, the search space that a user's template declares while it runs, and the configurations of it.

    cfg = get_config()
    cfg.define_split("tile_y", y, num_outputs=2)           # all factors of the length of y
    cfg.define_reorder("order", [yo, xo, k], policy="all")
    cfg.define_annotate("ann", [xi], policy="try_unroll_vec")
    cfg.define_knob("auto_unroll", [0, 64, 256])
    yo, yi = cfg["tile_y"].apply(s, C, y)

While a space is being declared, `cfg[name]` is the first value of a knob; in a configuration, the chosen one. Points
are numbered as in the classic stack: the knob that was declared first varies fastest.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright import te
from tilewright.autotvm.template.entities import (
    AnnotateEntity,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
    entity_from_json,
)
from tilewright.errors import ArtifactError, InputError, ScheduleError
from tilewright.tir.op import as_const
from tilewright.topi.schedule.space import divisors


class VirtualAxis:
    """A loop that a knob stands for while the space is declared: of a known length, not yet made."""

    def __init__(self, length: Any, name: str = "") -> None:
        self.length, self.name = _length_of(length), name

    def __repr__(self) -> str:
        return f"{self.name or 'axis'}[{self.length}]"


def _length_of(axis: Any) -> int:
    """The iterations of a loop, given as such, as a loop variable or as a number."""
    if isinstance(axis, VirtualAxis):
        return axis.length
    value = axis.dom.extent if isinstance(axis, te.IterVar) and axis.dom is not None else axis
    found = as_const(value) if not isinstance(value, int) else value
    if found is None:
        raise ScheduleError(f"a knob needs a loop of known length; {axis} has none")
    return int(found)


class _Definitions(ABC):
    """The methods that templates call, in a space and in a configuration alike."""

    is_fallback = False

    @staticmethod
    def axis(var: Any) -> VirtualAxis:
        """A loop of the result, by its variable or length."""
        return VirtualAxis(var)

    reduce_axis = axis

    def define_split(self, name: str, axis: Any, policy: str = "factors", **options: Any) -> list[VirtualAxis]:
        """A knob for splitting `axis` into `num_outputs` loops (default: 2).

        `policy` is "factors", "power2", "verbose" (both) or "candidate" (with `candidate`, lists of lengths).
        `max_factor` bounds all but the outermost length; `filter` keeps those entities for which it is true;
        `no_tail` leaves out lengths whose product does not divide.
        """
        length = _length_of(axis)
        self._define(name, lambda: _splits(name, length, policy, **options))
        return [VirtualAxis(1, f"{name}.{i}") for i in range(_outputs(options))]

    def define_reorder(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> list[VirtualAxis]:
        """A knob for the order of `axes`, by `policy`.

        "all"; "identity"; "interval" permutes those of `interval`=(first, last); "interval_all" reverses each part;
        "candidate" has them in `candidate`, lists of axes; "interleave" takes levels of `spatial` and `reduce` in turn.
        """
        self._define(name, lambda: [ReorderEntity(order) for order in _orders(name, list(axes), policy, **options)])
        return [VirtualAxis(1, f"{name}.{i}") for i in range(len(axes))]

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> list[VirtualAxis]:
        """A knob for what is done with `axes`, by `policy`.

        "none"; "unroll" and "vec", of the last; "unroll_vec"; each with "try_", which may do less; "bind_gpu";
        "candidate" has lists of annotations in `candidate`.
        """
        self._define(name, lambda: [AnnotateEntity(notes) for notes in _notes(name, list(axes), policy, **options)])
        return [VirtualAxis(1, f"{name}.{i}") for i in range(len(axes))]

    def define_knob(self, name: str, candidate: Sequence[Any]) -> None:
        """A knob that takes one of the values `candidate`."""
        self._define(name, lambda: [OtherOptionEntity(value) for value in candidate])

    @abstractmethod
    def _define(self, name: str, values: Callable[[], list[Any]]) -> None:
        """Take the knob `name`, whose values are made when they are wanted."""


class ConfigSpace(_Definitions):
    """The knobs of a template, each with its values, in the order of their declaration."""

    def __init__(self) -> None:
        self.space_map: dict[str, list[Any]] = {}
        self.flop = 0.0
        self.code_hash: str | None = None
        self.errors: list[str] = []

    def _define(self, name: str, values: Callable[[], list[Any]]) -> None:
        if name not in self.space_map:
            found = values()
            if not found:
                raise ScheduleError(f"knob {name!r} has no values: it needs at least one candidate")
            self.space_map[name] = found

    def add_flop(self, flop: float) -> None:
        """Say that the computation has `flop` operations, where they cannot be counted."""
        self.flop += flop

    def raise_error(self, message: str) -> None:
        """Say that the template cannot be used here."""
        self.errors.append(message)

    def valid(self) -> bool:
        """True unless the template has raised errors."""
        return not self.errors

    def __len__(self) -> int:
        return math.prod(len(values) for values in self.space_map.values())

    def __getitem__(self, name: str) -> Any:
        return _known(self.space_map, name)[0]

    def get(self, index: int) -> ConfigEntity:
        """The configuration with the number `index`. Raises `InputError` where there is none."""
        if not 0 <= index < len(self):
            raise InputError(f"the space has the configurations 0 to {len(self) - 1}, not {index}")
        left, chosen = index, {}
        for name, values in self.space_map.items():
            left, position = divmod(left, len(values))
            chosen[name] = values[position]
        return ConfigEntity(index, self.code_hash, chosen)

    def __str__(self) -> str:
        lines = [f"ConfigSpace (len={len(self)}, space_map="]
        lines += [f"  {number} {name}: {values}" for number, (name, values) in enumerate(self.space_map.items())]
        return "\n".join([*lines, ")"])

    __repr__ = __str__


class ConfigEntity(_Definitions):
    """One configuration: `index` is its number in the space, -1 where it was not made from one."""

    def __init__(self, index: int, code_hash: str | None, entity_map: Mapping[str, Any]) -> None:
        self.index, self.code_hash = index, code_hash
        self._entity_map: dict[str, Any] = dict(entity_map)
        self.errors: list[str] = []

    def _define(self, name: str, values: Callable[[], list[Any]]) -> None:
        """The values were declared when the space was; here they are chosen."""

    def __getitem__(self, name: str) -> Any:
        return _known(self._entity_map, name)

    def __setitem__(self, name: str, entity: Any) -> None:
        self._entity_map[name] = entity

    def __contains__(self, name: str) -> bool:
        return name in self._entity_map

    def __len__(self) -> int:
        return len(self._entity_map)

    def add_flop(self, flop: float) -> None:
        """The operations were counted when the space was declared."""

    def raise_error(self, message: str) -> None:
        """Say that this configuration is not valid; it then does not count as built."""
        self.errors.append(message)

    def valid(self) -> bool:
        """True unless the template has raised errors."""
        return not self.errors

    def get_other_option(self) -> dict[str, Any]:
        """The values of the knobs that are no loops."""
        return {name: e.val for name, e in self._entity_map.items() if isinstance(e, OtherOptionEntity)}

    def to_json_dict(self) -> dict[str, Any]:
        """As logs of the classic stack have it."""
        entities = [[name, *entity.to_json()] for name, entity in self._entity_map.items()]
        return {"index": self.index, "code_hash": self.code_hash, "entity": entities}

    @staticmethod
    def from_json_dict(json_dict: Mapping[str, Any]) -> ConfigEntity:
        """The inverse of `to_json_dict`. Raises `ArtifactError` for other data."""
        try:
            entities = {name: entity_from_json(code, data) for name, code, data in json_dict["entity"]}
            return ConfigEntity(json_dict["index"], json_dict["code_hash"], entities)
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"no configuration of a template: {error!r}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigEntity) and self._entity_map == other._entity_map

    def __hash__(self) -> int:
        return hash(repr(self._entity_map))

    def __repr__(self) -> str:
        text = ", ".join(f"{name}: {entity!r}" for name, entity in self._entity_map.items())
        return f"[{text}], {self.code_hash}, {self.index}"


class FallbackConfigEntity(ConfigSpace):
    """The configuration of a workload without records: the first value of each knob, or the one the template sets."""

    is_fallback = True

    def __init__(self) -> None:
        super().__init__()
        self._set: dict[str, Any] = {}
        self._lengths: dict[str, int] = {}

    def define_split(self, name: str, axis: Any, policy: str = "factors", **options: Any) -> list[VirtualAxis]:
        self._lengths[name] = _length_of(axis)
        return super().define_split(name, axis, policy, **options)

    def __setitem__(self, name: str, entity: Any) -> None:
        self._set[name] = entity

    def __contains__(self, name: str) -> bool:
        return name in self._set

    def __getitem__(self, name: str) -> Any:
        return self._set[name] if name in self._set else super().__getitem__(name)

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Split into the largest divisors that are not above `constraints`, the innermost loop first; -1: no bound.

        Raises `InputError` where `constraints` are not of as many loops, or no divisor is within one.
        """
        values = _known(self.space_map, name)
        if name not in self._lengths or len(constraints) != len(values[0].size):
            raise InputError(f"fallback_split of {name!r}: {list(constraints)} are not bounds for {values[0]}")
        left, size = self._lengths[name], list[int]()
        for bound in reversed(constraints):
            within = [divisor for divisor in divisors(left, left) if bound == -1 or divisor <= bound]
            if not within:
                raise InputError(f"fallback_split of {name!r}: no split has lengths within {list(constraints)}")
            size.insert(0, within[-1])
            left //= within[-1]
        self[name] = SplitEntity(size)

    def fallback_with_reference_log(self, ref_log: Sequence[Any]) -> None:
        """Take over the knobs of the fastest of (input, result) pairs, as far as they are in this space."""
        fastest = min(ref_log, key=lambda pair: min(pair[1].costs), default=None)
        for name, values in self.space_map.items():
            if fastest is not None and name in fastest[0].config and fastest[0].config[name] in values:
                self[name] = fastest[0].config[name]


def _known(knobs: Mapping[str, Any], name: str) -> Any:
    """The knob `name`. Raises `InputError` with the knobs there are."""
    if name not in knobs:
        raise InputError(f"the template has no knob {name!r}; it has: {', '.join(knobs) or 'none'}")
    return knobs[name]


def _outputs(options: Mapping[str, Any]) -> int:
    if options.get("candidate"):
        return len(options["candidate"][0])
    return int(options.get("num_outputs", 2))


def _splits(
    name: str,
    length: int,
    policy: str,
    num_outputs: int = 2,
    max_factor: int | None = None,
    filter: Callable[[SplitEntity], bool] | None = None,
    no_tail: bool = False,
    candidate: Sequence[Sequence[int]] | None = None,
    **_: Any,
) -> list[SplitEntity]:
    if policy == "candidate":
        found = [SplitEntity(list(lengths)) for lengths in candidate or ()]
        return [entity for entity in found if filter is None or filter(entity)]
    powers = [1 << i for i in range(length.bit_length())]
    pools = {
        "factors": divisors(length, length),
        "power2": powers,
        "verbose": sorted({*divisors(length, length), *powers}),
    }
    if policy not in pools:
        raise ScheduleError(
            f"knob {name!r}: there is no policy {policy!r} of splits; there are: {', '.join(pools)}, candidate"
        )
    pool = [factor for factor in pools[policy] if max_factor is None or factor <= max_factor]
    made = []
    for inner in itertools.product(pool, repeat=num_outputs - 1):
        product = math.prod(inner)
        if product <= length and (length % product == 0 or not (no_tail or policy == "factors")):
            made.append(SplitEntity([-1, *inner]))
    return [entity for entity in made if filter is None or filter(entity)]


def _orders(
    name: str,
    axes: list[Any],
    policy: str,
    interval: tuple[int, int] = (0, 0),
    candidate: Sequence[Sequence[Any]] | None = None,
    spatial: Sequence[Sequence[Any]] = (),
    reduce: Sequence[Sequence[Any]] = (),
    **_: Any,
) -> list[list[int]]:
    every = list(range(len(axes)))
    positions = {id(axis): number for number, axis in enumerate(axes)}
    if policy == "identity":
        return [every]
    if policy == "all":
        return [list(order) for order in itertools.permutations(every)]
    if policy == "interval":
        first, last = interval
        middle = itertools.permutations(every[first:last])
        return [[*every[:first], *order, *every[last:]] for order in middle]
    if policy == "interval_all":
        return [
            [*every[:i], *reversed(every[i:j]), *every[j:]] for i in every for j in range(i + 2, len(axes) + 1)
        ] or [every]
    if policy == "candidate":
        return [[positions[id(axis)] for axis in order] for order in candidate or ()]
    if policy == "interleave":
        spaces = [[positions[id(axis)] for axis in level] for level in spatial]
        sums = [[positions[id(axis)] for axis in level] for level in reduce]
        levels = itertools.chain(*itertools.zip_longest(spaces, sums, fillvalue=[]))
        return [[position for level in levels for position in level]]
    raise ScheduleError(
        f"knob {name!r}: there is no policy {policy!r} of orders; there are: all, identity, interval, interval_all, "
        "candidate, interleave"
    )


def _notes(
    name: str, axes: list[Any], policy: str, candidate: Sequence[Sequence[str]] | None = None, **_: Any
) -> list[list[str]]:
    count = len(axes)
    plain, unrolled = ["none"] * count, ["unroll"] * count
    found: dict[str, Callable[[], list[list[str]]]] = {
        "none": lambda: [plain],
        "unroll": lambda: [unrolled],
        "try_unroll": lambda: [["none"] * (count - i) + ["unroll"] * i for i in range(count + 1)],
        "vec": lambda: [[*plain[1:], "vec"]],
        "try_vec": lambda: [plain, [*plain[1:], "vec"]],
        "unroll_vec": lambda: [[*unrolled[1:], "vec"]],
        "try_unroll_vec": lambda: [
            [*["none"] * (count - 1 - i), *["unroll"] * i, last]
            for i in range(count)
            for last in ("none", "unroll", "vec")
        ],
        "bind_gpu": lambda: [_threads(count)],
        "candidate": lambda: [list(notes) for notes in candidate or ()],
    }
    if policy not in found:
        raise ScheduleError(
            f"knob {name!r}: there is no policy {policy!r} of annotations; there are: {', '.join(found)}"
        )
    return found[policy]()


def _threads(count: int) -> list[str]:
    """Blocks for the outer half of the loops, threads for the inner half."""
    names = [f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "zyx"[-((count + 1) // 2) :]]
    return names[-count:]
