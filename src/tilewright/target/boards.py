"""Boards and rented machines by the names that people know, as spellings of targets: `Target("raspberry-pi-4")`.

Processors and cores are those of the makers' data sheets; options behind a name replace them, `"graviton-3 -cores=4"`.
"""

from __future__ import annotations

_ARM, _RISCV = "llvm -mtriple=aarch64-linux-gnu", "llvm -mtriple=riscv64-linux-gnu"

#: name -> spelling
BOARDS = {
    "raspberry-pi-3": f"{_ARM} -mcpu=cortex-a53 -cores=4",
    "raspberry-pi-4": f"{_ARM} -mcpu=cortex-a72 -cores=4",
    "raspberry-pi-5": f"{_ARM} -mcpu=cortex-a76 -cores=4",
    "jetson-nano": f"{_ARM} -mcpu=cortex-a57 -cores=4",
    "jetson-orin": f"{_ARM} -mcpu=cortex-a78 -cores=8",
    "graviton-2": f"{_ARM} -mcpu=neoverse-n1 -cores=64",
    "graviton-3": f"{_ARM} -mcpu=neoverse-v1 -cores=64",
    "graviton-4": f"{_ARM} -mcpu=neoverse-v2 -cores=96",
    "sifive-unmatched": f"{_RISCV} -mcpu=sifive-u74 -cores=4",
    "visionfive-2": f"{_RISCV} -mcpu=sifive-u74 -cores=4",
}


def spelled_board(spec: str) -> str:
    """The spelling of a target that begins with the name of a board; any other spelling as it is."""
    name, _, options = spec.strip().partition(" ")
    if name not in BOARDS:
        return spec
    given = {word.split("=")[0] for word in options.split()}
    kept = [word for word in BOARDS[name].split() if word.split("=")[0] not in given]
    return " ".join([*kept, *options.split()])
