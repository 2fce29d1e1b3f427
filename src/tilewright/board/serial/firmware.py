"""The C of a board's firmware: a model, `serial.c` around it, and for a board under qemu its start and its UART."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from tilewright.board.boards import Board
from tilewright.board.image import BoardProgram
from tilewright.board.program import COMMON, KERNELS, model_calls, start_text
from tilewright.runtime.memory import round_up
from tilewright.runtime.signature import TensorSpec

#: Inputs and outputs begin at multiples of so many bytes.
_ALIGNMENT = 16

_FAULT = """
void fault(void);
__attribute__((aligned(4))) void fault(void) {
  for (;;) {}
}
"""

#: Until a byte is there the processor sleeps: an emulator then takes no time of this machine. Interrupts wake it, and
#: are never taken.
_CMSDK = """
static volatile uint32_t *const uart = (volatile uint32_t *)SERIAL;
static volatile uint32_t *const pending = (volatile uint32_t *)0xe000e280;
static void serial_start(void) {
  uint32_t i;
  __asm__ volatile("cpsid i");
  for (i = 0; i < 3; i++) ((volatile uint32_t *)0xe000e100)[i] = 0xffffffffu;
  uart[4] = 16;
  uart[2] = 11; /* transmit, receive, an interrupt for what is received */
}
static uint8_t serial_get(void) {
  for (;;) {
    uart[3] = 2;
    pending[0] = pending[1] = pending[2] = 0xffffffffu;
    if (uart[1] & 2u) return (uint8_t)uart[0];
    __asm__ volatile("wfi");
  }
}
static void serial_put(uint8_t byte) {
  while (uart[1] & 1u) {}
  uart[0] = byte;
}
"""
_NS16550 = """
static volatile uint8_t *const uart = (volatile uint8_t *)SERIAL;
static volatile uint32_t *const claim = (volatile uint32_t *)0x0c200004;
static void serial_start(void) {
  *(volatile uint32_t *)(0x0c000000 + 4 * 10) = 1; /* PLIC: the UART is interrupt 10 */
  *(volatile uint32_t *)0x0c002000 = 1u << 10;
  *(volatile uint32_t *)0x0c200000 = 0;
  __asm__ volatile("csrw mie, %0" : : "r"(1u << 11));
  uart[1] = 1;
}
static uint8_t serial_get(void) {
  while (!(uart[5] & 1u)) {
    __asm__ volatile("wfi");
    *claim = *claim;
  }
  return uart[0];
}
static void serial_put(uint8_t byte) {
  while (!(uart[5] & 0x20u)) {}
  uart[0] = byte;
}
"""

_BEGIN = """
static uint64_t serial_count(void) { return counted(); }
"""
_END = """
int board_main(void) {
  start_counting();
  serial_start();
  serial_serve();
  return 0;
}
"""
_BROUGHT = """\
#include "board_model.h"
uint8_t serial_get(void);
void serial_put(uint8_t byte);
uint64_t serial_count(void);
static void serial_serve(void);
void tilewright_serve(void);
void tilewright_serve(void) { serial_serve(); }
"""
_NO_KERNELS = "static uint8_t kernels[1];\n"


def fingerprint(program: BoardProgram) -> int:
    """A number of 32 bits by which firmware is known to be a program's."""
    return zlib.crc32((program.header + program.source).encode())


def firmware(program: BoardProgram, board: Board, kernels: bool = False) -> str:
    """The C around a program for a board whose UART is known."""
    uart = _CMSDK if board.timer else _NS16550
    head = f"#define SERIAL {board.serial:#x}u\n#define SERIAL_STACK board_stack_low\n"
    counts = KERNELS if kernels else _NO_KERNELS
    parts = (COMMON, _FAULT, start_text(board), head, uart, counts, _BEGIN, _model_text(program), _loop(), _END)
    return "".join(parts)


def write_sources(program: BoardProgram, folder: Path) -> None:
    """Write a program for a project that brings `serial_get`, `serial_put` and `serial_count` along."""
    (folder / f"{program.name}.h").write_text(program.header)
    (folder / "board_model.h").write_text(f'#include "{program.name}.h"\n')
    (folder / "model.c").write_text(program.source)
    (folder / "serial.c").write_text(_BROUGHT + _NO_KERNELS + _model_text(program) + _loop())


def _loop() -> str:
    return (resources.files(__package__) / "serial.c").read_text()


def _model_text(program: BoardProgram) -> str:
    """The definitions in front of `serial.c`: sizes, memory and calls of the models."""
    interface = program.interface
    lines = [
        f"#define SIZE {interface.workspace_size}u",
        f"#define GUARD {max(64, interface.alignment)}u",
        f"#define FINGERPRINT {fingerprint(program):#x}u",
        "static uint8_t room[GUARD + SIZE + GUARD] __attribute__((aligned(GUARD)));",
    ]
    for kind, constant, specs in (("input", "const ", interface.inputs), ("output", "", interface.outputs)):
        starts = offsets(specs)
        lines.append(f"#define {kind.upper()}_BYTES {starts[-1]}u")
        lines.append(f"static uint8_t {kind}_area[{max(starts[-1], 1)}] __attribute__((aligned({_ALIGNMENT})));")
        pointers = ", ".join(f"{kind}_area + {start}" for start in starts[:-1]) or "0"
        lines.append(f"static {constant}void *const {kind}s[] = {{{pointers}}};")
    calls = " ".join(model_calls(program.functions, "code"))
    return "\n".join([*lines, f"#define MODEL_CALLS{calls}", ""])


def offsets(specs: Sequence[TensorSpec]) -> list[int]:
    """The first byte of each tensor in those of all, and the end of these."""
    found = [0]
    for spec in specs:
        found.append(round_up(found[-1] + spec.nbytes, _ALIGNMENT))
    return found
