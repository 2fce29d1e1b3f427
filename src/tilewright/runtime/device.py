"""Devices, by the classic names: `cpu()` is the one there is."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import UnsupportedError


@dataclass(frozen=True)
class Device:
    """A kind of device and its number; `dlpack` is the pair DLPack uses."""

    kind: str
    number: int = 0

    @property
    def dlpack(self) -> tuple[int, int]:
        """(device type, device number) as in DLPack."""
        return (1, self.number)

    def __str__(self) -> str:
        return f"{self.kind}({self.number})"


def cpu(number: int = 0) -> Device:
    """The host processor with its memory. Raises UnsupportedError for a number other than 0."""
    if number != 0:
        raise UnsupportedError(f"there is one CPU device, cpu(0); cpu({number}) was requested")
    return Device("cpu", number)
