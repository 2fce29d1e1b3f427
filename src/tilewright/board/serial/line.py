"""A serial line of this machine by the system's own calls: raw bytes of a terminal device, with a time to wait."""

from __future__ import annotations

import os
import select
import termios
import time

from tilewright.errors import EnvironmentError_

#: Bits a second.
BAUD = 115200


class SerialLine:
    """An open line, 8 bits, no parity, one stop bit, nothing translated."""

    def __init__(self, path: str, baud: int = BAUD) -> None:
        """Open a device, as /dev/ttyACM0 or a pseudoterminal. Raises `EnvironmentError_`."""
        self.path = path
        rate = getattr(termios, f"B{baud}", None)
        if rate is None:
            raise EnvironmentError_(f"this system has no serial lines of {baud} bits a second")
        try:
            self._file = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            control = termios.CS8 | termios.CREAD | termios.CLOCAL
            characters = termios.tcgetattr(self._file)[6]
            termios.tcsetattr(self._file, termios.TCSANOW, [0, 0, control, 0, rate, rate, characters])
            termios.tcflush(self._file, termios.TCIOFLUSH)
        except (OSError, termios.error) as error:
            raise EnvironmentError_(f"cannot open the serial line {path}: {error}") from None

    def write(self, data: bytes, seconds: float) -> None:
        """Send bytes; what the line does not take within so many seconds is dropped. Raises `EnvironmentError_`."""
        deadline = time.monotonic() + seconds
        left = memoryview(data)
        while left and select.select([], [self._file], [], max(deadline - time.monotonic(), 0))[1]:
            try:
                left = left[os.write(self._file, left) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._lost(error) from None

    def read(self, seconds: float) -> bytes:
        """Some bytes, none if no byte comes within so many seconds. Raises `EnvironmentError_`."""
        if not select.select([self._file], [], [], max(seconds, 0))[0]:
            return b""
        try:
            return os.read(self._file, 4096)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise self._lost(error) from None

    def close(self) -> None:
        """Close the line."""
        os.close(self._file)

    def _lost(self, error: OSError) -> EnvironmentError_:
        return EnvironmentError_(f"the serial line {self.path} is gone: {error.strerror or error}")
