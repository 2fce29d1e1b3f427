"""Names and operators of versions after 0.8, each compared with NumPy or with what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.errors import InputError

pytestmark = pytest.mark.usefixtures("classic")

RNG = np.random.default_rng(9)


def computed(build: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    """The result of a computation of `topi` on arrays."""
    import tvm
    from tvm import te, topi

    inputs = [te.placeholder(a.shape, str(a.dtype), f"x{i}") for i, a in enumerate(arrays)]
    made = build(topi, *inputs)
    outs = list(made) if isinstance(made, list | tuple) else [made]
    results = [tvm.nd.empty([int(size) for size in out.shape], str(out.dtype)) for out in outs]
    function = tvm.build(topi.generic.schedule_injective(outs), [*inputs, *outs], "llvm")
    function(*map(tvm.nd.array, arrays), *results)
    return [result.numpy() for result in results]


def test_normalizations_agree_with_numpy() -> None:
    x = RNG.random((2, 4, 6), "float32")
    scale, shift = RNG.random((4, 6), "float32"), RNG.random((4, 6), "float32")
    centred = x - x.mean((1, 2), keepdims=True)
    normal = centred / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5)
    (got,) = computed(lambda topi, *t: topi.nn.layer_norm(*t, [1, 2]), x, scale, shift)
    np.testing.assert_allclose(got, normal * scale + shift, rtol=1e-5, atol=1e-5)
    root = np.sqrt((x * x).mean((1, 2), keepdims=True) + 1e-5)
    (got,) = computed(lambda topi, *t: topi.nn.rms_norm(*t, (1, 2)), x, scale, shift)
    np.testing.assert_allclose(got, x / root * scale + shift, rtol=1e-5, atol=1e-5)
    parts = x.reshape(2, 2, 2, 6)
    normal = (parts - parts.mean((2, 3), keepdims=True)) / np.sqrt(parts.var((2, 3), keepdims=True) + 1e-5)
    want = normal.reshape(x.shape) * scale[:, :1] + shift[:, :1]
    (got,) = computed(lambda topi, *t: topi.nn.group_norm(*t, 2, 1, [2]), x, scale[:, 0], shift[:, 0])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_gives_its_statistics(training: bool) -> None:
    x = RNG.random((5, 3), "float32")
    gamma, beta, mean, var = (RNG.random(3, "float32") for _ in range(4))
    out, new_mean, new_var = computed(
        lambda topi, *t: topi.nn.batch_norm(*t, 1, 1e-3, True, True, training, 0.25), x, gamma, beta, mean, var
    )
    at, spread = (x.mean(0), x.var(0)) if training else (mean, var)
    np.testing.assert_allclose(out, (x - at) / np.sqrt(spread + 1e-3) * gamma + beta, rtol=1e-4, atol=1e-5)
    share = 0.25 if training else 0
    np.testing.assert_allclose(new_mean, mean * (1 - share) + at * share, rtol=1e-5)
    np.testing.assert_allclose(new_var, var * (1 - share) + spread * share, rtol=1e-5)


def test_results_of_sizes_that_depend_on_values() -> None:
    x = np.array([[0, 3], [5, 0]], "int32")
    (got,) = computed(lambda topi, shape, c: topi.argwhere(shape, c), np.ones((2, 2), "int32"), x)
    np.testing.assert_array_equal(got, np.argwhere(x))
    data = np.array([4, 2, 4, 7, 2], "int32")
    found, first, which, number, counts = computed(lambda topi, t: topi.unique(t, False, True), data)
    assert number.tolist() == [3]
    assert (found[:3].tolist(), first[:3].tolist(), counts[:3].tolist()) == ([4, 2, 7], [0, 1, 3], [2, 2, 1])
    np.testing.assert_array_equal(found[which], data)


def test_transforms_triangles_and_sums() -> None:
    real, imaginary = RNG.random((3, 5)), RNG.random((3, 5))
    for inverse, reference in ((False, np.fft.fft), (True, np.fft.ifft)):
        got = computed(lambda topi, *t, inverse=inverse: topi.dft(*t, inverse), real, imaginary)
        want = reference(real + 1j * imaginary)
        np.testing.assert_allclose(got[0] + 1j * got[1], want, atol=1e-9)
    for upper, reference in ((True, np.triu), (False, np.tril)):
        (got,) = computed(lambda topi, t, upper=upper: topi.trilu(t, 1, upper), real)
        np.testing.assert_array_equal(got, reference(real, 1))
    (got,) = computed(lambda topi, t: topi.cumsum(t, dtype="float64"), real.astype("float32"))
    np.testing.assert_allclose(got, np.cumsum(real.astype("float32"), dtype="float64"), rtol=1e-6)


def test_convolutions_along_a_row() -> None:
    from tvm.topi import testing

    x, w = RNG.random((1, 4, 9), "float32"), RNG.random((6, 2, 3), "float32")
    (got,) = computed(lambda topi, *t: topi.nn.group_conv1d_ncw(*t, 1, "SAME", 2, 2), x, w)
    halves = [testing.conv1d_ncw_python(x[:, 2 * g : 2 * g + 2], w[3 * g : 3 * g + 3], 1, "SAME", 2) for g in (0, 1)]
    np.testing.assert_allclose(got, np.concatenate(halves, 1), rtol=1e-5)
    assert got.shape == (1, 6, 9)  # "SAME" counts the window with the gaps that dilation leaves
    one = RNG.random((6, 4, 1), "float32")
    (got,) = computed(lambda topi, *t: topi.nn.conv1d_ncw(*t, 1, "SAME", 1), x, one)
    np.testing.assert_allclose(got, np.einsum("ncw,oc->now", x, one[..., 0]), rtol=1e-5)


def test_what_relay_build_is_told() -> None:
    from tvm import relay
    from tvm.relay.backend import Executor, Runtime

    x = relay.var("x", shape=(2,))
    func = relay.Function([x], x + x)
    executor = Executor("graph", {"link-params": True})
    assert executor["link-params"]
    lib = relay.build(func, "llvm", executor=executor, runtime=Runtime("cpp"))
    import tvm

    device = lib["default"](tvm.cpu())
    device["set_input"]("x", np.ones(2, "float32"))
    device["run"]()
    np.testing.assert_array_equal(device["get_output"](0).numpy(), [2, 2])
    with pytest.raises(InputError, match='"woof" is not available'):
        Executor("aot", {"woof": 1})
    with pytest.raises(InputError, match='Runtime "woof" is not defined'):
        Runtime("woof")


def test_names_that_are_given_out_once() -> None:
    from tvm.ir.supply import GlobalVarSupply, NameSupply
    from tvm.relay.backend.name_transforms import to_c_constant_style, to_c_function_style
    from tvm.relay.backend.utils import mangle_module_name

    names = NameSupply("pre")
    assert [names.fresh_name("f"), names.fresh_name("f")] == ["pre_f", "pre_f_1"]
    supply = GlobalVarSupply(names)
    assert supply.unique_global_for("g") is supply.unique_global_for("g")
    assert supply.fresh_global("g").name == "pre_g_1"
    assert (to_c_function_style("TVM_a_b"), to_c_constant_style("TVM_a")) == ("TVMAB", "TVM_A")
    assert mangle_module_name("m") == "tvmgen_m"


def test_questions_about_graphs() -> None:
    from tvm import relay
    from tvm.relay.frontend.common import infer_shape, infer_value

    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    body = relay.nn.relu(relay.nn.dense(relay.nn.dense(x, w), relay.const(np.ones((5, 4), "float32"))))
    mod = relay.transform.InferType()(__import__("tvm").IRModule.from_expr(body))
    assert relay.analysis.count_layers(mod, ["nn.dense"]) == 2
    assert relay.analysis.list_op_freqs(mod) == {"nn.dense": 2, "nn.relu": 1}
    assert infer_shape(body) == (2, 5)
    np.testing.assert_array_equal(infer_value(x + x, {"x": np.ones((2, 3), "float32")}).numpy(), np.full((2, 3), 2))
    recast = relay.transform.recast(body, "float16", "float32", ["nn.dense"])
    assert "float16" in recast.astext()


def test_functions_written_by_hand_are_lowered() -> None:
    import tvm
    from tvm import te

    n = te.size_var("n")
    buffers = [tvm.tir.decl_buffer((n, 4), "float32", name=name) for name in "ab"]
    builder = tvm.tir.ir_builder.create()
    a, b = (builder.buffer_ptr(buffer) for buffer in buffers)
    with builder.for_range(0, n, name="i", kind="parallel") as i, builder.for_range(0, 4, kind="vectorize") as j:
        b[i, j] = a[i, j] * 2
    function = tvm.build(tvm.tir.PrimFunc(buffers, builder.get()), target="llvm")
    x = RNG.random((6, 4), "float32")
    out = tvm.nd.array(np.zeros((6, 4), "float32"))
    function(tvm.nd.array(x), out)
    np.testing.assert_array_equal(out.numpy(), 2 * x)


def test_arrays_of_a_device_print_what_is_there() -> None:
    from tilewright import compat

    compat.uninstall()
    compat.install(emulate=True)
    try:
        import tvm
        from tvm import te

        a = te.placeholder((4,), name="a")
        b = te.compute((4,), lambda i: a[i] + 1.0, name="b")
        s = te.create_schedule(b.op)
        s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
        device = tvm.cuda(0)
        x, y = (tvm.nd.array(np.zeros(4, "float32"), device) for _ in range(2))
        tvm.build(s, [a, b], "cuda")(x, y)
        assert "[1. 1. 1. 1.]" in str(y)
    finally:
        compat.uninstall()
        compat.install(emulate=False)


def test_inception_has_its_size() -> None:
    from tvm.relay.testing import inception_v3

    mod, params = inception_v3.get_workload()
    assert mod["main"].checked_type.ret_type.concrete_shape == (1, 1000)
    weights = sum(value.numpy().size for name, value in params.items() if name.endswith(("_weight", "_bias")))
    assert 23.7e6 < weights < 23.9e6
