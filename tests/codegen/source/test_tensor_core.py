"""Products on tensor cores: CUDA's warp matrices through tensorized stages, emulated and compiled."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.source.programs import require_target
from tilewright import te
from tilewright.backend import build
from tilewright.codegen.build_device import emit_device
from tilewright.errors import EnvironmentError_, ScheduleError, UnsupportedError
from tilewright.runtime.gpu import nvrtc
from tilewright.target import Target

_PATH = Path(__file__).resolve().parents[3] / "examples" / "gpu_tensor_core_gemm.py"
_SPEC = importlib.util.spec_from_file_location("gpu_tensor_core_gemm", _PATH)
assert _SPEC is not None and _SPEC.loader is not None
example = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(example)


@pytest.mark.parametrize("size", [(64, 64, 32), (64, 192, 160)])
def test_emulated_tensor_cores_compute_the_exact_product(size):
    n, m, k = size
    module = build(example.gemm(n, m, k), require_target("cuda -emulate=1"))
    rng = np.random.default_rng(n + m + k)
    # Small whole numbers: every product and sum is exact, in whatever order.
    a, b = rng.integers(-9, 10, (n, k)).astype("float16"), rng.integers(-9, 10, (k, m)).astype("float16")
    c = np.full((n, m), np.nan, "float32")
    a.flags.writeable = b.flags.writeable = False
    module["gemm"](a, b, c)
    np.testing.assert_array_equal(c, a.astype("float32") @ b.astype("float32"))


def test_text_has_the_calls_in_order_and_barriers_around_the_tiles():
    text, _ = emit_device([example.gemm(64, 64, 64)], Target("cuda"))
    kernel = text[text.index('extern "C"') :]
    assert "const half* __restrict__ A" in kernel and "__shared__ __align__(32) half A_shared[2048];" in kernel
    calls = ["fill_fragment", "__syncthreads", "load_matrix_sync", "load_matrix_sync", "mma_sync", "__syncthreads",
             "store_matrix_sync"]  # fmt: skip
    found = [next(c for c in calls if c in line) for line in kernel.splitlines() if any(f"{c}(" in line for c in calls)]
    assert found == calls


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_compiles_without_a_gpu(arch):
    text, _ = emit_device([example.gemm(64, 64, 64)], Target(f"cuda -arch={arch}"))
    try:
        code = nvrtc.compile_cubin(text, arch)
    except EnvironmentError_ as error:
        pytest.skip(str(error))
    assert code[:4] == b"\x7fELF"


def test_missing_cuda_headers_are_named_with_their_packages(monkeypatch):
    monkeypatch.setattr(nvrtc, "_nvrtc", lambda: (None, ""))
    with pytest.raises(EnvironmentError_, match="pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl"):
        nvrtc.compile_cubin("#include <mma.h>\n", "sm_80")


@pytest.mark.parametrize("kind", ["opencl", "metal", "webgpu"])
def test_other_languages_refuse(kind):
    with pytest.raises(UnsupportedError):
        emit_device([example.gemm(64, 64, 64)], Target(kind))


def test_a_load_to_an_accumulator_is_refused():
    with pytest.raises(ScheduleError, match=r"are loaded; got 'wmma.accumulator'"):
        te.wmma.load("wmma.accumulator")


def test_a_region_that_is_no_whole_fragment_is_refused():
    a = te.placeholder((8, 16), "float16", name="A")
    b = te.compute((8, 16), lambda i, j: a(i, j), name="B")
    s = te.create_schedule(b)
    copy = s.cache_read(a, "wmma.matrix_a", [b])
    s[copy].compute_at(s[b], b.op.axis[0])
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    with pytest.raises(UnsupportedError, match=r"fragments of wmma.matrix_a hold 16 x 16 elements of float16"):
        emit_device([te.lower(s, [a, b])], Target("cuda"))


def test_a_stage_of_fragments_that_is_not_tensorized_is_refused():
    a = te.placeholder((16, 16), "float16", name="A")
    b = te.compute((16, 16), lambda i, j: a(i, j), name="B")
    s = te.create_schedule(b)
    block, _ = s[b].split(b.op.axis[0], factor=16)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[s.cache_read(a, "wmma.matrix_a", [b])].compute_at(s[b], block)
    with pytest.raises(UnsupportedError, match=r"is written element by element, but lies in wmma.matrix_a"):
        emit_device([te.lower(s, [a, b])], Target("cuda"))
