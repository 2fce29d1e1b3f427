"""The registers of the accelerator's control interface, 32 bits each.

Bit 0 of the control register, written, launches a program; read, it is set while one runs, and bit 1 when it has ended.
"""

from __future__ import annotations

#: Offsets in bytes. Those by the names of memories are the bytes where these begin in DRAM, ACC_8BIT where OUT does.
REGISTERS = {
    "control": 0x00, "cycles": 0x04, "count": 0x08, "instructions": 0x0C,
    "UOP": 0x10, "INP": 0x14, "WGT": 0x18, "ACC": 0x1C, "OUT": 0x20,
}  # fmt: skip
