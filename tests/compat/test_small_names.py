"""Smaller classic names at work: nodes by name, analyses, composed operators, loops, compilers, annotations."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tilewright.errors import EnvironmentError_, InputError, TypeMismatchError, UnsupportedError

pytestmark = pytest.mark.usefixtures("classic")


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def _evaluate(expr: object, *args: np.ndarray) -> object:
    from tvm import relay

    return relay.create_executor("graph", mod=None).evaluate(relay.Function(relay.analysis.free_vars(expr), expr))(
        *args
    )


def test_nodes_by_the_names_of_their_classes() -> None:
    import tvm

    x = tvm.tir.Var("x", "int32")
    assert tvm.ir.make_node("tir.Add", a=x, b=1) is x + 1
    assert tvm.ir.make_node("IntImm", dtype="int32", value=10) is tvm.tir.const(10)
    assert tvm.ir.make_node("DictAttrs", name="a") == {"name": "a"}
    with pytest.raises(InputError, match=r"there is no node class 'tir\.Nothing'"):
        tvm.ir.make_node("tir.Nothing")
    with pytest.raises(InputError, match=r"make_node\('Add'\): .*unexpected keyword argument 'c'"):
        tvm.ir.make_node("Add", a=x, b=1, c=2)
    pointer = tvm.ir.PointerType(tvm.ir.PrimType("float32"), "global")
    assert tvm.tir.Var("p", pointer).dtype == "handle" and pointer.element_type.dtype == "float32"


def test_loads_and_stores_by_address() -> None:
    import tvm
    from tvm import tir

    a, b, i = tir.Var("a", "handle"), tir.Var("b", "handle"), tir.Var("i", "int32")
    load = tir.Load("float32", a, i)
    assert isinstance(load, tir.Load) and isinstance(load, tir.BufferLoad) and load.dtype == "float32"
    body = tir.For(i, 0, 8, 0, tir.Store(b, load * 2.0, i))
    func = tir.PrimFunc([a, b], body)
    x, out = tvm.nd.array(_random(8)), tvm.nd.empty((8,))
    tvm.build(func, target="llvm")(x, out)
    np.testing.assert_array_equal(out.numpy(), x.numpy() * 2)
    with pytest.raises(InputError, match="the address i is a int32"):
        tir.Load("float32", i, 0)
    tir.Load("int8", a, 0)
    with pytest.raises(InputError, match="a is the address of several types of elements"):
        tir.PrimFunc([a, b], body)


def test_stages_inlined_by_their_kind() -> None:
    import tvm
    from tvm import te, topi

    a = te.placeholder((4, 8), name="A")
    out = topi.exp(topi.transpose(topi.tanh(a)))
    for inline, left in ((te.schedule.AutoInlineElemWise, 2), (te.schedule.AutoInlineInjective, 1)):
        s = te.create_schedule(out.op)
        inline(s)
        assert sum(isinstance(stage.op, te.ComputeOp) for stage in s.normalize().stages) == left
        x, made = tvm.nd.array(_random(4, 8)), tvm.nd.empty((8, 4))
        tvm.build(s, [a, out], "llvm")(x, made)
        np.testing.assert_allclose(made.numpy(), np.exp(np.tanh(x.numpy())).T, 1e-5)


def test_kinds_of_types() -> None:
    import tvm
    from tvm import relay

    check, kind = relay.analysis.check_kind, relay.TypeKind
    scalar, shape = relay.TensorType((), "float32"), relay.TypeVar("s", relay.TypeKind.Shape)
    assert check(relay.TypeVar("t", kind.Type)) == kind.Type and check(shape) == kind.Shape
    assert check(relay.TupleType([scalar, scalar])) == kind.Type and check(relay.GlobalTypeVar("g")) == kind.AdtHandle
    for wrong in (relay.TupleType([shape]), relay.FuncType([shape], scalar), relay.RefType(shape)):
        with pytest.raises(TypeMismatchError, match="is made of types, but s is of the kind SHAPE"):
            check(wrong)
    mod = tvm.IRModule()
    prelude = relay.prelude.Prelude(mod)
    lists = prelude.mod.get_global_type_var("List")
    assert check(lists(scalar), prelude.mod) == kind.Type
    with pytest.raises(TypeMismatchError, match="takes 1 types, not 2"):
        check(lists(scalar, scalar), prelude.mod)


def test_features_of_programs() -> None:
    from tvm import relay

    detect, feature = relay.analysis.detect_feature, relay.analysis.Feature
    x = relay.var("x", shape=(2,))
    twice = relay.add(x, x)
    assert detect(relay.Function([x], relay.multiply(twice, twice))) == {
        feature.fVar, feature.fCall, feature.fOp, feature.fFunction, feature.fGraph,
    }  # fmt: skip
    v = relay.var("v")
    assert feature.fLet in detect(relay.Let(v, twice, v)) and feature.fLetRec not in detect(relay.Let(v, twice, v))
    loop = relay.loops.while_loop(
        lambda i: relay.less(i, relay.const(5)), [relay.var("i", "int32")], lambda i: [i + relay.const(2)]
    )
    assert {feature.fLetRec, feature.fIf, feature.fTuple} <= detect(loop)
    (end,) = relay.testing.run_as_python(relay.Call(loop, [relay.const(0)]))
    assert end.numpy() == 6


def test_calls_between_functions() -> None:
    import tvm
    from tvm import relay

    mod = tvm.IRModule()
    helper, x = relay.GlobalVar("helper"), relay.var("x", shape=(2,))
    mod[helper] = relay.Function([x], relay.tanh(x))
    y = relay.var("y", shape=(2,))
    mod["main"] = relay.Function([y], helper(helper(y)))
    graph = relay.analysis.CallGraph(mod)
    assert graph.ref_count("helper") == 2 and graph.global_call_count(mod.get_global_var("main")) == 2
    assert not graph.is_recursive("main") and "main: helper, helper" in str(graph)
    with pytest.raises(InputError, match="no function 'other'; it has: "):
        graph.ref_count("other")


def test_composed_operators_agree_with_numpy() -> None:
    from tvm import relay

    x = relay.var("x", shape=(3, 4))
    data = _random(3, 4)
    cases = {
        relay.logsumexp(x, axis=1): np.log(np.exp(data).sum(1)),
        relay.logsumexp(x, keepdims=True): np.log(np.exp(data).sum()).reshape(1, 1),
        relay.std(x, axis=1): data.std(1),
        relay.mean_variance(x, axis=0)[1]: data.var(0),
        relay.segment_sum(x, relay.const(np.array([1, 0, 1], "int32")), 2): np.stack([data[1], data[0] + data[2]]),
    }
    for expr, expected in cases.items():
        np.testing.assert_allclose(_evaluate(expr, data).numpy(), expected, 1e-4, 1e-6)
    row = relay.var("row", shape=(1, 2, 5))
    values = _random(1, 2, 5)
    np.testing.assert_allclose(_evaluate(relay.nn.global_max_pool1d(row), values).numpy(), values.max(2, keepdims=True))
    assert relay.nn.get_pad_tuple2d((1, 2)) == (1, 2, 1, 2)
    assert _evaluate(relay.shape_of(x), data).numpy().tolist() == [3, 4]


def test_one_function_compiled_alone_and_a_program_step_by_step() -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(4,))
    func = relay.Function([x], relay.tanh(relay.add(x, x)))
    compiler = relay.backend.te_compiler.get()
    compiler.clear()
    data, out = tvm.nd.array(_random(4)), tvm.nd.empty((4,))
    compiler.jit(func, "llvm")(data, out)
    np.testing.assert_allclose(out.numpy(), np.tanh(2 * data.numpy()), 1e-5)
    steps = relay.vm.VMCompiler()
    with pytest.raises(InputError, match="get_exec comes after lower"):
        steps.get_exec()
    steps.lower(tvm.IRModule.from_expr(func), "llvm")
    steps.codegen()
    machine = tvm.runtime.vm.VirtualMachine(steps.get_exec(), tvm.cpu())
    np.testing.assert_allclose(machine.run(data).numpy(), np.tanh(2 * data.numpy()), 1e-5)


def test_what_an_external_code_generator_takes() -> None:
    import tvm
    from tvm import relay

    @tvm.ir.register_op_attr("nn.relu", "target.test_small_names")
    def takes(call: relay.Call) -> bool:
        return len(call.args) == 1

    x = relay.var("x", shape=(2, 2))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.tanh(relay.nn.relu(x))))
    made = relay.transform.AnnotateTarget("test_small_names")(mod)
    assert 'compiler="test_small_names"' in str(made)
    made = relay.transform.PartitionGraph()(relay.transform.MergeCompilerRegions()(made))
    with pytest.raises(UnsupportedError, match="nothing compiles what 'test_small_names' takes"):
        relay.build(made, "llvm")
    with pytest.raises(UnsupportedError, match=r'the attribute that can be set is "target\.NAME"'):
        tvm.ir.register_op_attr("nn.relu", "TOpPattern", 1)


def test_passes_that_print_or_do_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.tanh(x))
    with relay.build_config(opt_level=3):
        again = tvm.transform.Sequential(
            [tvm.transform.PrintIR("here"), relay.transform.AnnotateSpans(), relay.transform.LazyGradientInit()]
        )(mod)
    assert tvm.ir.structural_equal(again, mod)
    assert capsys.readouterr().out.startswith("here\n")


def test_the_c_compiler_of_this_machine(tmp_path: Path) -> None:
    from tvm.contrib import cc, utils

    if cc.get_cc() is None:
        pytest.skip("no C compiler is installed")
    folder = utils.tempdir()
    source, library, program = (folder.relpath(name) for name in ("f.c", "libf.so", "main"))
    Path(source).write_text("int twice(int x) { return 2 * x; }\nint main(void) { return twice(21); }\n")
    cc.create_shared(library, source)
    assert ctypes.CDLL(library).twice(4) == 8
    cc.create_executable(program, [source])
    assert subprocess.run([program], check=False).returncode == 42
    Path(source).write_text("int broken(")
    with pytest.raises(InputError, match=r"failed:\n.*error"):
        cc.cross_compiler(cc.get_cc())(library, source)
    with pytest.raises(EnvironmentError_, match="there is no compiler 'no-such-cc'"):
        cc.create_shared(library, source, cc="no-such-cc")


def test_products_by_the_names_of_libraries() -> None:
    import tvm
    from tvm import te
    from tvm.contrib import cblas

    a, b = te.placeholder((3, 4), name="A"), te.placeholder((5, 4), name="B")
    c = cblas.matmul(a, b, transb=True)
    x, y, out = tvm.nd.array(_random(3, 4)), tvm.nd.array(_random(5, 4, seed=1)), tvm.nd.empty((3, 5))
    tvm.build(te.create_schedule(c.op), [a, b, c], "llvm")(x, y, out)
    np.testing.assert_allclose(out.numpy(), x.numpy() @ y.numpy().T, 1e-5)


def test_targets_and_what_they_are_made_with() -> None:
    import tvm

    target, host = tvm.target.Target.check_and_update_host_consist("opencl", None)
    assert target.kind == "opencl" and host.kind in ("cpu", "llvm")
    assert tvm.target.codegen.llvm_version_major() >= 11
    assert {"opencl", "cuda"} <= set(tvm.target.Target.list_kinds()) and tvm.target.mali().kind == "opencl"
    assert isinstance(tvm.build, tvm.runtime.PackedFunc) and not isinstance(3, tvm.runtime.PackedFunc)
    assert tvm.runtime.container.ShapeTuple([1, 2]) == (1, 2)


def test_operators_by_name_and_conditions_in_ranges() -> None:
    import tvm

    assert isinstance(tvm.ir.Op.get("add"), tvm.ir.Op) and not isinstance(3, tvm.ir.Op)
    with pytest.raises(UnsupportedError, match="no_such_operator"):
        tvm.ir.Op.get("no_such_operator")
    x, y = tvm.tir.Var("x", "int32"), tvm.tir.Var("y", "int32")
    ranges = {x: tvm.ir.Range(0, 4), y: tvm.ir.Range(2, 5)}
    tvm.testing.check_bool_expr_is_true(x + y < 8, ranges)
    tvm.testing.check_bool_expr_is_true(x < y, ranges, cond=x < 2)
    with pytest.raises(AssertionError, match="does not hold for x = 2, y = 2"):
        tvm.testing.check_bool_expr_is_true(x < y, ranges)


def test_statements_in_a_row_and_padding_of_volumes() -> None:
    import tvm
    from tvm import topi

    first, second = tvm.tir.Evaluate(1), tvm.tir.Evaluate(2)
    assert tvm.tir.stmt_list(tvm.tir.stmt_seq(first, second)) == [first, second] and tvm.tir.stmt_list(first) == [first]
    assert topi.nn.utils.get_pad_tuple3d((1, 2, 3), (3, 3, 3)) == (1, 2, 3, 1, 2, 3)
    assert topi.nn.utils.get_pad_tuple3d("SAME", (3, 3, 4)) == (1, 1, 2, 1, 1, 1)


def test_operators_whose_results_are_unpacked() -> None:
    from tvm import relay

    positions, old, new = (relay.var(name, shape=shape, dtype="int64") for name, shape in
                        (("places", (3, 2)), ("old", (2,)), ("new", (1,))))  # fmt: skip
    made = relay.op.sparse_reshape(positions, old, new)
    indices, shape = made
    assert len(made) == 2 and indices.index == 0 and shape.index == 1 and made.astuple().op.name == "sparse_reshape"
