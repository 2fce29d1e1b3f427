"""Configurations of sketches in the form that kernels carry: a mark, and the index of each knob's value.

    config = sketch_config(outs, target, {"C.tile0": [1, 2, 8], …})   # sketch=1 C.tile0=17 …
    is_sketch(config), sketch_schedule(outs, target, config)

They are whole numbers like those of templates, so that whatever carries one of these carries a sketch too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright import te
from tilewright.errors import ScheduleError, UnsupportedError
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.sketch.apply import apply
from tilewright.topi.schedule.sketch.derive import Knobs, derive
from tilewright.topi.schedule.sketch.structure import structure_of

#: The name that marks a configuration as one of a sketch. Its value is the version of the rules, raised with them:
#: configurations of before may mean something else then.
SKETCH, VERSION = "sketch", 1


def is_sketch(config: Mapping[str, Any] | None) -> bool:
    """True if a configuration belongs to a sketch."""
    return config is not None and SKETCH in config


def sketch_config(outs: Sequence[te.Tensor], target: Target, values: Mapping[str, Any]) -> Config:
    """The configuration with these values, in the JSON form of records.

    Raises `ScheduleError` where the computation has no such, `UnsupportedError` where it has no sketch at all.
    """
    knobs = open_knobs(derive(structure_of(outs), target))
    positions = positions_of(knobs, values)
    if positions is None:
        raise ScheduleError(f"the sketch of {outs[0].op.name} has no configuration {dict(values)}")
    return Config(((SKETCH, VERSION), *zip(knobs, positions, strict=True)))


def sketch_schedule(outs: Sequence[te.Tensor], target: Target, config: Mapping[str, Any]) -> te.Schedule:
    """The schedule of a configuration. Raises `ScheduleError` for an invalid one."""
    parts = structure_of(outs)
    knobs = derive(parts, target)
    wanted = {name: position for name, position in config.items() if name != SKETCH}
    if config[SKETCH] != VERSION or set(wanted) != set(open_knobs(knobs)):
        raise ScheduleError(f"{dict(config)} is no configuration of the sketch of {outs[0].op.name}")
    if not all(0 <= position < len(knobs[name]) for name, position in wanted.items()):
        raise ScheduleError(f"{dict(config)} has a number that is not one of its knob's values")
    return apply(parts, {name: values[wanted.get(name, 0)] for name, values in knobs.items()}, target)


def has_sketch(outs: Sequence[te.Tensor], target: Target) -> bool:
    """True if a computation has a sketch with knobs of several values."""
    try:
        return bool(open_knobs(derive(structure_of(outs), target)))
    except UnsupportedError:
        return False


def open_knobs(knobs: Knobs) -> Knobs:
    """The knobs of more than one value."""
    return {name: values for name, values in knobs.items() if len(values) > 1}


def positions_of(knobs: Knobs, values: Any) -> tuple[int, ...] | None:
    """The index of each knob's value in `values` (JSON data); None if a value does not belong to its knob."""
    if not isinstance(values, Mapping) or set(values) != set(knobs):
        return None
    positions = []
    for name, known in knobs.items():
        texts = [json.dumps(plain(value)) for value in known]
        wanted = json.dumps(plain(values[name]))
        if wanted not in texts:
            return None
        positions.append(texts.index(wanted))
    return tuple(positions)


def plain(value: Any) -> Any:
    """A knob's value as JSON data."""
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value
