"""Workers that cases run in: one may die or hang, and another replaces it.

What a case may take is counted in its worker's own time: seconds in which it computes, and in which it sleeps. When it
is ready and others run, or is stopped, no time is counted, so that a busy machine does not make a hang of a case.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
from pathlib import Path

from bench.fuzz.worker import CRASH, NO_REFERENCE, TIMEOUT, Outcome

_ROOT = Path(__file__).resolve().parent.parent.parent
#: Seconds between two looks at what a worker does.
LOOK = 0.25


class OwnTime:
    """The seconds of a child that are its own: those of computing since now, and `LOOK` for each look at it asleep."""

    def __init__(self, process: int) -> None:
        self._folder = Path(f"/proc/{process}")
        self._first = self._last = self._computed()
        self._slept = 0.0

    def look(self) -> float:
        """The seconds so far; to be called every `LOOK` seconds."""
        computed = self._computed()
        if computed == self._last and self._is_asleep():
            self._slept += LOOK
        self._last = computed
        return computed - self._first + self._slept

    def _computed(self) -> float:
        """Seconds that the threads of the child have computed since it began."""
        ticks = self._fields(self._folder)[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def _is_asleep(self) -> bool:
        """True if no thread of the child is ready to run, or stopped."""
        states = []
        for folder in (self._folder / "task").iterdir():
            with contextlib.suppress(OSError):  # a thread that ended just now
                states.append(self._fields(folder)[0])
        return not set(states) & set("RTt")

    @staticmethod
    def _fields(folder: Path) -> list[str]:
        """Fields of `stat` of a process or thread from its state on (proc(5)); a name before it may hold anything."""
        return (folder / "stat").read_text().rpartition(")")[2].split()


class Worker:
    """One process of `module`, which answers requests, started when it is needed and again when it died.

    A case that takes more than `timeout` seconds of its worker's own time is a hang.
    """

    def __init__(self, timeout: float, module: str = "bench.fuzz.worker", arguments: tuple[str, ...] = ()) -> None:
        self.timeout, self.module, self.arguments = timeout, module, arguments
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, request: str | int) -> Outcome:
        """The outcome of a seed or of a saved case; a death or a hang is one too."""
        process = self._started()
        assert process.stdin is not None
        process.stdin.write(f"{request}\n".encode())
        process.stdin.flush()
        seed = int(request) if str(request).isdigit() else -1
        stage, where, time = "starting", "", OwnTime(process.pid)
        while True:
            line = self._line(process, time)
            if line is None:
                self.close()
                return Outcome(seed, TIMEOUT if stage == "ours" else NO_REFERENCE, f"still {stage}{where}")
            if not line:
                status = process.wait()
                self.close()
                kind = CRASH if stage in ("ours", "comparing") else NO_REFERENCE
                return Outcome(seed, kind, f"status {status} in {stage}{where}")
            found = json.loads(line) if line.startswith(b"{") else {"stage": stage}
            if "outcome" in found:
                return Outcome.of(found)
            stage, where = found["stage"], f" at {found['at']}" if found.get("at") else ""

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
                [sys.executable, "-m", self.module, *self.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            )
            self._buffer = b""
        return self._process

    def _line(self, process: subprocess.Popen[bytes], time: OwnTime) -> bytes | None:
        """The next line of the process; empty where it ended, None where it is late."""
        assert process.stdout is not None
        while b"\n" not in self._buffer:
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                while not selector.select(LOOK):
                    if time.look() > self.timeout:
                        return None
            read = os.read(process.stdout.fileno(), 1 << 16)
            if not read:
                return b""
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line
