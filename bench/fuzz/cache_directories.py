"""Cache directories that hold other people's files: whatever the cache does, none of those may be touched.

    python -m bench.fuzz.cache_directories [--count 200] [--seed 0]

A case is a number. It fills a directory with files, links, pipes and folders, beside the cache's subdirectory and in
the middle of it, under ordinary and odd names, some of them copies of entries under other keys; then several processes
put, read, shrink and clear with tiny bounds, while bits of entries are flipped. Findings are a foreign path that is
gone, changed or new, an entry that reads back as anything but what was put there, an exception, and entries beyond the
bound at the end. Status 1 if there is one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import stat
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright.support.cache import KINDS, SUBDIRECTORY, DiskCache, digest

_PROCESSES, _STEPS, _KEYS = 3, 40, 12
#: Kinds whose readers get the contents checked.
_CHECKED = [kind for kind, checks_itself in KINDS.items() if not checks_itself]
_NAMES = ("thesis.pdf", ".hidden", "a b", "new\nline", "é" * 20, "-rf", "x.tmp", ".k.abc123.tmp", "0" * 40, "TWCACHE")

State = dict[str, tuple[Any, ...]]


def contents_of(key: str) -> bytes:
    """The contents stored under a key: the same whoever stores them, of 0 to 400 bytes."""
    chance = random.Random(key)
    return chance.randbytes(chance.randrange(400))


def keys() -> list[str]:
    """The keys that the cache is used with."""
    return [digest(f"entry {number}") for number in range(_KEYS)]


def plant(chance: random.Random, folder: Path) -> None:
    """Put other people's files into and beside the positions of entries."""
    below = folder / SUBDIRECTORY
    maker = DiskCache(folder, 1 << 20)
    entry = maker.put("native", digest("planted"), b"looks like an entry")
    assert entry is not None
    copied = entry.read_bytes()
    entry.unlink()
    positions = [folder, folder / "Documents", below, *(below / kind for kind in KINDS), below / "unknown"]
    positions += [folder / kind for kind in KINDS] + [below / "native" / "deep"]
    for number in range(chance.randrange(5, 40)):
        position = chance.choice(positions)
        if position.is_symlink() or (position.exists() and not position.is_dir()):
            continue
        position.mkdir(parents=True, exist_ok=True)
        path = position / (chance.choice(_NAMES) + str(number) * chance.randrange(2))
        if os.path.lexists(path):
            continue
        match chance.randrange(8):
            case 0:
                path.symlink_to(chance.choice(["thesis.pdf", "/etc/hostname", folder / "Documents", "nowhere"]))
            case 1:
                os.mkfifo(path)
            case 2:
                path.mkdir()
            case 3:
                path.write_bytes(copied)
            case 4:
                path.write_bytes(copied[: chance.randrange(len(copied))])
            case 5:
                path.write_bytes(b"")
            case _:
                path.write_bytes(chance.randbytes(chance.randrange(2000)))
        if not path.is_symlink() and chance.random() < 0.3:
            path.chmod(chance.choice([0o400, 0o666, 0o777]))
    for kind in KINDS:  # a folder of entries that leads elsewhere
        if chance.random() < 0.1 and not os.path.lexists(below / kind):
            below.mkdir(exist_ok=True)
            (folder / "Documents").mkdir(exist_ok=True)
            (below / kind).symlink_to(folder / "Documents")


def state_of(folder: Path) -> State:
    """Everything below a folder but the cache's own files, each with what would show that it was touched."""
    found: State = {}
    own = {(kind, key) for kind in KINDS for key in keys()}
    for path in sorted(folder.rglob("*")):
        is_entry = (path.parent.name, path.name) in own and path.parent.parent == folder / SUBDIRECTORY
        if is_entry and not path.parent.is_symlink():
            continue
        if path.parent == folder / SUBDIRECTORY and path.name in KINDS and not path.is_symlink():
            continue  # a folder that the cache makes
        if path == folder / SUBDIRECTORY:
            continue
        status = path.lstat()
        data: Any = os.readlink(path) if path.is_symlink() else None
        if stat.S_ISREG(status.st_mode):
            data = path.read_bytes()
        times = () if path.is_dir() else (status.st_mtime_ns,)
        found[str(path)] = (status.st_ino, status.st_mode, data, *times)
    return found


def use(seed: str, folder: Path, bound: int, reports: Any) -> None:
    """One process's turns with the cache; what went wrong is put into `reports`."""
    chance, cache = random.Random(seed), DiskCache(folder, bound)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(_STEPS):
                _turn(chance, cache, folder, reports)
    except BaseException:
        reports.put(traceback.format_exc(limit=-4))
    reports.put(None)


def _turn(chance: random.Random, cache: DiskCache, folder: Path, reports: Any) -> None:
    kind, key = chance.choice(_CHECKED), chance.choice(keys())
    path = folder / SUBDIRECTORY / kind / key
    match chance.randrange(12):
        case 0 | 1 | 2 | 3:
            cache.put(kind, key, contents_of(key))
        case 4 | 5 | 6:
            found = cache.get(kind, key)
            if found not in (None, contents_of(key)):
                reports.put(f"{kind}/{key} reads back as {found!r}")
        case 7:
            cache.find(kind, key)
        case 8:
            cache.shrink(chance.randrange(1000))
        case 9:
            cache.clear(chance.choice([None, kind]))
        case 10:
            cache.size()
        case 11 if not path.parent.is_symlink() and path.is_file():
            damaged = bytearray(_read(path))
            if damaged:  # replaced whole, as a reader may have it mapped
                damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
                aside = folder / SUBDIRECTORY / kind / f"{key}.{os.getpid()}"
                aside.write_bytes(damaged)
                os.replace(aside, path)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def case(number: int, folder: Path) -> list[str]:
    """The findings of the case `number`."""
    chance = random.Random(f"cache {number}")
    plant(chance, folder)
    before, bound = state_of(folder), chance.choice([0, 1, 300, 1000, 5000])
    context = multiprocessing.get_context("fork")
    reports = context.SimpleQueue()
    workers = [
        context.Process(target=use, args=(f"{number} {worker}", folder, bound, reports)) for worker in range(_PROCESSES)
    ]
    for worker in workers:
        worker.start()
    found: list[str] = []
    running = len(workers)
    while running:
        report = reports.get()
        running -= report is None
        found += [report] if report is not None else []
    for worker in workers:
        worker.join()
    after = state_of(folder)
    found += [f"{path!r} is gone" for path in before.keys() - after.keys()]
    found += [f"{path!r} is new" for path in after.keys() - before.keys()]
    found += [f"{path!r} was changed" for path in before.keys() & after.keys() if before[path] != after[path]]
    cache = DiskCache(folder, bound)
    cache.shrink(bound)
    found += [f"{cache.size()} bytes, bound {bound}"] if cache.size() > bound else []
    return found


def survey(numbers: range, tell: Callable[[str], None] = print) -> int:
    """Run the cases `numbers`; the number of those with findings, each printed with its number."""
    bad = 0
    for number in numbers:
        with tempfile.TemporaryDirectory(prefix="caches-") as folder:
            found = case(number, Path(folder))
        for what in found:
            tell(f"case {number}: {what}")
        bad += bool(found)
    return bad


def main() -> int:
    """Run the cases of the command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first case")
    args = parser.parse_args()
    bad = survey(range(args.seed, args.seed + args.count))
    operations = args.count * _PROCESSES * _STEPS
    print(f"cache directories from {args.seed}: {args.count} cases, {operations} operations, {bad} with findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
