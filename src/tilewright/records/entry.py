"""One measurement as a line of text: kernel, processor, configuration, time.

A line is one JSON object with a checksum; docs/autotvm.md has its fields. Reading a line back returns an equal entry,
and a line that was cut or changed is an `ArtifactError`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import ArtifactError
from tilewright.support.version import version

#: The format of the lines; raised when a field changes its meaning.
FORMAT = 1

#: What an entry can be: a configuration that was tried, or one that was chosen at the end, for a whole network.
TRIAL, VERDICT = "trial", "verdict"

#: Why a configuration has no time.
BUILD, RUN, TIMEOUT, WRONG, CRASH = "build", "run", "timeout", "wrong result", "crash"
FAILURES = (BUILD, RUN, TIMEOUT, WRONG, CRASH)


@dataclass(frozen=True)
class TaskKey:
    """The identity of a tuned kernel: the template and its version, and the workload as the text of all that it can
    choose by.

    Two kernels with the same key have the same search space and the same costs.
    """

    template: str
    workload: str
    version: int = 1

    def to_json(self) -> dict[str, Any]:
        """The key as JSON data."""
        return {"template": self.template, "version": self.version, "workload": json.loads(self.workload)}

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> TaskKey:
        """The inverse of `to_json`."""
        return TaskKey(str(fields["template"]), canonical(fields["workload"]), int(fields["version"]))


@dataclass(frozen=True)
class Entry:
    """One line of a file of records.

    `config` has the value of each knob; a verdict with `config` None says that the compiler's own choice is best.
    `seconds` are those of one call, None after a `failure` (one of `FAILURES`, with its `reason`). `blocks` of calls
    were timed; `accepted` says that it was faster than everything before it, in turns with the best of that.
    `compiler` is the version that made the code, `time` when it was measured, in seconds since 1970. `more` is what
    other programs have in their records, kept as it is.
    """

    task: TaskKey
    processor: str
    config: Mapping[str, Any] | None
    seconds: float | None = None
    failure: str = ""
    reason: str = ""
    accepted: bool = False
    blocks: int = 0
    kind: str = TRIAL
    compiler: str = ""
    time: float = 0.0
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config_text(self) -> str:
        """The configuration as canonical text."""
        return canonical(self.config)

    def to_line(self) -> str:
        """The entry as a line of a file, without the newline."""
        fields = {
            "format": FORMAT, "kind": self.kind, "task": self.task.to_json(), "processor": self.processor,
            "config": None if self.config is None else dict(self.config), "seconds": self.seconds,
            "failure": self.failure, "reason": self.reason, "accepted": self.accepted, "blocks": self.blocks,
            "compiler": self.compiler, "time": self.time, "more": dict(self.more),
        }  # fmt: skip
        text = canonical({name: value for name, value in fields.items() if value not in ("", {}, 0) or name == "time"})
        return f'{text[:-1]},"sum":"{_sum(text)}"}}'

    @staticmethod
    def from_line(line: str) -> Entry:
        """The inverse of `to_line`. Raises `ArtifactError` that says what is wrong with the line."""
        text, mark, tail = line.rpartition(',"sum":"')
        if not mark or not line.endswith('"}') or _sum(text + "}") != tail[:-2]:
            raise ArtifactError(_strange(line))
        fields = json.loads(text + "}")
        if fields["format"] != FORMAT:
            raise ArtifactError(f"is of format {fields['format']}, this version reads {FORMAT}")
        names = (
            "processor",
            "config",
            "seconds",
            "failure",
            "reason",
            "accepted",
            "blocks",
            "kind",
            "compiler",
            "time",
        )
        given = {name: fields[name] for name in (*names, "more") if name in fields}
        return Entry(TaskKey.from_json(fields["task"]), **given)


def this_compiler() -> str:
    """The version that entries name as their `compiler`."""
    return version()


def _strange(line: str) -> str:
    """A description of a line that was not written as an entry."""
    try:
        fields = json.loads(line)
    except ValueError:
        return "is not JSON: it was cut or changed"
    if isinstance(fields, dict) and ("input" in fields or "i" in fields):
        return "is of a log of the classic stack: pass it to autotvm.apply_history_best instead"
    if isinstance(fields, dict) and "sum" in fields:
        return "does not match its checksum: it was changed"
    return "is no record of tuning"


def _sum(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def canonical(value: Any) -> str:
    """Canonical JSON text: no spaces; names in the value's order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
