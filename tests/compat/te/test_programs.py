"""Classic programs of tensor expressions, as people wrote them, with NumPy as the oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.errors import InputError, TargetError, UnsupportedError

pytestmark = pytest.mark.usefixtures("classic")


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def test_vector_add_of_any_length() -> None:
    import tvm
    from tvm import te

    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.placeholder((n,), name="B")
    c = te.compute(a.shape, lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    _outer, inner = s[c].split(c.op.axis[0], factor=8)
    s[c].vectorize(inner)
    add = tvm.build(s, [a, b, c], "llvm", name="add")
    dev = tvm.device("llvm", 0)
    x, y = _random(37), _random(37, seed=1)
    out = tvm.nd.array(np.zeros(37, "float32"), dev)
    add(tvm.nd.array(x, dev), tvm.nd.array(y, dev), out)
    tvm.testing.assert_allclose(out.numpy(), x + y)
    assert add.entry_name == "add" and "add" in add.get_source() and add.type_key == "llvm"
    seconds = add.time_evaluator(add.entry_name, dev, number=2, repeat=3)(tvm.nd.array(x), tvm.nd.array(y), out)
    assert len(seconds.results) == 3 and seconds.mean > 0


def test_matmul_in_tiles_with_a_write_cache() -> None:
    import tvm
    from tvm import te

    size = 32
    k = te.reduce_axis((0, size), "k")
    a = te.placeholder((size, size), name="A")
    b = te.placeholder((size, size), name="B")
    c = te.compute((size, size), lambda m, n: te.sum(a[m, k] * b[k, n], axis=k), name="C")
    s = te.create_schedule(c.op)
    cache = s.cache_write(c, "local")
    mo, no, _mi, _ni = s[c].tile(c.op.axis[0], c.op.axis[1], 8, 8)
    s[cache].compute_at(s[c], no)
    ko, ki = s[cache].split(s[cache].op.reduce_axis[0], factor=4)
    s[cache].reorder(ko, s[cache].op.axis[0], ki, s[cache].op.axis[1])
    s[cache].unroll(ki)
    s[cache].vectorize(s[cache].op.axis[1])
    s[c].parallel(mo)
    assert "for" in str(tvm.lower(s, [a, b, c], simple_mode=True))
    func = tvm.build(s, [a, b, c], target="llvm", name="mmult")
    x, y = _random(size, size), _random(size, size, seed=1)
    out = tvm.nd.empty((size, size))
    func(tvm.nd.array(x), tvm.nd.array(y), out)
    tvm.testing.assert_allclose(out.numpy(), x @ y, rtol=1e-4, atol=1e-4)


def test_rfactor_of_a_sum() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((12, 40), name="A")
    k = te.reduce_axis((0, 40), "k")
    b = te.compute((12,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, ki = s[b].split(b.op.reduce_axis[0], factor=8)
    bf = s.rfactor(b, ki)
    assert tuple(tvm.topi.utils.get_const_tuple(bf.shape)) == (8, 12)
    x, out = _random(12, 40), tvm.nd.empty((12,))
    tvm.build(s, [a, b])(tvm.nd.array(x), out)
    tvm.testing.assert_allclose(out.numpy(), x.sum(axis=1), rtol=1e-4, atol=1e-5)


def test_cumulative_sum_by_a_scan() -> None:
    import tvm
    from tvm import te

    m, n = te.var("m"), te.var("n")
    x = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: x[0, i])
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i])
    scan = tvm.te.scan(init, update, state, inputs=[x])
    s = te.create_schedule(scan.op)
    data, out = _random(7, 5), tvm.nd.empty((7, 5))
    tvm.build(s, [x, scan], "llvm", name="cumsum")(tvm.nd.array(data), out)
    tvm.testing.assert_allclose(out.numpy(), np.cumsum(data, axis=0), rtol=1e-5, atol=1e-5)


def test_an_extern_stage_calls_a_python_function() -> None:
    import tvm
    from tvm import te

    @tvm.register_func("tests.compat.double", override=True)
    def double(x: tvm.nd.NDArray, y: tvm.nd.NDArray) -> None:
        assert isinstance(x, tvm.nd.NDArray)
        tvm.nd.array(2 * x.numpy()).copyto(y)

    a = te.placeholder((6,), name="A")
    b = te.extern((6,), [a], lambda ins, outs: tvm.tir.call_packed("tests.compat.double", ins[0], outs[0]), name="B")
    x, out = _random(6), tvm.nd.empty((6,))
    tvm.build(te.create_schedule(b.op), [a, b], "llvm")(tvm.nd.array(x), out)
    tvm.testing.assert_allclose(out.numpy(), 2 * x)
    assert tvm.get_global_func("tests.compat.double") is double
    assert tvm.get_global_func("tests.compat.nothing", allow_missing=True) is None
    with pytest.raises(InputError, match=r"no function registered as .tests.compat.nothing.; tvm\.register_func"):
        tvm.get_global_func("tests.compat.nothing")


def test_an_extern_stage_written_with_the_builder() -> None:
    import tvm
    from tvm import te

    n = te.size_var("n")
    a = te.placeholder((n,), name="A")

    def reverse(ins: list, outs: list) -> tvm.tir.Stmt:
        ib = tvm.tir.ir_builder.create()
        source, target = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, n, name="i") as i:
            target[i] = source[n - 1 - i]
        return ib.get()

    b = te.extern(a.shape, [a], reverse, name="B", dtype="float32")
    x, out = _random(9), tvm.nd.empty((9,))
    tvm.build(te.create_schedule(b.op), [a, b], "llvm")(tvm.nd.array(x), out)
    tvm.testing.assert_allclose(out.numpy(), x[::-1].copy())


def test_a_tensorized_row_product() -> None:
    import tvm
    from tvm import te

    length = 8

    def dot_intrinsic() -> te.TensorIntrin:
        x = te.placeholder((length,), name="x")
        y = te.placeholder((length,), name="y")
        k = te.reduce_axis((0, length), name="k")
        z = te.compute((1,), lambda _: te.sum(x[k] * y[k], axis=k), name="z")
        bx = tvm.tir.decl_buffer(x.shape, x.dtype, name="bx", offset_factor=1, strides=[1])
        by = tvm.tir.decl_buffer(y.shape, y.dtype, name="by", offset_factor=1, strides=[1])
        bz = tvm.tir.decl_buffer(z.shape, z.dtype, name="bz", offset_factor=1, strides=[1])

        def intrin_func(ins: list, outs: list) -> tuple:
            def accumulate(fresh: bool) -> tvm.tir.Stmt:
                ib = tvm.tir.ir_builder.create()
                out = ib.buffer_ptr(outs[0])
                left, right = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1])
                if fresh:
                    out[0] = 0.0
                with ib.for_range(0, length, name="i") as i:
                    out[0] = out[0] + left[i] * right[i]
                return ib.get()

            ib = tvm.tir.ir_builder.create()
            ib.buffer_ptr(outs[0])[0] = 0.0
            return accumulate(True), ib.get(), accumulate(False)

        return te.decl_tensor_intrin(z.op, intrin_func, binds={x: bx, y: by, z: bz})

    a = te.placeholder((5, 24), name="A")
    b = te.placeholder((7, 24), name="B")
    k = te.reduce_axis((0, 24), name="k")
    c = te.compute((5, 7), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    ko, ki = s[c].split(c.op.reduce_axis[0], factor=length)
    jo, ji = s[c].split(j, factor=1)
    s[c].reorder(i, jo, ko, ji, ki)
    s[c].tensorize(ji, dot_intrinsic())
    x, y, out = _random(5, 24), _random(7, 24, seed=1), tvm.nd.empty((5, 7))
    tvm.build(s, [a, b, c], "llvm")(tvm.nd.array(x), tvm.nd.array(y), out)
    tvm.testing.assert_allclose(out.numpy(), x @ y.T, rtol=1e-4, atol=1e-5)


def test_operations_of_several_outputs() -> None:
    import tvm
    from tvm import te

    m, n = te.var("m"), te.var("n")
    a0 = te.placeholder((m, n), name="A0")
    a1 = te.placeholder((m, n), name="A1")
    b0, b1 = te.compute((m, n), lambda i, j: (a0[i, j] + 2, a1[i, j] * 3), name="B")
    s = te.create_schedule(b0.op)
    x, y = _random(3, 4), _random(3, 4, seed=1)
    first, second = tvm.nd.empty((3, 4)), tvm.nd.empty((3, 4))
    tvm.build(s, [a0, a1, b0, b1])(tvm.nd.array(x), tvm.nd.array(y), first, second)
    tvm.testing.assert_allclose(first.numpy(), x + 2)
    tvm.testing.assert_allclose(second.numpy(), y * 3)


@pytest.mark.parametrize(
    ("name", "oracle"),
    [("exp", np.exp), ("tanh", np.tanh), ("sqrt", np.sqrt), ("log2", np.log2), ("asinh", np.arcsinh),
     ("cosh", np.cosh), ("exp10", lambda x: 10.0**x), ("nearbyint", np.rint)],
)  # fmt: skip
def test_math_by_name(name: str, oracle: object) -> None:
    import tvm
    from tvm import te

    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: getattr(te, name)(a[i]), name="B")
    x, out = np.linspace(0.1, 2, 16).astype("float32"), tvm.nd.empty((16,))
    tvm.build(te.create_schedule(b.op), [a, b])(tvm.nd.array(x), out)
    tvm.testing.assert_allclose(out.numpy(), oracle(x), rtol=1e-5)


def test_integer_math_rounds_as_it_says() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((8,), name="A", dtype="int32")
    outs = te.compute(
        (8,), lambda i: (te.floordiv(a[i], 3), te.div(a[i], 3), te.max(a[i], 1), te.min(a[i], -1)), name="B"
    )
    x = np.arange(-4, 4).astype("int32")
    results = [tvm.nd.empty((8,), "int32") for _ in outs]
    tvm.build(te.create_schedule(outs[0].op), [a, *outs])(tvm.nd.array(x), *results)
    expected = [x // 3, np.trunc(x / 3).astype("int32"), np.maximum(x, 1), np.minimum(x, -1)]
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
    assert te.max_value("int8").value == 127 and te.min_value("float32").value == np.finfo("float32").min


def test_code_for_another_processor_is_text_and_objects(tmp_path: Path) -> None:
    import tvm
    from tvm import te

    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    module = tvm.build(s, [a, b], "llvm -mtriple=aarch64-linux-gnu", name="twice")
    assert "aarch64" in module.get_source()
    module.save(tmp_path / "twice.o")
    assert (tmp_path / "twice.o").read_bytes()[:4] == b"\x7fELF"
    with pytest.raises(TargetError, match=r"cannot run code for .*aarch64.*save it instead"):
        module["twice"]
    text = tvm.build(s, [a, b], "c", name="twice").get_source()
    assert "twice" in text and "for (" in text


def test_kernels_of_threads_run_where_their_target_says() -> None:
    import tvm
    from tvm import te

    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    bx, tx = s[b].split(b.op.axis[0], factor=64)
    s[b].bind(bx, te.thread_axis("blockIdx.x"))
    s[b].bind(tx, te.thread_axis("threadIdx.x"))
    func = tvm.build(s, [a, b], "cuda -emulate=1", name="plus_one")
    dev = tvm.device("cuda", 0)
    x, out = _random(100), tvm.nd.empty((100,), device=dev)
    func(tvm.nd.array(x, dev), out)
    tvm.testing.assert_allclose(out.numpy(), x + 1)
    assert "threadIdx.x" in func.imported_modules[0].get_source()


def test_an_extern_stage_of_vectors() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((2, 8), name="A")

    def twice(ins: list, outs: list) -> tvm.tir.Stmt:
        ib = tvm.tir.ir_builder.create()
        with ib.for_range(0, 4, name="i") as i:
            position = (i // 2, i % 2 * 4)
            ib.emit(outs[0].vstore(position, ins[0].vload(position, "float32x4") * tvm.tir.Broadcast(2.0, 4)))
        return ib.get()

    b = te.extern((2, 8), [a], twice, name="B")
    x, out = _random(2, 8), tvm.nd.empty((2, 8))
    tvm.build(te.create_schedule(b.op), [a, b], "llvm")(tvm.nd.array(x), out)
    tvm.testing.assert_allclose(out.numpy(), 2 * x)


def test_several_schedules_make_one_module() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((4,), name="A")
    parts = []
    for name, factor in (("twice", 2.0), ("thrice", 3.0)):
        b = te.compute((4,), lambda i, factor=factor: a[i] * factor, name="B")
        parts.append(tvm.lower(te.create_schedule(b.op), [a, b], name=name))
    module = tvm.build(parts, target="llvm")
    assert tvm.build({"c": parts[0]}).type_key == "c" and int(a.shape[0]) == 4 and a.shape[0].same_as(b.shape[0])
    with pytest.raises(UnsupportedError, match="built for one target, not for 2"):
        tvm.build({"c": parts[0], "llvm": parts[1]})
    out = tvm.nd.empty((4,))
    module["thrice"](tvm.nd.array(np.ones(4, "float32")), out)
    assert out.numpy().tolist() == [3, 3, 3, 3]
    with pytest.raises(InputError, match="has no function 'fourfold'; it has: twice, thrice"):
        module["fourfold"]
    with pytest.raises(InputError, match="takes the list of its arguments too"):
        tvm.lower(te.create_schedule(b.op))


def test_bounds_and_loops_of_a_schedule() -> None:
    import tvm
    from tvm import te

    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=4)
    bounds = tvm.te.schedule.InferBound(s)
    assert bounds[inner].extent.value == 4
    tvm.testing.assert_prim_expr_equal(bounds[outer].extent, (n + 3) // 4)
    with pytest.raises(ValueError, match="is not known to equal"):
        tvm.testing.assert_prim_expr_equal(bounds[outer].extent, n)
    stmt = tvm.te.schedule.ScheduleOps(s, bounds)
    loops: list = []
    tvm.tir.stmt_functor.post_order_visit(stmt, lambda node: loops.append(node) if isinstance(node, tvm.tir.For) else 0)
    assert len(loops) == 2


@pytest.mark.parametrize(("target", "kind"), [("cuda -emulate=1", "cuda"), ("opencl", "opencl")])
def test_arrays_of_a_device_stay_there(target: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import tvm
    from tvm import te

    if kind == "opencl":
        pytest.importorskip("pyopencl")
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    func = tvm.build(s, [a, b], target, name="twice")
    copies = _count_copies(func["twice"]._code.api, monkeypatch)
    dev, data = tvm.device(kind, 0), _random(64)
    x, y, z = tvm.nd.array(data, dev), tvm.nd.empty((64,), device=dev), tvm.nd.empty((64,), device=dev)
    assert x.device == dev and copies == {"write": 0, "read": 0}
    for _ in range(3):
        func(x, y)
        func(y, z)
    assert copies == {"write": 3, "read": 0}
    tvm.testing.assert_allclose(z.numpy(), data * 4)
    tvm.testing.assert_allclose(z.numpy(), data * 4)
    assert copies == {"write": 3, "read": 1}
    x[0] = 5.0
    func(x, y)
    assert y.numpy()[0] == 10.0 and copies == {"write": 4, "read": 2}
    seconds = func.time_evaluator("twice", dev, number=2, repeat=2)(x, y).results
    assert len(seconds) == 2 and copies == {"write": 4, "read": 2}
    tvm.testing.assert_allclose(y.copyto(tvm.cpu()).numpy(), x.numpy() * 2)
    host = tvm.nd.empty((64,))
    z.copyto(host)
    tvm.testing.assert_allclose(host.numpy(), data * 4)
    func(host, y.copyfrom(data))
    tvm.testing.assert_allclose(y.numpy(), data * 8)
    on_cpu = tvm.build(te.create_schedule(b.op), [a, b], "llvm")
    with pytest.raises(InputError, match=rf"argument 0 is an array of {kind}\(0\), and the function runs on cpu"):
        on_cpu(x, host)


def _count_copies(api: object, patch: pytest.MonkeyPatch) -> dict[str, int]:
    """Counts of the device's copies from and to the host from now on."""
    counts = {"write": 0, "read": 0}
    for name in counts:

        def counted(*args: object, name: str = name, own: object = getattr(api, name)) -> object:
            counts[name] += 1
            return own(*args)

        patch.setattr(api, name, counted)
    return counts


def test_an_intrinsic_declared_and_called_in_the_classic_way() -> None:
    import tvm
    from tvm import te

    n = 8

    def intrinsic() -> object:
        x, y = te.placeholder((n,), name="x"), te.placeholder((n,), name="y")
        z = te.compute((n,), lambda i: x[i] + y[i], name="z")

        def body(ins: list, outs: list) -> object:
            ib = tvm.tir.ir_builder.create()
            a, b, c = map(ib.buffer_ptr, (*ins, outs[0]))
            with ib.for_range(0, n, "i") as i:
                c[i] = a[i] + b[i]
            return ib.get()

        return te.decl_tensor_intrin(z.op, body, default_buffer_params={"offset_factor": 1, "data_alignment": 16})

    a, b = te.placeholder((4, n), name="a"), te.placeholder((4, n), name="b")
    add = intrinsic()
    called = te.compute((4, n), lambda i: add(a[i, 0:n], b[i, 0:n]), name="called")
    plain = te.compute((4, n), lambda i, j: a[i, j] + b[i, j], name="plain")
    tensorized = te.create_schedule(plain.op)
    tensorized[plain].tensorize(plain.op.axis[1], add)
    x, y = np.arange(32, dtype="float32").reshape(4, n), np.ones((4, n), "float32")
    for s, out in ((te.create_schedule(called.op), called), (tensorized, plain)):
        result = tvm.nd.empty((4, n))
        tvm.build(s, [a, b, out], "llvm")(tvm.nd.array(x), tvm.nd.array(y), result)
        np.testing.assert_array_equal(result.numpy(), x + y)


def test_a_reducer_of_two_expressions_and_the_loops_of_a_scan() -> None:
    import tvm
    from tvm import te

    larger = te.comm_reducer(lambda x, y: te.max(x, y), lambda t: tvm.tir.const(-9, t), name="larger")
    a = te.placeholder((3, 4), "int32", name="a")
    k = te.reduce_axis((0, 4), "k")
    rows = te.compute((3,), lambda i: larger(a[i, k], axis=k), name="rows")
    out = te.compute((3,), lambda i: larger(rows[i], i * 2, 1), name="out")
    x = np.array([[1, -3, 0, -2], [1, 7, 2, 3], [-5, -5, -5, -5]], "int32")
    result = tvm.nd.empty((3,), "int32")
    tvm.build(te.create_schedule(out.op), [a, out], "llvm")(tvm.nd.array(x), result)
    np.testing.assert_array_equal(result.numpy(), np.maximum(np.maximum(x.max(1), [0, 2, 4]), 1))
    state, first = te.placeholder((5, 4)), te.compute((1, 4), lambda _, i: a[0, i].astype("float32"))
    update = te.compute((5, 4), lambda t, i: state[t - 1, i] + 1.0)
    s = te.create_schedule(te.scan(first, update, state).op)
    assert "for" in repr(te.schedule.ScheduleOps(s, te.schedule.InferBound(s)))
