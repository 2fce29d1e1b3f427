"""A PostgreSQL of one's own for as long as a test or a measurement runs, without a network.

PostgreSQL refuses to run as root, so there it runs as `nobody`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_USER = "nobody"


def programs() -> Path | None:
    """The folder of `initdb`, `postgres` and `psql`: Debian's newest, else that of the PATH; None without."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    found = shutil.which("postgres")
    for folder in [*reversed(debian), *([Path(found).parent] if found else [])]:
        if all((folder / name).exists() for name in ("initdb", "postgres", "psql")):
            return folder
    return None


class Postgres:
    """A running server: new databases by name."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self._folder, self._binaries = folder, binaries

    def new_database(self) -> str:
        """The URL of a database that was empty until now, as SQLAlchemy has it."""
        name = f"d{secrets.token_hex(6)}"
        self.execute(f"CREATE DATABASE {name}")
        return f"postgresql://{_USER}@/{name}?host={self._folder}"

    def execute(self, statement: str) -> None:
        """Run a statement in the database that is always there."""
        command = [self._binaries / "psql", "-h", self._folder, "-U", _USER, "-d", "postgres", "-qc", statement]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PGCONNECT_TIMEOUT": "5"})


@contextmanager
def running() -> Iterator[Postgres]:
    """A server of this process. Raises `FileNotFoundError` where PostgreSQL is not installed."""
    binaries = programs()
    if binaries is None:
        raise FileNotFoundError("PostgreSQL is not installed")
    user = _USER if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # names of sockets have 107 bytes at most
    if user:
        shutil.chown(folder, user)
    data = folder / "data"
    options = ["-A", "trust", "-U", _USER, "-N", "-E", "UTF8", "--locale=C", "-D", str(data)]
    quiet = subprocess.DEVNULL
    server = None
    try:
        subprocess.run([binaries / "initdb", *options], check=True, stdout=quiet, user=user, cwd="/")
        server = subprocess.Popen(
            [binaries / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses="], stdout=quiet, stderr=quiet,
            user=user, cwd="/", start_new_session=True,
        )  # fmt: skip
        found = Postgres(folder, binaries)
        _wait(found, server)
        yield found
    finally:
        if server is not None:
            server.send_signal(signal.SIGQUIT)
            server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(server: Postgres, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            return server.execute("SELECT 1")
        except subprocess.CalledProcessError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
