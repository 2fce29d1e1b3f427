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

    with pytest.raises(UnsupportedError, match=r"PassContext\(config=…\)"), tvm.build_config(auto_unroll_max_step=8):
        pass
    with pytest.raises(UnsupportedError, match=r"tvm\.tir\.transform"):
        tvm.ir_pass.Simplify(tvm.var("x") + 0)


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
