"""Small things that classic programs of several versions do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


def test_devices_of_time_evaluators_by_their_older_name() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] + 1.0, name="b")
    func = tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="plus_one")
    arrays = [tvm.nd.array(np.zeros(16, "float32")) for _ in range(2)]
    assert func.time_evaluator(func.entry_name, ctx=tvm.cpu(), number=2)(*arrays).mean > 0
    np.testing.assert_array_equal(arrays[1].numpy(), np.ones(16))
    with pytest.raises(tvm.TVMError, match="dev and ctx"):
        func.time_evaluator(func.entry_name, ctx=tvm.cpu(), dev=tvm.cpu())


def test_a_function_without_a_module_is_its_schedules_main() -> None:
    import tvm
    from tvm import te, tir
    from tvm.tir.schedule.testing import assert_structural_equal_ignore_global_symbol

    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] * 2.0, name="b")
    func = te.create_prim_func([a, b])
    renamed = func.with_attr("global_symbol", "doubled")
    for given in (func, renamed):
        schedule = tir.Schedule(given)
        (loop,) = schedule.get_loops(schedule.get_block("b"))
        schedule.split(loop, [None, 4])
        assert schedule.mod["main"] is not None
        values = tvm.nd.array(np.arange(16, dtype="float32")), tvm.nd.array(np.zeros(16, "float32"))
        tvm.build(schedule.mod["main"], target="llvm")(*values)
        np.testing.assert_array_equal(values[1].numpy(), 2 * np.arange(16))
    assert_structural_equal_ignore_global_symbol(func, tvm.IRModule({"main": func}))
    assert issubclass(tir.ScheduleError, tvm.TVMError) and tir.schedule.ScheduleError is tir.ScheduleError


def test_modules_that_programs_import_from() -> None:
    import tvm
    from tvm import relay, tir
    from tvm.ir.base import Span, assert_structural_equal, structural_equal
    from tvm.relay.op import transform

    x = relay.var("x", shape=(2, 6))
    assert structural_equal(transform.reshape(x, (3, 4)), relay.reshape(x, (3, 4))) and Span is not None
    assert_structural_equal(transform.transpose(x), relay.transpose(x))
    with pytest.raises(tvm.TVMError, match="decl_tensor_intrin"):
        tir.TensorIntrin.register("dot", None, None)


def test_rules_of_a_program_for_mixed_precision() -> None:
    import tvm
    from tvm import relay
    from tvm.relay.op import register_mixed_precision_conversion
    from tvm.relay.transform import ToMixedPrecision, mixed_precision

    assert mixed_precision.register_mixed_precision_conversion is register_mixed_precision_conversion
    x, w = relay.var("x", shape=(2, 8)), relay.var("w", shape=(4, 8))
    mod = tvm.IRModule.from_expr(relay.nn.relu(relay.nn.dense(x, w)))

    def types(**options: int) -> list[str]:
        found: list[str] = []
        after = ToMixedPrecision("float16", **options)(mod)

        def visit(node: relay.Expr) -> None:
            if isinstance(node, relay.Call) and node.op.name in ("nn.dense", "nn.relu"):
                found.append(node.checked_type.dtype)

        relay.analysis.post_order_visit(after["main"], visit)
        return found

    assert types() == ["float32", "float16"]  # sums in float32

    @register_mixed_precision_conversion("nn.dense", level=11)
    def narrow_sums(call: relay.Call, mixed_precision_type: str) -> list[object]:
        return [0, mixed_precision_type, mixed_precision_type]

    register_mixed_precision_conversion("nn.relu", lambda call, kind: [2, "float32", kind], level=11)
    try:
        register_mixed_precision_conversion("nn.dense", lambda call, kind: [2, kind, kind])  # a lower level
        assert types() == ["float16", "float32"]
    finally:
        from tilewright.compat.ir.passes import _MIXED

        _MIXED.clear()


def test_quantized_depthwise_convolutions_with_several_results_of_a_channel() -> None:
    import tvm
    import tvm.topi.testing
    from tvm import relay

    rng = np.random.default_rng(0)
    data = rng.integers(0, 255, (1, 4, 8, 8)).astype("uint8")
    weight = rng.integers(0, 255, (4, 2, 3, 3)).astype("uint8")
    x = relay.var("x", shape=data.shape, dtype="uint8")
    w = relay.var("w", shape=weight.shape, dtype="uint8")
    zeros = [relay.const(value, "int32") for value in (3, 5)]
    scales = [relay.const(1.0, "float32")] * 2
    made = relay.qnn.op.conv2d(x, w, *zeros, *scales, kernel_size=(3, 3), channels=8, groups=4, out_dtype="int32")
    result = relay.create_executor("graph", mod=tvm.IRModule.from_expr(made), target="llvm").evaluate()(data, weight)
    apart = data.astype("int32") - 3, weight.astype("int32") - 5
    expected = tvm.topi.testing.depthwise_conv2d_python_nchw(*apart, (1, 1), "VALID")
    np.testing.assert_array_equal(result.numpy(), expected)


def test_matrices_in_c_and_wide_vectors() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((4, 4096), name="a")
    b = te.compute(a.shape, lambda i, j: a[i, j] * 2.0, name="b")
    schedule = te.create_schedule(b.op)
    schedule[b].vectorize(schedule[b].split(b.op.axis[1], 2048)[1])
    lowered = tvm.lower(schedule, [a, b], name="doubled")
    assert "doubled" in tvm.build(lowered, target="c").get_source()
    values = np.random.default_rng(0).random((4, 4096), np.float32)
    arrays = tvm.nd.array(values), tvm.nd.array(np.zeros_like(values))
    tvm.build(lowered, target="llvm")(*arrays)
    np.testing.assert_array_equal(arrays[1].numpy(), values * 2)


def test_loads_and_stores_at_the_address_of_a_buffer() -> None:
    import tvm
    from tvm import te, tir

    n, i = te.size_var("n"), te.var("i")
    numbers = tir.decl_buffer((n,), "int64")
    step = tir.Store(numbers.data, tir.Load("int64", numbers.data, i) + 1, i + 1)
    func = tir.PrimFunc([numbers], tir.For(i, 0, n - 1, tir.ForKind.SERIAL, step))
    made = tvm.nd.array(np.zeros(10, "int64"))
    tvm.build(tvm.IRModule.from_expr(func.with_attr("global_symbol", "main")), target="llvm")(made)
    np.testing.assert_array_equal(made.numpy(), np.arange(10))


def test_modules_saved_as_llvm_ir(tmp_path: Path) -> None:
    import tvm
    from tvm import te

    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] + 1.0, name="b")
    module = tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="plus_one")
    for ending in ("ll", "bc"):
        module.save(tmp_path / f"module.{ending}")
    assert (tmp_path / "module.bc").read_bytes()[:2] == b"BC"
    arrays = [tvm.nd.array(np.zeros(16, "float32")) for _ in range(2)]
    tvm.runtime.load_module(str(tmp_path / "module.ll"))(*arrays)
    np.testing.assert_array_equal(arrays[1].numpy(), np.ones(16))


def test_factored_reductions_keep_the_axes_that_are_left() -> None:
    from tvm import te

    a = te.placeholder((8, 16, 32), name="a")
    first, second = te.reduce_axis((0, 16), name="first"), te.reduce_axis((0, 32), name="second")
    b = te.compute((8,), lambda i: te.sum(a[i, first, second], axis=[first, second]), name="b")
    schedule = te.create_schedule(b.op)
    outer, inner = schedule[b].split(first, factor=4)
    assert schedule[b].all_iter_vars == [b.op.axis[0], first, second, outer, inner]
    partial = schedule.rfactor(b, inner)
    kept, split = partial.op.body[0].axis
    assert kept is second and split.var is outer.var
    assert len(schedule[b].all_iter_vars) == 2


def test_one_expression_in_several_programs() -> None:
    import tvm
    from tvm import relay
    from tvm.relay.prelude import Prelude

    mod = tvm.IRModule()
    prelude = Prelude(mod)
    _, cons, nil = prelude.mod.get_type("List")
    x, found = relay.Var("x"), relay.Var("found")
    same = relay.Function([x], relay.Match(x, [relay.Clause(relay.PatternVar(found), found)]))
    executor = relay.create_executor(mod=mod)
    assert executor.evaluate(same(nil())).constructor.name_hint == "Nil"
    assert executor.evaluate(same(cons(relay.const(1), nil()))).fields[0].numpy() == 1


def test_types_of_weights_by_the_layout_of_the_data() -> None:
    from tvm import relay
    from tvm.relay.testing import run_infer_type

    rows, volumes = relay.var("x", shape=(4, 9, 8)), relay.var("x", shape=(4, 5, 6, 7, 8))
    made = relay.nn.conv1d(rows, relay.var("w"), kernel_size=3, channels=2, data_layout="NWC")
    assert run_infer_type(made).args[1].checked_type == relay.TensorType((2, 8, 3))
    made = relay.nn.conv3d(volumes, relay.var("w"), kernel_size=(1, 2, 3), channels=2, data_layout="NDHWC")
    assert run_infer_type(made).args[1].checked_type == relay.TensorType((2, 8, 1, 2, 3))


def test_gradients_made_when_they_are_read() -> None:
    import tvm
    from tvm import relay

    mod = tvm.IRModule()
    mod.import_from_std("gradient.rly")
    raw, one, zero = mod.get_type("GradCell")[1:]
    thunk = relay.Function([], relay.const(1.0))
    a, b = relay.var("a", "float32"), relay.var("b", "float32")
    product, total = relay.Function([a, b], a * b), relay.Function([a, b], a + b)
    read, multiply, add = (mod.get_global_var(f"{name}GradCell") for name in ("From", "Multiply", "Add"))
    cells = raw(relay.const(3.0)), one(thunk), zero(relay.Function([], relay.const(0.0)))
    executor = relay.create_executor(mod=mod)
    for cell, expected in (
        (multiply(product, cells[0], cells[1]), 3.0),
        (multiply(product, cells[0], cells[2]), 0.0),
        (add(total, cells[0], cells[1]), 4.0),
        (add(total, cells[2], cells[0]), 3.0),
    ):
        assert executor.evaluate(read(cell)).numpy() == expected


def test_reshapes_of_sizes_that_nobody_knows() -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(relay.Any(), 16), dtype="float32")
    again = relay.reshape(relay.reshape(x, [-1, 4]), [0, 2, -1])
    values = np.arange(128, dtype="float32").reshape(8, 16)
    result = relay.create_executor("vm", mod=tvm.IRModule.from_expr(relay.Function([x], again))).evaluate()(values)
    np.testing.assert_array_equal(result.numpy(), values.reshape(32, 2, 2))


def test_attributes_of_calls_of_functions_are_written_and_read() -> None:
    import tvm
    from tvm import relay

    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    attrs = tvm.ir.make_node("attrs.Mine", name="doubled")
    call = relay.Call(relay.Function([x], relay.add(x, x)), [y], attrs=attrs)
    mod = tvm.IRModule.from_expr(relay.Function([y], call))
    read = tvm.parser.parse(mod.astext())
    tvm.ir.assert_structural_equal(read, relay.transform.InferType()(mod))
    assert dict(read["main"].body.attrs) == {"name": "doubled", "attrs_type_key": "attrs.Mine"}


@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (False, True), (True, False), (True, True)])
def test_products_of_more_than_two_dimensions(transpose_a: bool, transpose_b: bool) -> None:
    import tvm
    from tvm import relay

    rng = np.random.default_rng(0)
    a, b = rng.random((2, 3, 4, 5), np.float32), rng.random((5, 6), np.float32)
    left = relay.var("a", shape=(2, 3, 5, 4) if transpose_a else a.shape)
    made = relay.nn.matmul(left, relay.var("b", relay.IncompleteType()), 6, "", transpose_a, transpose_b)
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(made), made))
    given = a.swapaxes(-1, -2) if transpose_a else a, b.T if transpose_b else b
    result = relay.create_executor("graph", mod=mod).evaluate()(*map(np.ascontiguousarray, given))
    np.testing.assert_allclose(result.numpy(), a @ b, rtol=1e-5)
