"""A chip's properties beside its configuration: the width of its memory port, bursts, depths of queues, the memory's
delay.

None of it changes what a program computes; all of it changes how long that takes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tilewright.errors import UserError

#: AXI: no burst crosses a boundary of so many bytes, and has at most so many beats.
_BURST_BYTES, _BURST_BEATS = 4096, 256


@dataclass(frozen=True)
class Hardware:
    """Bytes of a beat, beats of the longest burst, instructions that a unit's queue holds, cycles to the first beat.

    `requests` bursts may be under way at once. Raises `UserError` for what cannot be built.
    """

    port_bytes: int = 8
    burst: int = 256
    queue: int = 64
    requests: int = 16
    latency: int = 16

    def __post_init__(self) -> None:
        for name, low, high in (
            ("port_bytes", 4, 64),
            ("burst", 16, min(_BURST_BEATS, _BURST_BYTES // max(self.port_bytes, 1))),
            ("queue", 4, 1024),
            ("requests", 1, 64),
        ):
            value = getattr(self, name)
            if type(value) is not int or value & (value - 1) or not low <= value <= high:
                raise UserError(f"{name} of the hardware is {value!r}; use a power of two from {low} to {high}")
        if type(self.latency) is not int or not 1 <= self.latency <= _BURST_BYTES:
            raise UserError(f"latency of the hardware is {self.latency!r}; use 1 to {_BURST_BYTES} cycles")

    def to_dict(self) -> dict[str, int]:
        """The figures by name."""
        return dataclasses.asdict(self)
