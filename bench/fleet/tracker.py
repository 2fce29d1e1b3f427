"""A tracker with four devices on loopback: how busy they are kept, who gets how much, and what becomes of jobs.

python -m bench.fleet.tracker --seconds 300       # utilization, and the shares of two users
python -m bench.fleet.tracker --dying --seconds 60

A job holds its device for a second in which neither side computes, as four devices share the processors of this
machine; before that it uploads a module, loads it and calls it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.fleet.server import SIZE, library
from bench.report import machine
from tilewright.rpc import Outcome, Session, TrackerSession, connect_tracker

DEVICES = 4
_TILEWRIGHT = (sys.executable, "-m", "tilewright.cli.main", "rpc")


@contextmanager
def process(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A verb of `tilewright rpc` in a process of its own, and the first line that it says."""
    with subprocess.Popen([*_TILEWRIGHT, *words, "--plaintext"], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            yield running, running.stdout.readline().strip()
        finally:
            running.kill()


def device(folder: Path, number: int, tracker: str) -> tuple[str, ...]:
    """The words that start a device."""
    name = f"d{number}"
    options = ("--name", name, "--key", "any", "--folder", str(folder / name), "--tracker", tracker, "--port", "0")
    return ("server", *options)


@contextmanager
def fleet(folder: Path) -> Iterator[str]:
    """A tracker with all devices registered; its address."""
    with ExitStack() as stack:
        _, line = stack.enter_context(process("tracker", "--port", "0", "--folder", str(folder / "journal")))
        for number in range(DEVICES):
            stack.enter_context(process(*device(folder, number, line.split()[-1])))
        yield line.split()[-1]


def asked(address: str, user: str) -> TrackerSession:
    """The tracker as a user sees it, once all devices are there."""
    host, port = address.rsplit(":", 1)
    session = connect_tracker(host, int(port), user=user)
    while len(session.status()["devices"]) < DEVICES:
        time.sleep(0.1)
    return session


def work(module: Path, seconds: float, spans: list[tuple[str, float, float]], until: float = float("inf")):
    """A job: upload, load, call, and hold the device; `spans` gets the device, the begin and the end of each.

    A job that begins after `until` does nothing.
    """

    def job(remote: Session, number: int) -> float:
        begun = time.perf_counter()
        if begun > until:
            return 2.0 * number
        loaded = remote.load_module(remote.upload(module))
        a, b = remote.array(np.full(SIZE, number, np.float32)), remote.empty((SIZE,))
        loaded["double"](a, b)
        time.sleep(max(seconds - (time.perf_counter() - begun), 0.0))
        result = float(b.numpy()[0])
        spans.append((remote.name, begun, time.perf_counter()))
        return result

    return job


def utilization(folder: Path, seconds: float) -> None:
    """The share of the time in which devices are at a job while others wait; and the shares of two users.

    One requests three times as many devices at a time as the other; both have work to the end.
    """
    module = folder / "module"
    library().save(module)
    with fleet(folder) as address:
        spans: dict[str, list[tuple[str, float, float]]] = {"many": [], "few": []}
        asked(address, "nobody")
        until = time.perf_counter() + seconds

        def use(user: str) -> None:
            at_once = 24 if user == "many" else 8
            session = asked(address, user)
            job = work(module, 1.0, spans[user], until)
            outcomes = session.run("any", range(int(3 * seconds)), job, at_once=at_once, wait=600)
            wrong = [o for o in outcomes if o.error is not None or o.result != 2.0 * int(o.job)]
            assert not wrong, wrong[0]

        users = [threading.Thread(target=use, args=(user,)) for user in spans]
        for user in users:
            user.start()
        for user in users:
            user.join()
        together = min(until, *(max(end for _, _, end in part) for part in spans.values()))
        begun = until - seconds
        used = {user: sum(max(min(end, together) - max(start, begun), 0.0) for _, start, end in part)
                for user, part in spans.items()}  # fmt: skip
        total = sum(used.values())
        shares = ", ".join(f"{user} {its / total:.2%}" for user, its in used.items())
        print(
            f"{DEVICES} devices, {sum(map(len, spans.values()))} jobs of 1 s of two users: busy "
            f"{total / (DEVICES * (together - begun)):.1%} of {together - begun:.1f} s while both had work; {shares}"
        )


def dying(folder: Path, seconds: float, every: float) -> None:
    """Two users on four devices, of which one is killed every `every` seconds: what became of the jobs."""
    module = folder / "module"
    library().save(module)
    generator, stop, killed = random.Random(0), threading.Event(), Counter[str]()
    with ExitStack() as stack:
        _, line = stack.enter_context(process("tracker", "--port", "0", "--folder", str(folder / "journal")))
        address = line.split()[-1]
        running = {n: stack.enter_context(process(*device(folder, n, address)))[0] for n in range(DEVICES)}
        outcomes: dict[str, list[Outcome]] = {}

        def use(user: str) -> None:
            count = int(seconds * DEVICES / 2 / 1.4)
            session, spans = asked(address, user), list[tuple[str, float, float]]()
            outcomes[user] = list(
                session.run("any", range(count), work(module, 1.0, spans), at_once=8, tries=5, wait=600)
            )

        users = [threading.Thread(target=use, args=(user,)) for user in ("anna", "bert")]
        begun = time.perf_counter()
        for user in users:
            user.start()
        while any(user.is_alive() for user in users):
            if stop.wait(0.1) or time.perf_counter() - begun < every * (killed.total() + 1):
                continue
            number = generator.randrange(DEVICES)
            running[number].kill()
            running[number].wait()
            killed[f"d{number}"] += 1
            running[number] = stack.enter_context(process(*device(folder, number, address)))[0]
        done = [o for part in outcomes.values() for o in part if o.error is None]
        failed = [o for part in outcomes.values() for o in part if o.error is not None]
        assert all(o.result == 2.0 * int(o.job) for o in done)
        assert all(len({o.job for o in part}) == len(part) for part in outcomes.values())
        again = sum(o.tries > 1 for o in done)
        left = at_rest(address)
        taken = time.perf_counter() - begun
        print(
            f"{taken:.0f} s, devices killed {dict(killed)}: {len(done)} jobs done once, {again} of "
            f"them begun again elsewhere, {len(failed)} reported as failed; {left['leases']} leases left"
        )
    print(f"{len(processes_of(folder))} processes left")


def at_rest(address: str) -> dict[str, Any]:
    """The tracker's status once all devices are there and free; raises `AssertionError` where that does not come."""
    session, deadline = asked(address, "nobody"), time.monotonic() + 30
    while True:
        status = session.status()
        if all(one["state"] == "free" for one in status["devices"]) and not status["leases"]:
            return status
        assert time.monotonic() < deadline, status
        time.sleep(0.1)


def processes_of(folder: Path) -> list[str]:
    """The command lines of processes that run in `folder`, or name it, shortly after its fleet was closed."""
    deadline = time.monotonic() + 10
    while True:
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if str(folder) in f"{words} {os.readlink(entry / 'cwd')}" and int(entry.name) != os.getpid():
                    found.append(words)
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def main() -> None:
    """Measure what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dying", action="store_true", help="kill a device every so often")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long")
    parser.add_argument("--every", type=float, default=10.0, help="with --dying: seconds between two")
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="tilewright-fleet-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        if options.dying:
            dying(folder, options.seconds, options.every)
        else:
            utilization(folder, options.seconds)


if __name__ == "__main__":
    main()
