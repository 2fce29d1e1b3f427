"""Classic programs, as people wrote them, with NumPy as the oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.errors import InputError, ParseError, TypeMismatchError, UnsupportedError

pytestmark = pytest.mark.usefixtures("classic")


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def _relu_conv() -> tuple:
    """A convolution whose weight's shape is left to the operator, with its NumPy result."""
    from tvm import relay

    data = relay.var("data", shape=(1, 2, 5, 5))
    weight = relay.var("weight")
    out = relay.nn.relu(relay.nn.conv2d(data, weight, channels=3, kernel_size=(3, 3), padding=(1, 1)))
    x, w = _random(1, 2, 5, 5), _random(3, 2, 3, 3, seed=1)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    expected = np.maximum(np.einsum("nchwij,ocij->nohw", windows, w), 0)
    return relay.Function(relay.analysis.free_vars(out), out), x, w, expected


def test_build_and_run_with_the_graph_executor() -> None:
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    func, x, w, expected = _relu_conv()
    mod = tvm.IRModule.from_expr(func)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target="llvm", params={"weight": tvm.nd.array(w)})
    device = tvm.device("llvm", 0)
    module = graph_executor.GraphModule(lib["default"](device))
    module.set_input("data", tvm.nd.array(x, device))
    module.run()
    assert module.get_num_outputs() == 1
    tvm.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-5, atol=1e-5)
    module.run(data=2 * x)
    out = tvm.nd.empty(expected.shape, device=device)
    module.get_output(0, out)
    tvm.testing.assert_allclose(out.asnumpy(), 2 * expected, rtol=1e-5, atol=1e-5)
    assert module.benchmark(device, repeat=2, number=1).mean > 0


def test_the_oldest_way_to_pass_a_compiled_model_on() -> None:
    import tvm
    from tvm import relay
    from tvm.contrib import graph_runtime

    func, x, w, expected = _relu_conv()
    graph, lib, params = relay.build(func, "llvm", params={"weight": w})
    module = graph_runtime.create(graph, lib, tvm.cpu(0))
    module.set_input(**params)
    module.set_input(0, x)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-5, atol=1e-5)


def test_export_and_load(tmp_path: Path) -> None:
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor, utils

    func, x, w, expected = _relu_conv()
    directory = utils.tempdir()
    path = directory.relpath("net.so")
    relay.build(func, "llvm", params={"weight": w}).export_library(path)
    module = graph_executor.GraphModule(tvm.runtime.load_module(path)["default"](tvm.cpu()))
    module.run(data=x)
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("level", [0, 1, 2, 3, 4])
def test_every_optimization_level_gives_the_same(level: int) -> None:
    import tvm
    from tvm import relay

    func, x, w, expected = _relu_conv()
    with tvm.transform.PassContext(opt_level=level):
        run = relay.create_executor("graph", tvm.IRModule.from_expr(func), tvm.cpu(), "llvm").evaluate()
        np.testing.assert_allclose(run(x, w).numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["debug", "graph", "vm", "aot"])
def test_executors_evaluate_functions_and_expressions(kind: str) -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", relay.TensorType((3,), "float32"))
    y = relay.var("y", "float32")
    func = relay.Function([x, y], relay.Tuple([relay.add(x, y), relay.sum(x)]))
    executor = relay.create_executor(kind, device=tvm.cpu(0), target="llvm")
    value = np.array([1, 2, 3], "float32")
    total, reduced = executor.evaluate(func)(value, y=2.0)
    np.testing.assert_allclose(total.numpy(), value + 2)
    np.testing.assert_allclose(reduced.numpy(), 6)
    doubled = executor.evaluate(relay.const(value) + relay.const(value))
    np.testing.assert_allclose(doubled.numpy(), 2 * value)
    bound = executor.evaluate(relay.Function([x], x * relay.const(3.0)), {x: relay.const(value)})
    np.testing.assert_allclose(bound().numpy(), 3 * value)


def test_control_flow_and_closures_in_the_interpreter() -> None:
    import tvm
    from tvm import relay

    mod = tvm.IRModule()
    power = relay.GlobalVar("power")
    n, x = relay.var("n", "int32"), relay.var("x", "float32")
    builder = relay.ScopeBuilder()
    with builder.if_scope(relay.equal(n, relay.const(0))):
        builder.ret(relay.const(1.0))
    with builder.else_scope():
        rest = builder.let("rest", power(relay.subtract(n, relay.const(1)), x))
        builder.ret(relay.multiply(x, rest))
    mod[power] = relay.Function([n, x], builder.get(), relay.scalar_type("float32"))
    mod["main"] = relay.Function([n, x], power(n, x))
    assert [gvar.name_hint for gvar in mod.get_global_vars()] == ["power", "main"]
    run = relay.create_executor("debug", mod=mod).evaluate()
    np.testing.assert_allclose(run(5, 2.0).numpy(), 32.0)


def test_a_module_that_is_changed_after_inference_is_inferred_again() -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(2,))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.exp(x)))
    y = relay.var("y", shape=(3, 3))
    mod["main"] = relay.Function([y], relay.log(y))
    mod = relay.transform.InferType()(mod)
    assert mod["main"].checked_type == relay.FuncType([relay.TensorType((3, 3))], relay.TensorType((3, 3)))
    assert "log" in mod.astext() and "exp" not in mod.astext()


def test_passes_compose_and_compare() -> None:
    import tvm
    from tvm import relay

    def before() -> relay.Function:
        x = relay.var("x", shape=(1, 3))
        return relay.Function([x], relay.add(x, relay.add(relay.const(1.0), relay.const(2.0))))

    def expected() -> relay.Function:
        x = relay.var("x", shape=(1, 3))
        return relay.Function([x], relay.add(x, relay.const(3.0)))

    seq = tvm.transform.Sequential([relay.transform.InferType(), relay.transform.FoldConstant()])
    mod = seq(tvm.IRModule.from_expr(before()))
    assert tvm.ir.structural_equal(mod["main"], relay.testing.run_infer_type(expected()))
    folded = relay.testing.run_opt_pass(before(), relay.transform.FoldConstant())
    tvm.ir.assert_structural_equal(folded, relay.testing.run_infer_type(expected()), map_free_vars=True)
    with pytest.raises(ValueError, match="StructuralEqual check failed"):
        tvm.ir.assert_structural_equal(before(), expected())


def test_passes_of_the_program_s_own() -> None:
    import tvm
    from tvm import relay

    @relay.transform.function_pass(opt_level=1)
    class Negate:
        def __init__(self, times: int) -> None:
            self.times = times

        def transform_function(self, func: relay.Function, mod: object, ctx: object) -> relay.Function:
            body = func.body
            for _ in range(self.times):
                body = relay.negative(body)
            return relay.Function(func.params, body)

    @tvm.transform.module_pass(opt_level=0)
    def rename(mod: tvm.IRModule, ctx: tvm.transform.PassContext) -> tvm.IRModule:
        return tvm.IRModule({"other": mod["main"]})

    x = relay.var("x", shape=(2,))
    mod = tvm.transform.Sequential([Negate(2), rename])(tvm.IRModule.from_expr(relay.exp(x)))
    assert relay.testing.count_ops(mod["other"].body) == {"exp": 1, "negative": 2}


def test_walkers_of_the_program_s_own() -> None:
    from tvm import relay

    class Collect(relay.ExprVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def visit_call(self, call: relay.Call) -> None:
            super().visit_call(call)
            self.names.append(call.op.name)

    class Swap(relay.ExprMutator):
        def visit_call(self, call: relay.Call) -> relay.Expr:
            call = super().visit_call(call)
            return relay.log(*call.args) if call.op == relay.op.get("exp") else call

    x = relay.var("x", shape=(2,))
    shared = relay.exp(x)
    func = relay.Function([x], relay.add(shared, relay.sqrt(shared)))
    walker = Collect()
    walker.visit(func)
    assert walker.names == ["exp", "sqrt", "add"]
    assert relay.testing.count_ops(Swap().visit(func).body) == {"log": 1, "sqrt": 1, "add": 1}
    visited: list[object] = []
    relay.analysis.post_order_visit(func, visited.append)
    assert relay.op.get("exp") in visited and visited[-1] is func
    assert relay.analysis.well_formed(func)
    assert not relay.analysis.well_formed(relay.Let(x, relay.const(1.0), relay.Let(x, relay.const(2.0), x)))


def test_tuples_unpack_into_their_fields() -> None:
    from tvm import relay

    x = relay.var("x", shape=(2, 6))
    parts = relay.split(x, 3, axis=1)
    first, *_, last = parts
    assert (len(parts), first.index, last.index) == (3, 0, 2)
    out = relay.Function([x], relay.concatenate([last, first], axis=1))
    value = _random(2, 6)
    got = relay.create_executor("debug").evaluate(out)(value).numpy()
    np.testing.assert_array_equal(got, value[:, [4, 5, 0, 1]])
    whole = relay.create_executor("debug").evaluate(relay.Function([x], parts.astuple()))(value)
    assert len(whole) == 3
    with pytest.raises(IndexError, match="field 3 of a tuple of 3"):
        _ = parts[3]


def test_parameters_as_bytes() -> None:
    from tvm import relay

    params = {"a": _random(2, 3), "b": np.array(7, "int64"), "c": np.array([True, False])}
    loaded = relay.load_param_dict(relay.save_param_dict(params))
    for name, value in params.items():
        np.testing.assert_array_equal(loaded[name].numpy(), value)
        assert loaded[name].numpy().dtype == value.dtype
    with pytest.raises(InputError, match="no parameter file"):
        relay.load_param_dict(b"x" * 64)
    with pytest.raises(InputError, match="truncated"):
        relay.load_param_dict(bytes(relay.save_param_dict(params))[:-3])


def test_gradients_are_checked_numerically() -> None:
    from tvm import relay
    from tvm.relay.testing import check_grad

    x = relay.var("x", shape=(2, 3), dtype="float64")
    check_grad(relay.Function([x], relay.tanh(x)))
    with pytest.raises(AssertionError):  # no difference of finite numbers is the derivative itself
        check_grad(relay.Function([x], relay.tanh(x)), atol=0, rtol=0)


def test_onnx_models_are_imported(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    import tvm
    from tvm import relay

    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    value = [onnx.helper.make_tensor_value_info(name, 1, ["n", 3]) for name in "xy"]
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [value[0]], [value[1]]))
    mod, params = relay.frontend.from_onnx(model, {"x": (2, 3)})
    x = _random(2, 3)
    run = relay.create_executor("graph", mod, tvm.cpu(), params=params).evaluate()
    np.testing.assert_array_equal(run(x).numpy(), np.maximum(x, 0))


@pytest.mark.parametrize("freeze", [False, True])
def test_weights_of_onnx_models_are_parameters_unless_frozen(freeze: bool) -> None:
    onnx = pytest.importorskip("onnx")
    import tvm
    from tvm import relay

    x, w, b = _random(2, 3), _random(3, 4, seed=1), _random(4, seed=2)
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["p"]),
        onnx.helper.make_node("Add", ["p", "b"], ["s"]),
        onnx.helper.make_node("Reshape", ["s", "to"], ["y"]),
    ]
    weights = {"w": w, "b": b, "to": np.array([4, 2], "int64")}
    initializers = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    ends = [onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [2, 3]), ("y", [4, 2]))]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:], initializers))
    mod, params = relay.frontend.from_onnx(model, freeze_params=freeze)
    assert sorted(params) == ([] if freeze else ["b", "w"])
    assert [p.name_hint for p in mod["main"].params] == (["x"] if freeze else ["x", "w", "b"])
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, "llvm", params=params)
    module = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.set_input("x", x)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), (x @ w + b).reshape(4, 2), rtol=1e-5)
    if not freeze:
        params["b"] = tvm.nd.array(b + 1)
        run = relay.create_executor("graph", mod, tvm.cpu(), params=params).evaluate()
        np.testing.assert_allclose(run(x).numpy(), (x @ w + b + 1).reshape(4, 2), rtol=1e-5)


def test_errors_say_what_to_do() -> None:
    import tvm
    from tvm import relay

    func, x, *_ = _relu_conv()
    module = tvm.contrib.graph_executor.GraphModule(relay.build(func, "llvm")["default"](tvm.cpu()))
    with pytest.raises(InputError, match="the model was not run yet"):
        module.get_output(0)
    with pytest.raises(InputError, match="no input 'dta'; it has: data, weight"):
        module.set_input("dta", x)
    module.set_input("data", x)
    with pytest.raises(InputError, match="no value was set for the input weight"):
        module.run()
    with pytest.raises(UnsupportedError, match=r"is not timed; the functions that are: .run."):
        module.time_evaluator("other", tvm.cpu())
    with pytest.raises(InputError, match="there is no executor 'fast'; there are: debug, graph"):
        relay.create_executor("fast")
    with pytest.raises(InputError, match=r"cuda\(0\) is not a device that models run on here"):
        relay.build(func, "llvm")["default"](tvm.cuda(0))
    with pytest.raises(InputError, match=r"rocm\(0\) is not a device that models run on here"):
        tvm.nd.array(x, tvm.rocm(0))
    with pytest.raises(InputError, match="there is no device type 'tpu'"):
        tvm.device("tpu")
    with pytest.raises(UnsupportedError, match="one target, or a device and its host, not for llvm, llvm"):
        relay.build(func, ["llvm", "llvm"])
    with pytest.raises(InputError, match="InferType is a pass over modules"):
        relay.transform.InferType()(func)
    with pytest.raises(InputError, match="a module holds functions and type definitions, not a int"):
        tvm.IRModule()["main"] = 3
    with pytest.raises(InputError, match="no function 'side'; it has: main"):
        tvm.IRModule.from_expr(func).get_global_var("side")
    with pytest.raises(InputError, match="no value for the parameter 'weight'"):
        relay.create_executor("debug").evaluate(func)(x)
    with pytest.raises(TypeMismatchError, match="the variable 'y' has no type"):
        relay.testing.run_infer_type(relay.exp(relay.var("y")))
    with pytest.raises(InputError, match="gets a type and a shape; pass one of them"):
        relay.var("x", relay.TensorType((1,)), shape=(1,))


def test_programs_as_text_and_json() -> None:
    import tvm
    from tvm import relay

    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) { add(%x, 1f) }'
    mod = tvm.parser.parse(text)
    assert isinstance(mod, tvm.IRModule)
    run = relay.create_executor("debug", mod).evaluate()
    np.testing.assert_array_equal(run(np.ones(2, "float32")).numpy(), [2, 2])
    assert tvm.ir.structural_equal(tvm.parser.fromtext(mod.astext()), mod)
    assert tvm.ir.structural_equal(tvm.ir.load_json(tvm.ir.save_json(mod)), mod)
    with pytest.raises(ParseError):
        tvm.parser.parse("def @main( {")


def test_the_virtual_machine_runs_control_flow() -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(2,))
    cond = relay.less(relay.sum(x), relay.const(0.0))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.If(cond, relay.negative(x), relay.exp(x))))
    exe = relay.vm.compile(mod, "llvm")
    vm = tvm.runtime.vm.VirtualMachine(exe, tvm.cpu())
    value = np.array([-1, -2], "float32")
    np.testing.assert_array_equal(vm.invoke("main", value).numpy(), -value)
    np.testing.assert_allclose(vm.run(-value).numpy(), np.exp(-value), rtol=1e-6)
    with pytest.raises(UnsupportedError, match="entered at 'main', not at 'side'"):
        vm.invoke("side", value)


def test_the_prelude_and_natural_numbers() -> None:
    import tvm
    from tvm import relay
    from tvm.relay.prelude import Prelude
    from tvm.relay.testing import add_nat_definitions, count, make_nat_expr, make_nat_value

    mod = tvm.IRModule()
    prelude = Prelude(mod)
    add_nat_definitions(prelude)
    _, zero, successor = prelude.mod.get_type("nat")
    assert (zero.name_hint, successor.name_hint) == ("Z", "S")
    three = make_nat_expr(prelude, 3)
    mod["main"] = relay.Function([], mod.get_global_var("nat_double")(three))
    value = relay.create_executor("debug", mod).evaluate()()
    assert count(prelude, value) == 6
    assert count(prelude, make_nat_value(prelude, 2)) == 2 and count(prelude, three) == 3
    mod["main"] = relay.Function([], prelude.length(prelude.list_of([relay.const(1), relay.const(2)])))
    assert relay.create_executor("debug", mod).evaluate()().numpy() == 2
    with pytest.raises(InputError, match="a natural number is not negative, as -1 is"):
        make_nat_expr(prelude, -1)


def test_questions_about_expressions() -> None:
    import tvm
    from tvm import relay

    x, t = relay.var("x", shape=(1, 2, 4, 4)), relay.TypeVar("t", relay.TypeKind.Type)
    y = relay.var("y", t)
    func = relay.Function([y], y, t, [t])
    assert relay.analysis.all_type_vars(func) == [t] == relay.analysis.bound_type_vars(func)
    assert relay.analysis.free_type_vars(func) == []
    conv = relay.nn.conv2d(x, relay.var("w"), channels=3, kernel_size=(2, 2))
    main = relay.testing.run_infer_type(relay.Function(relay.analysis.free_vars(conv), conv))
    assert relay.analysis.get_total_mac_number(main) == 3 * 3 * 3 * 2 * 2 * 2
    header = relay.GlobalTypeVar("Maybe")
    some, none = (
        relay.Constructor("Just", [relay.scalar_type("int32")], header),
        relay.Constructor("None", [], header, 1),
    )
    mod = tvm.IRModule()
    mod[header] = relay.TypeData(header, [], [some, none])
    match = relay.Match(some(relay.const(1)), [relay.Clause(relay.PatternConstructor(none), relay.const(0))], False)
    assert len(relay.analysis.unmatched_cases(match, mod)) == 1
    shared = relay.exp(relay.var("z", shape=()))
    branches = relay.If(relay.const(True), shared, relay.log(shared))
    assert not relay.analysis.check_basic_block_normal_form(branches)


def test_legalization_by_a_rule_of_the_program_s_own() -> None:
    from tvm import relay
    from tvm.relay.testing.temp_op_attr import TempOpAttr

    x = relay.var("x", shape=(2,))
    with TempOpAttr("exp", "FTVMLegalize", lambda attrs, inputs, types: relay.log(inputs[0])):
        after = relay.testing.run_opt_pass(relay.Function([x], relay.exp(x)), relay.transform.Legalize())
    assert relay.testing.count_ops(after.body) == {"log": 1}
    with pytest.raises(UnsupportedError, match="FTVMCompute of exp cannot be replaced"):
        TempOpAttr("exp", "FTVMCompute", None)


def test_an_external_code_generator_by_patterns() -> None:
    import tvm
    from tvm import relay
    from tvm.relay.dataflow_pattern import is_op, wildcard
    from tvm.relay.op.contrib.register import get_pattern_table, register_pattern_table

    @register_pattern_table("host")
    def table() -> list:
        return [("host.dense_relu", is_op("nn.relu")(is_op("nn.dense")(wildcard(), wildcard())))]

    x, w = relay.var("x", shape=(2, 4)), relay.const(_random(3, 4))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(relay.nn.relu(relay.nn.dense(x, w)))))
    steps = [
        relay.transform.MergeComposite(get_pattern_table("host")),
        relay.transform.AnnotateTarget(["host"]),
        relay.transform.MergeCompilerRegions(),
        relay.transform.PartitionGraph(),
    ]
    partitioned = tvm.transform.Sequential(steps)(mod)
    assert partitioned["host_0"].attrs["Compiler"] == "host"
    assert get_pattern_table("nobody") is None
    value = _random(2, 4, seed=2)
    run = relay.create_executor("vm", partitioned, tvm.cpu()).evaluate()
    expected = relay.create_executor("debug", mod).evaluate()(value).numpy()
    np.testing.assert_allclose(run(value).numpy(), expected, rtol=1e-5)


def test_types_with_symbolic_dimensions() -> None:
    from tvm import relay, te
    from tvm.relay.testing import run_infer_type

    n = te.var("n")
    x, y = relay.var("x", relay.TensorType((5, n, 5))), relay.var("y", relay.TensorType((n, 1)))
    assert run_infer_type(relay.add(x, y)).checked_type == relay.TensorType((5, n, 5))
    z = relay.concatenate((x, x), axis=-1)
    assert run_infer_type(z).checked_type == relay.TensorType((5, n, 10))


@pytest.mark.parametrize(("center", "scale"), [(True, True), (False, True), (True, False)])
def test_batch_norm_with_and_without_shift_and_scale(center: bool, scale: bool) -> None:
    from tvm import relay

    data = relay.var("data", shape=(2, 3, 4))
    names = ("gamma", "beta", "mean", "var")
    variables = [relay.var(name, shape=(3,)) for name in names]
    out = relay.nn.batch_norm(data, *variables, center=center, scale=scale)
    func = relay.Function([data, *variables], out[0])
    x = _random(2, 3, 4)
    gamma, beta, mean, var = (np.abs(_random(3, seed=i)) + 0.5 for i in range(4))
    got = relay.create_executor("graph").evaluate(func)(x, gamma, beta, mean, var).numpy()
    normal = (x - mean[:, None]) / np.sqrt(var[:, None] + 1e-5)
    expected = normal * (gamma[:, None] if scale else 1) + (beta[:, None] if center else 0)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    assert relay.Function([data], data).astext().startswith("#[version")


def test_a_model_in_integers() -> None:
    import tvm
    from tvm import relay

    func, x, w, expected = _relu_conv()
    mod = tvm.IRModule.from_expr(func)
    with relay.quantize.qconfig(skip_conv_layers=None, global_scale=4.0, nbit_input=8):
        made = relay.quantize.quantize(mod, {"weight": tvm.nd.array(w)})
    assert "qnn.conv2d" in str(made)
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(made, "llvm")
    run = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
    run.set_input("data", x)
    run.run()
    assert np.abs(run.get_output(0).numpy() - expected).max() < 0.05 * np.abs(expected).max()
    with pytest.raises(UnsupportedError, match="nbit_input is 8 here"):
        relay.quantize.qconfig(nbit_input=4)
