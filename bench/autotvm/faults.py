"""Measuring for minutes while everything goes wrong: crashes, endless loops, no memory, wrong results, a killed parent.

    python bench/autotvm/faults.py [--minutes 30] [--folder DIR] [--smoke]

A child of this program tunes a task most of whose configurations misbehave, over and over, and appends what it measures
to a file of records; now and then it is killed (SIGKILL) wherever it is. Asserted after each round: the child never
hangs, no process of its outlives it, every record that it announced is in the file and reads back, and nothing is left
in its folder of temporary files. `--smoke` is a few seconds of it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: The longest that a child may be silent, on a machine that others use too, and that its processes may outlive it.
_SILENT, _OUTLIVED = 240.0, 20.0

#: Seconds between two looks at what the child does.
_LOOK = 0.05

_CHILD = """
import sys
sys.path.insert(0, {root!r})
from tests.autotvm.tasks import OddTask
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.records.file import RecordFile
from tilewright.autotvm.tuner.task_tuner import entry_of
from random import Random
task, generator = OddTask(), Random({seed})
limits = dict(build_seconds=2.0, run_seconds=1.0, memory=1 << 30, renew_after=9)
options = MeasureOptions(blocks=4, block_seconds=1e-5, **limits)
with RecordFile({records!r}) as file, Measurer([task], options) as measurer:
    while True:
        for trial in measurer.measure(task, generator.choices(range(len(task.points)), k=4)):
            file.append(entry_of(task, trial))
            print(trial.failure or "well", flush=True)
"""


def processes_of(mark: str) -> list[int]:
    """Processes whose environment has `mark`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes() and (folder / "stat").read_text().split()[2] != "Z":
                found.append(int(folder.name))
        except (OSError, IndexError):
            continue
    return found


def round_of(folder: Path, seed: int, seconds: float) -> Counter[str]:
    """One child, killed after about `seconds`; what it announced. Raises `AssertionError`."""
    from tilewright.records.file import read_records

    records, temporary, mark = folder / "records.jsonl", folder / "tmp", f"TILEWRIGHT_FAULTS={os.getpid()}-{seed}"
    temporary.mkdir(exist_ok=True)
    before = len(read_records(records)) if records.exists() else 0
    name, _, value = mark.partition("=")
    environment = {**os.environ, name: value, "TMPDIR": str(temporary)}
    code = _CHILD.format(root=str(ROOT), seed=seed, records=str(records))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
    assert child.stdout is not None
    os.set_blocking(child.stdout.fileno(), False)
    printed, heard, end = b"", time.monotonic(), time.monotonic() + seconds
    try:
        while time.monotonic() < end or not printed:
            got = child.stdout.read()
            printed, heard = (printed + got, time.monotonic()) if got else (printed, heard)
            assert child.poll() is None, f"the child ended by itself, with {child.returncode}"
            assert time.monotonic() - heard < _SILENT, "the child hangs"
            time.sleep(_LOOK)
    finally:
        child.send_signal(signal.SIGKILL)
    printed += child.stdout.read() or b""
    child.wait()
    looks = 0  # counted, not by the clock: all of this may be stopped for a while, as by whoever measures beside it
    while processes_of(mark):
        assert looks * _LOOK < _OUTLIVED, f"processes outlive a killed parent: {processes_of(mark)}"
        looks += 1
        time.sleep(_LOOK)
    lines = printed.decode().splitlines()
    entries = read_records(records)
    assert len(entries) - before >= len(lines), (
        f"{len(lines)} records were announced, {len(entries) - before} are there"
    )
    left = [path for path in temporary.rglob("*") if path.is_file()]
    assert not left, f"temporary files stay behind: {left}"
    return Counter(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Rounds until the time is up, and what happened in them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args(arguments)
    end = time.monotonic() + (5.0 if args.smoke else 60 * args.minutes)
    with tempfile.TemporaryDirectory() as made:
        folder = args.folder or Path(made)
        rounds, every = 0, Counter[str]()
        while not rounds or time.monotonic() < end:
            every += round_of(folder, rounds, 4.0 if args.smoke else random.Random(rounds).uniform(1, 30))
            rounds += 1
    print(f"{rounds} rounds, {every.total()} trials: {', '.join(f'{n} {kind}' for kind, n in every.most_common())}")


if __name__ == "__main__":
    main()
