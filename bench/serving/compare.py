"""Throughput of served models: batches on and off, onnxruntime behind the same server, and one server twice (A/A).

    python bench/serving/compare.py NAME ARTIFACT [--onnx FILE] [--clients 8,64] [--seconds 2] [--rounds 3] [--p99 50]

Servers are processes of their own and take turns; each turn is a closed loop of `load.py` with so many clients. A row
has the requests a second of each round, and the most of those whose 99th percentile was at most `--p99` ms, with
however many clients. `--only` names the servers that run, where not all do. `overhead` is a request of one
client over HTTP beside a direct call of the same model in this process, in turns. On a machine with other work the
processor time of the server, by request, tells more than the clock.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import load
import numpy as np

FOLDER = Path(__file__).resolve().parent


@dataclass
class Served:
    """A server in a process of its own."""

    url: str
    process: int

    def seconds(self) -> float:
        """Processor time of the process so far."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def server(command: list[str]) -> Iterator[Served]:
    """A server as a process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, *command, "--port", str(port)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("serving at"):
            break
    try:
        yield Served(f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        process.wait(30)


def commands(args: argparse.Namespace) -> dict[str, list[str]]:
    """The servers to compare: name -> arguments of Python."""
    model = f"{args.name}={args.artifact}"
    threads = ["--instances", str(args.instances)] + (["--threads", str(args.threads)] if args.threads else [])
    ours = ["-m", "tilewright", "serve", model, "--no-grpc", *threads]
    found = {"batches": ours, "batches again": ours, "no batches": [*ours, "--max-batch", "1"]}
    if args.fixed:
        found["no batches, fixed"] = [*ours[:3], f"{args.name}={args.fixed}", "--no-grpc", *threads, "--max-batch", "1"]
    if args.onnx:
        found["onnxruntime"] = [str(FOLDER / "peers.py"), f"{args.name}={args.onnx}", *threads]
    return found


def overhead(url: str, name: str, artifact: str, turns: int) -> None:
    """Print the medians of a request over one connection and of a direct call, in turns."""
    import tilewright as tw

    model = tw.load(artifact, threads=1)
    inputs = {s.name: np.zeros([d if isinstance(d, int) else 1 for d in s.shape], s.numpy) for s in model.inputs}
    request = load.request_bytes(url, name, 1)
    host, port = url.split("//")[1].split(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    times: dict[str, list[float]] = {"served": [], "direct": [], "direct again": []}
    for _ in range(turns):
        for kind, seconds in times.items():
            began = time.perf_counter()
            if kind == "served":
                connection.sendall(request)
                assert connection.recv(1 << 20).startswith(b"HTTP/1.1 200")
            else:
                model.run(inputs)
            seconds.append(time.perf_counter() - began)
    texts = [f"{kind} {1e3 * statistics.median(s):.3f} ms (least {1e3 * min(s):.3f})" for kind, s in times.items()]
    print("overhead:", ", ".join(texts), flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("artifact")
    parser.add_argument("--fixed", help="an artifact of a batch of 1")
    parser.add_argument("--onnx")
    parser.add_argument("--clients", default="64")
    parser.add_argument("--only")
    parser.add_argument("--instances", type=int, default=1)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--p99", type=float, default=50.0)
    parser.add_argument("--turns", type=int, default=1000, help="of the measurement of overhead")
    args = parser.parse_args()
    chosen = {
        name: command for name, command in commands(args).items() if not args.only or name in args.only.split(",")
    }
    rows: dict[str, dict[int, list[tuple[load.Result, float]]]] = {name: {} for name in chosen}
    with ExitStack() as stack:
        urls = {name: stack.enter_context(server(command)) for name, command in chosen.items()}
        if args.turns:
            overhead(urls["batches"].url, args.name, args.artifact, args.turns)
        for _ in range(args.rounds):
            for clients in map(int, args.clients.split(",")):
                for name, one in urls.items():
                    began = one.seconds()
                    result = load.run(one.url, args.name, clients, args.seconds)
                    each = (one.seconds() - began) / max(result.all, 1)
                    rows[name].setdefault(clients, []).append((result, each))
    for name, levels in rows.items():
        for clients, results in levels.items():
            rates = " ".join(f"{one.rate:.0f}" for one, _ in results)
            p99s = " ".join(f"{one.p99:.1f}" for one, _ in results)
            processor = " ".join(f"{1e6 * each:.0f}" for _, each in results)
            errors = [one.errors for one, _ in results if one.errors]
            print(
                f"{name:18} {clients:3} clients: {rates} requests/s, p99 {p99s} ms, server {processor} us", errors or ""
            )
        within = [one.rate for results in levels.values() for one, _ in results if one.p99 <= args.p99]
        print(f"{name:18} most with p99 <= {args.p99:g} ms: {max(within, default=0.0):.0f} requests/s", flush=True)


if __name__ == "__main__":
    main()
