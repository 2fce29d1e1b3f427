"""Idioms of the classic stack's tutorials, written anew, with NumPy as the oracle; CUDA is emulated on the host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import compat
from tilewright.compat.__main__ import main
from tilewright.errors import ArtifactError, InputError, UnsupportedError


@pytest.fixture
def emulated() -> Iterator[None]:
    compat.install(emulate=True)
    yield
    compat.install()


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def test_a_script_runs_with_emulated_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "program.py"
    script.write_text("import tvm\nprint(tvm.target.Target('cuda').emulate, tvm.target.Target('llvm').kind)\n")
    assert main(["--emulate", str(script)]) == 0
    assert main([str(script)]) == 0
    assert capsys.readouterr().out.splitlines() == ["1 llvm", "0 llvm"]
    assert main(["--emulate"]) == 2


@pytest.mark.sample(2)
@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize(("rows", "columns"), [(64, 48), (37, 48), (37, 50), (5, 3)])
def test_factored_reduction_across_threads_of_any_lengths(rows: int, columns: int) -> None:
    import tvm
    from tvm import te

    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="a")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="b")
    s = te.create_schedule(b.op)
    _ko, ki = s[b].split(b.op.reduce_axis[0], factor=16)
    part = s.rfactor(b, ki)
    block, thread = s[b].split(s[b].op.axis[0], factor=8)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], tx)
    s[part].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(tx.var.equal(0))
    func = tvm.build(s, [a, b], "cuda")
    dev, x = tvm.cuda(0), _random(rows, columns)
    out = tvm.nd.array(np.zeros(rows, "float32"), dev)
    func(tvm.nd.array(x, dev), out)
    np.testing.assert_allclose(out.numpy(), x.sum(axis=1), rtol=1e-4, atol=1e-5)


def _one_kernel(make: Any, name: str) -> tuple[Any, Any]:
    """A vector of any length, what `make` computes of an element of it, and their schedule bound to threads."""
    from tvm import te

    n = te.var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute(a.shape, lambda i: make(a[i]), name=name)
    s = te.create_schedule(b.op)
    block, thread = s[b].split(b.op.axis[0], factor=32)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    return s, [a, b]


def _run(func: Any, x: np.ndarray) -> np.ndarray:
    import tvm

    dev = tvm.cuda(0)
    out = tvm.nd.array(np.zeros_like(x), dev)
    func(tvm.nd.array(x, dev), out)
    return np.asarray(out.numpy())


@pytest.mark.usefixtures("emulated")
def test_a_device_function_by_its_own_name() -> None:
    import tvm

    s, args = _one_kernel(lambda x: tvm.tir.call_pure_extern("float32", "__expf", x), "fast")
    func = tvm.build(s, args, "cuda", name="fast")
    x = _random(70)
    assert "__expf(" in func.imported_modules[0].get_source()
    np.testing.assert_allclose(_run(func, x), np.exp(x), rtol=1e-5)


@pytest.mark.usefixtures("emulated")
def test_rules_say_what_becomes_of_intrinsics() -> None:
    import tvm
    from tvm.ir import register_intrin_lowering, register_op_attr

    def declared(x: Any) -> Any:
        return tvm.tir.call_intrin(x.dtype, "tir.test_log_of_square", x)

    register_op_attr("tir.test_log_of_square", "TCallEffectKind", tvm.tir.CallEffectKind.Pure)
    s, args = _one_kernel(declared, "logs")
    with pytest.raises(UnsupportedError, match=r"no rule lowers tir.test_log_of_square on 'cuda'"):
        tvm.build(s, args, "cuda")
    seen = []

    def rule(call: Any) -> Any:
        seen.append((call.op.name, str(call.dtype), isinstance(call, tvm.tir.Call)))
        return tvm.tir.call_pure_extern("float32", "logf", call.args[0] * call.args[0])

    register_intrin_lowering("tir.test_log_of_square", target="cuda", f=rule, level=20)
    register_intrin_lowering("tir.test_log_of_square", target="cuda", f=lambda call: call, level=5)
    with pytest.raises(InputError, match="has a rule of level 20 for cuda already"):
        register_intrin_lowering("tir.test_log_of_square", target="cuda", f=rule, level=20)
    func = tvm.build(s, args, "cuda", name="logs")
    assert set(seen) == {("tir.test_log_of_square", "float32", True)}
    x = _random(70)
    np.testing.assert_allclose(_run(func, x), np.log(x * x), rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("emulated")
def test_schedules_of_topi_for_a_device_take_sums_over_everything() -> None:
    import tvm
    from tvm import te, topi

    a, b = te.placeholder((6, 5, 5), name="a"), te.placeholder((5, 5), name="b")
    total = topi.sum(topi.elemwise_sum([a + b, a * b]) / 2.0)
    with tvm.target.cuda():
        s = topi.cuda.schedule_reduce(total)
        assert "thread" in str(tvm.lower(s, [a, b], simple_mode=True))
    func = tvm.build(s, [a, b, total], "cuda")
    dev, x, y = tvm.cuda(0), _random(6, 5, 5), _random(5, 5, seed=1)
    out = tvm.nd.array(np.zeros((), "float32"), dev)
    func(tvm.nd.array(x, dev), tvm.nd.array(y, dev), out)
    np.testing.assert_allclose(out.numpy(), ((x + y + x * y) / 2).sum(), rtol=1e-4)


def test_loops_are_shown_without_naming_the_output() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((te.var("n"), 8), name="a")
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((a.shape[0],), lambda i: te.sum(a[i, k], axis=k), name="rows")
    s = te.create_schedule(b.op)
    text = str(tvm.lower(s, [a], simple_mode=True))
    assert "rows" in text and "for k in range(8)" in text
    assert tvm.lower(s, [a])["main"].params[0].name == "a"


@pytest.mark.parametrize("library", ["cblas", "mkl", "cublas"])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_by_the_registered_functions_of_libraries(library: str, transposed: bool) -> None:
    import tvm
    from tvm import te

    name = f"tvm.contrib.{library}.matmul"
    assert tvm.get_global_func(name, allow_missing=True)
    bias = te.var("bias", dtype="float32")
    a, b = te.placeholder((6, 4), name="a"), te.placeholder((5, 4) if transposed else (4, 5), name="b")
    c = te.extern(
        (6, 5), [a, b], lambda ins, outs: tvm.tir.call_packed(name, ins[0], ins[1], outs[0], False, transposed)
    )
    d = te.compute(c.shape, lambda i, j: c[i, j] + bias, name="d")
    func = tvm.build(te.create_schedule(d.op), [a, b, d, bias], "llvm")
    x, y = _random(6, 4), _random(*((5, 4) if transposed else (4, 5)), seed=1)
    out = tvm.nd.array(np.zeros((6, 5), "float32"))
    func(tvm.nd.array(x), tvm.nd.array(y), out, 10.0)
    np.testing.assert_allclose(out.numpy(), x @ (y.T if transposed else y) + 10, rtol=1e-5)


def _adder(name: str, step: float) -> Any:
    import tvm
    from tvm import te

    a = te.placeholder((te.var("n"),), name="a")
    b = te.compute(a.shape, lambda i: a[i] + step, name="b")
    return tvm.build(te.create_schedule(b.op), [a, b], "llvm", name=name)


def test_objects_linked_into_a_library_are_loaded_again(tmp_path: Path) -> None:
    import tvm
    from tvm.contrib import cc

    if cc.get_cc() is None:
        pytest.skip("there is no C compiler")
    objects = []
    for name, step in (("add_one", 1.0), ("add_two", 2.0)):
        objects.append(str(tmp_path / f"{name}.o"))
        _adder(name, step).save(objects[-1])
    library = str(tmp_path / "both.so")
    cc.create_shared(library, objects)
    loaded = tvm.runtime.load_module(library)
    x, out = _random(9), tvm.nd.array(np.zeros(9, "float32"))
    for name, step in (("add_one", 1.0), ("add_two", 2.0)):
        loaded[name](tvm.nd.array(x), out)
        np.testing.assert_array_equal(out.numpy(), x + np.float32(step))
    with pytest.raises(InputError, match="no function 'add_three'"):
        loaded["add_three"]
    alone = tvm.runtime.load_module(objects[1])
    alone(tvm.nd.array(x), out)
    np.testing.assert_array_equal(out.numpy(), x + np.float32(2))


def test_a_library_without_a_module_is_refused(tmp_path: Path) -> None:
    import tvm

    path = tmp_path / "other.so"
    path.write_bytes(b"\x7fELF" + bytes(200))
    with pytest.raises(ArtifactError, match="has no module in it"):
        tvm.runtime.load_module(str(path))
    with pytest.raises(ArtifactError):
        tvm.runtime.load_module(str(tmp_path / "missing.so"))


def test_kernels_of_a_device_that_is_not_there_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    import tvm

    from tilewright.codegen import build_device
    from tilewright.errors import EnvironmentError_

    def no_device(kind: str, emulate: bool = False, ordinal: int | None = None) -> Any:
        raise EnvironmentError_(f"no {kind} here")

    monkeypatch.setattr(build_device, "open_device", no_device)
    s, args = _one_kernel(lambda x: x + 1, "more")
    func = tvm.build(s, args, "opencl", name="more")
    assert "__kernel" in func.imported_modules[0].get_source()
    with pytest.raises(EnvironmentError_, match="no opencl here"):
        func(None, None)


def test_a_schedule_tells_how_its_loops_run() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((32, 32), name="a")
    b = te.compute((32, 32), lambda i, j: a[i, j] * 2, name="b")
    s = te.create_schedule(b.op)
    i, j = b.op.axis
    outer, inner = s[b].split(i, factor=4)
    wide, lanes = s[b].split(j, factor=8)
    thread = te.thread_axis("vthread")
    s[b].unroll(inner)
    s[b].vectorize(lanes)
    s[b].bind(outer, thread)
    s[b].pragma(wide, "auto_unroll_max_step", 16)
    found, kinds = s[b].iter_var_attrs, tvm.te.schedule.IterVar
    assert found[inner].iter_type == kinds.Unrolled != kinds.Vectorized == found[lanes].iter_type
    assert found[outer].iter_type == kinds.ThreadIndex and found[outer].bind_thread is thread
    assert [key.value for key in found[wide].pragma_keys] == ["auto_unroll_max_step"]
    assert [int(value) for value in found[wide].pragma_values] == [16]
    assert found[inner].tensor_intrin is None and kinds.CommReduce is kinds.REDUCE
