"""The table of `tilewright profile` for a device: achieved arithmetic and bandwidth, roofline, occupancy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.cli.profile_table import ProfileTable, schedule_text
from tilewright.runtime.profile import KernelTime

if TYPE_CHECKING:
    from tilewright.runtime.model import Model

#: What stands in a line.
DEVICE_COLUMNS = (
    "time", "predicted", "of all", "GFLOP/s", "GB/s", "of roofline", "occupancy", "kernel", "schedule", "source nodes",
)  # fmt: skip

#: Columns that a narrow terminal does without, in the order in which they go.
DEVICE_SPARE = ("schedule", "predicted", "occupancy", "GB/s", "GFLOP/s", "kernel", "of all")

_NONE = "–"
_HEAD = (
    f"{'time':>12} {'predicted':>12} {'of all':>7} {'GFLOP/s':>8} {'GB/s':>7} {'of roofline':>11} {'occupancy':>9}  "
    "kernel  (schedule)  source nodes"
)


def roofline_of(facts: Mapping[str, Any]) -> tuple[float, float] | None:
    """Operations in float32 and bytes a second of an NVIDIA GPU, by its driver's figures; None for other devices."""
    if "multiprocessors" not in facts:
        return None
    # only when it runs: `tilewright --help` reads this module
    from tilewright.backend.gpu.schedule.machine import machine_of
    from tilewright.target import DeviceTarget

    found = DeviceTarget.parse(f"cuda -arch={facts['arch']}")
    operations = 2 * machine_of(found).fma * int(facts["multiprocessors"]) * float(facts["clock_hz"])
    return operations, float(facts["memory_bandwidth"])


def device_table(model: Model, rows: Sequence[KernelTime]) -> ProfileTable:
    """Of the calls of a model on a device."""
    roofline, total = roofline_of(model.device_facts), sum(row.seconds for row in rows)
    cells = table_of(rows, roofline, total)
    return ProfileTable(_heading(model, rows, roofline), DEVICE_COLUMNS, DEVICE_SPARE, cells, _HEAD, _line)


def _heading(model: Model, rows: Sequence[KernelTime], roofline: tuple[float, float] | None) -> list[str]:
    """Lines on the device, its roofline, and the copies of a program between it and the host."""
    total, name = sum(row.seconds for row in rows), model.device_facts.get("name", model.target.split()[0])
    lines = [f"{len(rows)} calls, {total * 1e3:.3f} ms in all, on {name}"]
    if roofline is None:
        lines.append("no roofline: its driver says nothing of its arithmetic and bandwidth")
    else:
        lines.append(f"roofline: {roofline[0] / 1e12:.1f} TFLOP/s in float32, {roofline[1] / 1e9:.0f} GB/s")
    moved = model.transfers
    if moved.to_device or moved.to_host:
        lines.append(
            f"copies: {moved.to_device} to the device ({moved.to_device_bytes:,} bytes), {moved.to_host} to the host "
            f"({moved.to_host_bytes:,} bytes)"
        )
    return lines


def table_of(rows: Sequence[KernelTime], roofline: tuple[float, float] | None, total: float) -> list[tuple[str, ...]]:
    """The cells of each call's line; `total` is in seconds, `roofline` operations and bytes a second."""
    return [_cells(row, total, roofline) for row in rows]


def _cells(row: KernelTime, total: float, roofline: tuple[float, float] | None) -> tuple[str, ...]:
    seconds = row.seconds or float("inf")
    share = _NONE
    if roofline is not None and (row.flops or row.nbytes):
        share = f"{100 * max(row.flops / roofline[0], row.nbytes / roofline[1]) / seconds:.1f} %"
    return (
        f"{row.seconds * 1e3:.3f} ms",
        f"{float(row.choice.get('microseconds', 0.0)) * 1e-3:.3f} ms" if row.choice else _NONE,
        f"{100 * row.seconds / total if total else 0.0:.1f} %",
        f"{row.flops / seconds * 1e-9:.1f}",
        f"{row.nbytes / seconds * 1e-9:.1f}",
        share,
        _NONE if row.occupancy is None else f"{100 * row.occupancy:.0f} %",
        row.kernel,
        schedule_text(row) if row.choice else _NONE,
        row.source,
    )


def _line(cells: Sequence[str]) -> str:
    time, expected, share, speed, rate, of_roofline, occupancy, kernel, schedule, source = cells
    figures = f"{time:>12} {expected:>12} {share:>7} {speed:>8} {rate:>7} {of_roofline:>11} {occupancy:>9}"
    return f"{figures}  {kernel}  ({schedule})  {source}"
