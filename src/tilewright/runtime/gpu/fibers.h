// Threads of a block as fibers that take turns at barriers, blocks shared out among the host's processors (see
// emulation.py). Between barriers the threads of every other block run from the last to the first, so that of two
// accesses that a barrier should keep apart each comes first in some block. A fiber is begun as a context, and left and
// taken up again by jumps: switching contexts asks the system for the mask of signals each time.
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

struct tilewright_dim3 { int x, y, z; };

enum tilewright_state { RUNNING, AT_WARP, AT_BLOCK, ENDED, APART };  // APART: threads that should meet do not
static const size_t tilewright_warp = 32;

// A place to jump to: GCC's own way saves three words, the library's all registers and more.
#if defined(__GNUC__) && !defined(__clang__)
struct tilewright_place { void* words[5]; };
#define tilewright_mark(place) __builtin_setjmp((place).words)
#define tilewright_jump(place) __builtin_longjmp((place).words, 1)
#else
struct tilewright_place { jmp_buf words; };
#define tilewright_mark(place) _setjmp((place).words)
#define tilewright_jump(place) _longjmp((place).words, 1)
#endif

// A copy of a thread that has not arrived; `group` counts those that it closed before.
struct tilewright_pending { void* to; const void* from; unsigned size; bool there; long long group; };
// A product of a thread that has not ended.
struct tilewright_product { std::function<void()> run; long long group; };

struct tilewright_fiber {
  ucontext_t context;
  tilewright_place place;
  tilewright_dim3 index;
  std::vector<char> stack;
  bool begun = false;
  tilewright_state state = RUNNING;
  unsigned long long exchanged = 0;
  std::vector<tilewright_pending> pending;
  long long groups = 0;
  std::vector<tilewright_product> products;
  long long product_groups = 0;
};

// What one of the host's threads runs: a block at a time. `run` is the kernel's text for one thread of it.
struct tilewright_block {
  std::vector<tilewright_fiber> fibers;
  size_t current = 0, end = 0;  // the fiber that runs, and where its warp ends
  bool backwards = false;       // from the last thread to the first
  tilewright_place scheduler;
  tilewright_dim3 index;
  std::function<void(const tilewright_dim3&, const tilewright_dim3&, size_t)> run;
};
static thread_local tilewright_block* tilewright_self = nullptr;
static thread_local bool tilewright_alone = false;  // a thread waited that runs without others

// Take up the current fiber where it waits, or begin it.
__attribute__((noreturn)) static void tilewright_take_up(tilewright_block& block) {
  tilewright_fiber& fiber = block.fibers[block.current];
  if (fiber.begun) tilewright_jump(fiber.place);
  fiber.begun = true;
  setcontext(&fiber.context);
  __builtin_unreachable();
}

// Leave the current fiber at `where`, for the next one of its warp or for the scheduler.
__attribute__((noinline)) static void tilewright_leave(tilewright_block& block, tilewright_state where) {
  tilewright_fiber& fiber = block.fibers[block.current];
  fiber.state = where;
  if (tilewright_mark(fiber.place)) return;
  block.current += block.backwards ? -1 : 1;
  if (block.current == block.end) tilewright_jump(block.scheduler);
  tilewright_take_up(block);
}

static void tilewright_enter() {
  tilewright_block& block = *tilewright_self;
  tilewright_fiber& fiber = block.fibers[block.current];
  size_t thread = block.current;
  for (;;) {  // once a block
    fiber.pending.clear();
    fiber.products.clear();
    block.run(block.index, fiber.index, thread);
    tilewright_leave(block, ENDED);
  }
}

// Wait for the warp (AT_WARP) or for the whole block (AT_BLOCK).
static void tilewright_wait(tilewright_state where) {
  if (tilewright_self) tilewright_leave(*tilewright_self, where);
  else tilewright_alone = true;
}

static size_t tilewright_lane() { return tilewright_self ? tilewright_self->current % tilewright_warp : 0; }

// A shuffle is two meetings of a warp: everybody offers a value, then everybody takes one.
template <class T> T tilewright_exchange(T value, size_t from) {
  if (!tilewright_self) return tilewright_wait(AT_WARP), value;
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof(T));
  std::vector<tilewright_fiber>& fibers = tilewright_self->fibers;
  size_t mine = tilewright_self->current;
  fibers[mine].exchanged = bits;
  tilewright_wait(AT_WARP);
  size_t source = mine / tilewright_warp * tilewright_warp + from % tilewright_warp;
  T result;
  memcpy(&result, &fibers[source < fibers.size() ? source : mine].exchanged, sizeof(T));
  tilewright_wait(AT_WARP);
  return result;
}

// Run each fiber of a warp from where it waits, or from its start, to where it meets others or to its end.
__attribute__((noinline)) static void tilewright_round(tilewright_block& block, size_t from) {
  block.current = from;
  if (!tilewright_mark(block.scheduler)) tilewright_take_up(block);
}

// Where all threads of a warp wait now, or APART.
static tilewright_state tilewright_run_warp(tilewright_block& block, size_t first) {
  size_t last = std::min(first + tilewright_warp, block.fibers.size()) - 1;
  block.end = block.backwards ? first - 1 : last + 1;
  tilewright_state met;
  do {
    tilewright_round(block, block.backwards ? last : first);
    met = block.fibers[first].state;
    for (size_t i = first; i <= last; ++i)
      if (block.fibers[i].state != met) return APART;
  } while (met == AT_WARP);
  return met;
}

static bool tilewright_run_block(tilewright_block& block) {
  size_t warps = (block.fibers.size() + tilewright_warp - 1) / tilewright_warp;
  for (;;) {
    tilewright_state met = RUNNING;
    for (size_t i = 0; i < warps; ++i) {
      tilewright_state warp = tilewright_run_warp(block, (block.backwards ? warps - 1 - i : i) * tilewright_warp);
      if (warp == APART || (i && warp != met)) return false;
      met = warp;
    }
    if (met == ENDED) return true;
  }
}

static void tilewright_make_fibers(tilewright_block& block, int bx, int by, int bz) {
  block.fibers.resize((size_t)bx * by * bz);
  size_t i = 0;
  for (int z = 0; z < bz; ++z)
    for (int y = 0; y < by; ++y)
      for (int x = 0; x < bx; ++x, ++i) {
        tilewright_fiber& fiber = block.fibers[i];
        fiber.index = {x, y, z};
        // 13 lines of cache further than a power of two, so that stacks do not all want the same places in the cache
        fiber.stack.resize(64 * 1024 + 13 * 64 - 16);
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = fiber.stack.size();
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, tilewright_enter, 0);
      }
}

// `each(block)` says false where threads that should meet did not; blocks come from `next` until there are no more.
template <class Each> int tilewright_share_blocks(int gx, int gy, int gz, int workers, Each work) {
  std::atomic<long long> next{0};
  std::atomic<int> wrong{0};
  long long blocks = (long long)gx * gy * gz;
  auto place = [&](long long i) { return tilewright_dim3{(int)(i % gx), (int)(i / gx % gy), (int)(i / gx / gy)}; };
  auto share = [&] {
    tilewright_alone = false;
    work([&](auto each) {
      for (long long i; !wrong && (i = next++) < blocks;)
        if (!each(place(i))) wrong = 1;
    });
    if (tilewright_alone) wrong = 1;
  };
  std::vector<std::thread> others;
  for (int i = 1; i < workers && i < blocks; ++i) others.emplace_back(share);
  share();
  for (auto& other : others) other.join();
  return wrong;
}

// Run a kernel whose threads meet; 0, or 1 where some threads of a block waited for others that did not come. The first
// block goes backwards where `turned` is 1.
template <class Run>
int tilewright_run_together(int gx, int gy, int gz, int bx, int by, int bz, int workers, int turned, Run run) {
  return tilewright_share_blocks(gx, gy, gz, workers, [&](auto all) {
    tilewright_block block;
    block.run = run;
    tilewright_make_fibers(block, bx, by, bz);
    tilewright_self = &block;
    all([&](tilewright_dim3 index) {
      block.index = index;
      block.backwards = (index.x + index.y + index.z + turned) % 2;
      return tilewright_run_block(block);
    });
    tilewright_self = nullptr;
  });
}

// Run a kernel whose threads never meet: as loops.
template <class Run>
int tilewright_run_apart(int gx, int gy, int gz, int bx, int by, int bz, int workers, int, Run run) {
  return tilewright_share_blocks(gx, gy, gz, workers, [&](auto all) {
    all([&](tilewright_dim3 block) {
      size_t i = 0;
      for (int z = 0; z < bz; ++z)
        for (int y = 0; y < by; ++y)
          for (int x = 0; x < bx; ++x, ++i) run(block, tilewright_dim3{x, y, z}, i);
      return true;
    });
  });
}
