// Metal's names for a C++ compiler.
#define device
#define constant const
#define threadgroup static thread_local

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef tilewright_dim3 uint3;

namespace metal {
template <class To, class From> To as_type(From from) {
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}
inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
inline int popcount(int x) { return __builtin_popcount((unsigned)x); }
inline int clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
enum class mem_flags { mem_threadgroup };
template <class T> T simd_shuffle(T value, ushort lane) { return tilewright_exchange(value, lane); }
inline void threadgroup_barrier(mem_flags) { tilewright_wait(AT_BLOCK); }
}
