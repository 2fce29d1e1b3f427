"""The state of a tracker that outlives it: leases and finished jobs, one checksummed JSON line each.

    8 hexadecimal digits of the CRC-32 of the text, a blank, the JSON text, a newline

Lines are only ever added; opening the journal writes what still matters into a new file and takes up from there. A line
that is damaged, as the last one of a process that was killed or of a full disk may be, is left out.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tilewright.errors import EnvironmentError_
from tilewright.rpc.scheduler import Lease
from tilewright.support.cache import atomic_file

#: Lines after which the file is written anew, without those that no longer matter.
_MOST_LINES = 200_000
#: Finished jobs that are kept.
_FINISHED = 10_000


class Journal:
    """The journal of a tracker at a path: `leases` and `finished` are what it held when it was opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        self.failed = ""
        self.leases: dict[str, Lease] = {}
        self.finished: dict[str, str] = {}
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in self._read():
            self._take(line)
        self._rewrite()

    def granted(self, lease: Lease) -> None:
        """A lease was granted, or renewed after a restart."""
        self._add({"event": "granted", **lease.__dict__})

    def ended(self, lease: Lease, how: str) -> None:
        """A lease ended, and how its job did."""
        self._add({"event": "ended", "lease": lease.lease, "job": lease.job, "how": how})

    def close(self) -> None:
        """Write nothing more."""
        self._file.close()

    def _add(self, event: Mapping[str, Any]) -> None:
        """Write a line. If the disk refuses it the tracker continues, and `failed` has the reason."""
        with self._lock:
            self._take(event)
            try:
                self._file.write(_line(event))
                self._file.flush()
                self.failed = ""
            except (OSError, ValueError) as error:
                self.failed = f"the journal is not written: {error}"
                return
            self._lines += 1
            if self._lines > _MOST_LINES:
                self._file.close()
                self._rewrite()

    def _take(self, event: Mapping[str, Any]) -> None:
        """Apply an event to the known state."""
        try:
            if event["event"] == "granted":
                fields = {name: event[name] for name in Lease.__dataclass_fields__}
                self.leases[event["lease"]] = Lease(**fields)
            elif event["event"] == "ended":
                self.leases.pop(event["lease"], None)
                self.finished[event["job"]] = event["how"]
                while len(self.finished) > _FINISHED:
                    del self.finished[next(iter(self.finished))]
        except (KeyError, TypeError):
            self.damaged += 1

    def _read(self) -> Iterable[dict[str, Any]]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise EnvironmentError_(f"cannot read the journal {self.path}: {error.strerror or error}") from None
        for line in content.split(b"\n"):
            total, _, text = line.partition(b" ")
            try:
                if int(total, 16) != zlib.crc32(text):
                    raise ValueError
                event = json.loads(text)
            except (ValueError, RecursionError):
                self.damaged += bool(line)
                continue
            if isinstance(event, dict):
                yield event

    def _rewrite(self) -> None:
        """Write the live state as a new file, which replaces the old one; then open it for appending."""
        events: list[dict[str, Any]] = [{"event": "granted", **lease.__dict__} for lease in self.leases.values()]
        events += [{"event": "ended", "lease": "", "job": job, "how": how} for job, how in self.finished.items()]
        try:
            with atomic_file(self.path) as temporary, open(temporary, "w", encoding="ascii") as file:
                file.writelines(_line(event) for event in events)
            self._file = open(self.path, "a", encoding="ascii")  # noqa: SIM115
        except OSError as error:
            raise EnvironmentError_(f"cannot write the journal {self.path}: {error.strerror or error}") from None
        os.chmod(self.path, 0o600)
        self._lines = len(events)


def _line(event: Mapping[str, Any]) -> str:
    text = json.dumps(event, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x} {text}\n"
