"""A client of qemu's debugger stub: stops where the processor is about to touch an address, and what it has counted.

With `-icount` qemu stops before the instruction that touches a watched address, at an exact count of instructions.
"""

from __future__ import annotations

import re
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import EnvironmentError_


@dataclass(frozen=True)
class Stop:
    """A stop before an instruction that touches the watched address; `writes` is False for one that reads it."""

    writes: bool


class Debugger:
    """The connection to the stub that listens at a socket in the file system; the processor stands still."""

    def __init__(self, path: Path, seconds: float) -> None:
        """Connect, for at most so many seconds; each answer may take as long."""
        self._socket, self._read = socket.socket(socket.AF_UNIX), b""
        self._socket.settimeout(seconds)
        deadline = time.monotonic() + seconds
        while True:
            try:
                self._socket.connect(str(path))
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise EnvironmentError_("the emulator does not answer its debugger") from None
                time.sleep(0.005)  # it has just been started
        self._ask("qSupported:xmlRegisters=riscv")
        self._ask("qXfer:features:read:target.xml:0,ffb")
        self._counters = [self._register_number(name) for name in ("minstreth", "minstret")]

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def watch(self, address: int, on: bool = True) -> None:
        """Stop at reads and writes of the word at an address, or no longer."""
        for kind in (2, 3):
            self._ask(f"{'Z' if on else 'z'}{kind},{address:x},4")

    def step(self, address: int) -> None:
        """Execute the instruction at which the processor stopped for a watched address."""
        self.watch(address, on=False)
        self._ask("s")
        self.watch(address)

    def resume(self) -> Stop | None:
        """Let the processor run to its next stop; None where it has ended."""
        answer = self._ask("c")
        if answer[:1] != "T":
            return None
        return Stop(writes=";watch:" in answer)

    def instructions(self) -> int:
        """Instructions that the processor has executed."""
        high, low = (int.from_bytes(bytes.fromhex(self._ask(f"p{n:x}")), "little") for n in self._counters)
        return high << 32 | low

    def _register_number(self, name: str) -> int:
        text, offset = "", 0
        while True:
            part = self._ask(f"qXfer:features:read:riscv-csr.xml:{offset:x},ffb")
            text, offset = text + part[1:], offset + len(part) - 1
            if part[:1] != "m":
                break
        found = re.search(rf'name="{name}"[^>]*regnum="(\d+)"', text)
        if found is None:
            raise EnvironmentError_(f"the emulator's processor has no counter {name}")
        return int(found[1])

    def _ask(self, command: str) -> str:
        """The answer to a command, "" where the emulator has ended."""
        data = command.encode()
        try:
            self._socket.sendall(b"$%b#%02x" % (data, sum(data) & 255))
            answer = self._answer()
        except TimeoutError:
            raise EnvironmentError_(f"the board did not stop within {self._socket.gettimeout():g} s") from None
        except OSError:
            return ""
        return answer

    def _answer(self) -> str:
        while True:
            found = re.search(rb"\$([^#]*)#..", self._read, re.DOTALL)
            if found:
                self._read = self._read[found.end() :]
                self._socket.sendall(b"+")
                return found[1].decode()
            more = self._socket.recv(1 << 16)
            if not more:
                return ""
            self._read += more
