"""A service under uploads that no client would send: nothing escapes, the server lives on, and others are served.

python -m bench.service.hostile --count 1000 --seed 0     # status 1 for an escape, a death, a fault of ours, a leak
python -m bench.service.hostile --latency                 # a small job of another owner, alone and beside a bomb

Faults of ours are jobs that end as InternalError, or whose process died of anything but a limit. The memory of the
server is compared after a tenth of the uploads and after the last.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import secrets
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.request import urlopen

from bench.report import machine
from bench.service.harness import Processes, memory, patiently, wait_ended
from bench.service.models import small_models
from bench.service.uploads import ESCAPED, SECRET, originals, upload

_MIB = 1 << 20
#: What a job may take, and what the server may grow by.
_JOB_SECONDS, _JOB_MEMORY, _GROWTH = 20, 2048, 48 * _MIB
#: Jobs that wait at a time.
_TOGETHER = 24
_LIMITS = ("--job-seconds", str(_JOB_SECONDS), "--job-memory", str(_JOB_MEMORY))
_FAIR = ("--running-of-owner", "1")


def _locations(shared: Path) -> list[str]:
    """Names that lead elsewhere, or to no file."""
    (shared / "link.onnx").symlink_to(SECRET)
    (shared / "zero.onnx").symlink_to("/dev/zero")
    (shared / "folder.onnx").mkdir()
    os.mkfifo(shared / "pipe.onnx")
    (shared / "circle.onnx").symlink_to("circle.onnx")
    names = (
        "link.onnx",
        "zero.onnx",
        "folder.onnx",
        "pipe.onnx",
        "circle.onnx",
        "none.onnx",
        f"../..{SECRET}",
        "x" * 300,
    )
    return [f"file://{shared}/{name}" for name in names] + [f"file://{SECRET}", "file:///proc/self/environ", "file:///"]


class Attack:
    """One run against one service."""

    def __init__(self, service: Processes, seed: int, count: int) -> None:
        self.service, self.seed, self.count = service, seed, count
        self.client = service.client("eve")
        self.token = secrets.token_hex(16)
        self.found: dict[str, Counter[str]] = collections.defaultdict(Counter)
        self.complaints: list[str] = []
        self.slowest = ("", 0.0)

    def run(self) -> None:
        """Upload all, a few at a time, and look at each job when it has ended."""
        Path(SECRET).write_text(self.token)
        known, waiting = originals(self.service.shared), collections.deque[tuple[str, str]]()
        names = _locations(self.service.shared)
        server, early = self.service.running["server"], 0
        for number in range(self.count):
            kind, (data, framework) = upload(self.seed, number, known)
            if number % 40 == 0:
                kind, uri = "location", names[number // 40 % len(names)]
            else:
                uri = f"file://{self._written(number, data)}"
            if self._created(f"up-{number}", kind, uri, framework):
                waiting.append((f"up-{number}", kind))
            while len(waiting) >= (_TOGETHER if number < self.count - 1 else 1):
                self._look(*waiting.popleft())
            if server.poll() is not None:
                self.complaints.append(f"the server died of status {server.returncode} at upload {number}")
                return
            if number == self.count // 10:
                early = memory(server.pid)
            if number % 100 == 99:
                print(f"{number + 1} uploads: {memory(server.pid) >> 20} MiB", flush=True)
        self._after(early)

    def _written(self, number: int, data: bytes) -> Path:
        file = self.service.shared / f"up-{number}.bin"
        file.write_bytes(data)
        return file

    def _created(self, name: str, kind: str, uri: str, framework: str) -> bool:
        request = self.service.request(name, Path("/none"), framework)
        request["InputConfig"]["S3Uri"] = uri
        chance = random.Random(name)
        if kind == "shapes" and chance.random() < 0.3:
            request["InputConfig"]["DataInputConfig"] = chance.choice(
                ('{"x": [2147483647, 2147483647]}', "[[1, 1]]", '{"y": [1]}', '{"x": []}', "[" * 900)
            )
        try:
            patiently(self.client.create_compilation_job, **request)
        except self.client.exceptions.ClientError as error:
            code = error.response["Error"]["Code"]
            self.found[kind][f"refused: {code}"] += 1
            if code != "ValidationException":
                self.complaints.append(f"{name} ({kind}): {error}")
            return False
        return True

    def _look(self, name: str, kind: str) -> None:
        job = wait_ended(self.service.store, "eve", name, 60 * _JOB_SECONDS, 0.02)
        took = job.ended - (job.started or job.ended)
        self.slowest = max(self.slowest, (f"{name} ({kind})", took), key=lambda one: one[1])
        outcome = job.status if job.status == "COMPLETED" else job.reason.partition(":")[0]
        if "the most that it may" in job.reason or "needs more than" in job.reason:
            outcome = "limit"
        self.found[kind][outcome] += 1
        if outcome == "InternalError":
            self.complaints.append(f"{name} ({kind}): {job.reason[:300]}")
        seen = job.reason.encode() + job.log.encode()
        if job.status == "COMPLETED":
            artifact = Path(job.result["location"].removeprefix("file://"))
            seen += artifact.read_bytes()
            artifact.unlink()
        if self.token.encode() in seen:
            self.complaints.append(f"{name} ({kind}) read what it must not")
        if outcome != "InternalError":
            (self.service.shared / f"{name}.bin").unlink(missing_ok=True)

    def _after(self, early: int) -> None:
        """The files that are left, and the state of the server."""
        late = memory(self.service.running["server"].pid)
        print(f"memory of the server: {early >> 20} MiB after a tenth, {late >> 20} MiB at the end")
        if late > early + _GROWTH:
            self.complaints.append(f"the server grew from {early >> 20} to {late >> 20} MiB")
        urlopen(f"{self.service.url}/healthz", timeout=10).close()
        for position in (ESCAPED, f"{ESCAPED}.onnx", "/tmp/folder"):
            if os.path.lexists(position):
                self.complaints.append(f"{position} came to be")
        deadline = time.monotonic() + 10  # a worker removes a job's folder after it has written how the job ended
        while (left := [path.name for path in self.service.settings.jobs_folder.iterdir()]) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.1)
        left += [str(path) for path in self.service.settings.folder.rglob("*escaped*")]
        left += [str(path) for path in self.service.shared.rglob("*escaped*")]
        if left:
            self.complaints.append(f"left behind: {left[:5]}")
        if Path(SECRET).read_text() != self.token:
            self.complaints.append("the file that nobody may write was written")


def _latency(service: Processes, repeats: int) -> list[str]:
    """The seconds of a small job, alone and while a bomb compiles."""
    file, framework = small_models(service.shared)["perceptron"]
    client, other = service.client("ada"), service.client("eve")
    bomb = service.shared / "bomb.onnx"
    bomb.write_bytes(
        next(data for n in range(99999) for kind, (data, _) in [upload(0, 2 * n, [])] if kind == "endless")
    )

    def seconds(name: str) -> float:
        client.create_compilation_job(**service.request(name, file, framework))
        job = wait_ended(service.store, "ada", name, 60, 0.005)
        assert job.status == "COMPLETED", job.reason
        return float(job.ended - job.created)

    for number in range(4):  # both workers have begun
        seconds(f"first-{number}")
    alone = [seconds(f"alone-{number}") for number in range(repeats)]
    for number in range(3):
        other.create_compilation_job(**service.request(f"bomb-{number}", bomb, "ONNX"))
    while service.store.find("eve", "bomb-0").status != "INPROGRESS":  # type: ignore[union-attr]
        time.sleep(0.05)
    beside = [seconds(f"beside-{number}") for number in range(repeats)]
    state = service.store.find("eve", "bomb-0").status  # type: ignore[union-attr]
    one, two = statistics.median(alone), statistics.median(beside)
    print(
        f"a small job alone: {one:.3f} s (worst {max(alone):.3f}), "
        f"beside a bomb ({state}): {two:.3f} s (worst {max(beside):.3f})"
    )
    print(f"ratio of the medians of {repeats}: {two / one:.2f}")
    return [f"beside a bomb a small job takes {two / one:.2f} times as long"] if two > 2 * one else []


def main() -> int:
    """Run what the command line says; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="more where others use the machine as well")
    parser.add_argument("--latency", action="store_true")
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # no process is left behind
    with tempfile.TemporaryDirectory(prefix="hostile", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        service = Processes(Path(folder) / "service")
        try:
            service.serve("--workers", str(args.workers), *_LIMITS, *(_FAIR if args.latency else ()))
            if args.latency:
                complaints = _latency(service, args.repeats)
            else:
                complaints = _attacked(service, args.seed, args.count)
        finally:
            service.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(SECRET)
    print(f"{machine()}: {len(complaints)} complaints")
    print("\n".join(complaints))
    return 1 if complaints else 0


def _attacked(service: Processes, seed: int, count: int) -> list[str]:
    attack, begun = Attack(service, seed, count), time.monotonic()
    try:
        attack.run()
    finally:
        for kind, outcomes in sorted(attack.found.items()):
            print(f"{kind}: {sum(outcomes.values())}: {dict(outcomes)}")
        done = sum(sum(outcomes.values()) for outcomes in attack.found.values())
        print(f"{done} of {count} uploads in {time.monotonic() - begun:.0f} s; the slowest {attack.slowest}")
        print("\n".join(attack.complaints))
    return attack.complaints


if __name__ == "__main__":
    sys.exit(main())
