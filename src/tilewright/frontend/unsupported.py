"""Unsupported parts of a model: gathered while it is converted, reported all at once."""

from __future__ import annotations

from tilewright.errors import UnsupportedError


class Unsupported:
    """One line an operator and reason: the first position, and how many there are.

    missing = Unsupported()
    missing.add("Wavelet", "node 'wave' (Wavelet)", "no converter for this operator")
    missing.refuse("model.onnx")       # raises, unless nothing was added
    """

    def __init__(self) -> None:
        self._positions: dict[tuple[str, str], dict[str, None]] = {}

    def add(self, operator: str, position: str, reason: str) -> None:
        """`operator` at `position`, as messages name it, cannot be converted; the same position twice counts once."""
        self._positions.setdefault((operator, reason), {})[position] = None

    def lines(self) -> list[str]:
        """A line for each operator and reason, in the order in which they were met."""
        return [_line(list(positions), reason) for (_, reason), positions in self._positions.items()]

    def refuse(self, label: str) -> None:
        """Raise the `UnsupportedError` of the model called `label`, unless everything in it is supported."""
        lines = self.lines()
        if len(lines) == 1:
            raise UnsupportedError(f"{label} needs something Tilewright does not support: {lines[0]}")
        if lines:
            listed = "\n".join(f"  {line}" for line in lines)
            raise UnsupportedError(f"{label} needs {len(lines)} things Tilewright does not support:\n{listed}")


def _line(positions: list[str], reason: str) -> str:
    more = f" (the first of {len(positions)} such nodes)" if len(positions) > 1 else ""
    return f"{positions[0]}{more}: {reason}"
