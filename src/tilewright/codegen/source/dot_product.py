"""Text of dot products of the bytes of two words in CUDA C++, which has a function for bytes of the same type alone."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.tir.expr import Call

# The host that emulates the device has a function of this name.
_DP4A = """\
#ifdef __CUDACC_RTC__
__device__ __forceinline__ int tilewright_dp4a(int sum, int a, int b) { return __dp4a(a, b, sum); }
__device__ __forceinline__ int tilewright_dp4a(int sum, unsigned int a, unsigned int b) {
  return (int)__dp4a(a, b, (unsigned int)sum);
}
__device__ __forceinline__ int tilewright_dp4a(int sum, int a, unsigned int b) {
  int total;
  asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(total) : "r"(a), "r"(b), "r"(sum));
  return total;
}
__device__ __forceinline__ int tilewright_dp4a(int sum, unsigned int a, int b) { return tilewright_dp4a(sum, b, a); }
#endif"""


def dot_product_functions(calls: Iterable[Call]) -> str:
    """The function that calls of `dp4a` become; empty where there are none."""
    return _DP4A if any(call.op == "dp4a" for call in calls) else ""
