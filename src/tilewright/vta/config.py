"""A configuration of the accelerator: how wide its numbers are, how large its tiles and its memories.

Everything is a power of two and given by its logarithm, under the names that the public configuration files have. All
else (depths of memories, sizes of their elements, fields of instructions) follows from these nine figures and the
version of the instructions: 1 is the classic encoding, 2 adds to it within its 128 bits, 3 has 256 for larger memories.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from tilewright.errors import UserError

#: The first versions that have the additional operations, and the wide encoding.
EXTENDED, WIDE = 2, 3

#: What each figure may be, and why no more: the arithmetic of the simulators is in whole bytes and 32-bit sums.
_RANGES = {
    "log_inp_width": (3, 4, "inputs have 8 or 16 bits"),
    "log_wgt_width": (3, 4, "weights have 8 or 16 bits"),
    "log_acc_width": (5, 5, "accumulators have 32 bits"),
    "log_batch": (0, 6, "a tile has 1 to 64 rows"),
    "log_block": (0, 7, "a tile has 1 to 128 channels"),
    "log_uop_buff_size": (2, 30, "the memory holds a micro-op of 4 bytes at least"),
    "log_inp_buff_size": (0, 30, "the memory has at most 2^30 bytes"),
    "log_wgt_buff_size": (0, 30, "the memory has at most 2^30 bytes"),
    "log_acc_buff_size": (0, 30, "the memory has at most 2^30 bytes"),
    "isa_version": (1, 3, "1 is classic, 2 extended, 3 extended and wide"),
}


@dataclass(frozen=True)
class Config:
    """Logarithms to the base of two: widths in bits, rows and channels of a tile, memories in bytes.

    A tile of inputs has `batch` × `block` numbers, one of weights `block` × `block`, one of accumulators and outputs
    `batch` × `block`; outputs are as wide as inputs. The default is the accelerator's classic configuration. Raises
    `UserError` naming the figure that is out of its range, or the memory that is smaller than its element.
    """

    log_inp_width: int = 3
    log_wgt_width: int = 3
    log_acc_width: int = 5
    log_batch: int = 0
    log_block: int = 4
    log_uop_buff_size: int = 15
    log_inp_buff_size: int = 15
    log_wgt_buff_size: int = 18
    log_acc_buff_size: int = 17
    isa_version: int = 1

    def __post_init__(self) -> None:
        for name, (low, high, why) in _RANGES.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise UserError(f"{name.upper()} is {value!r}: {why}; use an integer from {low} to {high}")
        for memory in ("uop", "inp", "wgt", "acc"):
            if self._log_depth(memory) < 0:
                size, element = 1 << getattr(self, f"log_{memory}_buff_size"), 1 << self._log_element(memory)
                raise UserError(
                    f"LOG_{memory.upper()}_BUFF_SIZE makes a memory of {size} bytes, and one element has {element}; "
                    f"use at least {self._log_element(memory)}, or smaller tiles"
                )

    def _log_element(self, memory: str) -> int:
        """Logarithm of the bytes of an element of a memory, outputs among them."""
        rows = self.log_block if memory == "wgt" else self.log_batch
        width = {
            "inp": self.log_inp_width,
            "out": self.log_inp_width,
            "wgt": self.log_wgt_width,
            "acc": self.log_acc_width,
        }
        if memory == "uop":
            return 3 if self.isa_version >= WIDE else 2
        return rows + self.log_block + width[memory] - 3

    def _log_depth(self, memory: str) -> int:
        return int(getattr(self, f"log_{memory}_buff_size")) - self._log_element(memory)

    @property
    def batch(self) -> int:
        """Rows of a tile."""
        return 1 << self.log_batch

    @property
    def block(self) -> int:
        """Channels of a tile, those that go in and those that come out."""
        return 1 << self.log_block

    @property
    def macs_per_cycle(self) -> int:
        """Products that one step of GEMM adds up."""
        return self.batch * self.block * self.block

    @property
    def log_uop_depth(self) -> int:
        """Logarithm of the micro-ops that their memory holds."""
        return self._log_depth("uop")

    @property
    def log_inp_depth(self) -> int:
        """Logarithm of the tiles of inputs that their memory holds."""
        return self._log_depth("inp")

    @property
    def log_wgt_depth(self) -> int:
        """Logarithm of the tiles of weights that their memory holds."""
        return self._log_depth("wgt")

    @property
    def log_acc_depth(self) -> int:
        """Logarithm of the tiles of accumulators that their memory holds."""
        return self._log_depth("acc")

    def element_bytes(self, memory: str) -> int:
        """Bytes of one element of "uop", "inp", "wgt", "acc" or "out"."""
        return 1 << self._log_element(memory)

    @property
    def name(self) -> str:
        """The classic name, such as `1x16_i8w8a32_15_15_18_17`, with `_v2` where the version is not 1."""
        widths = f"i{1 << self.log_inp_width}w{1 << self.log_wgt_width}a{1 << self.log_acc_width}"
        sizes = (self.log_uop_buff_size, self.log_inp_buff_size, self.log_wgt_buff_size, self.log_acc_buff_size)
        version = [] if self.isa_version == 1 else [f"v{self.isa_version}"]
        return "_".join([f"{self.batch}x{self.block}", widths, *map(str, sizes), *version])

    def to_json(self) -> str:
        """The figures as a JSON object, which `from_json` reads."""
        return json.dumps({key.upper(): value for key, value in dataclasses.asdict(self).items()}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Config:
        """A configuration from JSON; a figure that is not there has its default. `UserError` where it is malformed."""
        try:
            data: Any = json.loads(text)
        except json.JSONDecodeError as error:
            raise UserError(f"the configuration is not JSON: {error}") from error
        if not isinstance(data, dict):
            raise UserError('the configuration is not a JSON object; write {"LOG_BLOCK": 4, …}')
        known = {name.upper(): name for name in _RANGES}
        if strange := [key for key in data if key not in known]:
            raise UserError(f"the configuration has {strange[0]!r}, which is none of {', '.join(known)}")
        return cls(**{known[key]: value for key, value in data.items()})
