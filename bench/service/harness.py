"""A service in processes of its own, which may be killed, and a client that goes on when one is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ROLE = "arn:aws:iam::000000000000:role/compiler"
#: Seconds within which a server must answer that is killed again and again.
_PATIENCE = 600.0
ENDED = ("COMPLETED", "FAILED", "STOPPED")


class Processes:
    """A service's folder, its server and workers, each started by the command line."""

    def __init__(self, folder: Path, database: str = "") -> None:
        from tilewright.service.app import open_store
        from tilewright.service.jobs.settings import Settings

        self.folder, self.shared = folder, folder / "shared"
        self.shared.mkdir(parents=True)
        self.settings = Settings(folder / "state", database, (self.shared,))
        self.store = open_store(self.settings)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._log = (folder / "log").open("ab")

    def command(self, verb: str, *words: str) -> list[str]:
        """The command of `tilewright serve VERB` on this service."""
        options = ["--folder", str(self.settings.folder), "--share", str(self.shared)]
        if self.settings.database:
            options += ["--database", self.settings.database]
        return [sys.executable, "-m", "tilewright", "serve", verb, *options, *words]

    def start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        """Start a process, or start it again."""
        self.running[name] = subprocess.Popen(command, stdout=self._log, stderr=self._log, cwd=self.folder)
        return self.running[name]

    def serve(self, *words: str) -> None:
        """Start the server, and wait until it answers."""
        self.start("server", self.command("run", "--port", str(self.port), *words))
        deadline = time.monotonic() + 120
        while True:
            with suppress(OSError):
                urlopen(f"{self.url}/healthz", timeout=5).close()
                return
            if time.monotonic() > deadline or self.running["server"].poll() is not None:
                raise RuntimeError(f"the server does not start: {self.folder / 'log'}")
            time.sleep(0.1)

    def close(self) -> None:
        """Kill what runs."""
        for process in self.running.values():
            process.kill()
            process.wait()
        self._log.close()

    def client(self, owner: str = "ada", retries: int = 0, service: str = "sagemaker") -> Any:
        """botocore's client, with a key of its own."""
        import botocore.config
        import botocore.session

        session = botocore.session.get_session()
        session.set_credentials(*self.store.add_key(owner))
        config = botocore.config.Config(retries={"max_attempts": retries}, read_timeout=60)
        return session.create_client(service, region_name="us-east-1", endpoint_url=self.url, config=config)

    def request(self, name: str, model: Path, framework: str, device: str = "lambda", **more: Any) -> dict[str, Any]:
        """A request for a compilation of a shared file, whose artifact has a folder of its own."""
        out = {"TargetPlatform": more.pop("platform")} if "platform" in more else {"TargetDevice": device}
        if options := more.pop("options", None):
            out["CompilerOptions"] = options
        return {
            "CompilationJobName": name,
            "RoleArn": ROLE,
            "InputConfig": {"S3Uri": f"file://{model}", "Framework": framework, **more.pop("input", {})},
            "OutputConfig": {"S3OutputLocation": f"file://{self.shared}/out/{name}", **out},
            "StoppingCondition": {"MaxRuntimeInSeconds": more.pop("seconds", 900)},
        }


def patiently(call: Callable[..., Any], **request: Any) -> Any:
    """Call until a server answers; one that was killed after it did what it should have says so the next time."""
    import botocore.exceptions

    deadline, again = time.monotonic() + _PATIENCE, False
    while time.monotonic() < deadline:
        try:
            return call(**request)
        except botocore.exceptions.ClientError as error:
            if again and error.response["Error"]["Code"] == "ResourceInUse":
                return None
            raise
        except botocore.exceptions.BotoCoreError:
            again = True
            time.sleep(0.1)
    raise RuntimeError("no server answers")


def memory(pid: int) -> int:
    """Bytes that a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_ended(store: Any, owner: str, name: str, seconds: float, look: float = 0.05) -> Any:
    """The job when it has ended."""
    deadline = time.monotonic() + seconds
    while (job := store.find(owner, name)) is None or job.status not in ENDED:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{name} has not ended after {seconds:g} s: {job and job.status}")
        time.sleep(look)
    return job
