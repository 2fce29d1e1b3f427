"""Jobs of mixed models while workers and the server are killed: none lost, none done twice, states right, stops quick.

python -m bench.service.kills --jobs 200                  # SQLite
python -m bench.service.kills --jobs 200 --postgresql
python -m bench.service.kills --jobs 200 --cluster        # on dask.distributed with four workers

Artifacts are counted by the kernel (inotify): each job has a folder of its own, and files moved into it are counted.
Status 1 if a job is lost, an artifact is written twice, a state is wrong, or a stop takes more than two seconds.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import text

from bench.report import machine
from bench.service import postgres
from bench.service.harness import Processes, patiently, wait_ended
from bench.service.models import small_models

#: Shares of jobs that are stopped, and whose model is none.
_STOPPED, _BAD = 0.15, 0.05
_MOVED_TO, _NONBLOCK = 0x80, 0o4000
_STOP_SECONDS = 2.0
_WORKERS = 4


class Moves:
    """Counts of files that were moved into folders, as inotify has them (inotify(7))."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._queue = self._libc.inotify_init1(_NONBLOCK)
        self._names: dict[int, str] = {}
        self.counts: Counter[str] = Counter()

    def watch(self, folder: Path) -> None:
        """Count the files of one more folder."""
        number = self._libc.inotify_add_watch(self._queue, str(folder).encode(), _MOVED_TO)
        assert number >= 0, os.strerror(ctypes.get_errno())
        self._names[number] = folder.name

    def read(self) -> Counter[str]:
        """All moves until now."""
        with suppress(BlockingIOError):
            while data := os.read(self._queue, 1 << 16):
                at = 0
                while at < len(data):
                    number, mask, _, length = struct.unpack_from("=iIII", data, at)
                    assert not mask & 0x4000, "the queue was too short"
                    self.counts[self._names[number]] += 1
                    at += 16 + length
        return self.counts


class Killer(threading.Thread):
    """Kills one process of several, and starts it again, each time that so many jobs, at random, were begun."""

    def __init__(self, service: Processes, commands: dict[str, list[str]], chance: random.Random, pause: int) -> None:
        super().__init__(daemon=True)
        self.service, self.commands, self.chance, self.pause = service, commands, chance, pause
        self.killed: Counter[str] = Counter()
        self.over = threading.Event()

    def run(self) -> None:
        """Until `over`."""
        wanted = 0
        while not self.over.wait(self.chance.uniform(0.1, 0.6)):
            if self._begun() < wanted:
                continue
            wanted = self._begun() + self.chance.randint(1, 2 * self.pause - 1)
            name = self.chance.choice(sorted(self.commands))
            self.service.running[name].kill()
            self.service.running[name].wait()
            self.killed[name.rstrip("0123456789")] += 1
            self.service.start(name, self.commands[name])

    def _begun(self) -> int:
        with self.service.store.engine.connect() as connection:
            return int(connection.execute(text("SELECT COALESCE(SUM(attempts), 0) FROM jobs")).scalar_one())


def _cluster(service: Processes) -> dict[str, list[str]]:
    """Start a scheduler; the commands of the workers of its cluster and of the dispatcher."""
    from tilewright.rpc.identity import make_authority, make_bundle

    fleet = service.folder / "fleet"
    make_authority(fleet)
    for role, name in (("tracker", "t"), ("device", "d"), ("user", "u")):
        make_bundle(fleet, role, name)

    def dask(bundle: str, *words: str) -> list[str]:
        files = zip(("--tls-ca-file", "--tls-cert", "--tls-key"), ("authority.pem", "certificate.pem", "key.pem"))
        options = [word for option, file in files for word in (option, str(fleet / bundle / file))]
        return [sys.executable, "-m", "dask", *words, *options, "--no-dashboard", "--host", "tls://127.0.0.1"]

    position = service.folder / "scheduler.json"
    words = ("scheduler", "--port", "0", "--protocol", "tls", "--scheduler-file", str(position))
    service.start("scheduler", dask("tracker-t", *words))
    while not position.exists() or not position.read_text().strip():
        time.sleep(0.1)
    address = json.loads(position.read_text())["address"]
    worker = dask("device-d", "worker", address, "--no-nanny", "--nthreads", "1")
    commands = {f"node{number}": worker for number in range(_WORKERS)}
    commands["dispatcher"] = service.command("work", "--cluster", address, "--bundle", str(fleet / "user-u"))
    return commands


def _stop(service: Processes, client: Any, name: str, found: list[float]) -> None:
    """Stop a job, every second one as soon as it runs, and add the seconds until it ended."""
    while int(name.rpartition("-")[2]) % 2 and service.store.find("ada", name).status == "STARTING":  # type: ignore[union-attr]
        time.sleep(0.05)
    try:
        patiently(client.stop_compilation_job, CompilationJobName=name)
    except client.exceptions.ClientError:
        return  # it had ended
    start = time.monotonic()
    wait_ended(service.store, "ada", name, 60, 0.02)
    found.append(time.monotonic() - start)


def run(folder: Path, database: str, jobs: int, seed: int, pause: int, cluster: bool, seconds: float) -> list[str]:
    """Run the jobs; complaints."""
    chance = random.Random(seed)
    service = Processes(folder, database)
    models = {**small_models(service.shared), "bad": (service.shared / "bad.onnx", "ONNX")}
    models["bad"][0].write_bytes(b"no model" * 99)
    try:
        service.serve("--workers", "0" if cluster else "1", "--jobs-of-owner", str(2 * jobs))
        commands = _cluster(service) if cluster else {"worker1": service.command("work")}
        for name, command in commands.items():
            service.start(name, command)
        commands["server"] = service.running["server"].args  # type: ignore[assignment]
        return _watch(service, models, commands, jobs, chance, pause, seconds)
    finally:
        service.close()


def _watch(
    service: Processes,
    models: dict[str, tuple[Path, str]],
    commands: dict[str, list[str]],
    jobs: int,
    chance: random.Random,
    pause: int,
    seconds: float,
) -> list[str]:
    client, moves, stops, wanted = service.client(), Moves(), list[float](), {}
    killer, begun = Killer(service, commands, chance, pause), time.monotonic()
    killer.start()
    threads = []
    for number in range(jobs):
        kinds = sorted(set(models) - {"bad"})
        kind = "bad" if chance.random() < _BAD else kinds[number % len(kinds)]
        name = f"job-{number}"
        wanted[name] = (kind, chance.random() < _STOPPED)
        out = service.shared / "out" / name
        out.mkdir(parents=True)
        moves.watch(out)
        patiently(client.create_compilation_job, **service.request(name, *models[kind]))
        if wanted[name][1]:
            threads.append(threading.Timer(chance.uniform(0, jobs / 4), _stop, (service, client, name, stops)))
            threads[-1].daemon = True
            threads[-1].start()
    for name in wanted:
        wait_ended(service.store, "ada", name, seconds, 0.2)
    killer.over.set()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begun
    time.sleep(1)
    found, complaints = _judged(service, wanted, moves.read())
    complaints += [f"a stop took {took:.2f} s" for took in stops if took > _STOP_SECONDS]
    attempts = Counter(service.store.find("ada", name).attempts for name in wanted)  # type: ignore[union-attr]
    print(f"{jobs} jobs in {took:.0f} s, killed {dict(killer.killed)}: {dict(found)}; attempts {dict(attempts)}")
    print(f"{len(stops)} stops, {max(stops, default=0):.2f} s at most; artifacts written {sum(moves.counts.values())}")
    return complaints


def _judged(
    service: Processes, wanted: dict[str, tuple[str, bool]], moves: Counter[str]
) -> tuple[Counter[str], list[str]]:
    """Counts of the states, and what is wrong with any of them."""
    found, complaints = Counter[str](), []
    for name, (kind, stopped) in wanted.items():
        job = service.store.find("ada", name)
        assert job is not None, f"{name} is lost"
        found[job.status] += 1
        right = {"FAILED"} if kind == "bad" else {"COMPLETED"}
        if job.status not in right | ({"STOPPED"} if stopped else set()):
            complaints.append(f"{name} ({kind}) is {job.status}: {job.reason}")
        if job.status == "FAILED" and not job.reason.startswith("ClientError: "):
            complaints.append(f"{name} failed for {job.reason}")
        if moves[name] > 1 or (job.status == "COMPLETED") > moves[name]:
            complaints.append(f"{name} is {job.status}, and {moves[name]} artifacts were written")
        if job.status == "COMPLETED":
            data = Path(job.result["location"].removeprefix("file://")).read_bytes()
            if hashlib.sha256(data).hexdigest() != job.result["digest"]:
                complaints.append(f"{name}: the artifact is not the one of its digest")
    left = [path.name for path in (service.shared / "out").rglob("*.part")]
    return found, complaints + [f"left behind: {name}" for name in left]


def main() -> int:
    """Run the jobs of the command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pause", type=int, default=5, help="jobs begun between two kills, on average")
    parser.add_argument("--seconds", type=float, default=1800.0, help="that all may take")
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--cluster", action="store_true")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # no process is left behind
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kills", ignore_cleanup_errors=True)))
        folder.chmod(0o755)
        database = stack.enter_context(postgres.running()).new_database() if args.postgresql else ""
        complaints = run(folder / "service", database, args.jobs, args.seed, args.pause, args.cluster, args.seconds)
        if complaints:
            subprocess.run(["tail", "-n", "40", folder / "service" / "log"], check=False)
    kind = ("PostgreSQL" if args.postgresql else "SQLite") + (f", dask with {_WORKERS} workers" if args.cluster else "")
    print(f"{kind}; {machine()}: {len(complaints)} complaints")
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
