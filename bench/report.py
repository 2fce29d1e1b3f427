"""Parts of reports that the benches share: machine, thread counts, Markdown tables, ratios to the better peer."""

from __future__ import annotations

import argparse
import math
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

OURS = "tilewright"
#: Shown for orientation, and no peer of a compiler: not in the ratios.
_REFERENCES = ("numpy",)


def machine() -> str:
    """The processor, the number of cores and the system, in one phrase."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), platform.processor())
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"


def versions(packages: Iterable[str] = ("numpy", "onnxruntime", "openvino")) -> dict[str, str]:
    """The installed version of each package that is installed."""
    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def thread_counts(text: str) -> tuple[int, ...]:
    """`"1,2"` as (1, 2), for `argparse`."""
    try:
        counts = tuple(int(word) for word in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers like 1,2") from None
    if min(counts) < 1:
        raise argparse.ArgumentTypeError("a number of threads is 1 or more")
    return counts


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, padded so that it can be read as it is."""
    rows = [list(heading), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(heading))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]]) + "\n"


def ratio_to_peers(milliseconds: Mapping[str, float]) -> float | None:
    """Time of the fastest other engine (NumPy apart) over ours; None where no other engine ran."""
    peers = [value for engine, value in milliseconds.items() if engine not in (OURS, *_REFERENCES)]
    return min(peers) / milliseconds[OURS] if peers else None


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))


def cell(value: float | None, digits: int = 2) -> str:
    """A number with `digits` digits after the point; a dash for None."""
    return "–" if value is None else f"{value:.{digits}f}"
