"""Host steps around kernels: launches in order, loops, conditions, calls of Python; modules in files."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from tests.codegen.source.programs import require_target
from tilewright import te, tir
from tilewright.backend import build
from tilewright.errors import ArtifactError, InputError, ScheduleError
from tilewright.runtime.gpu.module import DeviceModule
from tilewright.runtime.packed import register_func

TARGETS = ["cuda -emulate=1", "opencl", "vulkan", "webgpu"]
RNG = np.random.default_rng(3)


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    """Each target that this machine can build and run."""
    return require_target(request.param)


def bind(s: te.Schedule, tensor: te.Tensor, axis: object, size: int = 32) -> None:
    """The loop over `axis` in blocks of `size` threads."""
    block, thread = s[tensor].split(axis, factor=size)
    s[tensor].bind(block, te.thread_axis("blockIdx.x"))
    s[tensor].bind(thread, te.thread_axis("threadIdx.x"))


def two_kernels() -> tir.PrimFunc:
    """Two kernels with a temporary between them, whose size depends on that of the input."""
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n * 2,), lambda i: a[i // 2] * 2.0, name="B")
    c = te.compute((n * 2 - 1,), lambda i: b[i] + b[i + 1], name="C")
    s = te.create_schedule(c.op)
    bind(s, b, b.op.axis[0])
    bind(s, c, c.op.axis[0])
    return te.lower(s, [a, c], name="f")


def check_two_kernels(module: DeviceModule) -> None:
    """Of several sizes, the smaller after the larger."""
    for size in (50, 7, 64):
        a, c = RNG.random(size, "float32"), np.zeros(2 * size - 1, "float32")
        module["f"](a, c)
        b = np.repeat(a, 2) * 2
        np.testing.assert_allclose(c, b[:-1] + b[1:], 1e-6)


def test_two_kernels_with_sizes_computed_on_the_host(target: str) -> None:
    module = build(two_kernels(), target)
    check_two_kernels(module)
    times = module["f"].time(np.zeros(8, "float32"), np.zeros(15, "float32"), repeat=3, number=2)
    assert len(times) == 3 and min(times) > 0
    with pytest.raises(InputError, match="f: argument"):
        module["f"](np.zeros(8, "float64"), np.zeros(15, "float32"))


def test_a_loop_of_the_host_and_a_condition_in_it(target: str) -> None:
    a = te.placeholder((7, 40), name="A")
    c = te.compute((7, 40), lambda t, i: a[t, i] + t, name="C")
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], factor=3)
    bind(s, c, c.op.axis[1])
    module = build(te.lower(s, [a, c], name="f"), target)
    kinds = {key for step in module.functions["f"].steps for key in step}
    assert "loop" in kinds
    data, out = RNG.random((7, 40), "float32"), np.zeros((7, 40), "float32")
    module["f"](data, out)
    np.testing.assert_allclose(out, data + np.arange(7, dtype="float32")[:, None], 1e-6)


def test_a_condition_of_the_host() -> None:
    a, c, n = tir.Buffer("A", (32,)), tir.Buffer("C", (32,)), tir.Var("n")
    i = tir.Var("i")
    kernel = tir.For(i, tir.const(0), tir.const(32), tir.ForKind.THREAD_BINDING,
                     tir.BufferStore(c, tir.BufferLoad(a, (i,)) + 1.0, (i,)), "threadIdx.x", {})  # fmt: skip
    module = build(tir.PrimFunc("f", [a, c, n], tir.IfThenElse(n > 3, kernel)), "cuda -emulate=1")
    for value, added in ((3, 0), (4, 1)):
        data = RNG.random(32, "float32")
        out = data.copy()
        module["f"](data, out, value)
        np.testing.assert_array_equal(out, data + np.float32(added))


def between_kernels(name: str) -> tir.PrimFunc:
    """A kernel, a call of Python on its result, and a kernel on what that gives."""
    a = te.placeholder((4, 16), name="A")
    b = te.compute((4, 16), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.extern((4, 16), [b], lambda i, o: tir.call_packed(name, i[0], o[0], 2, 0.5), name="C")
    d = te.compute((4, 16), lambda i, j: c[i, j] * 3.0, name="D")
    s = te.create_schedule(d.op)
    bind(s, b, b.op.axis[1], 16)
    bind(s, d, d.op.axis[1], 16)
    return te.lower(s, [a, d], name="f")


def test_python_between_kernels(target: str) -> None:
    def reversed_rows(x: np.ndarray, y: np.ndarray, factor: int, shift: float) -> None:
        assert x.shape == y.shape == (4, 16)
        y[...] = x[::-1] * factor + shift

    register_func("tests.reversed_rows", reversed_rows, override=True)
    module = build(between_kernels("tests.reversed_rows"), target)
    a, d = RNG.random((4, 16), "float32"), np.zeros((4, 16), "float32")
    module["f"](a, d)
    np.testing.assert_allclose(d, ((a[::-1] + 1) * 2 + 0.5) * 3, 1e-6)


def test_what_fails_between_kernels_says_so() -> None:
    module = build(between_kernels("tests.nowhere"), "cuda -emulate=1")
    with pytest.raises(InputError, match=r"calls the function 'tests\.nowhere', which is not registered"):
        module["f"](np.zeros((4, 16), "float32"), np.zeros((4, 16), "float32"))
    a = te.placeholder((32,), name="A")
    b = te.compute((32,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((32,), lambda i: b[i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    bind(s, c, c.op.axis[0])
    with pytest.raises(ScheduleError, match="f: B is computed outside of all device threads"):
        build(te.lower(s, [a, c], name="f"), "cuda -emulate=1")


def test_a_module_in_a_file(target: str, tmp_path: object) -> None:
    path = f"{tmp_path}/f.twd"
    build(two_kernels(), target).save(path)
    check_two_kernels(DeviceModule.load(path))


def test_a_file_is_loaded_without_the_compiler(tmp_path: object) -> None:
    path = f"{tmp_path}/f.twd"
    build(two_kernels(), "cuda -emulate=1").save(path)
    program = (
        "import sys, numpy as np\n"
        "from tilewright.runtime.gpu.module import DeviceModule\n"
        f"module, out = DeviceModule.load({path!r}), np.zeros(7, 'float32')\n"
        "module['f'](np.ones(4, 'float32'), out)\n"
        "print(out.tolist(), 'tilewright.te' in sys.modules or 'tilewright.tir' in sys.modules)\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told.strip() == f"{[4.0] * 7} False"


def test_files_that_are_no_modules_are_refused(tmp_path: object) -> None:
    path = f"{tmp_path}/f.twd"
    with pytest.raises(ArtifactError, match="cannot be read as a module for a device"):
        DeviceModule.load(path)
    with open(path, "w") as file:
        json.dump({"format": "else"}, file)
    with pytest.raises(ArtifactError, match=r"is no module for a device, as DeviceModule\.save writes it"):
        DeviceModule.load(path)
