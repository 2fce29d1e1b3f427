"""Sources with the lines that they were made of, where TILEWRIGHT_DEBUG_INFO asks for them."""

import inspect

import pytest

from tilewright import te
from tilewright.codegen.build_device import emit_device
from tilewright.codegen.source import emit_c
from tilewright.target import Target


def doubled(bound):
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    if bound:
        block, thread = s[b].split(b.op.axis[0], factor=16)
        s[b].bind(block, te.thread_axis("blockIdx.x"))
        s[b].bind(thread, te.thread_axis("threadIdx.x"))
    return te.lower(s, [a, b], name="doubled")


LINES, START = inspect.getsourcelines(doubled)
COMPUTE = START + next(n for n, line in enumerate(LINES) if "te.compute" in line)


def sources():
    yield "c", emit_c([doubled(False)]).text
    for kind in ("opencl", "cuda", "metal", "vulkan", "webgpu"):
        yield kind, emit_device([doubled(True)], Target(kind))[0]


def test_they_stand_before_each_line(monkeypatch):
    assert not any("#line" in text or __file__ in text for _, text in sources())
    monkeypatch.setenv("TILEWRIGHT_DEBUG_INFO", "1")
    for kind, text in sources():
        wanted = f"// {__file__}:{COMPUTE}" if kind in ("vulkan", "webgpu") else f'#line {COMPUTE} "{__file__}"'
        lines = text.splitlines()
        (store,) = (n for n, line in enumerate(lines) if "2.0f" in line)
        assert lines[store - 1] == wanted, kind


@pytest.mark.parametrize("target", ["opencl", "cuda -emulate=1", "metal -emulate=1"])
def test_such_sources_compile_and_run(target, monkeypatch):
    pytest.importorskip("pyopencl" if target == "opencl" else "numpy")
    import numpy as np

    from tilewright.backend import build

    monkeypatch.setenv("TILEWRIGHT_DEBUG_INFO", "1")
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    build(doubled(True), target)["doubled"](a, b)
    np.testing.assert_array_equal(b, a * 2)
