"""TopHub: the records that come with the package, of the processors that were measured.

    hub = top_hub()
    hub.nearest(task, processor, 3)              # what to try: of this task, else of the nearest ones
    tw.compile(mod, records="tophub")            # takes what is known of this very task, or nearly so

Of the same task on the same processor there is one answer. Else those of the same microarchitecture (`-mcpu` and
`-mattr`) count, of the same template, the nearest shape first: by how many times its sizes differ. What a far one says
may not be in the space of this task or do badly there: whoever asks checks that.
"""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Mapping
from importlib import resources
from typing import Any

from tilewright.records.database import Database
from tilewright.records.entry import Entry, TaskKey

#: What stands for the hub where a file of records may be named, and the file that it is in.
NAME, FILE = "tophub", "tophub.jsonl"

#: The distance of a task measured on another number of cores or with other caches; and of sizes that differ in kind.
_OTHER_CACHES, _OTHER_KIND = 0.5, 2.0


class TopHub(Database):
    """Records that also answer with the nearest known task or processor."""

    def nearest(self, task: TaskKey, processor: str, count: int, farthest: float = math.inf) -> list[Entry]:
        """Up to `count` entries of other tasks or nearly equal processors, or the one that is of both; the nearest
        first, none as far as `farthest`."""
        exact = self.best(task, processor)
        if exact is not None:
            return [exact]
        family = family_of(processor)
        near: list[tuple[float, int, Entry]] = []
        for (other, there), _ in self._of.items():
            if other.template != task.template or other.version != task.version or family_of(there) != family:
                continue
            distance = distance_of(task, other) + (0.0 if there == processor else _OTHER_CACHES)
            best = self.best(other, there)
            if best is not None and distance < farthest:
                near.append((distance, len(near), best))
        return [entry for _, _, entry in sorted(near, key=lambda one: one[:2])[:count]]


def family_of(processor: str) -> str:
    """The microarchitecture of a processor by its name in records: the instructions that its code may use."""
    return " ".join(word for word in processor.split() if word.startswith(("-mcpu=", "-mattr=", "-mtriple=")))


def distance_of(one: TaskKey, other: TaskKey) -> float:
    """The distance of two tasks of a template: the sum of the absolute logarithms of the ratios of their sizes."""
    first, second = _facts(one), _facts(other)
    return sum(_apart(first.get(name), second.get(name)) for name in {*first, *second})


@functools.lru_cache(maxsize=1024)
def _facts(task: TaskKey) -> Mapping[str, Any]:
    facts = json.loads(task.workload)
    return facts if isinstance(facts, dict) else {"": facts}


def _apart(one: Any, other: Any) -> float:
    sizes = [value for value in (one, other) if isinstance(value, int) and not isinstance(value, bool)]
    if len(sizes) == 2 and min(sizes) > 0:
        return abs(math.log2(sizes[0] / sizes[1]))
    return 0.0 if one == other else _OTHER_KIND


@functools.cache
def top_hub() -> TopHub:
    """The records that came with this package."""
    text = resources.files("tilewright.records").joinpath(FILE).read_text(encoding="utf-8")
    return TopHub((Entry.from_line(line) for line in text.splitlines() if line), NAME)


def open_records(spelled: str | os.PathLike[str]) -> Database:
    """The records of a file, or TopHub for "tophub". Raises `ArtifactError` for an unreadable file."""
    return top_hub() if spelled == NAME else Database.load(spelled)
