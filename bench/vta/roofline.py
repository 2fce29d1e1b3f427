"""The paper's figure: the convolutions C2 to C12 under the accelerator's roofline, without and with latency hiding.

    python bench/vta/roofline.py roofline.svg [--mhz 100] [--version 2] [--rtl]

Across, operations (two a product) for each byte that the layer moves to or from DRAM; up, operations a second. The roof
is the matrix unit, the slope the memory port. An arrow goes from one virtual thread to two.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from layers import LAYERS, mean_use, rows_of

from tilewright.errors import TilewrightError
from tilewright.vta import Config
from tilewright.vta.hardware import Hardware

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BOTTOM, _TOP = 760, 480, 70, 30, 50, 40
_COLOURS = {"1": "#e03e3e", "2": "#0b6e99"}


def drawn(rows: list[dict[str, Any]], kind: str, config: Config, mhz: float) -> str:
    """The figure as SVG."""
    roof = 2 * config.macs_per_cycle * mhz / 1e3
    slope = Hardware().port_bytes * mhz / 1e3

    def point(row: dict[str, Any], threads: str) -> tuple[float, float]:
        operations = 2 * row["gemm"] * config.macs_per_cycle
        return operations / row[threads]["bytes"], operations / row[threads][kind] * mhz / 1e3

    points = {(row["layer"], threads): point(row, threads) for row in rows for threads in _COLOURS}
    x_low, x_high = 8.0, 2 * max(x for x, _ in points.values())
    y_low, y_high = roof / 16, roof * 1.3

    def position(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / x_low) / math.log(x_high / x_low)
        up = math.log(y / y_low) / math.log(y_high / y_low)
        return _LEFT + across * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _BOTTOM - _TOP)

    corners = [position(max(x_low, y_low / slope), max(y_low, slope * x_low)), position(roof / slope, roof)]
    corners.append(position(x_high, roof))
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<polyline points="{line}" fill="none" stroke="black" stroke-width="1.5"/>',
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 12}" text-anchor="middle">operations a byte</text>',
        f'<text transform="translate(16 {_HEIGHT / 2}) rotate(-90)" text-anchor="middle">GOP/s at {mhz:g} MHz</text>',
    ]
    for value in (2**n for n in range(3, 12)):
        if x_low <= value <= x_high:
            x, y = position(value, y_low)
            parts.append(f'<text x="{x:.0f}" y="{y + 16:.0f}" text-anchor="middle">{value}</text>')
    for value in (2**n for n in range(12)):
        if y_low <= value <= y_high:
            x, y = position(x_low, value)
            parts.append(f'<text x="{x - 6:.0f}" y="{y + 4:.0f}" text-anchor="end">{value}</text>')
    for row in rows:
        ends = [position(*points[row["layer"], threads]) for threads in _COLOURS]
        (x0, y0), (x1, y1) = ends
        parts.append(f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="#bbbbbb"/>')
        for (x, y), (threads, colour) in zip(ends, _COLOURS.items()):
            title = f"{row['layer']}, {threads} virtual threads: {row[threads][kind]} cycles"
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"><title>{title}</title></circle>')
        parts.append(f'<text x="{x0 + 6:.1f}" y="{y0 + 12:.1f}" font-size="10">{row["layer"]}</text>')
    for number, (threads, colour) in enumerate(_COLOURS.items()):
        use = mean_use(rows, int(threads), kind)
        text = f"{threads} virtual thread{'s' if threads != '1' else ''}: GEMM works {use:.1%} of the time"
        parts.append(f'<circle cx="{_LEFT + 20}" cy="{20 + 16 * number}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{_LEFT + 30}" y="{24 + 16 * number}">{text}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--mhz", type=float, default=100)
    parser.add_argument("--version", type=int, default=1)
    parser.add_argument("--rtl", action="store_true", help="take the RTL's cycles, not the cycle simulator's")
    given = parser.parse_args()
    config, kind = Config(isa_version=given.version), "rtl" if given.rtl else "cycle"
    rows = rows_of(config, list(LAYERS), ["cycle", "rtl"] if given.rtl else ["cycle"])
    given.output.write_text(drawn(rows, kind, config, given.mhz))


if __name__ == "__main__":
    try:
        main()
    except TilewrightError as error:
        raise SystemExit(str(error)) from error
