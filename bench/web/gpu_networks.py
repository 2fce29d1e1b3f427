"""Networks on the browser's GPU beside onnxruntime-web's WebGPU: times, launches, deviations, in headless Chromium.

    python bench/web/gpu_networks.py build/networks/mlp.onnx … --ort NODE_MODULES/onnxruntime-web [--turns 5]

Engines run in turns in one page: the least wall time of a run, with its result copied to the page, and the least time
of processors that Chromium's GPU process took for it, by which the ratios are where other work keeps the machine busy;
both in milliseconds, as is the time of processors from nothing to the first result.
Chromium runs them on SwiftShader, which stands in for a GPU, or on what `--adapter` says. Deviations are those of the
first output from onnxruntime's, over its largest magnitude.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from networks import feeds_of

import tilewright as tw
from tilewright.runtime.web.gpu_model import WebGpuModel

_PAGE = Path(__file__).parent / "gpu.html"
_KINDS = {".mjs": "text/javascript", ".wasm": "application/wasm", ".html": "text/html", ".json": "application/json"}
_CHROMIUM = ("chromium", "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--no-first-run",
             "--enable-unsafe-webgpu")  # fmt: skip


class _Bench:
    """A model and its inputs for one page, and the figures and outputs that the page posts."""

    def __init__(self, folder: str, onnx: Path, feeds: dict[str, np.ndarray], options: argparse.Namespace) -> None:
        self.feeds, self.onnx, self.folders = list(feeds.values()), onnx, {"model": folder, "ort": options.ort}
        inputs = [{"name": name, "dtype": str(x.dtype), "shape": x.shape} for name, x in feeds.items()]
        self.job = {"inputs": inputs, "turns": options.turns, "ort": bool(options.ort), "count": options.count}
        self.browser = 0
        self.done, self.found, self.outputs = threading.Event(), dict[str, Any](), dict[str, bytes]()

    def read(self, path: str) -> tuple[bytes, str]:
        """The bytes at `path` and their type."""
        first, _, rest = path.lstrip("/").partition("/")
        if not first:
            return _PAGE.read_bytes(), "text/html"
        if first == "job.json":
            return json.dumps(self.job).encode(), "application/json"
        if first == "cpu":
            return str(_gpu_process_time(self.browser)).encode(), "text/plain"
        if first == "input":
            return self.feeds[int(rest)].tobytes(), "application/octet-stream"
        if first == "model.onnx":
            return self.onnx.read_bytes(), "application/octet-stream"
        file = Path(self.folders[first], rest)
        return file.read_bytes(), _KINDS.get(file.suffix, "application/octet-stream")

    def post(self, path: str, body: bytes) -> None:
        """Keep an output, or the figures, which are the last."""
        if path == "/done":
            self.found = json.loads(body)
            self.done.set()
        else:
            self.outputs[path.removeprefix("/output/")] = body


def _gpu_process_time(browser: int) -> float:
    """Milliseconds of processors that the GPU process of the Chromium started as `browser` took (Linux's /proc)."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"--type=gpu-process" not in (folder / "cmdline").read_bytes():
                continue
            fields = parent = _fields(folder)
            while int(parent[1]) > 1 and int(parent[1]) != browser:  # a script may have started Chromium
                parent = _fields(Path("/proc", parent[1]))
        except OSError:  # it ended
            continue
        if int(parent[1]) == browser:
            return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")
    raise SystemExit("Chromium has no GPU process here whose time can be read")


def _fields(folder: Path) -> list[str]:
    """The fields of a process in /proc, from its state on (proc(5))."""
    return (folder / "stat").read_text().rpartition(")")[2].split()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, bench: _Bench, *args: Any) -> None:
        self.bench = bench
        super().__init__(*args)

    def do_GET(self) -> None:
        try:
            body, kind = self.bench.read(self.path.split("?")[0])
        except (OSError, KeyError):
            self._reply(404, b"", "text/plain")
        else:
            self._reply(200, body, kind)

    def do_POST(self) -> None:
        self.bench.post(self.path, self.rfile.read(int(self.headers["Content-Length"])))
        self._reply(200, b"", "text/plain")

    def _reply(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def measure(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The figures of `gpu.html` for one network, with deviations."""
    import onnxruntime

    with tempfile.TemporaryDirectory(prefix="tilewright-bench-gpu-", ignore_cleanup_errors=True) as folder:
        model = tw.compile(path, target="webgpu", cache=False)
        WebGpuModel.of(model).export_web(folder)
        feeds = feeds_of(model)
        bench = _Bench(folder, path, feeds, options)
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, bench))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        flags = [f"--use-webgpu-adapter={options.adapter}", *options.flag, f"--user-data-dir={folder}/profile"]
        command = [*_CHROMIUM, *flags, f"http://127.0.0.1:{server.server_port}/"]
        page = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        bench.browser = page.pid
        try:
            if not bench.done.wait(options.limit):
                bench.found = {"tilewright": {"error": f"nothing after {options.limit:.0f} s"}}
        finally:
            page.terminate()
            page.wait()
            server.shutdown()
    want = onnxruntime.InferenceSession(path).run(None, feeds)[0]
    for name, body in bench.outputs.items():
        if "error" not in bench.found.get(name, {"error": ""}):
            got = np.frombuffer(body, want.dtype).reshape(want.shape)
            bench.found[name]["deviation"] = float(np.abs(got - want).max() / np.abs(want).max())
    return bench.found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--ort", help="the folder of the package onnxruntime-web")
    parser.add_argument("--count", action="store_true", help="count launches and run none of them")
    parser.add_argument("--turns", type=int, default=5, help="runs beside the first, whose output is compared")
    parser.add_argument("--adapter", default="swiftshader")
    parser.add_argument("--flag", action="append", default=[], help="a further flag of Chromium")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one network")
    options = parser.parse_args()
    ratios = []
    for path in options.models:
        found = measure(path, options)
        print(f"{path.stem:20} {found.pop('device', '')}")
        for name, one in found.items():
            if "error" in one:
                print(f"{path.stem:20} {name:16} {one['error']}")
                continue
            times = " ".join(f"{kind} {one[kind] or math.nan:10.1f}" for kind in ("wall", "cpu", "first"))
            print(f"{path.stem:20} {name:16} {times} "
                  f"launches {one.get('launches', 0):4} off by {one.get('deviation', math.nan):.1e}")  # fmt: skip
        if all("cpu" in found.get(name, {}) for name in ("tilewright", "onnxruntime-web")):
            ratios.append(max(1, found["onnxruntime-web"]["cpu"]) / max(1, found["tilewright"]["cpu"]))
            print(f"{path.stem:20} {ratios[-1]:.2f} x")
        sys.stdout.flush()
    if ratios:
        print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} x, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
