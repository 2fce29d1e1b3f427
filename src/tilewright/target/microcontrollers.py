"""Processors of boards without an operating system, for which models are written as C: `Target("c -mcpu=cortex-m4")`.

Their code is C99 for any compiler; instructions that one core has and another lacks stand behind macros of the
compiler, with plain C beside them. "generic" assumes nothing but pointers and registers of 32 bits.
"""

from __future__ import annotations

#: Features: "dsp" are the instructions on pairs of 16-bit numbers, "mve" Helium, "fp" floats, "m" products.
_THUMB, _RISCV = "thumb", "riscv32"

#: name -> (architecture, triple, features)
MICROCONTROLLERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "generic": ("portable", "portable-none-elf", ()),
    "cortex-m0": (_THUMB, "thumbv6m-none-eabi", ()),
    "cortex-m3": (_THUMB, "thumbv7m-none-eabi", ()),
    "cortex-m4": (_THUMB, "thumbv7em-none-eabihf", ("dsp", "fp")),
    "cortex-m7": (_THUMB, "thumbv7em-none-eabihf", ("dsp", "fp")),
    "cortex-m33": (_THUMB, "thumbv8m.main-none-eabihf", ("dsp", "fp")),
    "cortex-m55": (_THUMB, "thumbv8.1m.main-none-eabihf", ("dsp", "fp", "mve")),
    "riscv32-imac": (_RISCV, "riscv32-none-elf", ("a", "c", "m")),
    "riscv32-imafc": (_RISCV, "riscv32-none-elf", ("a", "c", "f", "m")),
}

#: Architectures of which only C is written.
WITHOUT_SYSTEM = frozenset(architecture for architecture, _, _ in MICROCONTROLLERS.values())
