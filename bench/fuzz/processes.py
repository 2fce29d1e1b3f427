"""Workers that cases run in: one may die or hang, and another takes its place."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from pathlib import Path

from bench.fuzz.worker import CRASH, NO_REFERENCE, TIMEOUT, Outcome

_ROOT = Path(__file__).resolve().parent.parent.parent


class Worker:
    """One process of `bench.fuzz.worker`, started when it is needed and again when it died."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, request: str | int) -> Outcome:
        """The outcome of a seed or of a saved case; a death or a hang is one too."""
        process = self._started()
        assert process.stdin is not None
        process.stdin.write(f"{request}\n".encode())
        process.stdin.flush()
        seed = int(request) if str(request).isdigit() else -1
        stage, deadline = "starting", time.monotonic() + self.timeout
        while True:
            line = self._line(process, deadline)
            if line is None:
                self.close()
                return Outcome(seed, TIMEOUT if stage == "ours" else NO_REFERENCE, f"still {stage}")
            if not line:
                status = process.wait()
                self.close()
                where = f"status {status} in {stage}"
                return Outcome(seed, CRASH if stage in ("ours", "comparing") else NO_REFERENCE, where)
            found = json.loads(line) if line.startswith(b"{") else {"stage": stage}
            if "outcome" in found:
                return Outcome.of(found)
            stage = found["stage"]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            paths = [str(_ROOT), str(_ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.fuzz.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            )
            self._buffer = b""
        return self._process

    def _line(self, process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
        """The next line of the process; empty where it ended, None where it is late."""
        assert process.stdout is not None
        while b"\n" not in self._buffer:
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
            read = os.read(process.stdout.fileno(), 1 << 16)
            if not read:
                return b""
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line
