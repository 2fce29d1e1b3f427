"""`tilewright doctor`: what this machine and installation offer, for a user's own look and for bug reports."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
import sys

import click

from tilewright.cli.calibrate import TOLERANCE, compare, measure
from tilewright.machine import Bandwidth, Cache, Machine
from tilewright.machine_store import store
from tilewright.runtime.gpu.survey import survey
from tilewright.runtime.threads import default_workers
from tilewright.support import cache, knobs
from tilewright.support.version import version
from tilewright.target import Target, host_identity
from tilewright.target.auto import auto_target

PACKAGES = (
    "numpy", "llvmlite", "ml_dtypes", "click", "onnx", "onnxruntime", "openvino", "ziglang", "rich", "torch",
    "pyopencl", "wgpu",
)  # fmt: skip


@click.command("doctor")
@click.option("--calibrate", is_flag=True, help="Measure this machine (about three seconds) and keep the figures.")
def doctor_command(calibrate: bool) -> None:
    """Print versions, CPU features, the machine's figures, the thread quota, the cache and the devices.

    With --calibrate, measure what this machine can do instead: the target 'cpu' has these figures from then on.
    """
    for name, value in calibrated_rows() if calibrate else installation_rows():
        click.echo(f"{name:24} {value}")


def installation_rows() -> list[tuple[str, str]]:
    """Everything that a bug report needs."""
    target = Target("cpu")
    rows = [
        ("tilewright", version()),
        ("python", f"{platform.python_version()} at {sys.executable}"),
        ("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
        *target_rows(target),
        *machine_rows(target),
        ("threads", f"{default_workers()} by default, of {os.cpu_count()} processors"),
        ("cache", cache.describe()),
        *survey(),
        ("target auto", auto_target()),
    ]
    rows += [(name, _version(name)) for name in PACKAGES]
    return rows + [(knob.name, os.environ.get(knob.name, "not set")) for knob in knobs.all_knobs()]


def calibrated_rows() -> list[tuple[str, str]]:
    """Measure this machine, keep the figures; each beside the shipped one, and what became of them."""
    known = shipped(Target.host()).machine
    machine = measure(known)
    key = store(machine, host_identity())
    rows = [("figure", f"{'shipped':>10}{'measured':>10}")]
    found = compare(known, machine)
    rows += [
        (row.figure, f"{row.known:>10.4g}{row.measured:>10.4g}{'  differs' if row.differs else ''}") for row in found
    ]
    count = sum(row.differs for row in found)
    rows.append(("differ", f"{count} of {len(found)} by more than {TOLERANCE:.0%} from those of {known.name}"))
    if not key:
        return [*rows, ("not kept", "there is no cache to keep them in; see TILEWRIGHT_CACHE and TILEWRIGHT_CACHE_DIR")]
    ignored = "" if knobs.CALIBRATION.get() else ", but ignored: TILEWRIGHT_CALIBRATION=0"
    return [*rows, ("kept as", f"{key}{ignored}")]


def shipped(target: Target) -> Target:
    """The same target with the shipped figures of its processor, whatever was measured."""
    return Target(" ".join(word for word in str(target).split() if not word.startswith("-machine=")))


def machine_rows(target: Target) -> list[tuple[str, str]]:
    """The figures that schedules are chosen by, in the words of `Machine`."""
    machine = target.machine
    origin = f"measured, {target.measured}" if target.measured else "shipped; doctor --calibrate measures this machine"
    rows = [("machine", f"{machine.name} ({origin})")]
    for field in dataclasses.fields(Machine):
        value = getattr(machine, field.name)
        if isinstance(value, Bandwidth):
            rows.append((f"  {field.name}", f"{value.one:g} bytes a cycle, all cores {value.all:g}"))
        elif isinstance(value, Cache):
            rows.append((f"  {field.name}", f"{value.size // 1024} KiB, {value.ways} ways"))
        elif field.name != "name":
            rows.append((f"  {field.name}", f"{value:g}"))
    return rows


def target_rows(target: Target) -> list[tuple[str, str]]:
    """Rows of the known properties of the host's processor."""
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
