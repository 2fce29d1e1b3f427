"""Programs that change what operators do for a while, bring instruments that fail, and compare and match graphs."""

import numpy as np
import pytest

import tilewright.compat

tilewright.compat.install()

import tvm  # noqa: E402
from tvm import relay  # noqa: E402
from tvm.ir.instrument import pass_instrument  # noqa: E402
from tvm.relay.testing.temp_op_attr import TempOpAttr  # noqa: E402


def _dense():
    x, w = relay.var("x", shape=(2, 3), dtype="uint8"), relay.var("w", shape=(4, 3), dtype="uint8")
    one, zero = relay.const(1.0), relay.const(0)
    return tvm.IRModule.from_expr(relay.qnn.op.dense(x, w, zero, zero, one, one, units=4))


@pytest.mark.parametrize("attribute", ["FTVMLegalize", "FTVMQnnLegalize"])
def test_rules_of_a_quantized_operator_for_a_while(attribute):
    seen = []

    def double(attrs, inputs, types):
        seen.append(len(types))
        return relay.const(2, "int32") * relay.nn.dense(*[relay.cast(one, "int32") for one in inputs[:2]])

    x, w = np.full((2, 3), 2, "uint8"), np.full((4, 3), 5, "uint8")
    with TempOpAttr("qnn.dense", attribute, double):
        changed = relay.build(_dense(), target="llvm")
        legal = relay.qnn.transform.Legalize()(_dense())
    assert seen == [7, 7] and "qnn.dense" not in legal.astext()
    for lib, factor in ((changed, 2), (relay.build(_dense(), target="llvm"), 1)):
        module = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
        module.set_input("x", x)
        module.set_input("w", w)
        module.run()
        np.testing.assert_array_equal(module.get_output(0).numpy(), np.full((2, 4), 30 * factor))


def test_other_properties_are_refused():
    with pytest.raises(tvm.TVMError, match=r"FTVMStrategy of nn.conv2d cannot be replaced"):
        TempOpAttr("nn.conv2d", "FTVMStrategy", None)


def _instrument(events, name, fails=""):
    @pass_instrument
    class Telling:
        def enter_pass_ctx(self):
            events.append(f"{name} in")
            if fails == "enter":
                raise RuntimeError("not today")

        def exit_pass_ctx(self):
            events.append(f"{name} out")
            if fails == "exit":
                raise RuntimeError("not today")

    return Telling()


@pytest.mark.parametrize("fails", ["enter", "exit"])
def test_instrument_that_fails(fails):
    events = []
    parts = [_instrument(events, "a"), _instrument(events, "b", fails), _instrument(events, "c")]
    context = tvm.transform.PassContext(instruments=parts)
    with pytest.raises(tvm.TVMError, match="not today"), context:
        pass
    entered = ["a in", "b in"] if fails == "enter" else ["a in", "b in", "c in"]
    assert events == [*entered, "a out", *(["b out"] if fails == "exit" else [])]
    assert not context.instruments and tvm.transform.PassContext.current() is not context


def test_pass_that_fails():
    @tvm.transform.module_pass(opt_level=0)
    def broken(mod, ctx):
        raise RuntimeError("not today")

    with pytest.raises(tvm.TVMError, match="not today"):
        broken(_dense())


def test_calls_with_any_arguments():
    from tvm.relay.dataflow_pattern import is_op, wildcard

    x, y = relay.var("x"), relay.var("y")
    assert is_op("add")(None).match(x + y) and wildcard()(None).match(relay.nn.relu(x))
    assert not is_op("add")(None).match(x * y) and not is_op("add")(wildcard()).match(x + y)


def test_hashes_of_free_variables():
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    one, other = relay.nn.relu(x), relay.nn.relu(y)
    assert tvm.ir.structural_hash(one) != tvm.ir.structural_hash(other)
    assert tvm.ir.structural_hash(one, map_free_vars=True) == tvm.ir.structural_hash(other, map_free_vars=True)
    closed = [tvm.ir.structural_hash(relay.Function([var], body)) for var, body in ((x, one), (y, other))]
    assert closed[0] == closed[1]


def test_function_of_two_convolutions_called_one_kernel():
    shapes = {"x": (1, 3, 9, 9), "v": (4, 3, 3, 3), "w": (5, 4, 3, 3)}
    x, v, w = [relay.var(name, shape=shape) for name, shape in shapes.items()]
    body = relay.nn.conv2d(relay.nn.relu(relay.nn.conv2d(x, v, kernel_size=(3, 3))), w, kernel_size=(3, 3))
    one = relay.Function([x, v, w], body).with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    given = [relay.var(name, shape=shape) for name, shape in shapes.items()]
    rng = np.random.default_rng(0)
    values = [rng.random(shape, np.float32) for shape in shapes.values()]
    results = []
    for func in (relay.Function(given, relay.Call(one, given)), relay.Function([x, v, w], body)):
        mod = tvm.IRModule.from_expr(func)
        results.append(relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(*values).numpy())
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4)


def test_loads_by_the_pointers_of_a_builder():
    ib = tvm.tir.ir_builder.create()
    source, target = tvm.tir.decl_buffer((8,), name="source"), tvm.tir.decl_buffer((8,), name="target")
    a, b = ib.buffer_ptr(source), ib.buffer_ptr(target)
    with ib.for_range(0, 8) as i:
        ib.emit(tvm.tir.Store(b, tvm.tir.Load("float32", a, 7 - i), i))
    mod = tvm.IRModule.from_expr(tvm.tir.PrimFunc([source, target], ib.get()).with_attr("global_symbol", "main"))
    data = np.arange(8, dtype="float32")
    out = tvm.nd.empty((8,))
    tvm.build(mod, target="llvm")(tvm.nd.array(data), out)
    np.testing.assert_array_equal(out.numpy(), data[::-1])


@pytest.mark.parametrize("include_non_call_ops", [False, True])
def test_calls_are_marked_for_a_code_generator_with_and_without_tuples(include_non_call_ops):
    tvm.ir.register_op_attr("exp", "target.marks", lambda _expr: True)
    x = relay.var("x", shape=(2,))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.exp(relay.exp(x)) + relay.abs(x)))
    marked = relay.transform.AnnotateTarget("marks", include_non_call_ops=include_non_call_ops)(mod)
    merged = relay.transform.PartitionGraph()(relay.transform.MergeCompilerRegions()(marked))
    assert [f.attrs["Compiler"] for f in merged.functions.values() if "Compiler" in f.attrs] == ["marks"]
