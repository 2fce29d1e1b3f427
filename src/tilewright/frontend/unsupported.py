"""What a model needs and is not supported: gathered while it is converted, told all at once."""

from __future__ import annotations

from tilewright.errors import UnsupportedError


class Unsupported:
    """One line an operator and reason: the first place, and how many there are.

    missing = Unsupported()
    missing.add("Wavelet", "node 'wave' (Wavelet)", "no converter for this operator")
    missing.refuse("model.onnx")       # raises, unless nothing was added
    """

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], dict[str, None]] = {}

    def add(self, operator: str, place: str, reason: str) -> None:
        """`operator` at `place`, as messages name it, cannot be converted; the same place twice counts once."""
        self._places.setdefault((operator, reason), {})[place] = None

    def lines(self) -> list[str]:
        """A line for each operator and reason, in the order in which they were met."""
        return [_line(list(places), reason) for (_, reason), places in self._places.items()]

    def refuse(self, label: str) -> None:
        """Raise the `UnsupportedError` of the model called `label`, unless everything in it is supported."""
        lines = self.lines()
        if len(lines) == 1:
            raise UnsupportedError(f"{label} needs something Tilewright does not support: {lines[0]}")
        if lines:
            listed = "\n".join(f"  {line}" for line in lines)
            raise UnsupportedError(f"{label} needs {len(lines)} things Tilewright does not support:\n{listed}")


def _line(places: list[str], reason: str) -> str:
    more = f" (the first of {len(places)} such nodes)" if len(places) > 1 else ""
    return f"{places[0]}{more}: {reason}"
