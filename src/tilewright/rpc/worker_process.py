"""A session's worker seen from the server: started, asked, and killed with all that it started.

    with WorkerProcess(position, store, limits) as worker:
        worker.channel.send(request)

The process is started by one thread that lives as long as the server: the signal by which a worker ends with its server
comes when the thread ends that started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.errors import EnvironmentError_
from tilewright.rpc.frames import BadFrame, Channel, ConnectionLost
from tilewright.rpc.sandbox import Limits, confined_environment

#: Seconds that a worker may take to say that it is ready: an interpreter and NumPy on a busy small board.
_START_SECONDS = 60.0
#: The variables of the environment that a worker gets; others may hold secrets.
_PASSED = (
    "PATH", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "LD_LIBRARY_PATH",
    "OMP_NUM_THREADS", "TILEWRIGHT_NUM_THREADS", "TILEWRIGHT_OPENCL_DEVICE", "CUDA_VISIBLE_DEVICES",
)  # fmt: skip


@dataclass(frozen=True)
class Board:
    """The command of workers that are not Python: the `program`, and the `launcher` in front of it.

    A launcher is an emulator, or what reaches another machine (`elsewhere`), which then has to confine them. One
    with `children` runs programs beside itself: a compiler and an emulator.
    """

    program: str
    launcher: tuple[str, ...] = ()
    elsewhere: bool = False
    children: bool = False

    def readable(self) -> list[str]:
        """The files that the worker reads before it runs."""
        found = [shutil.which(self.launcher[0])] if self.launcher else []
        return [
            str(Path(position).resolve()) for position in (*found, self.program) if position and Path(position).exists()
        ]


@cache
def _starter(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="worker-starter")


class WorkerProcess:
    """A running worker, its folder, and the channel to it. `measures` says how it is confined.

    `capability` is what one that is not Python tells of its machine.
    """

    def __init__(
        self,
        parent_folder: Path,
        store: Path,
        limits: Limits,
        first: int = 0,
        board: Board | None = None,
        devices: Sequence[str] = (),
    ) -> None:
        """Start a worker and wait until it is ready: a `board`'s, or one of this Python, for `devices` of this machine.

        Raises `EnvironmentError_` with its words when it does not start.
        """
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="worker-", dir=parent_folder))
            self.folder.chmod(0o777)
        except OSError as error:
            raise EnvironmentError_(f"cannot make the folder of a worker process: {error.strerror or error}") from None
        ours, theirs = socket.socketpair()
        settings = {"store": str(store), "first": first, "limits": asdict(limits), "parent": os.getpid()}
        settings["devices"] = list(devices)
        words = _command(theirs.fileno(), self.folder, settings, board)
        try:
            self.process = self._started(words, theirs, board is not None)
        except OSError as error:
            ours.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise EnvironmentError_(f"cannot start a worker process: {error}") from None
        finally:
            theirs.close()
        self.channel = Channel(ours, "the worker")
        self.measures: dict[str, Any] = {}
        self.capability: dict[str, Any] = {}
        try:
            if board is None or not board.elsewhere:
                self.measures = self.channel.receive(_START_SECONDS)[0]["measures"]
            if board is not None:
                self.capability = self.channel.receive(_START_SECONDS)[0]["capability"]
        except (ConnectionLost, BadFrame, KeyError):
            last = self.last_words()
            self.close()
            raise EnvironmentError_(f"the worker process did not start: {last}") from None

    def _started(self, words: Sequence[str], end: socket.socket, standard: bool) -> subprocess.Popen[bytes]:
        """The process, with its end of the channel, nothing else of ours, and its words in a file.

        The end is its `standard` input and output, or a descriptor that it is passed.
        """
        with open(self.folder / "errors.txt", "wb") as errors:
            start: Future[subprocess.Popen[bytes]] = _starter(os.getpid()).submit(
                subprocess.Popen,
                words,
                stdin=end.fileno() if standard else subprocess.DEVNULL,
                stdout=end.fileno() if standard else errors.fileno(),
                stderr=errors.fileno(),
                cwd=self.folder,
                env=_environment(self.folder),
                pass_fds=[] if standard else [end.fileno()],
                start_new_session=True,
            )
            return start.result()

    def last_words(self) -> str:
        """The exit of the worker, with the last line that it wrote."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        code = self.process.returncode
        ended = (
            "does not answer" if code is None else f"ended by {_signal(code)}" if code < 0 else f"exited with {code}"
        )
        with contextlib.suppress(OSError):
            lines = (self.folder / "errors.txt").read_text(errors="replace").strip().splitlines()
            return f"{ended} ({lines[-1][:300]})" if lines else ended
        return ended

    def close(self) -> None:
        """Kill the worker with its process group, and remove its folder."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.channel.close()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _command(handle: int, folder: Path, settings: dict[str, Any], board: Board | None) -> list[str]:
    """The words that run a worker."""
    if board is None:
        return [sys.executable, "-m", "tilewright.rpc.worker", str(handle), str(folder), json.dumps(settings)]
    memory = settings["limits"]["memory_bytes"] if board.elsewhere else 0
    worker = [*board.launcher, board.program, str(settings["first"]), str(memory)]
    if board.elsewhere:
        return worker
    limits = {"readable": board.readable(), "limits": settings["limits"], "children": board.children}
    return [sys.executable, "-m", "tilewright.rpc.confined", str(folder), json.dumps(limits), *worker]


def _environment(folder: Path) -> dict[str, str]:
    return {**confined_environment(folder, _PASSED), "PYTHONDONTWRITEBYTECODE": "1"}


def _signal(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
