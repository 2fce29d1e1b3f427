"""The two files of a Darknet network: the cfg, sections of options, and the weights, one float after another."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.source import Source

_SECTION = re.compile(r"\[\s*([A-Za-z_0-9]+)\s*\]")
#: Sections at most: networks of hundreds of layers exist.
_MOST_SECTIONS = 20_000
#: What an extent, a count or a stride is at most.
_MOST = 1 << 24


@dataclass
class Section:
    """`[kind]` with its options as they are written; `label` names it in messages."""

    kind: str
    label: str
    options: dict[str, str] = field(default_factory=dict)

    def text(self, name: str, default: str) -> str:
        """An option as text."""
        return self.options.get(name, default)

    def integer(self, name: str, default: int, low: int = 0) -> int:
        """An option as a whole number that is at least `low`. Raises `ModelError`."""
        value = int(self.number(name, default))
        if not low <= value <= _MOST:
            raise ModelError(f"{self.label}: {name}={value} is out of range")
        return value

    def number(self, name: str, default: float) -> float:
        """An option as a number. Raises `ModelError`."""
        text = self.options.get(name)
        try:
            value = default if text is None else float(text)
            if not np.isfinite(value):
                raise ValueError(text)
        except ValueError:
            raise ModelError(f"{self.label}: {name}={text} is no number") from None
        return value

    def numbers(self, name: str) -> list[float]:
        """An option as a list of numbers with commas between them; empty where it is not given."""
        try:
            return [float(part) for part in self.options.get(name, "").split(",") if part.strip()]
        except ValueError:
            raise ModelError(f"{self.label}: {name}={self.options[name]} is no list of numbers") from None


def is_cfg(source: Source) -> bool:
    """True for what begins as a cfg: with the section [net] or [network], behind comments."""
    for line in bytes(source.contents[:4096]).decode("utf-8", "replace").splitlines():
        line = line.strip().lstrip("\ufeff")
        if line and line[0] not in "#;":
            match = _SECTION.match(line)
            return match is not None and match.group(1) in ("net", "network")
    return False


def read_cfg(text: str, label: str) -> tuple[Section, list[Section]]:
    """The section [net] and those of the layers in order. Raises `ModelError` naming the line."""
    sections: list[Section] = []
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), 1):
        line = re.split(r"[#;]", line, maxsplit=1)[0].strip() if line.lstrip()[:1] != "[" else line.strip()
        if not line:
            continue
        match = _SECTION.match(line)
        if match is not None:
            kind = match.group(1)
            sections.append(Section(kind, f"{label}, layer {len(sections) - 1} [{kind}]"))
        elif "=" not in line or not sections:
            raise ModelError(f"{label}, line {number}: {line[:80]!r} is neither a [section] nor an option NAME=VALUE")
        else:
            name, _, value = line.partition("=")
            sections[-1].options[name.strip()] = value.strip()
        if len(sections) > _MOST_SECTIONS:
            raise ModelError(f"{label} has more than {_MOST_SECTIONS} sections")
    if not sections or sections[0].kind not in ("net", "network"):
        raise ModelError(f"{label} does not begin with the section [net]: it is no cfg file of Darknet")
    if len(sections) == 1:
        raise ModelError(f"{label} has no layers")
    sections[0].label = f"{label}, [{sections[0].kind}]"
    return sections[0], sections[1:]


class Weights:
    """The numbers of a weights file, taken in order. Raises `ModelError` where the file has fewer than are needed."""

    def __init__(self, data: memoryview, label: str) -> None:
        self._label = label
        begin, self.transposed = _header(data, label)
        self._values = np.frombuffer(data, "<f4", (len(data) - begin) // 4, begin)
        self._next = 0

    def take(self, where: str, *shape: int) -> np.ndarray:
        """The next numbers, for `where`, in the shape given."""
        count = int(np.prod(shape, dtype=object))
        if count > len(self._values) - self._next:
            raise ModelError(
                f"{self._label}: {where} needs {count} weights, and {len(self._values) - self._next} are left of "
                f"{len(self._values)}; the file is cut off, or of another network"
            )
        self._next += count
        return self._values[self._next - count : self._next].reshape(shape)

    def check_end(self) -> None:
        """Raises `ModelError` where numbers are left over."""
        if self._next < len(self._values):
            raise ModelError(
                f"{self._label} has {len(self._values)} weights, and the network takes {self._next}: "
                "the file is of another network"
            )


def _header(data: memoryview, label: str) -> tuple[int, bool]:
    """The number of bytes before the numbers, and True if matrices are transposed."""
    if len(data) < 16:
        raise ModelError(f"{label} ({len(data)} bytes) is truncated: it has no header of Darknet's weights")
    major, minor, _ = struct.unpack_from("<3i", data)
    if not (0 <= major < 1 << 20 and 0 <= minor < 1 << 20):
        raise ModelError(f"{label} is no weights file of Darknet: it says version {major}.{minor}")
    wide = major * 10 + minor >= 2 and major < 1000 and minor < 1000  # the number of images seen, in 64 bits since 0.2
    return (20 if wide else 16), major > 1000 or minor > 1000
