"""More programs in the classic style, compared with NumPy: values, texts, arrays and layouts that they may meet."""

import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import InputError, UnsupportedError


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype("float32")


def test_a_value_to_pad_with_that_is_known_at_run_time() -> None:
    from tvm import relay

    data, value = relay.var("data", shape=(4, 6)), relay.var("value", "float32")
    func = relay.Function([data, value], relay.nn.pad(data, ((1, 2), (-1, 3)), pad_value=value))
    x = random(4, 6)
    for fill in (2.5, -np.inf):
        found = relay.create_executor("graph").evaluate(func)(x, np.float32(fill)).numpy()
        np.testing.assert_array_equal(found, np.pad(x[:, 1:], ((1, 2), (0, 3)), constant_values=fill))
    constant = relay.nn.pad(data, ((0, 0), (0, 1)), pad_value=relay.const(3.0))
    assert constant.attrs["pad_value"] == 3.0


@pytest.mark.parametrize("kind", ["graph", "vm", "debug"])
def test_transposed_convolution_of_images_with_channels_last(kind: str) -> None:
    from tvm import relay, topi

    x, w = relay.var("x", shape=(1, 5, 4, 3)), relay.var("w")
    call = relay.nn.conv2d_transpose(
        x, w, channels=2, kernel_size=(3, 3), strides=(2, 2), padding=(1, 1), output_padding=(1, 1),
        data_layout="NHWC", kernel_layout="HWOI",
    )  # fmt: skip
    data, kernel = random(1, 5, 4, 3), random(3, 3, 2, 3)
    expected = topi.testing.conv2d_transpose_nhwc_python(data, kernel, "HWOI", 2, 1, output_padding=(1, 1))
    found = relay.create_executor(kind).evaluate(relay.Function([x, w], call))(data, kernel)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_constants_answer_as_arrays_do() -> None:
    import tvm
    from tvm import relay

    constant = relay.const(np.arange(6.0).reshape(2, 3), "float32")
    assert isinstance(constant.data, tvm.nd.NDArray) and type(constant.data.numpy()) is np.ndarray
    np.testing.assert_array_equal(constant.data.asnumpy(), np.arange(6.0).reshape(2, 3))
    assert type(constant.data + 1) is np.ndarray and isinstance(relay.const(1.5).data * 2, np.float32)
    assert relay.const(3, relay.scalar_type("int64")).data.dtype == "int64"


def test_values_of_data_types_as_arguments() -> None:
    import tvm
    from tvm import relay
    from tvm.relay.backend.interpreter import ConstructorValue, RefValue
    from tvm.relay.prelude import Prelude

    prelude = Prelude(tvm.IRModule())
    _, cons, nil = prelude.mod.get_type("List")
    row = tvm.nd.array(random(1, 3))
    end = ConstructorValue(nil.tag, [], nil)
    identity = relay.create_executor(mod=prelude.mod).evaluate(prelude.id)
    value = identity(ConstructorValue(cons.tag, [row, end], cons))
    assert isinstance(value, ConstructorValue) and value.tag == cons.tag and value.fields[1].tag == nil.tag
    np.testing.assert_array_equal(value.fields[0].numpy(), row.numpy())
    np.testing.assert_array_equal(identity(RefValue(row)).value.numpy(), row.numpy())
    func = relay.Function([x := relay.var("x", "int32")], x + relay.const(1))
    assert relay.create_executor().evaluate(func)(relay.const(4)).numpy() == 5


def test_texts_with_constants_and_functions_of_other_modules() -> None:
    import tvm
    from tvm import relay

    constant = relay.const(random(2, 3))
    base = tvm.parser.fromtext('#[version = "0.0.5"]\ndef @f(%y: Tensor[(2, 3), float32]) { negative(%y) }')
    program = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2, 3), float32]) { add(@f(%x), meta[relay.Constant][0]) }'
    mod = tvm.parser.parse(program, "program", base, {"relay.Constant": [constant]})
    x = random(2, 3)
    found = relay.create_executor(mod=mod).evaluate()(x)
    np.testing.assert_allclose(found.numpy(), constant.data.numpy() - x, rtol=1e-6)
    assert mod.functions.items()[0][0].name_hint == "f"
    assert tvm.parser.fromtext(mod.astext())["main"] is not None
    assert isinstance(tvm.parser.parse_expr("@elsewhere"), relay.GlobalVar)
    with pytest.raises(tvm.TVMError, match="broken: line 1"):
        tvm.parser.parse("def @main( {", "broken")


def test_types_that_a_call_gives_to_type_variables() -> None:
    import tvm
    from tvm import relay

    text = '#[version = "0.0.5"]\ndef @id[A](%x: A) -> A { %x }\ndef @main(%f: Tensor[(3), float32]) { @id(%f) }'
    mod = relay.transform.InferType()(tvm.parser.fromtext(text))
    assert mod["main"].body.type_args == (relay.TensorType((3,), "float32"),)


def test_pragmas_that_are_primitives_and_pointers_as_parameters() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: a[i] * 2.0, name="b")
    schedule = te.create_schedule(b.op)
    _, inner = schedule[b].split(b.op.axis[0], factor=8)
    schedule[b].pragma(inner, "vectorize")
    assert schedule[b].iter_var_attrs[inner].iter_type == tvm.te.schedule.IterVar.Vectorized
    x, y = tvm.nd.array(random(64)), tvm.nd.empty((64,))
    tvm.build(schedule, [a, b])(x, y)
    np.testing.assert_array_equal(y.numpy(), x.numpy() * 2)

    ib = tvm.tir.ir_builder.create()
    values = ib.pointer("float32", name="values")
    values[3] = values[0] + 1.0
    func = tvm.tir.PrimFunc([values], ib.get()).with_attr("global_symbol", "fill")
    assert "@fill(" in tvm.build(tvm.IRModule.from_expr(func), None, "llvm").get_source()


def test_arrays_of_bits_that_are_bfloat16() -> None:
    import tvm
    from tvm import te

    a, b = (te.placeholder((32,), name=name, dtype="bfloat16") for name in "ab")
    c = te.compute((32,), lambda i: a[i] + b[i])
    x, y = (random(32).astype(ml_dtypes.bfloat16) * scale for scale in (1, 3))
    out = tvm.nd.empty((32,), "uint16")
    module = tvm.build(te.create_schedule(c.op), [a, b, c])
    module(tvm.nd.array(x.view("uint16")), tvm.nd.array(y.view("uint16")), out)
    np.testing.assert_array_equal(out.numpy().view(ml_dtypes.bfloat16), x + y)


def test_an_intrinsic_of_llvm_and_its_overload() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((5,), name="a", dtype="int32")
    count = te.compute(
        (5,),
        lambda i: tvm.tir.call_llvm_pure_intrin(
            "int32", "llvm.ctlz", tvm.tir.const(2, "uint32"), a[i], tvm.tir.const(0, "int1")
        ),
    )
    x, out = tvm.nd.array(np.array([1, 2, 255, 256, -1], "int32")), tvm.nd.empty((5,), "int32")
    tvm.build(te.create_schedule(count.op), [a, count])(x, out)
    np.testing.assert_array_equal(out.numpy(), [31, 30, 24, 23, 0])
    assert tvm.DataType("handle").type_code == tvm.DataTypeCode.HANDLE
    assert tvm.runtime.convert(3).value == 3


def test_timing_through_the_module() -> None:
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    x = relay.var("x", shape=(8,))
    lib = relay.build(tvm.IRModule.from_expr(relay.Function([x], x + x)), "llvm")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.set_input("x", random(8))
    assert len(module.module.time_evaluator("run", tvm.cpu(), number=2, repeat=3)().results) == 3
    assert module.benchmark(tvm.cpu(), x=random(8), number=1, repeat=2, end_to_end=True).mean > 0
    with pytest.raises(UnsupportedError, match="before it is put on a device"):
        lib.time_evaluator("run")
    with pytest.raises(UnsupportedError, match="addons"):
        lib.export_library("model.so", addons=["other.o"])


def test_options_that_would_make_no_difference_are_refused() -> None:
    import tvm
    from tvm import relay

    for option in ({"do_simulation": True}, {"rounding": "TONEAREST"}, {"debug_enabled_ops": ["nn.conv2d"]}):
        with pytest.raises(UnsupportedError, match=next(iter(option))):
            relay.quantize.qconfig(**option)
    with pytest.raises(UnsupportedError, match=r"NarrowDataType: target_bits is one of 32 here, not 16"):
        tvm.tir.transform.NarrowDataType(16)
    with pytest.raises(TypeError, match="FoldConstant"):
        relay.transform.FoldConstant(level=3)
    twice = [relay.var("x", shape=(2,)), relay.var("x", shape=(2,)), relay.var("y", shape=(2,))]
    func = relay.Function(twice, twice[0] + twice[1] + twice[2])
    assert len(relay.build_module.bind_params_by_name(func, {"y": random(2)}).params) == 2
    with pytest.raises(InputError, match="several parameters of the function are called x"):
        relay.build_module.bind_params_by_name(func, {"x": random(2)})
