"""Tuning a whole network: its tasks, a scheduler among them, records of all that is learned, and a verdict at the end.

    result = tune(mod, "cpu", TuneOptions(seconds=120), records="resnet18.jsonl")
    result.verdict.speedup
    tw.compile(mod, records="resnet18.jsonl")

It can be interrupted at any time: Ctrl-C ends the search and goes on to the verdict, and what a killed run has recorded
is where the next one begins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tilewright.autotvm.network.options import TuneOptions, TuneResult, Watcher
from tilewright.autotvm.network.session import Session
from tilewright.autotvm.network.site import Here
from tilewright.errors import ShapeError, UnsupportedError
from tilewright.records.database import Database
from tilewright.records.entry import Entry
from tilewright.records.file import RecordFile
from tilewright.relay.ir.module import IRModule
from tilewright.target import Target

__all__ = ["TuneOptions", "TuneResult", "Watcher", "tune", "tuned_records"]


def tune(
    mod: IRModule,
    target: str | Target = "cpu",
    options: TuneOptions | None = None,
    records: str | os.PathLike[str] | None = None,
    watcher: Watcher | None = None,
    site: Here | None = None,
) -> TuneResult:
    """Tune an imported Relay module; measurements are appended to the file `records` if given.

    `position` is where it is measured, and what `target` describes: this machine, or devices elsewhere. Raises
    `UnsupportedError` where none of its kernels has a search space, `ShapeError` where sizes are symbolic, and
    `ArtifactError` for a file that is no file of records.
    """
    watcher, target = watcher or Watcher(), Target(target)
    with _recorder(records) as (known, record):
        session = Session(mod, target, options or TuneOptions(), watcher, site or Here(), known, record)
        layouts = session.choose_layouts()
        tuners = session.search(layouts)
        verdict = session.compare(layouts, tuners)
    failures = dict(session.failures)
    result = TuneResult(target, verdict, tuners, session.trials, session.seconds, failures, session.interrupted)
    watcher.end(result)
    return result


@contextmanager
def _recorder(path: str | os.PathLike[str] | None) -> Iterator[tuple[Database, Callable[[Entry], None]]]:
    """The entries of a file of records, and a function that adds to it; without a file, nothing and nowhere."""
    if path is None:
        yield Database(), lambda entry: None
        return
    with RecordFile(path) as file:
        yield Database(file.entries), file.append


#: Configurations of a task at a time where there is little time: the analytic model's first few.
_FEW = 4


def tuned_records(mod: IRModule, target: Target, seconds: float, records: Database | None = None) -> Database:
    """The records found by tuning for about `seconds` seconds, beside those that are there.

    A model without anything to tune, or without values to time it by, keeps the latter.
    """
    known = Database() if records is None else records
    try:
        result = tune(mod, target, TuneOptions(seconds, explorer="droplet", batch=_FEW, sketches=False))
    except (UnsupportedError, ShapeError):
        return known
    return Database([*known.entries, *result.verdict.entries], known.name)
