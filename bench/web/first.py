"""From nothing to the first result on a page (load, compile, run) beside onnxruntime-web, in headless Chromium.

    python bench/web/first.py build/networks/mobilenet_v2.onnx … --ort NODE_MODULES/onnxruntime-web [--turns 5]

Each engine has a fresh Chromium with an empty profile, in turns: the least and the median milliseconds to the first
result, and the longest task on the page's main thread from 50 ms on (a `longtask` of the browser; 0 if there is none),
the least and the most over the turns, as other work on the machine stretches tasks. onnxruntime-web runs on the page,
and in a worker of its own (`proxy`), as Tilewright does by default.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from networks import feeds_of

import tilewright as tw

_PAGE = Path(__file__).parent / "first.html"
_KINDS = {".mjs": "text/javascript", ".wasm": "application/wasm", ".html": "text/html", ".json": "application/json"}
_CHROMIUM = ("chromium", "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--no-first-run")
_LIMIT = 120.0  # seconds for one page


class _Handler(BaseHTTPRequestHandler):
    """The files of a page that is isolated, and what it posts."""

    protocol_version = "HTTP/1.1"

    def __init__(self, page: dict[str, Any], *args: Any) -> None:
        self.page = page
        super().__init__(*args)

    def do_GET(self) -> None:
        first, _, rest = self.path.split("?")[0].lstrip("/").partition("/")
        if first == "job.json":
            self._reply(200, json.dumps(self.page["job"]).encode(), ".json")
            return
        file = {"": _PAGE, "model.onnx": self.page["onnx"]}.get(first) or Path(self.page.get(first, "/none"), rest)
        self._reply(*((200, file.read_bytes(), file.suffix) if file.is_file() else (404, b"", "")))

    def do_POST(self) -> None:
        self.page["found"] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._reply(200, b"", "")
        self.page["done"].set()

    def _reply(self, status: int, body: bytes, suffix: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", _KINDS.get(suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def visit(page: dict[str, Any], engine: str) -> dict[str, Any]:
    """The figures that `first.html` finds for one engine, in a Chromium of its own."""
    page |= {"job": {**page["job"], "engine": engine}, "done": threading.Event(), "found": {"error": "no answer"}}
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, page))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="tilewright-bench-first-", ignore_cleanup_errors=True) as profile:
        command = [*_CHROMIUM, f"--user-data-dir={profile}", f"http://127.0.0.1:{server.server_port}/"]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            page["done"].wait(_LIMIT)
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()
    return dict(page["found"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--ort", help="the folder of the package onnxruntime-web")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    engines = ["tilewright", *(["onnxruntime-web", "onnxruntime-web, worker"] if options.ort else [])]
    for path in options.models:
        with tempfile.TemporaryDirectory(prefix="tilewright-bench-first-") as folder:
            model = tw.compile(path, target="wasm")
            model.export_web(folder)
            inputs = [{"name": k, "dtype": str(x.dtype), "shape": x.shape} for k, x in feeds_of(model).items()]
            page = {"job": {"inputs": inputs}, "onnx": path, "model": folder, "ort": options.ort}
            found = {engine: list[dict[str, Any]]() for engine in engines}
            for _ in range(options.turns):
                for engine in engines:
                    found[engine].append(visit(page, engine))
        for engine, visits in found.items():
            good = [one for one in visits if not one.get("error")]
            if not good:
                print(f"{path.stem:20} {engine:24} {visits[-1]['error']}")
                continue
            times, longest = [one["first"] for one in good], [max(one["tasks"], default=0) for one in good]
            print(f"{path.stem:20} {engine:24} first {min(times):8.0f} median {statistics.median(times):8.0f} "
                  f"longest task {min(longest):6.0f} to {max(longest):.0f} of {len(good)} turns")  # fmt: skip
        sys.stdout.flush()


if __name__ == "__main__":
    main()
