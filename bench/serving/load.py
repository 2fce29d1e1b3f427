"""Load on a model server: a closed loop of connections over HTTP, each with one request on its way.

    python bench/serving/load.py URL MODEL [--clients 64] [--seconds 5] [--rows 1] [--json]

Prints requests a second, the median and the 99th percentile in milliseconds, errors, and the processor time of this
process. Requests are bytes made once (binary tensors); a response is read to its length and looked at for its status.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import urllib.request
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

TYPES = {"FP32": np.float32, "FP16": np.float16, "FP64": np.float64, "INT64": np.int64, "INT32": np.int32, "BOOL": bool}


@dataclass
class Result:
    """One measurement: requests a second, milliseconds, errors by status, processor seconds of this process."""

    rate: float
    median: float
    p99: float
    errors: dict[str, int]
    client_seconds: float
    all: int = 0  # requests, those of the first fifth too


class Client(asyncio.Protocol):
    """One connection, which sends the next request when the response is there."""

    def __init__(self, request: bytes, seconds: list[float], errors: dict[str, int]) -> None:
        self._request, self._seconds, self._errors = request, seconds, errors
        self._left, self._head = 0, b""
        self.stopped = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self._left:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._head[:end].lower()
            at = head.find(b"content-length:")
            self._left = int(head[at + 15 : (head + b"\r\n").find(b"\r\n", at)]) - (len(self._head) - end - 4)
            if head[9:12] != b"200":
                status = head[9:12].decode()
                self._errors[status] = self._errors.get(status, 0) + 1
            self._head = b""
        else:
            self._left -= len(data)
        if self._left <= 0:
            self._left = 0
            self._seconds.append(time.perf_counter() - self._sent)
            if not self.stopped:
                self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.stopped:
            self._errors["lost"] = self._errors.get("lost", 0) + 1


def request_bytes(url: str, model: str, rows: int, seed: int = 0) -> bytes:
    """A request of random tensors as the model's metadata describes them; -1 is `rows` in front, 8 elsewhere."""
    with urllib.request.urlopen(f"{url}/v2/models/{model}") as answer:
        metadata = json.load(answer)
    rng, inputs, raw = np.random.default_rng(seed), [], []
    for one in metadata["inputs"]:
        shape = [(rows if axis == 0 else 8) if dim < 0 else dim for axis, dim in enumerate(one["shape"])]
        dtype = np.dtype(TYPES[one["datatype"]])
        values = rng.random(shape) if dtype.kind == "f" else rng.integers(0, 2, shape)
        raw.append(values.astype(dtype).tobytes())
        parameters = {"binary_data_size": len(raw[-1])}
        inputs.append({"name": one["name"], "datatype": one["datatype"], "shape": shape, "parameters": parameters})
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    body = head + b"".join(raw)
    lines = [
        f"POST /v2/models/{model}/infer HTTP/1.1", f"Host: {url.split('//')[1]}",
        f"Inference-Header-Content-Length: {len(head)}", f"Content-Length: {len(body)}",
    ]  # fmt: skip
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def load(url: str, model: str, clients: int, seconds: float, rows: int) -> Result:
    """Load a model for some seconds; the first fifth of them does not count."""
    host, port = url.split("//")[1].split(":")
    request = request_bytes(url, model, rows)
    loop, times, errors = asyncio.get_running_loop(), [], {}
    made = [
        (await loop.create_connection(lambda: Client(request, times, errors), host, int(port)))[1]
        for _ in range(clients)
    ]
    await asyncio.sleep(seconds / 5)
    first = len(times)
    times.clear()
    began, processor = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds * 4 / 5)
    took, processor = time.perf_counter() - began, time.process_time() - processor
    counted = sorted(times)
    for client in made:
        client.stopped = True
    await asyncio.sleep(0.2)
    if not counted:
        return Result(0, 0, 0, errors, processor)
    p99 = counted[int(0.99 * len(counted))]
    return Result(
        len(counted) / took, 1e3 * counted[len(counted) // 2], 1e3 * p99, errors, processor, first + len(counted)
    )


def run(url: str, model: str, clients: int = 64, seconds: float = 5.0, rows: int = 1) -> Result:
    """`load` on an event loop of its own: uvloop's where that is installed."""
    try:
        from uvloop import new_event_loop as factory
    except ImportError:
        factory = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(load(url, model, clients, seconds, rows))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = run(args.url.rstrip("/"), args.model, args.clients, args.seconds, args.rows)
    if args.json:
        json.dump(asdict(found), sys.stdout)
    else:
        print(
            f"{found.rate:.0f} requests/s, median {found.median:.2f} ms, 99th percentile {found.p99:.2f} ms, "
            f"errors {found.errors or 'none'}, client's processor time {found.client_seconds:.2f} s"
        )


if __name__ == "__main__":
    main()
