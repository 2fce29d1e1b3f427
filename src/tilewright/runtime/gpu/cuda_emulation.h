// CUDA's names for a C++ compiler.
#include <stdlib.h>

#define __device__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __align__(n) __attribute__((aligned(n)))

static void __syncthreads() { tilewright_wait(AT_BLOCK); }
static void __syncwarp(unsigned = 0xffffffffu) { tilewright_wait(AT_WARP); }

// One of the last block's threads sees the others' blocks; counters are 0 again behind it.
static int tilewright_arrive_sync(unsigned* arrived, unsigned count) {
  static thread_local int last;
  tilewright_wait(AT_BLOCK);
  if (!tilewright_self || tilewright_self->current == 0) {
    last = __atomic_fetch_add(arrived, 1u, __ATOMIC_ACQ_REL) == count - 1;
    if (last) __atomic_store_n(arrived, 0u, __ATOMIC_RELEASE);
  }
  tilewright_wait(AT_BLOCK);
  return last;
}

template <class T> T __shfl_sync(unsigned, T value, int lane, int width = 32) {
  size_t mine = tilewright_lane();
  return tilewright_exchange(value, mine / width * width + lane % width);
}
template <class T> T __shfl_down_sync(unsigned, T value, unsigned delta, int width = 32) {
  size_t lane = tilewright_lane();
  return tilewright_exchange(value, lane % width + delta < width ? lane + delta : lane);
}
template <class T> T __shfl_xor_sync(unsigned, T value, int mask) {
  return tilewright_exchange(value, tilewright_lane() ^ mask);
}

static float __int_as_float(int x) { float f; memcpy(&f, &x, 4); return f; }
static float __uint_as_float(unsigned x) { float f; memcpy(&f, &x, 4); return f; }
static unsigned __float_as_uint(float x) { unsigned u; memcpy(&u, &x, 4); return u; }
// The bytes of a word have a sign where its type has one.
static int tilewright_byte(int word, int i) { return (signed char)(word >> 8 * i); }
static int tilewright_byte(unsigned word, int i) { return (unsigned char)(word >> 8 * i); }
template <class A, class B> int tilewright_dp4a(int sum, A a, B b) {
  unsigned total = (unsigned)sum;
  for (int i = 0; i < 4; ++i) total += (unsigned)(tilewright_byte(a, i) * tilewright_byte(b, i));
  return (int)total;
}
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static double rsqrt(double x) { return 1.0 / sqrt(x); }

// CUDA's fast functions, exact here; macros, since C's library has some of these names for itself.
#define __expf(x) expf(x)
#define __exp10f(x) powf(10.0f, x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)
#define __fdividef(x, y) ((x) / (y))
#define __saturatef(x) fminf(fmaxf(x, 0.0f), 1.0f)

typedef _Float16 half;
static float __half2float(half x) { return (float)x; }
static half __float2half_rn(float x) { return (half)x; }

static float tilewright_exp2_approx(float x) { return exp2f(x); }
static void tilewright_pack_f16(unsigned* r, float low, float high) {
  _Float16 pair[2] = {(_Float16)low, (_Float16)high};
  memcpy(r, pair, 4);
}
static void tilewright_pack_bf16(unsigned* r, float low, float high) {
  unsigned bits[2] = {__float_as_uint(low), __float_as_uint(high)};
  for (unsigned& b : bits) b = (b & 0x7fffffffu) > 0x7f800000u ? b >> 16 | 0x40u : (b + 0x7fffu + (b >> 16 & 1u)) >> 16;
  *r = bits[0] | bits[1] << 16;
}

struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };

// Asynchronous copies arrive when they are waited for and not before, so that a wait that is missing shows.
static tilewright_fiber& tilewright_mine() { return tilewright_self->fibers[tilewright_self->current]; }
static void tilewright_cp_async(void* to, const void* from, unsigned size, bool there) {
  tilewright_mine().pending.push_back({to, from, size, there, tilewright_mine().groups});
}
static void tilewright_cp_async_4(void* to, const void* from, bool there = true) { tilewright_cp_async(to, from, 4, there); }
static void tilewright_cp_async_8(void* to, const void* from, bool there = true) { tilewright_cp_async(to, from, 8, there); }
static void tilewright_cp_async_16(void* to, const void* from, bool there = true) { tilewright_cp_async(to, from, 16, there); }
static void tilewright_commit_group() { ++tilewright_mine().groups; }
template <int N> void tilewright_wait_group() {
  tilewright_fiber& fiber = tilewright_mine();
  size_t done = 0;
  for (; done < fiber.pending.size() && fiber.pending[done].group < fiber.groups - N; ++done) {
    const tilewright_pending& copy = fiber.pending[done];
    if ((uintptr_t)copy.to % copy.size || (uintptr_t)copy.from % copy.size && copy.there) abort();
    if (copy.there) memcpy(copy.to, copy.from, copy.size);
    else memset(copy.to, 0, copy.size);
  }
  fiber.pending.erase(fiber.pending.begin(), fiber.pending.begin() + done);
}

// The lanes of a warp show each other what is at `mine`; `read(lane)` is what another one shows.
template <class T, class Use> void tilewright_show(const T* mine, Use use) {
  tilewright_mine().exchanged = (unsigned long long)(uintptr_t)mine;
  tilewright_wait(AT_WARP);
  size_t first = tilewright_self->current / tilewright_warp * tilewright_warp;
  use([&](size_t lane) { return (const T*)(uintptr_t)tilewright_self->fibers[first + lane].exchanged; });
  tilewright_wait(AT_WARP);
}
static void tilewright_ldmatrix(unsigned* r, const void* p) {
  if ((uintptr_t)p % 16) abort();
  tilewright_show((const unsigned*)p, [&](auto read) {
    size_t lane = tilewright_lane();
    for (size_t i = 0; i < 4; ++i) r[i] = read(8 * i + lane / 4)[lane % 4];
  });
}
static void tilewright_ldmatrix_transposed(unsigned* r, const void* p) {
  if ((uintptr_t)p % 16) abort();
  tilewright_show((const unsigned short*)p, [&](auto read) {
    size_t lane = tilewright_lane();
    for (size_t i = 0; i < 4; ++i) {
      unsigned low = read(8 * i + lane % 4 * 2)[lane / 4], high = read(8 * i + lane % 4 * 2 + 1)[lane / 4];
      r[i] = low | high << 16;
    }
  });
}

// One 16 x 8 product of a warp. A register has 4 / `size` elements, which `value` takes out by their number.
template <class C, class Value> void tilewright_mma(C* c, const unsigned* a, const unsigned* b, size_t size, Value value) {
  const unsigned registers[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  C sums[4];
  tilewright_show(registers, [&](auto read) {
    size_t lane = tilewright_lane(), wide = 4 / size;
    for (size_t s = 0; s < 4; ++s) {
      size_t row = lane / 4, half = s / 2, column = lane % 4 * 2 + s % 2;
      C sum = c[s];
      for (size_t part = 0; part < 2; ++part)
        for (size_t t = 0; t < 4; ++t)
          for (size_t e = 0; e < wide; ++e)
            sum += value(read(row * 4 + t)[part * 2 + half], e) * value(read(column * 4 + t)[4 + part], e);
      sums[s] = sum;
    }
  });
  for (size_t s = 0; s < 4; ++s) c[s] = sums[s];
}
static void tilewright_mma_f16(float* c, const unsigned* a, const unsigned* b) {
  tilewright_mma(c, a, b, 2, [](unsigned r, size_t e) {
    unsigned short bits = (unsigned short)(r >> 16 * e);
    _Float16 x;
    memcpy(&x, &bits, 2);
    return (float)x;
  });
}
static void tilewright_mma_bf16(float* c, const unsigned* a, const unsigned* b) {
  tilewright_mma(c, a, b, 2, [](unsigned r, size_t e) { return __uint_as_float(r >> 16 * e << 16); });
}
static void tilewright_mma_s8(int* c, const unsigned* a, const unsigned* b) {
  tilewright_mma(c, a, b, 1, [](unsigned r, size_t e) { return (int)(signed char)(r >> 8 * e); });
}
static void tilewright_mma_u8(int* c, const unsigned* a, const unsigned* b) {
  tilewright_mma(c, a, b, 1, [](unsigned r, size_t e) { return (int)(unsigned char)(r >> 8 * e); });
}

// A product of four warps, of operands in shared memory: each thread computes its own sums from these. Products are
// computed when they are waited for and not before, as asynchronous copies are.
static const unsigned char* tilewright_line(const void* p, size_t line, size_t byte) {
  uintptr_t address = (uintptr_t)p + line * 128 + byte;
  return (const unsigned char*)(address ^ (address >> 7 & 7) << 4);
}
template <class C, class Load> void tilewright_wgmma(C* c, const void* a, const void* b, size_t columns, Load load) {
  if (((uintptr_t)a | (uintptr_t)b) % 32 || (((uintptr_t)a | (uintptr_t)b) & 1023) >= 128) abort();
  size_t lane = tilewright_lane(), warp = tilewright_self->current / tilewright_warp % 4;
  auto run = [=] {
    for (size_t s = 0; s < columns / 2; ++s) {
      size_t row = warp * 16 + lane / 4 + s / 2 % 2 * 8, column = s / 4 * 8 + lane % 4 * 2 + s % 2;
      c[s] = load(c[s], a, row, b, column);
    }
  };
  tilewright_mine().products.push_back({run, tilewright_mine().product_groups});
}
#define TILEWRIGHT_WGMMA(kind, C, columns)                                                                  \
  static void tilewright_wgmma_##kind##_##columns(C* c, const void* a, const void* b) {                     \
    tilewright_wgmma(c, a, b, columns, [](C sum, const void* a, size_t row, const void* b, size_t column) { \
      for (size_t byte = 0; byte < 32; byte += tilewright_size_##kind)                                      \
        sum += tilewright_value_##kind(tilewright_line(a, row, byte)) *                                     \
               tilewright_value_##kind(tilewright_line(b, column, byte));                                   \
      return sum;                                                                                           \
    });                                                                                                     \
  }
static const size_t tilewright_size_f16 = 2, tilewright_size_bf16 = 2, tilewright_size_s8 = 1;
static float tilewright_value_f16(const unsigned char* p) { return (float)*(const _Float16*)p; }
static float tilewright_value_bf16(const unsigned char* p) {
  return __uint_as_float((unsigned)*(const unsigned short*)p << 16);
}
static int tilewright_value_s8(const unsigned char* p) { return (signed char)*p; }
#define TILEWRIGHT_WGMMAS(columns)        \
  TILEWRIGHT_WGMMA(f16, float, columns)   \
  TILEWRIGHT_WGMMA(bf16, float, columns)  \
  TILEWRIGHT_WGMMA(s8, int, columns)
TILEWRIGHT_WGMMAS(32)
TILEWRIGHT_WGMMAS(64)
TILEWRIGHT_WGMMAS(128)
TILEWRIGHT_WGMMAS(256)
static void tilewright_wgmma_fence() {}
static void tilewright_wgmma_commit() { ++tilewright_mine().product_groups; }
template <int N> void tilewright_wgmma_wait() {
  tilewright_fiber& fiber = tilewright_mine();
  size_t done = 0;
  for (; done < fiber.products.size() && fiber.products[done].group < fiber.product_groups - N; ++done)
    fiber.products[done].run();
  fiber.products.erase(fiber.products.begin(), fiber.products.begin() + done);
}
static void tilewright_fence_proxy() {}

// Warp matrices: the first thread of a warp holds the whole tile and does what the warp would do together.
namespace nvcuda { namespace wmma {
struct matrix_a {}; struct matrix_b {}; struct accumulator {}; struct row_major {};
enum layout_t { mem_row_major };
template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
  static_assert(M == 16 && N == 16 && K == 16, "tiles of 16 x 16 x 16");
  T x[256];
};
static bool leads() { return tilewright_lane() == 0; }
template <class F, class T> void fill_fragment(F& fragment, T value) {
  for (int i = 0; leads() && i < 256; ++i) fragment.x[i] = value;
}
template <class F, class T> void load_matrix_sync(F& fragment, const T* memory, unsigned stride) {
  for (int i = 0; leads() && i < 256; ++i) fragment.x[i] = memory[i / 16 * stride + i % 16];
}
template <class F, class T> void store_matrix_sync(T* memory, const F& fragment, unsigned stride, layout_t) {
  for (int i = 0; leads() && i < 256; ++i) memory[i / 16 * stride + i % 16] = fragment.x[i];
}
template <class D, class A, class B> void mma_sync(D& d, const A& a, const B& b, const D& c) {
  float sums[256];
  for (int i = 0; leads() && i < 256; ++i) {
    sums[i] = c.x[i];
    for (int k = 0; k < 16; ++k) sums[i] += (float)a.x[i / 16 * 16 + k] * (float)b.x[k * 16 + i % 16];
  }
  for (int i = 0; leads() && i < 256; ++i) d.x[i] = sums[i];
}
}}
