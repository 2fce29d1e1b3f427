"""The emulation of CUDA by itself: kernels' text that threads of warps and blocks meet in, in ways of their own."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.source.programs import require_target
from tilewright.errors import InternalError
from tilewright.runtime.gpu.emulation import emulated_device


def launch(text: str, blocks: int, threads: int, *arrays: np.ndarray) -> None:
    """Run the kernel `f` whose text this is over all `arrays`, which it may write to."""
    require_target("cuda -emulate=1")
    device = emulated_device("cuda")
    buffers = [array.reshape(-1).view(np.uint8) for array in arrays]
    device.compile(text, ["f"])["f"].launch((blocks, 1, 1), (threads, 1, 1), buffers)


def kernel(parameters: str, *lines: str, threads: int = 1024) -> str:
    return (
        "\n".join([f'extern "C" __global__ void __launch_bounds__({threads}) f({parameters}) {{', *lines, "}"]) + "\n"
    )


def test_threads_that_never_meet_are_loops():
    text = kernel("const float* __restrict__ A, float* __restrict__ B",
                  "  B[blockIdx.x * 48 + threadIdx.x] = A[blockIdx.x * 48 + 47 - threadIdx.x] * 2.0f;")  # fmt: skip
    a, b = np.arange(5 * 48, dtype="float32"), np.zeros(5 * 48, "float32")
    launch(text, 5, 48, a, b)
    np.testing.assert_array_equal(b.reshape(5, 48), a.reshape(5, 48)[:, ::-1] * 2)


def test_a_kernel_without_parameters_compiles_and_runs():
    launch(kernel("", "  __syncthreads();"), 3, 40)
    launch(kernel("", "  int unused = (int)threadIdx.x;"), 3, 40)


def test_blocks_have_shared_memory_of_their_own():
    text = kernel("int* __restrict__ B", "  __shared__ int S[64];", "  S[(int)threadIdx.x] = (int)blockIdx.x;",
                  "  __syncthreads();", "  int total = 0;", "  for (int i = 0; i < 64; i += 1) {",
                  "    total += S[((int)threadIdx.x + i) % 64];", "    __syncthreads();", "  }",
                  "  B[(int)blockIdx.x * 64 + (int)threadIdx.x] = total;")  # fmt: skip
    b = np.zeros((300, 64), "int32")
    launch(text, 300, 64, b)
    np.testing.assert_array_equal(b, np.repeat(np.arange(300) * 64, 64).reshape(300, 64))


@pytest.mark.parametrize("threads", [64, 96, 100])
def test_sums_up_to_each_thread_by_barriers_in_a_loop(threads):
    text = kernel("int* __restrict__ A", f"  __shared__ int S[{threads}];", "  int t = (int)threadIdx.x;",
                  "  S[t] = A[t];", f"  for (int step = 1; step < {threads}; step *= 2) {{", "    __syncthreads();",
                  "    int before = t >= step ? S[t - step] : 0;", "    __syncthreads();", "    S[t] += before;", "  }",
                  "  A[t] = S[t];")  # fmt: skip
    a = np.random.default_rng(0).integers(-9, 9, threads).astype("int32")
    expected = np.cumsum(a)
    launch(text, 1, threads, a)
    np.testing.assert_array_equal(a, expected)


def test_warps_meet_apart_from_each_other():
    """Each warp adds up by as many shuffles as its number, between barriers of the block that wait for all."""
    text = kernel("int* __restrict__ A", "  __shared__ int S[128];", "  int t = (int)threadIdx.x;",
                  "  int value = A[t];", "  for (int round = 0; round < t / 32; round += 1) {",
                  "    value += __shfl_xor_sync(0xffffffffu, value, 1 << round);", "    __syncwarp();", "  }",
                  "  S[t] = value;", "  __syncthreads();", "  A[t] = S[127 - t];")  # fmt: skip
    a = np.arange(128, dtype="int32") ** 2
    expected = a.copy().reshape(4, 32)
    for warp in range(4):
        for exchange in range(warp):
            expected[warp] = expected[warp] + expected[warp][np.arange(32) ^ (1 << exchange)]
    launch(text, 1, 128, a)
    np.testing.assert_array_equal(a, expected.reshape(-1)[::-1])


def test_a_shuffle_in_groups_smaller_than_a_warp():
    text = kernel("int* __restrict__ A", "  int t = (int)threadIdx.x;",
                  "  int third = __shfl_sync(0xffffffffu, A[t], 3, 8);",
                  "  A[t] = third + __shfl_down_sync(0xffffffffu, A[t], 2, 8);")  # fmt: skip
    a = np.random.default_rng(1).integers(0, 100, 64).astype("int32")
    groups = a.copy().reshape(8, 8)
    down = np.concatenate([groups[:, 2:], groups[:, 6:]], axis=1)
    launch(text, 1, 64, a)
    np.testing.assert_array_equal(a.reshape(8, 8), groups[:, 3:4] + down)


@pytest.mark.parametrize("condition", ["threadIdx.x < 32", "threadIdx.x < 7", "blockIdx.x < 2 || threadIdx.x < 32"])
@pytest.mark.parametrize("barrier", ["__syncthreads();", "__syncwarp();"])
@pytest.mark.sample(3)
def test_a_barrier_that_some_threads_do_not_reach(condition, barrier):
    text = kernel("int* __restrict__ A", f"  if ({condition}) {{", f"    {barrier}", "  }", "  A[0] = 1;")
    if barrier == "__syncwarp();" and "7" not in condition:  # whole warps
        launch(text, 3, 64, np.zeros(1, "int32"))
        return
    with pytest.raises(InternalError, match="kernel f: some threads of a block waited at a barrier"):
        launch(text, 3, 64, np.zeros(1, "int32"))


def test_threads_that_wait_at_different_barriers():
    text = kernel("int* __restrict__ A", "  if (threadIdx.x % 2) {", "    __syncwarp();", "  } else {",
                  "    __syncthreads();", "  }")  # fmt: skip
    with pytest.raises(InternalError, match="on a device it would hang"):
        launch(text, 1, 32, np.zeros(1, "int32"))


@pytest.mark.parametrize("other", ["t + 1", "t + 63", "t + 32"])
@pytest.mark.parametrize("barrier", ["__syncthreads();", "/* no sync */;"])
@pytest.mark.sample(3)
def test_a_barrier_that_is_missing_shows_whoever_is_read(other, barrier):
    """Every other block runs its threads backwards, so that in one of two blocks the reader comes first."""
    text = kernel("int* __restrict__ A", "  __shared__ int S[64];", "  int t = (int)threadIdx.x;",
                  "  S[t] = (int)blockIdx.x * 64 + t;", f"  {barrier}",
                  f"  A[(int)blockIdx.x * 64 + t] = S[({other}) % 64];")  # fmt: skip
    step = int(other.split()[-1])
    wanted = np.arange(128).reshape(2, 64)[:, (np.arange(64) + step) % 64]
    for turned in (False, True):
        a = np.zeros((2, 64), "int32")
        emulated_device("cuda").turned = turned
        try:
            launch(text, 2, 64, a)
        finally:
            emulated_device("cuda").turned = False
        assert (a == wanted).all() == barrier.startswith("__")


def test_products_of_warpgroups_end_when_they_are_waited_for():
    """64 x 32 ones of 16 terms; sums that are read before the wait are what they were."""
    text = kernel("float* __restrict__ A, float* __restrict__ B", "  extern __shared__ __align__(1024) char S[];",
                  "  int t = (int)threadIdx.x;", "  float c[16];", "  for (int i = 0; i < 16; i += 1) c[i] = 1.0f;",
                  "  for (int i = t; i < 8192; i += 128) ((half*)S)[i] = (half)1.0f;", "  __syncthreads();",
                  "  tilewright_wgmma_f16_32(c, S, S + 8192);", "  tilewright_wgmma_commit();",
                  "  tilewright_wgmma_f16_32(c, S, S + 8192);", "  tilewright_wgmma_commit();",
                  "  A[t] = c[15];", "  tilewright_wgmma_wait<1>();", "  A[128 + t] = c[15];",
                  "  tilewright_wgmma_wait<0>();", "  B[t] = c[15];")  # fmt: skip
    a, b = np.zeros((2, 128), "float32"), np.zeros(128, "float32")
    launch(text, 1, 128, a, b)
    assert (a[0] == 1).all() and (a[1] == 17).all() and (b == 33).all()
