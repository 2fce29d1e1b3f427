/* A model as a static program without a C library, under seccomp strict: once it has its memory, the only system calls
   that it may make are read, write and exit. Every block of memory that the model is given ends at a page that nobody
   may touch; what lies between a block and its pages, and the stack's canary, is compared after each run.

   Standard input: a number of runs (uint32), then the inputs, again and again. Standard output, for each: the model's
   code and whether memory around the blocks is as before (uint32 each), then the outputs. The weights, where they are a
   file, are the descriptor that the first argument names. */
#include "enclave_model.h"

#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__) || !defined(__linux__)
#error "this program is for Linux on x86-64"
#endif

#define PAGE 4096u
#define PAINT 0xa5

/* Numbers of system calls, and flags of mmap: PROT_NONE 0, READ 1, WRITE 2; MAP_PRIVATE 2, MAP_ANONYMOUS 32. */
enum { READ = 0, WRITE = 1, MMAP = 9, MPROTECT = 10, EXIT = 60, PRCTL = 157 };
enum { SET_SECCOMP = 22, SECCOMP_STRICT = 1, AUX_RANDOM = 25 };
/* Exit statuses. */
enum { NO_MEMORY = 2, NO_SECCOMP = 3, SHORT_INPUT = 4, SMASHED = 5 };

uintptr_t __stack_chk_guard;
void __stack_chk_fail(void);
void enclave_main(const uintptr_t *stack);

static intptr_t system_call(intptr_t number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e) {
  intptr_t result;
  register uintptr_t r10 __asm__("r10") = d;
  register uintptr_t r8 __asm__("r8") = e;
  register uintptr_t r9 __asm__("r9") = 0;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

static void leave(unsigned status) {
  for (;;) system_call(EXIT, status, 0, 0, 0, 0);
}

void __stack_chk_fail(void) { leave(SMASHED); }

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
  void *const start = to;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
  return start;
}

void *memset(void *to, int value, size_t bytes) {
  void *const start = to;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");
  return start;
}

/* Blocks of memory between pages that nobody may touch. */
typedef struct {
  uint8_t *low, *start, *end, *high;
} block;

static block blocks[INPUTS + OUTPUTS + 1];

static uint8_t *map(uintptr_t bytes, uintptr_t protection, uintptr_t flags, intptr_t file) {
  const intptr_t made = system_call(MMAP, 0, bytes, protection, flags, (uintptr_t)file);
  if (made < 0 && made > -(intptr_t)PAGE) leave(NO_MEMORY);
  return (uint8_t *)made;
}

static uint8_t *allocate(block *made, uintptr_t bytes, uintptr_t alignment) {
  const uintptr_t room = (bytes + alignment + PAGE - 1) / PAGE * PAGE;
  uint8_t *const low = map(room + 2 * PAGE, 0, 2 | 32, -1) + PAGE;
  if (system_call(MPROTECT, (uintptr_t)low, room, 1 | 2, 0, 0)) leave(NO_MEMORY);
  made->low = low;
  made->high = low + room;
  made->start = (uint8_t *)((uintptr_t)(low + room - bytes) / alignment * alignment);
  made->end = made->start + bytes;
  memset(low, PAINT, room);
  return made->start;
}

static uint32_t intact(void) {
  const uint8_t *byte;
  uint32_t changed = 0;
  unsigned i;
  for (i = 0; i < INPUTS + OUTPUTS + 1; i++) {
    for (byte = blocks[i].low; byte < blocks[i].start; byte++) changed |= *byte ^ PAINT;
    for (byte = blocks[i].end; byte < blocks[i].high; byte++) changed |= *byte ^ PAINT;
  }
  return !changed;
}

static void transfer(intptr_t call, void *memory, uintptr_t bytes) {
  uint8_t *next = memory;
  while (bytes) {
    const intptr_t done = system_call(call, call == WRITE, (uintptr_t)next, bytes, 0, 0);
    if (done <= 0) leave(SHORT_INPUT);
    next += done;
    bytes -= (uintptr_t)done;
  }
}

static const uintptr_t input_bytes[] = {INPUT_BYTES}, output_bytes[] = {OUTPUT_BYTES};
static const uintptr_t input_sizes[] = {INPUT_SIZES}, output_sizes[] = {OUTPUT_SIZES};

static void serve(const void *const *inputs, void *const *outputs, void *workspace) {
  uint32_t runs, answer[2], i;
  for (;;) {
    if (system_call(READ, 0, (uintptr_t)&runs, sizeof runs, 0, 0) != sizeof runs) leave(0);
    for (i = 0; i < INPUTS; i++) transfer(READ, blocks[i].start, input_bytes[i]);
    answer[0] = 0;
    while (runs-- && !answer[0]) answer[0] = (uint32_t)MODEL_RUN(inputs, outputs, workspace, WORKSPACE_BYTES);
    answer[1] = intact();
    transfer(WRITE, answer, sizeof answer);
    for (i = 0; i < OUTPUTS; i++) transfer(WRITE, outputs[i], output_bytes[i]);
  }
}

__attribute__((used)) void enclave_main(const uintptr_t *stack) {
  const void *inputs[INPUTS + 1];
  void *outputs[OUTPUTS];
  void *workspace;
  const uintptr_t *next = stack + 1 + stack[0] + 1; /* behind the arguments */
  unsigned i;
  while (*next++) {} /* the environment */
  for (; next[0]; next += 2)
    if (next[0] == AUX_RANDOM) memcpy(&__stack_chk_guard, (const void *)next[1], sizeof __stack_chk_guard);
  for (i = 0; i < INPUTS; i++) inputs[i] = allocate(blocks + i, input_bytes[i], input_sizes[i]);
  for (i = 0; i < OUTPUTS; i++) outputs[i] = allocate(blocks + INPUTS + i, output_bytes[i], output_sizes[i]);
  workspace = allocate(blocks + INPUTS + OUTPUTS, WORKSPACE_BYTES, WORKSPACE_ALIGNMENT);
#if WEIGHTS_BYTES
  {
    const char *digit = (const char *)stack[2];
    intptr_t file = 0;
    while (*digit) file = 10 * file + (*digit++ - '0');
    SET_WEIGHTS(map(WEIGHTS_BYTES, 1, 2, file));
  }
#endif
#if !defined(TILEWRIGHT_WITHOUT_SECCOMP) /* where another system confines it, as in SGX */
  if (system_call(PRCTL, SET_SECCOMP, SECCOMP_STRICT, 0, 0, 0)) leave(NO_SECCOMP);
#endif
  serve(inputs, outputs, workspace);
}

__attribute__((naked, used, noreturn)) void _start(void) {
  __asm__("xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call enclave_main\n hlt");
}
