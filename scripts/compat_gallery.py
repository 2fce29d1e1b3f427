#!/usr/bin/env python3
"""Run the tutorials of a checkout of the classic stack, unmodified, and say how each ends.

    scripts/compat_gallery.py CHECKOUT                 runs every script below CHECKOUT/gallery (or CHECKOUT/tutorials)
    scripts/compat_gallery.py CHECKOUT --only REGEX    those whose path matches
    scripts/compat_gallery.py CHECKOUT --output DIR    keeps what each printed as DIR/NAME.txt

A script counts as run if it ends without an error; what it asserts about its results is in it. Kernels for CUDA are
emulated on this machine's processor; a script whose kernels are too large for that is "too long". Logs of tuning that
the checkout has (ci_logs) are in the folder of each, as where its pages are made. Scripts that need
what the machine or this package has not are listed with that reason and not started. The exit status is 1 if one that
was started failed.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: Why a script is not started, by what its text says; the first that matches is the reason.
REASONS = (
    ("microcontrollers", r"\btvm\.micro\b|microtvm"),
    ("tuning on a GPU", r'(?s)autotvm\.task\.create\([^#]{0,200}target="cuda"'),
    (
        "tuning on a GPU",
        r'(?s)\A(?=.*\bauto_scheduler\.)(?=.*\ntarget = tvm\.target\.Target\("(?:cuda|opencl))',
    ),
    ("another device", r"adreno|raspberry|android"),
    ("the command line of the classic stack", r"\btvmc\b"),
    ("a download", r"\bdownload(?:_testdata)?\(|urlretrieve|urlopen|^\w.*pretrained=True|from_pretrained"),
    (
        "another framework",
        r"^(?:import|from) (?:mxnet|torch|tensorflow|keras|paddle|coremltools|caffe2|gluoncv|dgl)\b",
    ),
    ("tvm.script", r"from tvm\.script import"),
    ("pictures of schedules (tedd)", r"contrib import tedd"),
    ("instructions of tensor cores by name", r"tvm_mma_sync"),
    (
        "a model on a GPU",
        r"(?s)\A(?=.*\n(?: {4})?\w+ = relay\.build(?:_module\.build)?\()"
        r"(?=.*\ntarget = (?:tvm\.target\.cuda\(|\"cuda))",
    ),
)


@dataclass(frozen=True)
class Outcome:
    """The end of one script: the `kind` ("ran", "failed", "too long", "not started"), why, and the seconds that passed.

    `processor` are the seconds of processors that it used, which do not depend on what else the machine does.
    """

    script: str
    kind: str
    detail: str
    seconds: float
    processor: float = 0.0


def reason_not_to_start(text: str) -> str | None:
    """The package that a script with `text` needs and that is not here; None if nothing."""
    found = next((reason for reason, pattern in REASONS if re.search(pattern, text, re.MULTILINE)), None)
    defines_only = re.search(r"^# tune_and_evaluate\(", text, re.MULTILINE)  # the one call that does something
    return None if defines_only and "GPU" not in str(found) else found


def run(script: Path, name: str, limit: float, output: Path | None, logs: Sequence[Path] = ()) -> Outcome:
    """Run one script in a folder of its own, with copies of `logs`, at most `limit` seconds."""
    reason = reason_not_to_start(script.read_text(encoding="utf-8"))
    if reason is not None:
        return Outcome(name, "not started", reason, 0.0)
    started, used = time.monotonic(), _processor_seconds()
    with tempfile.TemporaryDirectory() as folder:
        for log in logs:
            shutil.copy(log, folder)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "tilewright.compat", "--emulate", str(script.resolve())],
                cwd=folder, timeout=limit, capture_output=True, text=True, check=False, env=os.environ,
            )  # fmt: skip
            code, printed, errors = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as late:  # its text is bytes whatever was requested
            code = None
            printed, errors = ((text or b"").decode(errors="replace") for text in (late.stdout, late.stderr))
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / (name.replace("/", ".") + ".txt")).write_text(f"{printed}\n--- errors\n{errors}")
    seconds, used = time.monotonic() - started, _processor_seconds() - used
    if code is None:
        return Outcome(name, "too long", f"more than {limit:.0f} s", limit, used)
    if code == 0:
        return Outcome(name, "ran", "", seconds, used)
    lines = [line for line in errors.splitlines() if line.strip()]
    return Outcome(name, "failed", lines[-1] if lines else f"exit status {code}", seconds, used)


def _processor_seconds() -> float:
    """Processor seconds of ended child processes: on a busy machine less than the time that passed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Read the arguments, run the scripts, print the table; 1 if a script that was started failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of the classic stack")
    parser.add_argument("--only", default="", metavar="REGEX", help="run the scripts whose path matches")
    parser.add_argument("--limit", type=float, default=240.0, metavar="SECONDS", help="for one script (default 240)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="keep what each script printed")
    arguments = parser.parse_args()
    folder = next((arguments.checkout / name for name in ("gallery", "tutorials")
                   if (arguments.checkout / name).is_dir()), None)  # fmt: skip
    if folder is None:
        parser.error(f"{arguments.checkout} has neither gallery/ nor tutorials/")
    outcomes = []
    logs = sorted(folder.rglob("ci_logs/*.json"))
    print("| program | outcome | | seconds | of processors |\n|---|---|---|---|---|")
    for script in sorted(folder.rglob("*.py")):
        name = script.relative_to(folder).as_posix()
        if not re.search(arguments.only, name):
            continue
        outcome = run(script, name, arguments.limit, arguments.output, logs)
        outcomes.append(outcome)
        detail = outcome.detail[:160].replace("|", "\\|")
        print(f"| {name} | {outcome.kind} | {detail} | {outcome.seconds:.0f} | {outcome.processor:.0f} |", flush=True)
    counts = Counter((o.kind, o.detail if o.kind == "not started" else "") for o in outcomes)
    print()
    for (kind, why), count in sorted(counts.items()):
        print(f"{kind}{f' (needs {why})' if why else ''}: {count}")
    return int(any(o.kind == "failed" for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
