"""Hostile clients of a model server: what each gets, and that the server lives on within its memory.

    python bench/serving/hostile.py [--fuzz 2000] [--models 24] [--seconds 6] [--only NAME,…]

Starts a server of its own with short limits. A part fails with an assertion; the last line says that all parts passed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import relay

_MIB = 2**20
_SHORT = """
import sys
from tilewright.serving.models.repository import Repository
from tilewright.serving.models.settings import Limits, ModelSettings
from tilewright.serving.server import Address, serve
limits = Limits(body=4 << 20, json=1 << 20, connections=300, head_seconds=1.0, stall_seconds=1.0, body_seconds=3.0,
                write_seconds=2.0, idle_seconds=4.0, grace_seconds=10.0)
serve(lambda: Repository(sys.argv[1:], ModelSettings(threads=1)), limits, Address(port=0, grpc_port=0),
      lambda server: print(server.port, server.grpc_port, flush=True))
"""


class Target:
    """A server in a process of its own, with short limits."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", _SHORT, str(folder)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port, self.grpc_port = map(int, self.process.stdout.readline().split())

    def connect(self) -> socket.socket:
        """A connection that waits at most 10 s."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def memory(self) -> float:
        """Resident MiB."""
        text = Path(f"/proc/{self.process.pid}/statm").read_text()
        return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MIB

    def post(self, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        """Status and body of a POST."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body, headers or {}, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def infer(self, model: str = "m0") -> tuple[int, Any]:
        """Status and answer of a good request."""
        body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]})
        status, answer = self.post(f"/v2/models/{model}/infer", body.encode())
        return status, json.loads(answer)

    def lives(self) -> None:
        """Fails unless a good request is answered."""
        status, answer = self.infer()
        assert status == 200, (status, answer)


def save(folder: Path, name: str, factor: Any, columns: int = 4) -> None:
    """Write a model that multiplies rows by a factor."""
    x = relay.var("x", shape=(tw.te.size_var("N", hint=8), columns), dtype="float32")
    made = tw.compile(relay.IRModule.from_expr(relay.multiply(x, relay.const(np.float32(factor)))), threads=1)
    path = folder / name / "1" / "model.tw"
    path.parent.mkdir(parents=True, exist_ok=True)
    made.save(path, durable=False)


def status_of(connection: socket.socket) -> int:
    """The status of a response, 0 where the connection ends without one."""
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                break
            data += piece
    except OSError:
        return 0
    return int(data.split()[1]) if data.startswith(b"HTTP/1.1 ") else 0


def slow_heads(target: Target) -> str:
    """200 clients that send a byte of a request's head every half second."""
    connections = [target.connect() for _ in range(200)]
    began, statuses = time.monotonic(), Counter()
    for connection in connections:
        connection.sendall(b"POST /v2/models/m0/infer HTTP/1.1\r\nHost: x\r\nX")
    for _ in range(3):
        time.sleep(0.5)
        target.lives()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(b"-")
    for connection in connections:
        statuses[status_of(connection)] += 1
        connection.close()
    took = time.monotonic() - began
    assert took < 8 and set(statuses) <= {408, 0}, (took, statuses)
    return f"200 closed after {took:.1f} s, answers {dict(statuses)}; good requests were answered meanwhile"


def slow_bodies(target: Target) -> str:
    """100 clients that promise a body and send none of it, and 100 that send it byte by byte."""
    began, statuses = time.monotonic(), Counter()
    connections = [target.connect() for _ in range(200)]
    for connection in connections:
        connection.sendall(b"POST /v2/models/m0/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
    for _ in range(12):
        time.sleep(0.4)
        target.lives()
        for connection in connections[:100]:
            with contextlib.suppress(OSError):
                connection.sendall(b" ")
    for connection in connections:
        statuses[status_of(connection)] += 1
        connection.close()
    took = time.monotonic() - began
    assert took < 12 and set(statuses) <= {408, 0}, (took, statuses)
    return f"200 closed after {took:.1f} s, answers {dict(statuses)}"


def half_open(target: Target) -> str:
    """200 connections that say nothing, or end in the midst of a request; and more connections than there may be."""
    silent = [target.connect() for _ in range(100)]
    cut = [target.connect() for _ in range(100)]
    for connection in cut:
        connection.sendall(b"POST /v2/models/m0/infer HTTP/1.1\r\nContent-Length: 64\r\n\r\n{")
        connection.shutdown(socket.SHUT_WR)
    target.lives()
    many = [target.connect() for _ in range(250)]
    refused = sum(status_of(connection) == 503 for connection in many[150:])
    time.sleep(2.5)
    ended = sum(status_of(connection) in (0, 408) for connection in silent)
    for connection in (*silent, *cut, *many):
        connection.close()
    time.sleep(0.5)
    target.lives()
    assert refused >= 40 and ended == 100, (refused, ended)
    return f"all ended; {refused} connections above the limit got 503"


def deaf(target: Target) -> str:
    """20 clients that send requests with answers of 1 MiB, and read none."""
    fields = {"name": "x", "datatype": "FP32", "shape": [4, 1], "data": [1, 2, 3, 4]}
    body = json.dumps({"inputs": [fields], "parameters": {"binary_data_output": True}}).encode()
    request = f"POST /v2/models/wide/infer HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    connections = [target.connect() for _ in range(20)]
    before = target.memory()
    for connection in connections:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(request * 100)
    time.sleep(2)
    target.lives()
    grown = target.memory() - before
    time.sleep(4)
    ended = 0
    for connection in connections:
        try:
            connection.sendall(b"G")
            time.sleep(0.05)
            connection.sendall(b"G")
        except OSError:
            ended += 1
        connection.close()
    target.lives()
    assert ended == 20 and grown < 100, (ended, grown)
    return f"all 20 were stopped, memory grew by {grown:.1f} MiB"


def oversized(target: Target) -> str:
    """Bodies, heads and JSON above their limits, with and without a length, and a bomb of zeros."""
    import zlib

    found = {}
    connection = target.connect()
    connection.sendall(b"POST /v2/models/m0/infer HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n")
    found["length"] = status_of(connection)
    connection = target.connect()
    connection.sendall(b"POST /v2/models/m0/infer HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    try:
        for _ in range(100):
            connection.sendall(b"10000\r\n" + b"a" * 65536 + b"\r\n")
    except OSError:
        pass
    found["chunks"] = status_of(connection)
    connection = target.connect()
    try:
        connection.sendall(b"GET /v2 HTTP/1.1\r\n" + b"X-Y: " + b"a" * 200_000)
        connection.sendall(b"a" * 200_000)
    except OSError:
        pass
    found["head"] = status_of(connection)
    found["json"] = target.post("/v2/models/m0/infer", b"[" * (3 * _MIB))[0]
    bomb = zlib.compress(bytes(256 * _MIB), 9)
    found["bomb"] = target.post("/v2/models/m0/infer", bomb, {"Content-Encoding": "deflate"})[0]
    target.lives()
    assert found["length"] == 413 and found["json"] == 413 and found["bomb"] == 413, found
    assert found["chunks"] in (413, 0) and found["head"] in (431, 400, 0), found
    return str(found)


def _mutated(rng: random.Random) -> tuple[bytes, dict[str, str]]:
    """A request for an inference with something wrong in it, most of the time."""
    raw = np.arange(4, dtype=np.float32).tobytes()
    entry: dict[str, Any] = {"name": "x", "datatype": "FP32", "shape": [1, 4], "parameters": {"binary_data_size": 16}}
    fields: dict[str, Any] = {"inputs": [entry], "id": "a", "outputs": []}
    odd = [
        None,
        -1,
        0,
        1 << 70,
        1.5,
        "",
        "é\0",
        [],
        {},
        [[]],
        {"a": 1},
        True,
        [1 << 62, 0],
        [-1, 4],
        "INT8",
        "BYTES",
        1e400,
    ]
    where = rng.choice([fields, entry, entry["parameters"]])
    for _ in range(rng.randrange(3)):
        key = rng.choice([*where, "data", "shared_memory_region", "shared_memory_offset", "parameters", "timeout"])
        where[key] = rng.choice(odd)
    head = bytearray(json.dumps(fields).encode())
    for _ in range(rng.choice([0, 0, 0, 1, 5, 40])):
        head[rng.randrange(len(head))] = rng.randrange(256)
    if rng.random() < 0.1:
        head = head[: rng.randrange(len(head))]
    length = rng.choice(
        [str(len(head))] * 6 + [str(len(head) + rng.randrange(-9, 30)), "-1", "x", "9" * 30, "1e3", "٣"]
    )
    if rng.random() < 0.2:
        raw = raw[: rng.randrange(17)] + bytes(rng.randrange(8))
    headers = {"Inference-Header-Content-Length": length.encode().decode("latin-1")}
    return bytes(head) + raw, headers if rng.random() < 0.95 else {}


def fuzz(target: Target, count: int) -> str:
    """Mutated requests: a body's JSON, lengths and tensors, and every ninth the bytes of the whole request."""
    rng, statuses = random.Random(31), Counter()
    before = target.memory()
    for number in range(count):
        body, headers = _mutated(rng)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        path = rng.choice(
            ["/v2/models/m0/infer"] * 8 + ["/v2/models/%00/infer", "/v2/models/m0/versions/9/infer", "/v2/%ff"]
        )
        text = bytearray(f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode("latin-1") + body)
        if number % 9 == 0:
            for _ in range(rng.randrange(1, 8)):
                text[rng.randrange(min(len(text), 120))] = rng.randrange(256)
        with target.connect() as connection:
            connection.sendall(bytes(text))
            connection.shutdown(socket.SHUT_WR)
            statuses[status_of(connection)] += 1
    target.lives()
    grown = target.memory() - before
    wrong = [status for status in statuses if status >= 500 or (status and status < 200)]
    assert not wrong and grown < 32, (statuses, grown)
    return f"{count} requests: answers {dict(sorted(statuses.items()))}, memory grew by {grown:.1f} MiB"


def swaps(target: Target, folder: Path, models: int, seconds: float) -> str:
    """Models that are written anew and reloaded while 16 clients use them: each answer is of the old or the new one."""
    wrong: list[Any] = []
    count, stopped = Counter(), threading.Event()

    def use(seed: int) -> None:
        rng = random.Random(seed)
        while not stopped.is_set():
            name = f"m{rng.randrange(models)}"
            try:
                status, answer = target.infer(name)
            except OSError as error:
                wrong.append(error)
                continue
            if status != 200 or answer["outputs"][0]["data"][0] not in (1.0, 2.0, 3.0):
                wrong.append((status, answer))
            count[name] += 1

    clients = [threading.Thread(target=use, args=(seed,)) for seed in range(16)]
    for client in clients:
        client.start()
    until, swapped = time.monotonic() + seconds, 0
    while time.monotonic() < until or swapped < models:
        name = f"m{swapped % models}"
        source = folder.parent / f"x{2 + swapped // models % 2}" / "1" / "model.tw"
        fresh = folder / name / "1" / "fresh"
        shutil.copy(source, fresh)
        fresh.rename(folder / name / "1" / "model.tw")
        status, answer = target.post(f"/v2/repository/models/{name}/load")
        assert status == 200, answer
        swapped += 1
    stopped.set()
    for client in clients:
        client.join()
    assert not wrong, wrong[:3]
    return f"{swapped} swaps of {models} models, {sum(count.values())} requests, none lost or wrong"


def ends(target: Target) -> str:
    """SIGTERM with requests on their way: they are answered, and the process ends."""
    target.process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert target.process.wait(15) == 0
    return f"ended {time.monotonic() - began:.1f} s after SIGTERM"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fuzz", type=int, default=2000)
    parser.add_argument("--models", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "models"
        for number in (2, 3):
            save(Path(temporary), f"x{number}", number)
        save(folder, "m0", 1)
        save(folder, "wide", np.ones((1, 1 << 16)), columns=1)
        for number in range(1, args.models):
            shutil.copytree(folder / "m0", folder / f"m{number}")
        target = Target(folder)
        parts: dict[str, Any] = {
            "slow heads": slow_heads, "slow bodies": slow_bodies, "half open": half_open, "deaf": deaf,
            "oversized": oversized, "fuzz": lambda t: fuzz(t, args.fuzz),
            "swaps": lambda t: swaps(t, folder, args.models, args.seconds),
        }  # fmt: skip
        before = target.memory()
        try:
            for name, part in parts.items():
                if not args.only or name in args.only.split(","):
                    print(f"{name}: {part(target)}", flush=True)
                    assert target.process.poll() is None, "the server lives"
            print(f"memory: {before:.0f} MiB at first, {target.memory():.0f} MiB in the end")
            print(f"end: {ends(target)}")
        finally:
            target.process.kill()
    print("all parts passed")


if __name__ == "__main__":
    main()
