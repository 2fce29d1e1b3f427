// Threads of a block as fibers that take turns at barriers (see emulation.py). A fiber is begun as a context, and left
// and taken up again by jumps: switching contexts asks the system for the mask of signals each time.
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <functional>
#include <vector>

struct tilewright_dim3 { int x, y, z; };
static tilewright_dim3 threadIdx, blockIdx, blockDim, gridDim;

struct tilewright_fiber {
  ucontext_t context;
  jmp_buf place;
  tilewright_dim3 index;
  std::vector<char> stack;
  bool begun = false, done = false;
  unsigned long long exchanged = 0;
};
static std::vector<tilewright_fiber> tilewright_fibers;
static jmp_buf tilewright_scheduler;
static size_t tilewright_current;
static std::function<void()> tilewright_body;

__attribute__((noinline)) static void tilewright_wait() {
  if (!_setjmp(tilewright_fibers[tilewright_current].place)) _longjmp(tilewright_scheduler, 1);
}

// Run the current fiber from where it waits, or from its start, to its next barrier or its end.
__attribute__((noinline)) static void tilewright_resume() {
  auto& fiber = tilewright_fibers[tilewright_current];
  if (_setjmp(tilewright_scheduler)) return;
  if (fiber.begun) _longjmp(fiber.place, 1);
  fiber.begun = true;
  setcontext(&fiber.context);
}

// A shuffle is two meetings of all threads: everybody offers a value, then everybody takes one.
template <class T> T tilewright_exchange(T value, size_t from) {
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof(T));
  tilewright_fibers[tilewright_current].exchanged = bits;
  tilewright_wait();
  size_t mine = tilewright_current, warp = mine / 32 * 32;
  size_t source = warp + from % 32;
  if (source >= tilewright_fibers.size()) source = mine;
  T result;
  memcpy(&result, &tilewright_fibers[source].exchanged, sizeof(T));
  tilewright_wait();
  return result;
}

static void tilewright_enter() {
  tilewright_body();
  tilewright_fibers[tilewright_current].done = true;
  _longjmp(tilewright_scheduler, 1);
}

// 0, or 1 where threads of one block ended and others still wait at a barrier.
static int tilewright_run_block() {
  for (auto& fiber : tilewright_fibers) {
    fiber.begun = fiber.done = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, tilewright_enter, 0);
  }
  for (;;) {
    size_t ended = 0;
    for (tilewright_current = 0; tilewright_current < tilewright_fibers.size(); ++tilewright_current) {
      auto& fiber = tilewright_fibers[tilewright_current];
      threadIdx = fiber.index;
      tilewright_resume();
      ended += fiber.done;
    }
    if (ended == tilewright_fibers.size()) return 0;
    if (ended) return 1;
  }
}

static int tilewright_run_blocks(int gx, int gy, int gz, int bx, int by, int bz, std::function<void()> body) {
  tilewright_body = body;
  gridDim = {gx, gy, gz};
  blockDim = {bx, by, bz};
  tilewright_fibers.clear();
  tilewright_fibers.resize((size_t)bx * by * bz);
  size_t i = 0;
  for (int z = 0; z < bz; ++z)
    for (int y = 0; y < by; ++y)
      for (int x = 0; x < bx; ++x, ++i) {
        tilewright_fibers[i].index = {x, y, z};
        tilewright_fibers[i].stack.resize(64 * 1024);
      }
  for (int z = 0; z < gz; ++z)
    for (int y = 0; y < gy; ++y)
      for (int x = 0; x < gx; ++x) {
        blockIdx = {x, y, z};
        if (tilewright_run_block()) return 1;
      }
  return 0;
}
