"""Programs as they were written until v0.6: tensor expressions at the top of the package, `topi` beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.errors import ArtifactError, UnsupportedError

pytestmark = pytest.mark.usefixtures("classic")

RNG = np.random.default_rng(6)


def test_tensor_expressions_at_the_top() -> None:
    import tvm

    n = tvm.var("n")
    a, b = tvm.placeholder((n, 8), name="a"), tvm.placeholder((8,), name="b")
    k = tvm.reduce_axis((0, 8), "k")
    product = tvm.compute((n,), lambda i: tvm.sum(a[i, k] * b[k], axis=k), name="product")
    result = tvm.compute((n,), lambda i: tvm.if_then_else(i % 2 == 0, tvm.exp(product[i]), tvm.max(product[i], 0.5)))
    schedule = tvm.create_schedule(result.op)
    outer, _ = schedule[result].split(result.op.axis[0], factor=4)
    schedule[product].compute_at(schedule[result], outer)
    function = tvm.build(schedule, [a, b, result], "llvm")
    x, y = RNG.random((10, 8), "float32"), RNG.random(8, "float32")
    out = tvm.nd.array(np.zeros(10, "float32"))
    function(tvm.nd.array(x), tvm.nd.array(y), out)
    want = np.where(np.arange(10) % 2 == 0, np.exp(x @ y), np.maximum(x @ y, 0.5))
    np.testing.assert_allclose(out.asnumpy(), want, rtol=1e-5)
    assert isinstance(n, tvm.expr.Var)
    assert isinstance(result.op, tvm.tensor.ComputeOp)
    assert isinstance(schedule, tvm.schedule.Schedule)


def test_the_operator_library_beside_the_package() -> None:
    import topi
    import topi.testing
    import tvm

    data = tvm.placeholder((2, 6), name="data")
    result = topi.nn.softmax(topi.nn.relu(data))
    with tvm.target.create("llvm"):
        schedule = topi.generic.schedule_softmax(result)
    x = RNG.standard_normal((2, 6)).astype("float32")
    out = tvm.nd.array(np.zeros((2, 6), "float32"))
    tvm.build(schedule, [data, result], "llvm")(tvm.nd.array(x), out)
    np.testing.assert_allclose(out.asnumpy(), topi.testing.softmax_python(np.maximum(x, 0)), rtol=1e-5)


def test_what_is_gone_says_what_stands_for_it() -> None:
    import tvm

    with pytest.raises(UnsupportedError, match="no option 'unroll_all'"):
        tvm.build_config(unroll_all=True)
    with pytest.raises(UnsupportedError, match=r"tvm\.lower"):
        tvm.ir_pass.StorageFlatten(tvm.make.Evaluate(0), {}, 64)


def test_passes_and_nodes_as_functions() -> None:
    import tvm

    x, y = tvm.var("x"), tvm.var("y")
    assert tvm.ir_pass.Equal(tvm.ir_pass.Simplify(x + y - x), y)
    assert tvm.ir_pass.CanonicalSimplify(x * 0).value == 0
    assert tvm.ir_pass.ExprUseVar(x + 1, x)
    assert not tvm.ir_pass.ExprUseVar(x + 1, y)
    loop = tvm.make.For(x, 0, 4, tvm.stmt.For.Unrolled, 0, tvm.make.Evaluate(tvm.call_extern("int32", "f", x)))
    flat = tvm.ir_pass.UnrollLoop(loop)
    assert isinstance(flat, tvm.stmt.Block)
    assert len(tvm.make.stmt_list(flat)) == 4
    later = tvm.tir.For(x, 0, 4, tvm.tir.For.Unrolled, 0, loop.body)  # as v0.7 makes it
    assert tvm.ir_pass.Equal(later, loop)
    found = []
    tvm.ir_pass.PostOrderVisit(loop, lambda node: found.append(type(node).__name__))
    assert "For" in found
    doubled = tvm.ir_pass.IRTransform(loop, None, lambda node: tvm.make.Block(node, node), ["Evaluate"])
    assert len(tvm.make.stmt_list(tvm.ir_pass.UnrollLoop(doubled))) == 8


def test_passes_of_a_program_under_build_config() -> None:
    import tvm

    seen = []

    def look(statement):  # type: ignore[no-untyped-def]
        seen.append(statement)
        return statement

    a = tvm.placeholder((8,), name="a")
    b = tvm.compute((8,), lambda i: a[i] + 1.0, name="b")
    with tvm.build_config(disable_vectorize=True, unroll_explicit=True):
        schedule = tvm.create_schedule(b.op)
        schedule[b].vectorize(b.op.axis[0])
        look(tvm.lower(schedule, [a, b]).body)
    assert "ramp" not in repr(seen[0])


def test_relay_by_its_names_of_then() -> None:
    import tvm
    from tvm import relay
    from tvm.relay.analysis import alpha_equal, assert_graph_equal, graph_equal
    from tvm.relay.backend.interpreter import TensorValue, TupleValue
    from tvm.relay.feature import Feature, detect_feature
    from tvm.relay.module import Module
    from tvm.relay.prelude import Prelude
    from tvm.relay.testing import ctx_list

    x, z = relay.var("x", shape=(3,)), relay.var("z", shape=(3,))
    func = relay.Function([x], relay.nn.relu(x))
    data = np.array([-1, 0, 2], "float32")
    for target, ctx in ctx_list():
        result = relay.create_executor("graph", ctx=ctx, target=target).evaluate(func)(data)
        assert isinstance(result, TensorValue)
        np.testing.assert_array_equal(result.asnumpy(), [0, 0, 2])
        np.testing.assert_array_equal(tvm.nd.array(data, ctx=ctx).asnumpy(), data)
    assert alpha_equal(func, relay.Function([z], relay.nn.relu(z)))
    assert graph_equal(x, z)
    assert not alpha_equal(x, z)
    assert_graph_equal(x + x, z + z)
    assert Feature.fCall in detect_feature(func)
    prelude = Prelude(Module())
    assert (prelude.nil.name, prelude.cons.name, prelude.l.name) == ("Nil", "Cons", "List")
    assert isinstance(TupleValue(TensorValue(data), TensorValue(data)), TupleValue)
    assert isinstance(relay.fromtext("v0.0.4\nfn (%a: float32) { %a + %a }"), relay.Function)
    mod = relay.transform.Sequential([relay.transform.InferType()])(Module.from_expr(func))
    assert mod["main"].checked_type.ret_type == relay.TensorType((3,))


def test_functions_that_a_target_chooses() -> None:
    import tvm

    @tvm.target.generic_func
    def kind(x):  # type: ignore[no-untyped-def]
        return x

    kind.register(["cuda", "gpu"], lambda x: -x)
    kind.register("cpu")(lambda x: x * 10)
    assert kind(1) == 1
    with tvm.target.create("llvm"):
        assert kind(1) == 10
        assert tvm.target.current_target().target_name == "llvm"
    with tvm.target.create("opencl"):
        assert kind(1) == -1


def test_a_program_of_the_virtual_machine_saved_as_code_and_library(tmp_path: Path) -> None:
    import tvm
    from tvm import relay
    from tvm.runtime import vm

    x, y = relay.var("x", shape=(relay.Any(), 4)), relay.var("y", shape=(4,))
    made = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x, y], relay.tanh(x) + y)), target="llvm")
    assert isinstance(made, vm.Executable)
    assert made.globals == ["main"]
    code, lib = made.save()
    assert isinstance(code, bytearray)
    lib.export_library(tmp_path / "lib.so")
    (tmp_path / "code.ro").write_bytes(code)
    loaded = tvm.runtime.load_module(tmp_path / "lib.so")
    program = vm.Executable.load_exec(bytearray((tmp_path / "code.ro").read_bytes()), loaded)
    a, b = RNG.random((3, 4), "float32"), RNG.random(4, "float32")
    found = vm.VirtualMachine(program, tvm.cpu()).run(tvm.nd.array(a), tvm.nd.array(b))
    np.testing.assert_allclose(found.numpy(), np.tanh(a) + b, rtol=1e-5)
    other, _ = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x))), target="llvm").save()
    with pytest.raises(ArtifactError, match="the code is of a program"):
        vm.Executable.load_exec(other, loaded)
    with pytest.raises(ArtifactError, match="neither bytecode nor what save"):
        vm.Executable.load_exec(b"\x00\x01", loaded)
