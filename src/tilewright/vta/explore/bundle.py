"""The output of an exploration: a folder with configuration, tuned layers, report, plot, and the chip's Verilog."""

from __future__ import annotations

import dataclasses
import json
import math
from html import escape
from pathlib import Path

from tilewright.errors import EnvironmentError_
from tilewright.vta.explore.explore import DEFAULT, Exploration, Point
from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Isa

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 760, 480, 80, 50, 30


def write_bundle(found: Exploration, folder: Path) -> list[str]:
    """Write the files; their names. The Verilog is left out, and the report says so, where Amaranth is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    candidate = found.chosen.candidate
    files = {
        "configuration.json": candidate.config.to_json(),
        "hardware.json": json.dumps(candidate.hardware.to_dict(), indent=2),
        "schedules.json": schedules(found.chosen),
        "pareto.svg": pareto(found),
    }
    try:
        files["vta.v"] = _verilog(Isa(candidate.config), candidate.hardware)
        note = "vta.v is the chip, its top module `vta`."
    except EnvironmentError_ as error:
        note = f"The Verilog is missing: {error}"
    files["report.md"] = report(found, note)
    for name, text in files.items():
        (folder / name).write_text(text)
    return sorted(files)


def _verilog(isa: Isa, hardware: Hardware) -> str:
    # an extra, which the rest does without
    from tilewright.vta.rtl.verilog import verilog_of

    return verilog_of(isa, hardware)


def schedules(point: Point) -> str:
    """The layers with their tilings as JSON."""
    rows = [
        {
            "layer": dataclasses.asdict(tuned.conv), "count": count, "tiling": dataclasses.asdict(tuned.tiling),
            "cycles": tuned.cycles,
        }
        for tuned, count in point.layers
    ]  # fmt: skip
    return json.dumps(rows, indent=1)


def report(found: Exploration, note: str) -> str:
    """The exploration as a page of Markdown."""
    lines = [
        "# A configuration of VTA for these networks", "",
        f"{found.considered} configurations were considered: {found.refused} cannot be built or encoded, "
        f"{found.too_large} are larger than the budget, {len(found.bounded)} have a bound by the roofline, "
        f"{len(found.tuned)} were tuned on the cycle simulator.", "",
        f"The chosen one is {found.speedup:.2f} times as fast as the default, at "
        f"{found.chosen.candidate.area / DEFAULT.area:.2f} times its area (modelled). {note}", "",
        "| configuration | area, times the default | bound, cycles | tuned, cycles | use of GEMM |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for point in sorted([found.default, *found.tuned], key=lambda p: p.candidate.area):
        mark = " (chosen)" if point == found.chosen else " (default)" if point == found.default else ""
        lines.append(
            f"| {point.candidate.name}{mark} | {point.candidate.area / DEFAULT.area:.2f} | {point.bound:.0f} | "
            f"{point.cycles} | {use_of_gemm(point):.1%} |"
        )
    lines += ["", "| layer of the chosen chip | times | tiling | cycles | use of GEMM |", "|---|---|---|---|---|"]
    for tuned, count in found.chosen.layers:
        t, use = tuned.tiling, tuned.conv.gemm_steps / tuned.cycles
        tile = f"{t.rows} rows, {t.columns} columns, {t.outputs} × {t.inputs} blocks, {t.keep or 'nothing'} kept"
        lines.append(f"| {tuned.conv} | {count} | {tile} | {tuned.cycles} | {use:.1%} |")
    if found.left_out:
        lines += ["", "Left out, as GEMM does not do them in these streams:", ""]
        lines += [f"- {text}" for text in sorted(set(found.left_out))]
    return "\n".join(lines) + "\n"


def use_of_gemm(point: Point) -> float:
    """The part of all cycles in which GEMM works."""
    return sum(tuned.conv.gemm_steps * count for tuned, count in point.layers) / max(point.cycles or 0, 1)


def pareto(found: Exploration) -> str:
    """Area against cycles, both logarithmic: bounds as small dots, tuned chips as large ones, none better joined."""
    tuned = [(p.candidate.area / DEFAULT.area, float(p.cycles or 0), p) for p in [found.default, *found.tuned]]
    cloud = [(p.candidate.area / DEFAULT.area, p.bound) for p in found.bounded]
    areas, times = [x for x, _ in cloud] + [t[0] for t in tuned], [y for _, y in cloud] + [t[1] for t in tuned]
    x_low, x_high, y_low, y_high = min(areas) / 1.1, max(areas) * 1.1, min(times) / 1.2, max(times) * 1.2

    def position(area: float, time: float) -> tuple[float, float]:
        x = math.log(area / x_low) / math.log(x_high / x_low)
        y = math.log(time / y_low) / math.log(y_high / y_low)
        return _LEFT + x * (_WIDTH - _LEFT - 20), _HEIGHT - _BOTTOM - y * (_HEIGHT - _BOTTOM - _TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 12}" text-anchor="middle">area, times the default</text>',
        f'<text transform="translate(16 {_HEIGHT / 2}) rotate(-90)" text-anchor="middle">cycles</text>',
    ]
    for value in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0):
        if x_low <= value <= x_high:
            x, _ = position(value, y_low)
            parts.append(f'<text x="{x:.0f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{value:g}</text>')
    for power in range(3, 11):
        for value in (10**power, 3 * 10**power):
            if y_low <= value <= y_high:
                _, y = position(x_low, value)
                parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{value:,}</text>')
    for area, time in cloud:
        x, y = position(area, time)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.5" fill="#bbbbbb"/>')
    front: list[tuple[float, float]] = []
    for area, time, _ in sorted(tuned, key=lambda t: t[:2]):
        if not front or time < front[-1][1]:
            front.append((area, time))
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in (position(*point) for point in front))
    parts.append(f'<polyline points="{corners}" fill="none" stroke="#0b6e99"/>')
    for area, time, point in tuned:
        x, y = position(area, time)
        colour = "#e03e3e" if point == found.chosen else "#0f7b6c" if point == found.default else "#0b6e99"
        label = escape(f"{point.candidate.name}: {point.cycles} cycles, area {area:.2f}")
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"><title>{label}</title></circle>')
    return "\n".join([*parts, "</svg>"])
