"""Models for the web in Node and in headless Chromium: a process of the engine, and a server that it gets work from.

engine = InProcess("chromium", model, threads=2)
engine.run(arrays)                                       the outputs
engine.close()

`driver.mjs` is the other end: it waits for a command, does it, and posts the answer. The page is isolated (COOP and
COEP), as threads need.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tilewright.errors import EnvironmentError_, InputError
from tilewright.runtime.memory import Array
from tilewright.runtime.signature import TensorSpec
from tilewright.runtime.vm.value import Data
from tilewright.support.dtype import DType

#: The names of an engine's program, by the engine.
_PROGRAMS = {
    "node": ("node", "nodejs"),
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
}
_PAGE = (
    b'<!doctype html><meta charset="utf-8"><title>tilewright</title><script type="module" src="/driver.mjs"></script>'
)
_KINDS = {".mjs": "text/javascript", ".wasm": "application/wasm", ".html": "text/html"}
_LOOK_SECONDS, _END_SECONDS = 0.5, 10.0
#: Node needs a flag for relaxed SIMD before this version.
_NODE_RELAXED = 22


def program_of(engine: str) -> str:
    """The path of an engine's program. Raises `EnvironmentError_` where there is none."""
    found = next(filter(None, map(shutil.which, _PROGRAMS[engine])), None)
    if found is None:
        raise EnvironmentError_(f"there is no {_PROGRAMS[engine][0]} on the PATH, which --engine {engine} needs")
    return found


class Exported(Protocol):
    """A model that writes its files for the web into a folder."""

    @property
    def inputs(self) -> Sequence[TensorSpec]: ...
    def export_web(self, path: Path) -> object: ...


class InProcess:
    """A process of Node or Chromium that runs the files of one model. `note` says which, and on how many threads."""

    def __init__(
        self, engine: str, model: Exported, threads: int = 1, flags: Sequence[str] = ("--disable-gpu",)
    ) -> None:
        """Start it, and load the model there. Raises `EnvironmentError_` where there is no such program.

        `flags` are those of the browser.
        """
        self.engine, self.inputs = engine, model.inputs
        self.given: list[Array] = []
        self.made: dict[int, bytes] = {}
        self.commands: queue.Queue[Any] = queue.Queue()
        self._answers: queue.Queue[Any] = queue.Queue()
        program = program_of(engine)
        self._work = tempfile.TemporaryDirectory(prefix="tilewright-web-", ignore_cleanup_errors=True)
        self.folder = Path(self._work.name, "model")
        model.export_web(self.folder)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._end = weakref.finalize(self, _end, self._work, self._server, self.commands, started := [])
        command = self._command(program, flags, f"http://127.0.0.1:{self._server.server_address[1]}")
        self._log = Path(self._work.name, "log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        started.append(self._process)
        # a page cannot wait for threads; one thread is timed without messages to a worker
        loaded = self.ask("load", options={"threads": threads, "worker": engine == "chromium" and threads > 1})
        self.threads: int = loaded["threads"]
        self.feature: str = loaded["feature"]
        self.note = (
            f"{loaded['version']}, {self.feature or 'no vectors'}, {self.threads} thread{'s' * (self.threads > 1)}"
        )

    def _command(self, program: str, flags: Sequence[str], url: str) -> list[str]:
        if self.engine == "node":
            version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
            major = int(version.strip().lstrip("v").split(".")[0] or 0)
            own = ["--experimental-wasm-relaxed-simd"] if major < _NODE_RELAXED else []
            driver = Path(self._work.name, "driver.mjs")
            driver.write_bytes(_resource("driver.mjs"))
            return [program, *own, str(driver), url, (self.folder / "model.mjs").resolve().as_uri()]
        rights = ["--no-sandbox"] if os.geteuid() == 0 else []  # the sandbox refuses to run as root
        return [
            program, "--headless=new", *rights, *flags, "--disable-dev-shm-usage", "--no-first-run",
            f"--user-data-dir={self._work.name}/profile", f"{url}/",
        ]  # fmt: skip

    def ask(self, kind: str, **what: Any) -> Any:
        """The answer to a command. Raises `InputError` with the runtime's message, or `EnvironmentError_`."""
        self.commands.put({"kind": kind, **what})
        while True:
            try:
                answer = self._answers.get(timeout=_LOOK_SECONDS)
                break
            except queue.Empty:
                if self._process.poll() is not None:
                    raise EnvironmentError_(f"{self.engine} ended: {self._last_words()}") from None
        if "error" in answer:
            raise InputError(f"in {self.engine}: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        lines = self._log.read_text("utf-8", "replace").strip().splitlines()
        return " ".join(lines[-3:]) or f"exit status {self._process.returncode}"

    def answered(self, answer: Any) -> None:
        """Take an answer, which came by another thread."""
        self._answers.put(answer)

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs."""
        self.given, self.made = [], {}
        passed = {spec.name: self._described(value) for spec, value in zip(self.inputs, values, strict=True)}
        return [self._value(one) for one in self.ask("run", inputs=passed)["outputs"]]

    def _described(self, value: Any) -> Any:
        """A value for `driver.mjs`, with the numbers of the arrays that it requests."""
        if value is None:
            return None
        if isinstance(value, list):
            return [self._described(one) for one in value]
        if value.dtype == object:
            return {"shape": value.shape, "texts": [str(text) for text in value.reshape(-1)]}
        self.given.append(value)
        return {"dtype": str(DType(value.dtype)), "shape": value.shape, "number": len(self.given) - 1}

    def _value(self, described: Any) -> Any:
        """The value that `driver.mjs` describes, of the arrays that it sent."""
        if described is None:
            return None
        if isinstance(described, list):
            return [self._value(one) for one in described]
        if "fields" in described:
            return Data(described["tag"], tuple(map(self._value, described["fields"])))
        if "texts" in described:
            texts = np.empty(len(described["texts"]), object)
            texts[:] = described["texts"]
            return texts.reshape(described["shape"])
        data = bytearray(self.made[described["number"]])
        return np.frombuffer(data, DType(described["dtype"]).numpy).reshape(described["shape"])

    def time(self, repeat: int) -> list[float]:
        """Seconds of each of so many further runs on the last inputs."""
        return [one / 1e3 for one in self.ask("time", repeat=repeat)["times"]]

    def profile(self, regions: int, repeat: int) -> list[float]:
        """The least seconds of each region of the run loop. Raises `InputError` with several threads."""
        if self.threads > 1:
            raise InputError("kernels for the web are timed on one thread; leave out --threads")
        return [one / 1e3 for one in self.ask("profile", regions=regions, repeat=repeat)["times"]]

    def close(self) -> None:
        """End the process and the server."""
        self._end()


def _end(work: Any, server: ThreadingHTTPServer, commands: queue.Queue[Any], started: list[Any]) -> None:
    commands.put(None)
    for process in started:
        process.terminate()
        try:
            process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    server.shutdown()
    server.server_close()
    work.cleanup()


class _Handler(BaseHTTPRequestHandler):
    """The server of one process; `owner` is that."""

    owner: InProcess
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        kind, data = self._found()
        self._send(kind, data)

    def _found(self) -> tuple[str, bytes]:
        parts = self.path.split("?")[0].strip("/").split("/")
        if parts == ["next"]:
            return "application/json", json.dumps(self.owner.commands.get()).encode()
        if parts[0] == "input":
            return "application/octet-stream", np.ascontiguousarray(self.owner.given[int(parts[1])]).tobytes()
        if parts == [""]:
            return "text/html", _PAGE
        if parts == ["driver.mjs"]:
            return "text/javascript", _resource("driver.mjs")
        path = self.owner.folder / parts[-1]
        if parts[0] == "model" and len(parts) == 2 and path.is_file():
            return _KINDS.get(path.suffix, "application/octet-stream"), path.read_bytes()
        return "", b""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        parts = self.path.strip("/").split("/")
        if parts[0] == "output":
            self.owner.made[int(parts[1])] = body
        else:
            self.owner.answered(json.loads(body))
        self._send("text/plain", b"")

    def _send(self, kind: str, data: bytes) -> None:
        self.send_response(200 if kind else 404)
        for name, value in (
            ("Content-Type", kind or "text/plain"),
            ("Content-Length", str(len(data))),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Embedder-Policy", "require-corp"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def handle(self) -> None:
        """As usual; a process that ends leaves its connections."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def log_message(self, *args: Any) -> None:
        """Nothing."""


def _resource(name: str) -> bytes:
    return files("tilewright.runtime.web").joinpath(name).read_bytes()
