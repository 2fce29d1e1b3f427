// Drives a chip that Verilator has compiled: its registers, its clock, and a memory with the timing of AXI.
//
// The memory answers requests in their order: the first beat `latency` cycles after the request, then one a cycle.
// What the units do is counted each cycle, and kept as a list of changes where a trace is wanted.
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "Vvta.h"
#include "verilated.h"

namespace {

constexpr int kPort = PORT_BYTES;
constexpr int kCounters = 8;

struct Burst {
  uint64_t addr;
  uint64_t beats;
  uint64_t ready;
};

struct Bench {
  VerilatedContext context;
  std::unique_ptr<Vvta> top;
  uint64_t cycle = 0;
  std::deque<Burst> reads, writes;
  std::deque<uint64_t> answers;
  std::vector<uint64_t> trace;
  Bench() { context.randReset(0); top = std::make_unique<Vvta>(&context); }
};

// The bits of status that say that a step of GEMM or ALU is done: one instruction may have very many.
const uint64_t kComputes = 1 << 4 | 1 << 5;

enum Outcome { kDone = 0, kStuck = 1, kReadOutside = 2, kWriteOutside = 3 };

void edge(Bench& b) {
  b.top->clk = 1;
  b.top->eval();
  b.top->clk = 0;
  ++b.cycle;
}

void write_register(Bench& b, uint32_t addr, uint32_t value) {
  b.top->reg_write = 1;
  b.top->reg_addr = addr;
  b.top->reg_value = value;
  b.top->eval();
  edge(b);
  b.top->reg_write = 0;
}

// One cycle with the memory; what went wrong, if anything.
int step(Bench& b, uint8_t* dram, uint64_t size, uint64_t latency) {
  Vvta& t = *b.top;
  const bool data = !b.reads.empty() && b.reads.front().ready <= b.cycle;
  t.r_valid = data;
  if (data) {
    uint8_t beat[kPort] = {0};
    const uint64_t at = b.reads.front().addr;
    if (at >= size) return kReadOutside;
    std::memcpy(beat, dram + at, size - at < kPort ? size - at : kPort);
    std::memcpy(&t.r_data, beat, kPort);
    t.r_last = b.reads.front().beats == 1;
  }
  t.ar_ready = t.aw_ready = 1;
  t.w_ready = !b.writes.empty();
  t.b_valid = !b.answers.empty() && b.answers.front() <= b.cycle;
  t.eval();
  const bool asks = t.ar_valid, stores = t.aw_valid, writes = t.w_valid && t.w_ready, takes = data && t.r_ready;
  const Burst asked{t.ar_addr, uint64_t(t.ar_len) + 1, b.cycle + latency};
  const Burst stored{t.aw_addr, uint64_t(t.aw_len) + 1, 0};
  if (writes) {
    Burst& w = b.writes.front();
    uint8_t beat[kPort];
    std::memcpy(beat, &t.w_data, kPort);
    for (int i = 0; i < kPort; ++i)
      if (t.w_strb >> i & 1) {
        if (w.addr + i >= size) return kWriteOutside;
        dram[w.addr + i] = beat[i];
      }
    w.addr += kPort;
    if (--w.beats == 0) {
      b.writes.pop_front();
      b.answers.push_back(b.cycle + latency);
    }
  }
  if (t.b_valid) b.answers.pop_front();
  if (takes) {
    Burst& r = b.reads.front();
    r.addr += kPort;
    if (--r.beats == 0) b.reads.pop_front();
  }
  edge(b);
  if (asks) b.reads.push_back(asked);
  if (stores) b.writes.push_back(stored);
  return kDone;
}

}  // namespace

extern "C" {

void* vta_make() { 
  Bench* b = new Bench();
  b->top->rst = 1;
  b->top->eval();
  edge(*b);
  b->top->rst = 0;
  return b;
}

void vta_free(void* bench) { delete static_cast<Bench*>(bench); }

void vta_write_register(void* bench, uint32_t addr, uint32_t value) { write_register(*static_cast<Bench*>(bench), addr, value); }

uint32_t vta_read_register(void* bench, uint32_t addr) {
  Bench& b = *static_cast<Bench*>(bench);
  b.top->reg_addr = addr;
  b.top->eval();
  return b.top->reg_read;
}

// Runs until the chip has finished, or for `limit` cycles without anything done. `busy` counts cycles by bit of status.
int vta_run(void* bench, uint8_t* dram, uint64_t size, uint64_t latency, uint64_t limit, int traced, uint64_t* busy) {
  Bench& b = *static_cast<Bench*>(bench);
  b.trace.clear();
  uint64_t quiet = 0, start = b.cycle, before = ~0ull;
  while (true) {
    const int outcome = step(b, dram, size, latency);
    if (outcome != kDone) return outcome;
    const uint64_t status = b.top->status;
    for (int i = 0; i < kCounters; ++i) busy[i] += status >> i & 1;
    if (traced && status != before) b.trace.push_back((b.cycle - start) << kCounters | status);
    quiet = status == before && !(status & kComputes) && !b.top->r_valid ? quiet + 1 : 0;
    before = status;
    if (vta_read_register(bench, 0) & 2) return kDone;
    if (quiet > limit) return kStuck;
  }
}

uint64_t vta_trace(void* bench, const uint64_t** changes) {
  Bench& b = *static_cast<Bench*>(bench);
  *changes = b.trace.data();
  return b.trace.size();
}

}  // extern "C"
