"""`tilewright doctor`: what this machine and installation offer, for a user's own look and for bug reports."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys

import click

from tilewright.runtime.threads import default_workers
from tilewright.support import cache, knobs
from tilewright.target import Target

PACKAGES = ("numpy", "llvmlite", "ml_dtypes", "click", "onnx", "onnxruntime", "openvino", "ziglang", "torch")


@click.command("doctor")
def doctor_command() -> None:
    """Print versions, CPU features, the thread quota and the state of the cache."""
    rows = [
        ("tilewright", _version("tilewright")),
        ("python", f"{platform.python_version()} at {sys.executable}"),
        ("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
        *target_rows(Target("cpu")),
        ("threads", f"{default_workers()} by default, of {os.cpu_count()} processors"),
        ("cache", cache.describe()),
    ]
    rows += [(name, _version(name)) for name in PACKAGES]
    rows += [(knob.name, os.environ.get(knob.name, "not set")) for knob in knobs.all_knobs()]
    for name, value in rows:
        click.echo(f"{name:24} {value}")


def target_rows(target: Target) -> list[tuple[str, str]]:
    """What is known of the host's processor."""
    return [
        ("target", str(target)),
        ("vectors", f"{target.vector_bits} bits, {target.vector_registers} registers"),
        ("caches", f"L1d {target.l1d // 1024} KiB, L2 {target.l2 // 1024} KiB, L3 {target.l3 // 1024} KiB"),
    ]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
