"""The boards that qemu has, as a table: processor, memories, the timer that counts instructions."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import InputError
from tilewright.support.suggestion import nearest

_ARM, _RISCV = "arm-none-eabi-", "riscv64-unknown-elf-"
_HARD = ("-mthumb", "-mfloat-abi=hard")

#: What the compilers need to know of each processor.
FLAGS: dict[str, tuple[str, ...]] = {
    "cortex-m0": ("-mcpu=cortex-m0", "-mthumb"),
    "cortex-m3": ("-mcpu=cortex-m3", "-mthumb"),
    "cortex-m4": ("-mcpu=cortex-m4", *_HARD, "-mfpu=fpv4-sp-d16"),
    "cortex-m7": ("-mcpu=cortex-m7", *_HARD, "-mfpu=fpv5-sp-d16"),
    "cortex-m33": ("-mcpu=cortex-m33", *_HARD, "-mfpu=fpv5-sp-d16"),
    "cortex-m55": ("-mcpu=cortex-m55", *_HARD),
    "riscv32-imac": ("-march=rv32imac", "-mabi=ilp32", "-misa-spec=2.2", "-mcmodel=medany"),
    "riscv32-imafc": ("-march=rv32imafc", "-mabi=ilp32f", "-misa-spec=2.2", "-mcmodel=medany"),
}


@dataclass(frozen=True)
class Board:
    """A board: its processor, the command of its emulator, and its memories as (address, bytes).

    `vectors` is the address of the first instructions or the table of exceptions. `timer` is the address of a counter
    that advances with `mhz`, while qemu runs 1,000 instructions in a microsecond; 0 where the processor counts them.
    `serial` is the address of its UART, a CMSDK one beside such a timer, else a 16550; 0 where it is not known.
    `vta` is the address of VTA's registers where the board has one; all its memory is then in `shared` bytes of RAM.
    """

    name: str
    cpu: str
    emulator: tuple[str, ...]
    vectors: int
    code: tuple[int, int]
    ram: tuple[int, int]
    timer: int = 0
    mhz: int = 0
    serial: int = 0
    vta: int = 0
    shared: int = 0

    @property
    def target(self) -> str:
        """The target of models for it."""
        return f"vta -host={self.cpu}" if self.vta else f"c -mcpu={self.cpu}"

    @property
    def prefix(self) -> str:
        """The start of the names of its compiler and tools."""
        return _ARM if self.cpu.startswith("cortex") else _RISCV

    def instructions(self, counted: int) -> int:
        """The instructions that a difference of the board's counter stands for."""
        return round(counted * 1000 / self.mhz) if self.timer else counted

    def flags(self, cpu: str = "") -> tuple[str, ...]:
        """The compiler's flags for a processor, by default the board's own. Raises `InputError` for another kind."""
        cpu = cpu if cpu in FLAGS else self.cpu
        if cpu.startswith("cortex") != self.cpu.startswith("cortex"):
            raise InputError(f"the board {self.name} has a {self.cpu}, which runs no code for {cpu}")
        return FLAGS[cpu]


_MIB = 1 << 20


def _mps(
    name: str,
    cpu: str,
    code: int,
    ram: int,
    timer: int,
    mhz: int,
    serial: int,
    size: int = 4,
    vectors: int | None = None,
) -> Board:
    emulator, start = ("qemu-system-arm", "-M", name), code if vectors is None else vectors
    return Board(name, cpu, emulator, start, (code, size * _MIB), (ram, size * _MIB), timer, mhz, serial)


_VIRT = ("qemu-system-riscv32", "-M", "virt", "-bios", "none", "-m", "128M")
_VIRT_RAM = ((0x80000000, 32 * _MIB), (0x82000000, 64 * _MIB))
_ROWS = (
    _mps("mps2-an385", "cortex-m3", 0, 0x20000000, 0x40000000, 25, 0x40004000),
    _mps("mps2-an386", "cortex-m4", 0, 0x20000000, 0x40000000, 25, 0x40004000),
    _mps("mps2-an500", "cortex-m7", 0, 0x20000000, 0x40000000, 25, 0x40004000),
    _mps("mps2-an505", "cortex-m33", 0x10000000, 0x38000000, 0x50000000, 20, 0x50200000),
    # its 2 MiB of SRAM do not hold magika's weights: code, constants and memory are in its DRAM
    _mps("mps3-an547", "cortex-m55", 0x60000000, 0x60800000, 0xE000E010, 32, 0x59303000, size=8, vectors=0),
    Board("virt", "riscv32-imac", _VIRT, 0x80000000, *_VIRT_RAM, serial=0x10000000),
    Board("virt+vta", "riscv32-imac", _VIRT, 0x80000000, *_VIRT_RAM, vta=0x87FFF000, shared=128 * _MIB),
)
BOARDS = {board.name: board for board in _ROWS}


def board_named(name: str) -> Board:
    """The board of this name, or any with the processor of this name. Raises `InputError` for another."""
    if name in FLAGS:
        return Board(name, name, (), 0, (0, 0), (0, 0))
    if name not in BOARDS:
        raise InputError(f"there is no board {name!r}{nearest(name, list(BOARDS))}; known: {', '.join(BOARDS)}")
    return BOARDS[name]
