"""Draw the roofline of a model: each kernel by its arithmetic intensity and the speed it reaches, as an SVG file.

    python bench/roofline.py MODEL.onnx roofline.svg [--threads 2] [--repeat 20] [--input-shapes "x:[1,3,224,224]"]

Intensity is operations per byte of inputs, weights and outputs, each counted once; operations are those of the
mathematics, so Winograd convolutions may lie above the flat roof. The roofs are measured on the spot: the multiply-add
peak, and reading from memory, the L3 and the L2. The area of a dot is the kernel's share of the time.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from single import Machine

import tilewright as tw
from tilewright.cli.inputs import random_inputs
from tilewright.cli.options import parse_shapes
from tilewright.runtime.profile import KernelTime

_WIDTH, _HEIGHT = 860, 520
_LEFT, _TOP, _RIGHT, _BOTTOM = 70, 50, 190, 60
_COLOURS = ("#0b6e99", "#d9730d", "#0f7b6c", "#ad1a72", "#64473a", "#6940a5", "#9b9a97", "#e03e3e")


class _Axes:
    """Logarithmic axes: from operations per byte and GFLOP/s to positions on the page."""

    def __init__(self, intensities: Sequence[float], speeds: Sequence[float]) -> None:
        self.x = math.floor(math.log10(min(intensities))), math.ceil(math.log10(max(intensities)))
        self.y = math.floor(math.log10(min(speeds))), math.ceil(math.log10(max(speeds)))

    def at(self, intensity: float, speed: float) -> tuple[float, float]:
        """The position of a point, in pixels from the upper left."""
        across = (math.log10(intensity) - self.x[0]) / (self.x[1] - self.x[0])
        up = (math.log10(speed) - self.y[0]) / (self.y[1] - self.y[0])
        width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return _LEFT + across * width, _HEIGHT - _BOTTOM - up * height


def roofline_svg(title: str, rows: Sequence[KernelTime], machine: Machine) -> str:
    """The plot of the kernels that compute anything, as the text of an SVG file."""
    dots = [row for row in rows if row.flops and row.nbytes and row.seconds]
    if not dots:
        raise SystemExit("no kernel of this model counts an operation: there is nothing to draw")
    ridge = machine.peak / machine.bandwidth["DRAM"]
    intensities = [row.flops / row.nbytes for row in dots]
    speeds = [row.flops / row.seconds / 1e9 for row in dots]
    axes = _Axes([*intensities, ridge / 10, 0.1], [*speeds, machine.peak * 1.01, machine.peak / 100])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_LEFT, 28, title, size=16),
        *_grid(axes),
        *_roofs(axes, machine),
        *_kernels(axes, dots),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _grid(axes: _Axes) -> list[str]:
    parts = []
    for power in range(axes.x[0], axes.x[1] + 1):
        x, top = axes.at(10.0**power, 10.0 ** axes.y[1])
        _, bottom = axes.at(10.0**power, 10.0 ** axes.y[0])
        parts += [_line(x, top, x, bottom, "#ddd"), _text(x, bottom + 18, f"{10.0**power:g}", anchor="middle")]
    for power in range(axes.y[0], axes.y[1] + 1):
        left, y = axes.at(10.0 ** axes.x[0], 10.0**power)
        right, _ = axes.at(10.0 ** axes.x[1], 10.0**power)
        parts += [_line(left, y, right, y, "#ddd"), _text(left - 8, y + 4, f"{10.0**power:g}", anchor="end")]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(_text(middle, _HEIGHT - 18, "operations per byte of inputs, weights and outputs", anchor="middle"))
    return [*parts, _text(_LEFT - 50, _TOP - 8, "GFLOP/s")]


def _roofs(axes: _Axes, machine: Machine) -> list[str]:
    """The sloping roofs of each level of memory up to the flat one, with their figures."""
    parts = []
    left, right = 10.0 ** axes.x[0], 10.0 ** axes.x[1]
    for level, bandwidth in machine.bandwidth.items():
        start = max(left, 10.0 ** axes.y[0] / bandwidth)
        end = min(right, machine.peak / bandwidth)
        if end <= start:
            continue
        (x0, y0), (x1, y1) = axes.at(start, start * bandwidth), axes.at(end, end * bandwidth)
        parts += [_line(x0, y0, x1, y1, "#555"), _text(x0 + 6, y0 - 6, f"{level} {bandwidth:.0f} GB/s", size=10)]
    x0, y0 = axes.at(max(left, machine.peak / max(machine.bandwidth.values())), machine.peak)
    x1, _ = axes.at(right, machine.peak)
    label = f"multiply-add peak {machine.peak:.0f} GFLOP/s"
    return [*parts, _line(x0, y0, x1, y0, "#555"), _text(x1, y0 - 6, label, anchor="end", size=10)]


def _kernels(axes: _Axes, dots: Sequence[KernelTime]) -> list[str]:
    """A dot for each kernel call, coloured by template, and the legend of the templates."""
    total = sum(row.seconds for row in dots)
    templates = list(dict.fromkeys(str(row.choice.get("template", "other")) for row in dots))
    parts = []
    for row in sorted(dots, key=lambda r: -r.seconds):
        speed = row.flops / row.seconds / 1e9
        x, y = axes.at(row.flops / row.nbytes, speed)
        colour = _COLOURS[templates.index(str(row.choice.get("template", "other"))) % len(_COLOURS)]
        radius = max(2.5, 40 * math.sqrt(row.seconds / total))
        share = f"{row.seconds / total:.1%} of the time, {speed:.1f} GFLOP/s"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}" fill-opacity="0.55">'
            f"<title>{escape(f'{row.kernel}: {row.source}; {share}')}</title></circle>"
        )
    for i, template in enumerate(templates):
        y = _TOP + 14 + 20 * i
        parts.append(f'<circle cx="{_WIDTH - _RIGHT + 16}" cy="{y - 4}" r="5" fill="{_COLOURS[i % len(_COLOURS)]}"/>')
        parts.append(_text(_WIDTH - _RIGHT + 28, y, template, size=11))
    return parts


def _line(x0: float, y0: float, x1: float, y1: float, colour: str) -> str:
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def main() -> None:
    """Compile, profile, measure the machine, and write the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("svg", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each figure of the machine")
    parser.add_argument("--input-shapes")
    args = parser.parse_args()
    executable = tw.compile(str(args.model), threads=args.threads, input_shapes=parse_shapes(args.input_shapes))
    rows = executable.profile(random_inputs(executable.inputs, 0), repeat=args.repeat)
    title = f"{args.model.stem}, {executable.threads} threads"
    args.svg.write_text(roofline_svg(title, rows, Machine.measured(executable.threads, args.seconds)))


if __name__ == "__main__":
    main()
