"""Text of the count of blocks that have come to the end of a kernel, in CUDA C++ (`tir/transform/join_parts.py`).

The stores of a block are visible to all before it is counted, and the last block reads after it counted itself (CUDA
C++ Programming Guide, "Memory fence functions"). The counter wraps around to 0, so that the next launch finds it so.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.dot_product import dot_product_functions
from tilewright.codegen.source.expressions import flat_index
from tilewright.codegen.source.tensor_core import tensor_core_functions
from tilewright.tir.expr import BufferLoad, Call, Expr

# The host that emulates the device has a function of this name.
_ARRIVE = """\
#ifdef __CUDACC_RTC__
__device__ __forceinline__ int tilewright_arrive_sync(unsigned int* arrived, unsigned int count) {
  __shared__ int last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) last = atomicInc(arrived, count - 1) == count - 1;
  __syncthreads();
  __threadfence();
  return last;
}
#endif"""


def called_functions(calls: Iterable[Call]) -> str:
    """The functions that `calls` become; empty where none of them needs any."""
    calls = list(calls)
    counts = [_ARRIVE] if any(call.op == "arrive" for call in calls) else []
    return "\n\n".join(part for part in (tensor_core_functions(calls), dot_product_functions(calls), *counts) if part)


def arrive(b: SourceBuilder, call: Call) -> None:
    """Write whether this block is the last of so many."""
    last, arrived, count = call.args
    b.line(f"{_position(b, last)} = tilewright_arrive_sync(&{_position(b, arrived)}, {b.value(count)});")


def _position(b: SourceBuilder, element: Expr) -> str:
    assert isinstance(element, BufferLoad)
    return f"{b.name(element.buffer)}[{b.value(flat_index(element.buffer, element.indices))}]"
