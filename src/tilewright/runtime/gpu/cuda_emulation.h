// CUDA's names for a C++ compiler.
#define __device__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __align__(n) __attribute__((aligned(n)))

static void __syncthreads() { tilewright_wait(AT_BLOCK); }
static void __syncwarp(unsigned = 0xffffffffu) { tilewright_wait(AT_WARP); }

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
