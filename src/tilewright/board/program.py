"""The C text around a model on a board: start, files by semihosting, counts of instructions, a painted stack.

The program reads `inputs.bin`, runs the model once, and writes `outputs.bin` and `figures.bin`: the model's code, the
counted instructions (as ticks of the timer where the board has one), bytes of stack that the run used, whether the
memory around the workspace is as before, and the instructions before the run. Nothing of a C library is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.board.boards import Board
from tilewright.runtime.c_interface import CInterface

#: Bytes at the end of RAM that belong to the stack.
STACK_BYTES = 1 << 16

LINKER = """\
MEMORY {{
  VECTORS (rx) : ORIGIN = {vectors:#x}, LENGTH = {vector_bytes:#x}
  CODE (rx) : ORIGIN = {code:#x}, LENGTH = {code_bytes:#x}
  RAM (rw) : ORIGIN = {ram:#x}, LENGTH = {ram_bytes:#x}
}}
ENTRY(reset)
SECTIONS {{
  .vectors : {{ KEEP(*(.vectors)) }} > VECTORS
  .text : {{ *(.text .text.* .rodata .rodata.* .srodata .srodata.*) . = ALIGN(8); }} > CODE
  .ARM.exidx : {{ *(.ARM.exidx*) }} > CODE
  .data : {{ *(.data .data.* .sdata .sdata.*) }} > RAM
  .bss (NOLOAD) : {{ *(.bss .bss.* .sbss .sbss.* COMMON) . = ALIGN(16); }} > RAM
  board_stack_low = ALIGN(16);
  board_stack_top = board_stack_low + {stack:#x};
  tilewright_vta_registers = {vta:#x};
  ASSERT(board_stack_top <= {ram:#x} + {ram_bytes:#x}, "the stack does not fit behind the data")
}}
"""

COMMON = """\
#include "board_model.h"

#include <stddef.h>
#include <stdint.h>

extern uint8_t board_stack_low[], board_stack_top[];
int board_main(void);

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
  uint8_t *a = to;
  const uint8_t *b = from;
  if (!(((uintptr_t)a | (uintptr_t)b) & 3u))
    for (; bytes >= 4; bytes -= 4, a += 4, b += 4) *(uint32_t *)(void *)a = *(const uint32_t *)(const void *)b;
  while (bytes--) *a++ = *b++;
  return to;
}

void *memset(void *to, int value, size_t bytes) {
  uint8_t *a = to;
  uint32_t word = (uint8_t)value * 0x01010101u;
  if (!((uintptr_t)a & 3u))
    for (; bytes >= 4; bytes -= 4, a += 4) *(uint32_t *)(void *)a = word;
  while (bytes--) *a++ = (uint8_t)value;
  return to;
}
"""

_ARM_HOST = """
static uintptr_t host(uintptr_t operation, const void *arguments) {
  register uintptr_t r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = arguments;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

static void fault(void) {
  host(0x18, (const void *)0x20023);
  for (;;) {}
}
"""

_ARM_START = """
void reset(void);
__attribute__((section(".vectors"), used)) const void *const vectors[16] = {
  board_stack_top, reset, fault, fault, fault, fault, fault
};

__attribute__((naked)) void reset(void) {
  __asm__ volatile(
    "ldr r0, =0xe000ed88\\n ldr r1, [r0]\\n ldr r2, =0xf00000\\n orr r1, r2\\n str r1, [r0]\\n dsb\\n isb\\n"
#if defined(__ARM_FEATURE_MVE)
    "mov r0, #0x40000\\n vmsr fpscr, r0\\n"
#endif
    "bl board_main\\n b .\\n .ltorg");
}

static volatile uint32_t *const timer = (volatile uint32_t *)TIMER;
#if TIMER == 0xe000e010u /* SysTick */
static void start_counting(void) {
  timer[1] = 0xffffffu;
  timer[2] = 0;
  timer[0] = 5;
}
static uint64_t counted(void) { return (0xffffffu - timer[2]) & 0xffffffu; }
#else /* a CMSDK timer */
static void start_counting(void) {
  timer[0] = 0;
  timer[2] = 0xffffffffu;
  timer[1] = 0xffffffffu;
  timer[0] = 1;
}
static uint64_t counted(void) { return 0xffffffffu - timer[1]; }
#endif
static const uint64_t begin;
"""

_RISCV_HOST = """
static uintptr_t host(uintptr_t operation, const void *arguments) {
  register uintptr_t a0 __asm__("a0") = operation;
  register const void *a1 __asm__("a1") = arguments;
  __asm__ volatile(
    ".option push\\n .option norvc\\n .balign 16\\n slli x0, x0, 0x1f\\n ebreak\\n srai x0, x0, 7\\n .option pop"
    : "+r"(a0) : "r"(a1) : "memory");
  return a0;
}

void fault(void);
__attribute__((aligned(4))) void fault(void) {
  static const uintptr_t why[2] = {0x20023, 1};
  host(0x18, why);
  for (;;) {}
}
"""

_RISCV_START = """
__attribute__((section(".vectors"), naked, used)) void reset(void) {
  __asm__ volatile(
    "la sp, board_stack_top\\n la t0, fault\\n csrw mtvec, t0\\n"
#if defined(__riscv_flen)
    "li t0, 0x6000\\n csrs mstatus, t0\\n csrw fcsr, x0\\n"
#endif
    "call board_main\\n j .");
}

static uint64_t instructions(void) {
  uint32_t high, low, again;
  do {
    __asm__ volatile("csrr %0, minstreth\\n csrr %1, minstret" : "=r"(high), "=r"(low));
    __asm__ volatile("csrr %0, minstreth" : "=r"(again));
  } while (high != again);
  return (uint64_t)high << 32 | low;
}
static uint64_t begin;
static void start_counting(void) { begin = instructions(); }
static uint64_t counted(void) { return instructions() - begin; }
"""

_MAIN = """
static uintptr_t open_file(const char *name, uintptr_t length, uintptr_t mode) {
  const uintptr_t arguments[3] = {(uintptr_t)name, mode, length};
  return host(1, arguments);
}
static void transfer(uintptr_t operation, uintptr_t file, const void *memory, uintptr_t bytes) {
  const uintptr_t arguments[3] = {file, (uintptr_t)memory, bytes};
  if (bytes) host(operation, arguments);
}
static void close_file(uintptr_t file) { host(2, &file); }

%(buffers)s
static uint8_t room[GUARD + SIZE + GUARD] __attribute__((aligned(GUARD)));
static const void *const inputs[] = {%(inputs)s};
static void *const outputs[] = {%(outputs)s};
static const uint32_t input_bytes[] = {%(input_bytes)s}, output_bytes[] = {%(output_bytes)s};

int board_main(void) {
  uint64_t figures[5];
  uint8_t *low, *mark;
  uintptr_t file = open_file("inputs.bin", 10, 1);
  uint32_t i;
  for (i = 0; i < %(input_count)d; i++) transfer(6, file, inputs[i], input_bytes[i]);
  close_file(file);
  for (i = 0; i < sizeof room; i++) room[i] = 0xa5;
#if defined(__riscv)
  __asm__ volatile("mv %%0, sp" : "=r"(mark));
#else
  __asm__ volatile("mov %%0, sp" : "=r"(mark));
#endif
  for (low = board_stack_low; low < mark; low++) *low = 0xa5;
  start_counting();
  figures[0] = 0;
%(calls)s
  figures[1] = counted();
  for (low = board_stack_low; low < mark && *low == 0xa5; low++) {}
  figures[2] = (uint64_t)(mark - low);
  figures[3] = 1;
  figures[4] = begin;
  for (i = 0; i < GUARD; i++) figures[3] &= room[i] == 0xa5 && room[GUARD + SIZE + i] == 0xa5;
  file = open_file("outputs.bin", 11, 5);
  for (i = 0; i < %(output_count)d; i++) transfer(5, file, outputs[i], output_bytes[i]);
  close_file(file);
  file = open_file("figures.bin", 11, 5);
  transfer(5, file, figures, sizeof figures);
  close_file(file);
%(finish)s#if UINTPTR_MAX > 0xffffffffu || defined(__riscv)
  { static const uintptr_t why[2] = {0x20026, 0}; host(0x18, why); }
#else
  host(0x18, (const void *)0x20026);
#endif
  for (;;) {}
}
"""


#: Functions that the compiler calls as a kernel begins and ends: what is looked up is looked up before or after.
KERNELS = """
#define MOST_KERNELS 512
static struct { uint64_t kernel, spent; } kernels[MOST_KERNELS];
static uint64_t begun[MOST_KERNELS];
static uint32_t kernel_index(void *kernel) {
  uint32_t i = 0;
  while (i < MOST_KERNELS - 1 && kernels[i].kernel && kernels[i].kernel != (uintptr_t)kernel) i++;
  kernels[i].kernel = (uintptr_t)kernel;
  return i;
}
void __cyg_profile_func_enter(void *kernel, void *site);
void __cyg_profile_func_enter(void *kernel, void *site) {
  uint32_t i = kernel_index(kernel);
  (void)site;
  begun[i] = counted();
}
void __cyg_profile_func_exit(void *kernel, void *site);
void __cyg_profile_func_exit(void *kernel, void *site) {
  uint64_t end = counted();
  uint32_t i = kernel_index(kernel);
  (void)site;
  kernels[i].spent += end - begun[i];
}
"""
_FINISH_KERNELS = """\
  file = open_file("kernels.bin", 11, 5);
  transfer(5, file, kernels, sizeof kernels);
  close_file(file);
"""


def linker_script(board: Board) -> str:
    """The linker's script for a board."""
    (code, code_bytes), (ram, ram_bytes) = board.code, board.ram
    together = board.vectors == code
    head = 0x400
    return LINKER.format(
        vectors=board.vectors,
        vector_bytes=head,
        code=code + head * together,
        code_bytes=code_bytes - head * together,
        ram=ram,
        ram_bytes=ram_bytes,
        stack=STACK_BYTES,
        vta=board.vta,
    )


def program_text(
    board: Board, calls: Sequence[tuple[str, int, int]], interface: CInterface, kernels: bool = False
) -> str:
    """The program that runs models of fixed sizes, each by its name, inputs and outputs, one after the other, once.

    With `kernels` it counts each of theirs.
    """
    names: dict[str, list[str]] = {"input": [], "output": []}
    sizes: dict[str, list[int]] = {"input": [], "output": []}
    lines = [f"#define SIZE {interface.workspace_size}", f"#define GUARD {max(64, interface.alignment)}"]
    for kind, specs in (("input", interface.inputs), ("output", interface.outputs)):
        for index, spec in enumerate(specs):
            nbytes = spec.nbytes
            lines.append(f"static uint8_t {kind}{index}[{max(nbytes, 1)}] __attribute__((aligned(16)));")
            names[kind].append(f"{kind}{index}")
            sizes[kind].append(nbytes)
    main = _MAIN % {
        "buffers": "\n".join(lines),
        "inputs": ", ".join(names["input"]) or "0",
        "outputs": ", ".join(names["output"]) or "0",
        "input_bytes": ", ".join(map(str, sizes["input"])) or "0",
        "output_bytes": ", ".join(map(str, sizes["output"])) or "0",
        "input_count": len(interface.inputs),
        "output_count": len(interface.outputs),
        "finish": _FINISH_KERNELS if kernels else "",
        "calls": "\n".join(model_calls(calls, "figures[0]")),
    }
    host = _ARM_HOST if board.timer else _RISCV_HOST
    return "".join([COMMON, host, start_text(board), KERNELS if kernels else "", main])


def start_text(board: Board) -> str:
    """The start of a program, which needs a function `fault`, and its count of instructions."""
    return f"#define TIMER {board.timer:#x}u\n{_ARM_START}" if board.timer else _RISCV_START


def model_calls(calls: Sequence[tuple[str, int, int]], code: str) -> Iterator[str]:
    """The calls of models, up to the first that refuses, whose code is then in the variable `code`."""
    first = [0, 0]
    for name, inputs, outputs in calls:
        run = f"tilewright_{name}_run(inputs + {first[0]}, outputs + {first[1]}, room + GUARD, SIZE)"
        yield f"  if (!{code}) {code} = (uint32_t){run};"
        first = [first[0] + inputs, first[1] + outputs]
