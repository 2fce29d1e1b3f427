"""One device on loopback: how long a small call takes, how fast uploads are, and whether many jobs leave anything.

python -m bench.fleet.server --folder /dev/shm    # latency and uploads, plaintext and TLS, without waiting for a disk
python -m bench.fleet.server --jobs 10000
python -m bench.fleet.server --frames 100000
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.report import machine
from tilewright import te
from tilewright.backend import build
from tilewright.rpc import Session, connect
from tilewright.rpc.frames import Channel, ConnectionLost
from tilewright.rpc.identity import make_authority, make_bundle
from tilewright.rpc.messages import DEVICE_VERBS, VERSION

SIZE = 64
#: Jobs of a session in the run of many.
A_SESSION = 10
#: Uploads that are timed.
UPLOADS = 4


def library() -> Any:
    """A module whose one function takes no time."""
    a = te.placeholder((SIZE,), name="a")
    b = te.compute((SIZE,), lambda i: a(i) * 2.0, name="b")
    return build(te.lower(te.create_schedule(b.op), [a, b], name="double"), "cpu")


@contextmanager
def running(folder: Path, bundle: Path | None = None) -> Iterator[tuple[tuple[str, int], int]]:
    """A server in a process of its own: where it listens, and its process."""
    words = [sys.executable, "-m", "tilewright.cli.main", "rpc", "server", "--port", "0", "--folder", str(folder)]
    words += ["--bundle", str(bundle)] if bundle else ["--plaintext"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        host, port = process.stdout.readline().split()[-1].rsplit(":", 1)
        yield (host, int(port)), process.pid
        process.terminate()


def latency_and_uploads(folder: Path) -> None:
    """Small calls and an upload of 512 MiB, each over plaintext and TLS."""
    make_authority(folder / "fleet")
    device, user = (make_bundle(folder / "fleet", role, "one") for role in ("device", "user"))
    module = library()
    for name, ours, theirs in (("plaintext", None, None), ("TLS 1.3", device, user)):
        with running(folder / name, ours) as (address, _):
            with connect(*address, bundle=theirs) as remote:
                loaded = remote.load_module(remote.upload(module))
                a, b = remote.empty((SIZE,)), remote.empty((SIZE,))
                calls = sorted(_seconds(lambda call=loaded["double"], x=a, y=b: call(x, y)) for _ in range(2000))
                remote.ask("describe")
                first, again = _write_rates(folder / "memory", UPLOADS + 1)
                rates = [_upload_rate(remote, folder / "large") for _ in range(UPLOADS)]
            print(
                f"{name}: call median {statistics.median(calls) * 1e3:.3f} ms, minimum {calls[0] * 1e3:.3f} ms; "
                f"uploads of 512 MiB at {', '.join(f'{rate:.0f}' for rate in rates)} MiB/s; such files are written "
                f"there at {first:.0f} MiB/s, and again into the memory that they had at {again:.0f}",
                flush=True,
            )


def _write_rates(folder: Path, count: int) -> tuple[float, float]:
    """MiB a second of the slowest of `count` files of 512 MiB, at first and again after they were removed.

    A virtual machine gets memory from its host page by page when it first touches it, which can take eight times as
    long as writing to it. Uploads that are timed afterwards find memory that the machine has.
    """
    part, rates = os.urandom(1 << 20), []
    for _ in range(2):
        folder.mkdir()
        rates.append(512 / max(_seconds(lambda position=folder / str(i): _write(position, part)) for i in range(count)))
        shutil.rmtree(folder)
    return rates[0], rates[1]


def _write(position: Path, part: bytes) -> None:
    with open(position, "wb", buffering=0) as file:
        for _ in range(512):
            file.write(part)


def _upload_rate(remote: Session, large: Path) -> float:
    """MiB a second of an upload that is new to the device, beside the digest, which a second upload takes as well."""
    large.write_bytes(os.urandom(1 << 20) * 512)
    sent, again = (_seconds(lambda: remote.upload(large)) for _ in range(2))
    return 512 / (sent - again)


def many_jobs(folder: Path, count: int) -> None:
    """`count` jobs, each uploading, loading and calling, in sessions of ten; what the server has before and after."""
    module = folder / "module"
    library().save(module)
    with running(folder / "jobs") as (address, server):
        begun = time.perf_counter()
        for first in range(0, count, A_SESSION):
            with connect(*address) as remote:
                for job in range(first, min(first + A_SESSION, count)):
                    loaded = remote.load_module(remote.upload(module))
                    a, b = remote.array(np.full(SIZE, job, np.float32)), remote.empty((SIZE,))
                    loaded["double"](a, b)
                    assert b.numpy()[0] == 2.0 * job
            if first in (count // 10, count // 2, count - A_SESSION):
                files = len(os.listdir(f"/proc/{server}/fd"))
                print(f"after {job + 1} jobs: {_resident(server):.1f} MiB, {files} descriptors, "
                      f"{(time.perf_counter() - begun) / (job + 1) * 1e3:.0f} ms a job", flush=True)  # fmt: skip


def fuzzed_frames(folder: Path, count: int) -> None:
    """`count` frames that are damaged, hostile or cut; the server must answer a proper client after them all."""
    generator = random.Random(0)
    verbs = [*DEVICE_VERBS, "serve", "__init__", ""]
    answered = closed = 0
    with running(folder / "fuzz") as (address, server):
        before = _resident(server)
        channel = None
        for _ in range(count):
            if channel is None:
                channel = Channel(socket.create_connection(address), "server")
                if generator.random() < 0.9:
                    channel.send({"verb": "hello", "id": 1, "version": VERSION})
                    channel.receive(20.0)
            frame = hostile(generator, verbs)
            try:
                channel.socket.settimeout(20.0)
                channel.socket.sendall(frame)
                if generator.random() < 0.2:  # cut: the rest never comes
                    raise ConnectionLost("cut")
                channel.socket.shutdown(socket.SHUT_WR)
                while True:
                    channel.receive(20.0)
                    answered += 1
            except (ConnectionLost, OSError):
                closed += 1
            channel.close()
            channel = None
        with connect(*address) as remote:
            assert remote.empty((3,)).numpy().shape == (3,)
        print(
            f"{count} frames: {answered} answered with an error, {closed} connections ended, the server goes on; "
            f"memory {before:.0f} -> {_resident(server):.0f} MiB"
        )


def hostile(generator: random.Random, verbs: list[str]) -> bytes:
    """One frame, or something like one."""
    kind = generator.randrange(6)
    if kind == 0:
        return generator.randbytes(generator.randint(1, 64))
    values: list[Any] = [0, -1, 1 << 70, "", "0" * 64, "../x", [], [0], {}, None, True, 1.5, "x" * 5000, [[[]]]]
    fields = ("digest", "bytes", "module", "array", "shape", "dtype", "args", "function", "inputs", "version", "lease")
    message = {"verb": generator.choice(verbs), "id": generator.choice(values)}
    message |= {name: generator.choice(values) for name in generator.sample(fields, generator.randint(0, 5))}
    text = repr(message).replace("'", '"').replace("None", "null").replace("True", "true").encode()
    if kind == 1:
        text = b"[" * generator.randint(1, 50_000)
    length = len(text) if kind < 4 else generator.choice((0, 1, 1 << 20, (1 << 32) - 1))
    size = generator.choice((0, 0, 5, 1 << 20, 1 << 62))
    head = struct.pack("<4sIQ", b"TWR1" if kind != 5 else b"TWR0", length, size)
    return head + text + generator.randbytes(min(size, 8))


def _seconds(action: Any) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def _resident(process: int) -> float:
    with open(f"/proc/{process}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Measure what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=0, help="run so many jobs through one server")
    parser.add_argument("--frames", type=int, default=0, help="send so many hostile frames to one server")
    parser.add_argument("--folder", help="where files are kept  [default: the system's folder for temporary ones]")
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="tilewright-fleet-", dir=options.folder) as name:
        folder = Path(name)
        folder.chmod(0o755)
        if options.jobs:
            many_jobs(folder, options.jobs)
        if options.frames:
            fuzzed_frames(folder, options.frames)
        if not options.jobs and not options.frames:
            latency_and_uploads(folder)


if __name__ == "__main__":
    main()
