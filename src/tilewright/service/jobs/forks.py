"""Processes of jobs, forked from one that has imported the compiler: a job begins in milliseconds, not in seconds.

`Forks` is the worker's side; the other is `python -m tilewright.service.jobs.forks`, which has one thread, reads names
of folders, and forks for each a process that confines itself before it opens the model (`process.py`). It ends with the
worker, and the processes end with it.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from pathlib import Path

import numpy as np

from tilewright.errors import InternalError, UserError
from tilewright.rpc.sandbox import confined_environment, end_with_parent

#: Variables that a job's process has of this one's.
_PASSED = ("PATH", "PYTHONPATH", "LANG", "LD_LIBRARY_PATH")
#: The kernel ends the processes of jobs first where memory is short, and not the service.
_FIRST_TO_END = b"1000"
_LOG = "log.txt"
#: Seconds in which threads that were joined leave the system, which may be busy.
_LAST_SECONDS = 10.0


class Running:
    """A process of a job. It stays a zombie until the next is started, so that its number means no other."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._ended = os.pidfd_open(pid)

    def wait(self, seconds: float) -> bool:
        """Has it ended? Waits for that up to so many seconds."""
        return bool(select.select([self._ended], [], [], seconds)[0])

    def end(self) -> None:
        """End it and what it started, if it has not ended."""
        for kill in (os.kill, os.killpg):  # it may not lead a group yet
            with suppress(ProcessLookupError):
                kill(self.pid, signal.SIGKILL)
        self.wait(60)
        os.close(self._ended)


class Forks:
    """Starts processes of jobs, one at a time, for the thread that made it."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None

    def start(self, folder: Path) -> Running:
        """A process that runs the job of `folder`. Raises `InternalError` where it cannot be started."""
        for _ in range(2):  # the server may have been ended while there was no job
            server = self._running()
            assert server.stdin is not None and server.stdout is not None, "both are pipes"
            with suppress(OSError):
                server.stdin.write(f"{folder}\n".encode())
                server.stdin.flush()
                if answer := server.stdout.readline():
                    return Running(int(answer))
            self.close()
        raise InternalError("the process of a job cannot be started")

    def close(self) -> None:
        """End the server, and with it the process that it started last."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            for pipe in (self._server.stdin, self._server.stdout):
                with suppress(OSError):  # what was not sent
                    pipe.close()  # type: ignore[union-attr]
            self._server = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._server is None or self._server.poll() is not None:
            self.close()
            environment = confined_environment(Path("/"), _PASSED)
            command = [sys.executable, "-m", "tilewright.service.jobs.forks"]
            self._server = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
            )
        return self._server


def main() -> None:
    """Fork a process for each folder that standard input names, and answer its number."""
    end_with_parent()
    # imported once for all processes of jobs
    from tilewright.service.jobs import process

    _warm_up()
    deadline = time.monotonic() + _LAST_SECONDS
    while (threads := len(os.listdir("/proc/self/task"))) != 1:  # another would be a way around what is dropped by one
        if time.monotonic() > deadline:
            sys.exit(f"the server of processes has {threads} threads")
        time.sleep(0.01)
    gc.freeze()
    for line in sys.stdin.buffer:
        _reap()
        folder = Path(line.decode().rstrip("\n"))
        pid = os.fork()
        if pid == 0:
            status = process.INTERNAL
            try:
                _become(folder)
                status = process.main(folder)
            except BaseException:
                traceback.print_exc()  # to the log: the worker sees no result
            finally:
                os._exit(status)
        sys.stdout.buffer.write(f"{pid}\n".encode())
        sys.stdout.buffer.flush()


def _warm_up() -> None:
    """Import what compilations need and set LLVM up, by one of a model that is nobody's."""
    import tilewright.frontend
    from tilewright import compile as compile_model
    from tilewright import relay
    from tilewright.frontend.formats.table import load_all_plugins
    from tilewright.relay.ir.module import IRModule

    load_all_plugins()
    for module in pkgutil.walk_packages(tilewright.frontend.__path__, "tilewright.frontend."):
        with suppress(ImportError, UserError):  # a format whose package is not installed
            importlib.import_module(module.name)
    x = relay.var("x", shape=(2, 4))
    layer = relay.nn.relu(relay.nn.dense(x, relay.const(np.ones((3, 4), np.float32))))
    compile_model(IRModule.from_expr(relay.Function([x], layer)), target="llvm", cache=False, threads=1)


def _become(folder: Path) -> None:
    """Make this process that of a job: its own session, log, folder and variables, and no way to the worker."""
    end_with_parent()
    os.setsid()
    log = os.open(folder / _LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, wanted in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, wanted)
    os.closerange(3, 256)
    os.chdir(folder)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_bytes(_FIRST_TO_END)
    os.environ |= {"HOME": str(folder), "TMPDIR": str(folder), "TILEWRIGHT_CACHE_DIR": str(folder / "cache")}
    tempfile.tempdir = None


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main()
