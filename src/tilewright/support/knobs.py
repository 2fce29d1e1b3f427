"""Every environment variable Tilewright reads, all typed and described.

A knob is read from the environment at each use, so a test or a program may change it while running. A
value that does not parse is an `EnvironmentError_` that names the variable, the value and what is expected.
`tilewright doctor` prints this table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from tilewright.errors import EnvironmentError_

T = TypeVar("T")


@dataclass(frozen=True)
class Knob(Generic[T]):
    """One environment variable: its name, the value when it is unset, how its text is read, and what it does."""

    name: str
    default: T
    parse: Callable[[str], T]
    expects: str
    help: str

    def get(self) -> T:
        """The value in force now. Raises `EnvironmentError_` when the variable holds something unreadable."""
        text = os.environ.get(self.name, "").strip()
        if not text:
            return self.default
        try:
            return self.parse(text)
        except ValueError:
            raise EnvironmentError_(
                f"environment variable {self.name}={text!r} is not valid: expected {self.expects}"
            ) from None


def parse_positive_int(text: str) -> int:
    """An integer of at least 1, else `ValueError`."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def parse_first_positive_int(text: str) -> int:
    """The first entry of OpenMP's comma-separated list of nesting levels: ``"4,2"`` is 4."""
    return parse_positive_int(text.split(",")[0].strip())


def parse_switch(text: str) -> bool:
    """1/on/true/yes or 0/off/false/no, else `ValueError`."""
    word = text.lower()
    if word in ("1", "on", "true", "yes"):
        return True
    if word in ("0", "off", "false", "no"):
        return False
    raise ValueError(text)


def parse_bytes(text: str) -> int:
    """A size in bytes with an optional binary suffix: ``"512M"`` is 512 * 2**20. Raises ValueError for other text."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)i?b?", text.lower())
    if match is None:
        raise ValueError(text)
    return int(match.group(1)) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match.group(2)]


def parse_seconds(text: str) -> float:
    """Seconds of at least 0, else `ValueError`."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError(text)
    return value


def _parse_path(text: str) -> Path:
    return Path(text).expanduser()


def parse_processor(text: str) -> str:
    """The spelling of a CPU target, such as ``"llvm -mcpu=haswell"``, else `ValueError`."""
    if text.split()[0] not in ("cpu", "llvm"):
        raise ValueError(text)
    return text


TARGET: Knob[str | None] = Knob(
    "TILEWRIGHT_TARGET", None, parse_processor, "a CPU target such as 'llvm -mcpu=haswell'",
    "the processor that the target `cpu` stands for (default: this machine)",
)  # fmt: skip
NUM_THREADS: Knob[int | None] = Knob(
    "TILEWRIGHT_NUM_THREADS", None, parse_positive_int, "an integer of at least 1",
    "worker threads of a compiled model; overrides OMP_NUM_THREADS and what the machine allows",
)  # fmt: skip
OMP_NUM_THREADS: Knob[int | None] = Knob(
    "OMP_NUM_THREADS", None, parse_first_positive_int, "an integer of at least 1",
    "honoured as an upper bound on the default number of worker threads",
)  # fmt: skip
CACHE: Knob[bool] = Knob(
    "TILEWRIGHT_CACHE", True, parse_switch, "1 or 0", "0 switches the disk cache off",
)  # fmt: skip
CACHE_DIR: Knob[Path | None] = Knob(
    "TILEWRIGHT_CACHE_DIR", None, _parse_path, "a directory path",
    "where compiled code is cached (default: $XDG_CACHE_HOME/tilewright or ~/.cache/tilewright)",
)  # fmt: skip
CACHE_SIZE: Knob[int] = Knob(
    "TILEWRIGHT_CACHE_SIZE", 4 << 30, parse_bytes, "a size such as 512M or 4G",
    "upper bound of the disk cache; the least recently used entries go first",
)  # fmt: skip
CALIBRATION: Knob[bool] = Knob(
    "TILEWRIGHT_CALIBRATION", True, parse_switch, "1 or 0",
    "0 ignores what `tilewright doctor --calibrate` measured of this machine; shipped figures are used",
)  # fmt: skip
HUGE_PAGES: Knob[bool] = Knob(
    "TILEWRIGHT_HUGE_PAGES", True, parse_switch, "1 or 0",
    "0 stops asking the kernel for huge pages for a model's working memory",
)  # fmt: skip
PLUGINS: Knob[bool] = Knob(
    "TILEWRIGHT_PLUGINS", True, parse_switch, "1 or 0", "0 leaves the plug-ins of installed packages alone"
)
DEBUG_INFO: Knob[bool] = Knob(
    "TILEWRIGHT_DEBUG_INFO", False, parse_switch, "1 or 0",
    "1 notes in compiled code the lines it was made of, for debuggers and profilers; such code is not cached",
)  # fmt: skip
DEVICE_TIMEOUT: Knob[float] = Knob(
    "TILEWRIGHT_DEVICE_TIMEOUT", 300.0, parse_seconds, "a number of seconds, 0 for no limit",
    "time after which a GPU that does not finish its work is given up",
)  # fmt: skip
OPENCL_DEVICE: Knob[str | None] = Knob(
    "TILEWRIGHT_OPENCL_DEVICE", None, str, "a number of the list of `tilewright doctor` or a part of a device's name",
    "the OpenCL device to use (default: the first GPU, else the first device)",
)  # fmt: skip
RPC_BUNDLE: Knob[Path | None] = Knob(
    "TILEWRIGHT_RPC_BUNDLE", None, _parse_path, "a directory path",
    "the certificate (`tilewright rpc init`) of classic programs that use `tvm.rpc` (default: this machine alone)",
)  # fmt: skip
TEST_TARGETS: Knob[str] = Knob(
    "TVM_TEST_TARGETS", "llvm", str, "targets, separated by semicolons",
    "the targets that tests of classic programs (`tvm.testing`) run on",
)  # fmt: skip


def all_knobs() -> tuple[Knob[Any], ...]:
    """Every knob, in the order `tilewright doctor` lists them."""
    figures = (TARGET, NUM_THREADS, OMP_NUM_THREADS)
    cache = (CACHE, CACHE_DIR, CACHE_SIZE)
    devices = (DEVICE_TIMEOUT, OPENCL_DEVICE)
    return (*figures, *cache, CALIBRATION, HUGE_PAGES, PLUGINS, DEBUG_INFO, *devices, RPC_BUNDLE, TEST_TARGETS)
