"""Passes, the virtual machine and the standard library as classic programs use them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.errors import InputError, UnsupportedError

pytestmark = pytest.mark.usefixtures("classic")

RNG = np.random.default_rng(3)


def _primitives(mod: Any) -> list[int]:
    """The number of calls in each kernel of `main`, in order."""
    from tvm import relay

    found: list[int] = []

    def visit(node: Any) -> None:
        if isinstance(node, relay.Call) and isinstance(node.op, relay.Function):
            inner: list[Any] = []
            relay.analysis.post_order_visit(node.op.body, lambda n: inner.append(n) if isinstance(n, relay.Call) else 0)
            found.append(len(inner))

    relay.analysis.post_order_visit(mod["main"].body, visit)
    return found


def test_fusion_by_level() -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(10, 20))
    mod = tvm.IRModule.from_expr(relay.squeeze(relay.exp(relay.add(x, relay.const(1.0)))))
    assert _primitives(relay.transform.FuseOps(fuse_opt_level=0)(mod)) == [1, 1, 1]
    assert _primitives(relay.transform.FuseOps(fuse_opt_level=2)(mod)) == [3]
    with tvm.transform.PassContext(opt_level=0):
        assert _primitives(relay.transform.FuseOps()(mod)) == [1, 1, 1]
    data = RNG.standard_normal((10, 20)).astype("float32")
    fused = relay.create_executor("debug", mod=relay.transform.FuseOps(2)(mod)).evaluate()(data)
    np.testing.assert_allclose(fused.numpy(), np.exp(data + 1), rtol=1e-6)


def test_values_that_are_read_once_move_to_their_reader() -> None:
    import tvm
    from tvm import relay

    x, a, b, c = (relay.var(name, shape=(3,)) for name in "xabc")
    body = relay.Let(a, x * x, relay.Let(b, a + x, relay.Let(c, relay.exp(x), relay.Tuple([c, b * b, c]))))
    mod = tvm.IRModule.from_expr(relay.Function([x], body))
    plain = relay.transform.DeadCodeElimination()(mod)
    inlined = relay.transform.DeadCodeElimination(inline_once=True)(mod)
    count = [str(one).count("let ") for one in (plain, inlined)]
    assert count == [3, 2]
    data = RNG.standard_normal(3).astype("float32")
    for one in (plain, inlined):
        found = relay.create_executor("debug", mod=one).evaluate()(data)
        np.testing.assert_allclose(found[1].numpy(), (data * data + data) ** 2, rtol=1e-5)


def test_reads_of_references_stay_where_they_are() -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=())
    cell, first, last = relay.var("cell"), relay.var("first"), relay.var("last")
    write = relay.Let(relay.var("_"), relay.RefWrite(cell, x * x), relay.Let(last, relay.RefRead(cell), first + last))
    body = relay.Let(cell, relay.RefCreate(x), relay.Let(first, relay.RefRead(cell), write))
    mod = relay.transform.DeadCodeElimination(inline_once=True)(tvm.IRModule.from_expr(relay.Function([x], body)))
    assert float(relay.create_executor("debug", mod=mod).evaluate()(np.float32(3)).numpy()) == 12


def test_the_virtual_machine_by_hand() -> None:
    import tvm
    from tvm import relay

    x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
    mod = tvm.IRModule.from_expr(relay.Function([x, y], relay.Tuple([x + y, relay.Tuple([x])])))
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
    a, b = np.arange(4, dtype="float32"), np.ones(4, "float32")
    value = machine.invoke("main", a, b)
    assert isinstance(value, tvm.runtime.container.ADT) and len(value) == 2 and len(value[1]) == 1
    machine.set_one_input("main", "x", a)
    machine.set_one_input("main", y=b)
    machine.invoke_stateful("main")
    for found, expected in zip(machine.get_outputs(), (a + b, a), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected)
    assert [machine.get_input_index(name) for name in ("y", "x", "z")] == [1, 0, -1]
    assert len(machine.benchmark(tvm.cpu(), a, b, repeat=2, number=1).results) == 2
    with pytest.raises(InputError, match="the model has no input 'z'; it has: x, y"):
        machine.set_one_input("main", "z", a)
    slow = machine.benchmark(tvm.cpu(), a, b, number=1, repeat=1, min_repeat_ms=2)
    assert len(slow.results) == 1 and slow.mean > 0


def test_values_of_data_types_from_a_compiled_program() -> None:
    import tvm
    from tvm import relay

    mod = tvm.IRModule()
    mod.import_from_std("prelude.rly")
    _, cons, nil = mod.get_type("List")
    mod["main"] = cons(relay.const(1), cons(relay.const(2), nil()))
    found = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu()).invoke("main")
    assert found.tag == cons.tag and found.fields[1].fields[1].tag == nil.tag
    assert [int(found[0].numpy()), int(found[1][0].numpy())] == [1, 2]
    mod.import_from_std("nat.rly")
    assert [one.name for one in mod.get_type("nat")[1:]] == ["Z", "S"]
    with pytest.raises(UnsupportedError, match="the standard library has no file"):
        mod.import_from_std("trees.rly")


def test_the_compiler_of_the_virtual_machine_optimizes() -> None:
    import tvm
    from tvm import relay

    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    optimized, _ = relay.vm.VMCompiler().optimize(mod, target="llvm", params={"w": np.ones((4, 3), "float32")})
    assert [var.name_hint for var in relay.analysis.free_vars(optimized["main"].body)] == ["x"]


@pytest.mark.parametrize("kind", ["graph", "vm"])
def test_inputs_take_the_dtype_of_their_parameter(kind: str) -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(3,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    values = np.array([0.5, 1, 2], "float16")
    found = relay.create_executor(kind, mod=mod).evaluate()(values).numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.exp(values.astype("float32")), rtol=1e-6)


def test_gradients_are_checked_at_small_numbers() -> None:
    from tvm import relay

    x = relay.var("x", shape=(3, 4))
    relay.testing.check_grad(relay.Function([x], relay.reshape(x, (-1,))))
    with pytest.raises(AssertionError, match="gradient 0 is off"):
        relay.testing.check_grad(relay.Function([x], relay.reshape(x, (-1,))), scale=100.0)


def test_conversions_at_the_ends_as_functions_of_their_own() -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(1, 4, 8, 8))
    weight = relay.const(np.random.default_rng(0).random((4, 4, 3, 3)).astype("float32"))
    layer = relay.nn.conv2d(x, weight, kernel_size=(3, 3), channels=4)
    with relay.quantize.qconfig(skip_conv_layers=[], partition_conversions="fully_integral"):
        made = relay.quantize.quantize(tvm.IRModule.from_expr(layer))
        biased = relay.nn.bias_add(layer, relay.const(np.ones(4, "float32")))
        with pytest.raises(AssertionError, match=r"quantize: (nn.bias_)?add is a float within the network"):
            relay.quantize.quantize(tvm.IRModule.from_expr(biased))
    names = {gvar.name for gvar in made.get_global_vars()}
    assert names == {"main", "quantize_inputs", "quantized_main", "dequantize_outputs"}


def test_an_option_that_quantization_does_not_have_is_ignored_with_a_warning() -> None:
    from tvm import relay

    with pytest.warns(
        UserWarning, match="no option 'skip_dense_layers', which is ignored; did you mean 'skip_dense_layer'"
    ):
        relay.quantize.qconfig(skip_dense_layers=False)


def test_empty_tuples_are_one_value() -> None:
    import tvm
    from tvm import relay

    unit = relay.Tuple([])
    shared = relay.Let(relay.var("_"), unit, unit)
    tvm.ir.assert_structural_equal(relay.Let(relay.var("_"), relay.Tuple([]), relay.Tuple([])), shared)


def test_accumulating_over_a_list_reverses_it_as_the_classic_prelude_does() -> None:
    import tvm
    from tvm import relay

    mod = tvm.IRModule()
    mod.import_from_std("prelude.rly")
    source = """
    def @main() -> (int32, List[int32]) {
      @map_accuml(fn (%a: int32, %x: int32) -> (int32, int32) { (%a + %x, %x * 10) }, 0, Cons(1, Cons(2, Cons(3, Nil))))
    }
    """
    whole = tvm.parser.parse('#[version = "0.0.5"]' + source, init_module=mod)
    total, values = relay.create_executor("debug", mod=whole).evaluate()()
    found = []
    while values.fields:
        found.append(int(values.fields[0].numpy()))
        values = values.fields[1]
    assert (int(total.numpy()), found) == (6, list(np.array([3, 2, 1]) * 10))
