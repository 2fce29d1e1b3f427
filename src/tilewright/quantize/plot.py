"""A picture of a quantized model: loss against time, memory and energy, and the noise of each layer, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from tilewright.quantize.cost import OBJECTIVES, Point

if TYPE_CHECKING:
    from tilewright.quantize.search import Effect

_WIDTH, _HEIGHT, _LEFT, _TOP, _LINE = 360, 240, 60, 40, 14  # pixels: of the front, of its margins, of a layer's line
_BAR = 220  # pixels of the longest bar
_COLOURS = dict(zip(OBJECTIVES, ("#0b6e99", "#d9730d", "#5b8c3a"), strict=True))


def picture(front: Sequence[Point], effects: Mapping[str, Effect]) -> str:
    """The front, costs as shares of float's, above the signal to noise ratio of each layer in decibels."""
    below = _TOP + _HEIGHT + 60
    height = below + _LINE * (len(effects) + 1)
    style = "<style>text{font:11px sans-serif;fill:#666}</style>"
    parts = [*_front(front), *_layers(effects, below)]
    view = f'viewBox="0 0 {_LEFT + _WIDTH + 240} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {view}>{style}{"".join(parts)}</svg>\n'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _front(front: Sequence[Point]) -> list[str]:
    """A line for each objective: the loss to the right, the share of float's cost upwards."""
    if not front:
        return []
    exact = front[-1].cost
    most = max(point.loss for point in front) or 1.0
    shares = {kind: [point.cost.by(kind) / (exact.by(kind) or 1.0) for point in front] for kind in OBJECTIVES}
    top = max(1.0, *(value for values in shares.values() for value in values))
    made = [_text(_LEFT, 20, "cost as a share of float's, by the loss; a point: so many layers in float")]
    floor = _TOP + _HEIGHT
    made.append(f'<path d="M{_LEFT},{_TOP}V{floor}H{_LEFT + _WIDTH}" fill="none" stroke="#999"/>')
    for share in (0.0, top / 2, top):
        made.append(_text(_LEFT - 6, floor - share / top * _HEIGHT + 4, f"{share:.2f}", "end"))
    for share in (0.0, 0.5, 1.0):
        made.append(_text(_LEFT + share * _WIDTH, floor + 16, f"{share * most:.2%}", "middle"))
    for number, (kind, values) in enumerate(shares.items()):
        spots = [
            (_LEFT + point.loss / most * _WIDTH, floor - value / top * _HEIGHT) for point, value in zip(front, values)
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        made.append(f'<polyline points="{line}" fill="none" stroke="{_COLOURS[kind]}"/>')
        for (x, y), point in zip(spots, front):
            title = f"<title>{point.in_float} layers in float: {escape(point.cost.text())}</title>"
            made.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{_COLOURS[kind]}">{title}</circle>')
        made.append(
            f'<g fill="{_COLOURS[kind]}"><circle cx="{_LEFT + _WIDTH + 30}" cy="{_TOP + 18 * number}" r="4"/></g>'
        )
        made.append(_text(_LEFT + _WIDTH + 40, _TOP + 18 * number + 4, kind))
    return made


def _layers(effects: Mapping[str, Effect], top: int) -> list[str]:
    """A bar for each layer, in order of computation: the longer, the more noise integers add."""
    made = [_text(_LEFT, top - 8, "relative error of each layer in integers, decibels of signal to noise")]
    most = max((effect.error for effect in effects.values()), default=1.0) or 1.0
    for number, (name, effect) in enumerate(effects.items()):
        y = top + _LINE * number
        width = effect.error / most * _BAR
        made.append(f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_LINE - 3}" fill="{_COLOURS["time"]}"/>')
        made.append(_text(_LEFT + width + 6, y + 9, f"{effect.error:.2%}, {effect.decibels:.1f} dB  {name}"))
    return made
