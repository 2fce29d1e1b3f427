"""The best known configuration of each task, from a set of records.

    database = Database.load("resnet18.jsonl")
    database.best(task, processor)                 # an Entry, or None where nothing is known

A verdict, reached by running the whole network, counts more than trials of a kernel by itself; of several the last one
does. Of trials, those accepted in turns with the best before them count more than times alone. Records that another
version of the compiler made count where there are none of this one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from tilewright.records.entry import VERDICT, Entry, TaskKey
from tilewright.records.file import read_records
from tilewright.support.cache import digest
from tilewright.target import Target


class Database:
    """Entries by task and processor; results depend on the entries and their order alone."""

    def __init__(self, entries: Iterable[Entry] = (), name: str = "records") -> None:
        self.name = name
        self.entries: list[Entry] = []
        self._of: dict[tuple[TaskKey, str], list[Entry]] = {}
        for entry in entries:
            self.add(entry)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Database:
        """The records of a file. Raises `ArtifactError` if it is damaged or no file of records."""
        return cls(read_records(path), name=Path(path).name)

    def add(self, entry: Entry) -> None:
        """Add an entry."""
        self.entries.append(entry)
        self._of.setdefault((entry.task, entry.processor), []).append(entry)
        self.__dict__.pop("processors", None)

    @cached_property
    def processors(self) -> frozenset[str]:
        """The processors that have entries."""
        return frozenset(processor for _, processor in self._of)

    def of(self, task: TaskKey, processor: str) -> list[Entry]:
        """All entries of a task on a processor, in order."""
        return self._of.get((task, processor), [])

    def best(self, task: TaskKey, processor: str, compiler: str = "") -> Entry | None:
        """The entry whose configuration is to be used; None where nothing is known that runs.

        Entries of another `compiler` than the given one only count where there are none of it.
        """
        entries = self.of(task, processor)
        own = [entry for entry in entries if not compiler or entry.compiler == compiler] or entries
        verdicts = [entry for entry in own if entry.kind == VERDICT]
        if verdicts:
            return verdicts[-1]
        timed = [entry for entry in own if entry.seconds is not None]
        timed = [entry for entry in timed if entry.accepted] or timed
        return min(timed, key=lambda entry: (entry.seconds, entry.config_text), default=None)

    def digest(self) -> str:
        """A digest of all entries."""
        return digest(*(entry.to_line() for entry in self.entries))

    def configurations(self, processor: str, compiler: str = "") -> Mapping[TaskKey, Entry]:
        """The best entry of each task on a processor."""
        tasks = dict.fromkeys(task for task, known in self._of if known == processor)
        found = ((task, self.best(task, processor, compiler)) for task in tasks)
        return {task: entry for task, entry in found if entry is not None}


def processor_of(target: Target) -> str:
    """The processor that code for `target` runs on, as records name it: all that its spelling says but for what was
    measured of one machine, which changes what is expected and not what is so, and the number of a device there."""
    first, *options = str(target).split()
    return " ".join([first.partition(":")[0], *(word for word in options if not word.startswith("-machine="))])
