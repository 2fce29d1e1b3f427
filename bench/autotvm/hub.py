"""Make the records that come with the package: the best of each task in files of measurements.

    python bench/autotvm/hub.py OUT.jsonl FILE.jsonl...  [--given]

Files are those of `tilewright tune` and of bench/autotvm/spaces.py; `--given` adds what ../shared/machines has.
A task whose best is not faster than the default by 2 % keeps the default, as differences below that are chance.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from replay import given_replays

from tilewright.backend.cpu.schedule.task_key import space_of_key
from tilewright.records.database import Database
from tilewright.records.entry import Entry, this_compiler
from tilewright.records.file import read_records, write_records
from tilewright.target import Target

#: What a configuration has to gain to stand in the records.
_GAIN = 0.02

#: The most bytes of the records.
LIMIT = 1 << 20


def best_of(path: Path) -> Iterator[Entry]:
    """The best of each task of a file that still has a space today."""
    database = Database(read_records(path))
    for processor in sorted(database.processors):
        for key, best in database.configurations(processor).items():
            space = space_of_key(key, Target(processor))
            if space is None or best.config is None or best.seconds is None:
                continue
            default = space.default.to_json()
            times = [e.seconds for e in database.of(key, processor) if e.config == default and e.seconds is not None]
            if times and best.seconds > (1 - _GAIN) * min(times):
                best = replace(best, config=default, seconds=min(times))
            yield replace(best, accepted=True, more={})


def best_given() -> Iterator[Entry]:
    """The same of the given measurements."""
    for one in given_replays():
        position = int(np.argmin(one.seconds))
        if 0 in one.points and one.seconds[position] > (1 - _GAIN) * one.seconds[one.points.index(0)]:
            position = one.points.index(0)
        config, seconds = one.task.points.plain(one.points[position]), float(one.seconds[position])
        if space_of_key(one.task.key, one.task.target) is not None:
            yield Entry(
                one.task.key, one.task.processor, config, seconds, accepted=True, compiler=this_compiler()
            )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--given", action="store_true")
    args = parser.parse_args(arguments)
    every = [entry for path in args.files for entry in best_of(path)] + (list(best_given()) if args.given else [])
    best = {(entry.task, entry.processor): entry for entry in sorted(every, key=lambda entry: -(entry.seconds or 0.0))}
    write_records(args.out, best.values())
    size = args.out.stat().st_size
    print(f"{len(best)} tasks of {len({p for _, p in best})} processors, {size} bytes")
    if size > LIMIT:
        raise SystemExit(f"that is more than {LIMIT} bytes")


if __name__ == "__main__":
    main()
