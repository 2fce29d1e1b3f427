"""Requests to a board over a serial line (`serial.c`): sent again until answered, in shorter parts where noise is.

Nothing that a request does depends on how often it arrives, so that whatever is lost is sent again. A wrong number
would have to pass the check sum of its frame and that of all inputs or outputs: 1 in 2^64 of those that noise changes.
"""

from __future__ import annotations

import secrets
import struct
import time
import zlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from tilewright.board.serial.frames import Frame
from tilewright.errors import EnvironmentError_, UnsupportedError

#: Seconds in which a request is answered; and how often it is sent.
ANSWER_SECONDS, TRIES = 1.0, 16
#: Bytes of a part: where noise is, half with each loss, and 8 more with each success.
_MOST_PART, _LEAST_PART, _MORE = 256, 16, 8
#: Runs of all inputs and outputs after which a check sum that still differs is an error.
_MOST_ROUNDS = 3
OUTPUTS, KERNELS = 0, 1
_HELLO, _RAN, _COUNT = struct.Struct("<IIIH"), struct.Struct("<IIIQI"), struct.Struct("<H")
_REFUSED, _OTHER_INPUTS = "x", b"\x02"


class Line(Protocol):
    """A carrier of bytes: `SerialLine`."""

    def write(self, data: bytes, seconds: float) -> None:
        """Send bytes."""

    def read(self, seconds: float) -> bytes:
        """Some bytes that have come."""


class Ran(NamedTuple):
    """A run: the model's code, memory around the workspace as before, bytes of stack, ticks, the outputs' check sum."""

    code: int
    intact: int
    stack: int
    ticks: int
    check: int


class Conversation:
    """A board that was asked who it is."""

    def __init__(self, line: Line, name: str, seconds: float = ANSWER_SECONDS) -> None:
        """`name` is the board's, for messages; `seconds` those of an answer. Raises `EnvironmentError_`."""
        self._line, self._name, self._seconds = line, name, seconds
        self._part, self._most, self._got = _MOST_PART, _MOST_PART, b""
        self._number, self._runs = secrets.randbits(16), secrets.randbits(31)
        self.fingerprint, self.input_bytes, self.output_bytes, most = _HELLO.unpack(self._ask("H", b"").body)
        self._most = min(most, _MOST_PART)

    def run(self, inputs: bytes, seconds: float) -> tuple[Ran, bytes]:
        """One run on the bytes of all inputs, and the bytes of all outputs; `seconds` is the longest that it may take.

        Raises `EnvironmentError_` where the board does not answer, or noise gets through check sums.
        """
        for _ in range(_MOST_ROUNDS):
            self._write(inputs)
            self._runs = (self._runs + 1) & 0xFFFFFFFF or 1
            answer = self._ask("R", struct.pack("<II", self._runs, zlib.crc32(inputs)), seconds)
            if answer.kind == _REFUSED:
                continue
            ran = Ran(*_RAN.unpack(answer.body))
            outputs = self.read(OUTPUTS, self.output_bytes)
            if zlib.crc32(outputs) == ran.check:
                return ran, outputs
        raise EnvironmentError_(
            f"the board {self._name} was reset, or its line changes bytes that its frames do not show"
        )

    def read(self, region: int, count: int) -> bytes:
        """So many bytes of the outputs, or of the counts of kernels, of the last run."""
        found = b""
        while len(found) < count:
            found += self._ask("G", partial(_part_wanted, region, len(found), count)).body
        return found

    def _write(self, data: bytes) -> None:
        start = 0
        while start < len(data):
            start += _COUNT.unpack(self._ask("W", partial(_part_of, data, start)).body)[0]

    def _ask(self, kind: str, body: bytes | Callable[[int], bytes], seconds: float | None = None) -> Frame:
        """The answer to a request, whose body may be made anew for a size of its part each time.

        With `seconds` the board may take as long as that, and is asked again in between at growing distances.
        """
        ends = None if seconds is None else time.monotonic() + seconds
        patience = self._seconds
        for tried in range(1 << 30):
            sent = body if isinstance(body, bytes) else body(self._part)
            answer = self._exchange(kind, sent, patience)
            if answer is not None:
                self._part = min(self._part + _MORE, self._most)
                return answer
            self._part = max(self._part // 2, _LEAST_PART)
            if tried + 1 >= TRIES if ends is None else time.monotonic() > ends:
                break
            if ends is not None:
                patience = min(2 * patience, max(ends - time.monotonic(), self._seconds))
        waited = f"{TRIES} requests" if seconds is None else f"a request to run within {seconds:g} s"
        raise EnvironmentError_(
            f"the board {self._name} does not answer {waited} over its serial line: see that it runs the program that "
            "was built for it, at this speed"
        )

    def _exchange(self, kind: str, body: bytes, seconds: float) -> Frame | None:
        """Send a request once; its answer, None if none comes."""
        self._number = (self._number + 1) & 0xFFFF
        self._line.write(Frame(self._number, kind, body).to_bytes(), seconds)
        deadline = time.monotonic() + seconds
        while True:
            *whole, self._got = self._got.split(b"\0")
            for position, part in enumerate(whole):
                frame = Frame.of(part)
                if frame is None or frame.number != self._number:
                    continue
                self._got = b"\0".join([*whole[position + 1 :], self._got])
                if frame.kind == kind.lower() or (frame.kind, frame.body) == (_REFUSED, _OTHER_INPUTS):
                    return frame
                raise UnsupportedError(
                    f"the board {self._name} refuses a request {kind!r}: another protocol's firmware"
                )
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self._got += self._line.read(left)


def _part_wanted(region: int, start: int, count: int, size: int) -> bytes:
    return struct.pack("<BIH", region, start, min(size, count - start))


def _part_of(data: bytes, start: int, size: int) -> bytes:
    return struct.pack("<I", start) + data[start : start + size]
