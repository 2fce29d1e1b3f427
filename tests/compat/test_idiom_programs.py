"""Idioms of the classic documentation, each a program of its own, with NumPy as the oracle."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.errors import InputError, ModelError, UnsupportedError


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def _perceptron() -> tuple[Any, dict[str, np.ndarray], Any]:
    """A module of two layers, its weights, and what it computes."""
    import tvm
    from tvm import relay

    w1, w2 = _random(16, 8, seed=1), _random(4, 16, seed=2)
    x = relay.var("x", shape=(3, 8))
    hidden = relay.nn.relu(relay.nn.dense(x, relay.var("w1", shape=(16, 8))))
    out = relay.nn.softmax(relay.nn.dense(hidden, relay.var("w2", shape=(4, 16))))

    def oracle(given: np.ndarray) -> np.ndarray:
        scores = np.maximum(given @ w1.T, 0) @ w2.T
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        return raised / raised.sum(axis=1, keepdims=True)

    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(out), out))
    return mod, {"w1": w1, "w2": w2}, oracle


def test_hybrid_script_as_a_stage() -> None:
    import tvm
    from tvm import te

    @te.hybrid.script
    def outer_product(a, b):  # type: ignore[no-untyped-def]
        c = output_tensor((a.shape[0], b.shape[0]), a.dtype)  # noqa: F821
        for i in range(a.shape[0]):
            for j in range(b.shape[0]):
                c[i, j] = a[i] * b[j]
        return c

    a, b = te.placeholder((5,), name="a"), te.placeholder((7,), name="b")
    c = outer_product(a, b)
    d = te.compute(c.shape, lambda i, j: c[i, j] + 1.0, name="d")
    func = tvm.build(te.create_schedule(d.op), [a, b, d], "llvm")
    x, y, out = _random(5), _random(7, seed=1), tvm.nd.array(np.zeros((5, 7), "float32"))
    func(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_allclose(out.numpy(), np.outer(x, y) + 1, rtol=1e-5)


def test_hybrid_script_runs_as_python() -> None:
    from tvm import te

    @te.hybrid.script
    def blur(a):  # type: ignore[no-untyped-def]
        b = output_tensor((a.shape[0] - 2,), a.dtype)  # noqa: F821
        for i in range(a.shape[0] - 2):
            b[i] = (a[i] + a[i + 1] + a[i + 2]) / 3.0
        return b

    x = _random(9)
    np.testing.assert_allclose(blur(x), np.convolve(x, np.full(3, 1 / 3, "float32"), "valid"), rtol=1e-4, atol=1e-6)


def test_the_debug_executor_writes_what_a_model_gave(tmp_path: Path) -> None:
    import tvm
    from tvm import relay
    from tvm.contrib.debugger import debug_executor

    mod, params, oracle = _perceptron()
    lib = relay.build(mod, "llvm", params=params)
    module = debug_executor.create(lib.get_graph_json(), lib.lib, tvm.cpu(0), dump_root=str(tmp_path))
    x = _random(3, 8)
    module.set_input("x", x)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), oracle(x), rtol=1e-5)
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "_tvmdbg_graph_dump.json").read_text())["nodes"][0]["name"] == "x"
    dumped = relay.load_param_dict((folder / "output_tensors.params").read_bytes())
    np.testing.assert_array_equal(dumped["output0____0"].numpy(), module.get_output(0).numpy())
    assert "Total_time" in module.profile(x=x) and all(seconds >= 0 for seconds in module.run_individual(2))
    with pytest.raises(UnsupportedError, match="kernels keep no results"):
        module.debug_get_output(0)


def _graph_over_functions() -> tuple[str, Any]:
    """(x + 1) * 3 flattened, a graph by hand over two functions, and these."""
    import tvm
    from tvm import te

    a = te.placeholder((2, 3), name="a")
    flat = te.placeholder((6,), name="flat")
    b = te.compute((2, 3), lambda *i: a(*i) + 1.0, name="b")
    c = te.compute((6,), lambda i: flat[i] * 3.0, name="c")
    parts = [
        tvm.lower(te.create_schedule(o.op), args, name=n)
        for o, args, n in ((b, [a, b], "inc"), (c, [flat, c], "triple"))
    ]
    counts = {"num_inputs": "1", "num_outputs": "1"}
    nodes = [{"op": "null", "name": "x", "inputs": []}]
    for number, (name, function, flatten) in enumerate(
        (("inc", "inc", "0"), ("flat", "__nop", "0"), ("out", "triple", "1"))
    ):
        attrs = {"func_name": function, "flatten_data": flatten, **counts}
        nodes.append({"op": "tvm_op", "name": name, "attrs": attrs, "inputs": [[number, 0, 0]]})
    shapes, kinds = [[2, 3], [2, 3], [6], [2, 3]], ["float32"] * 4
    attrs = {"shape": ["list_shape", shapes], "dltype": ["list_str", kinds], "storage_id": ["list_int", [0, 1, 1, 2]]}
    graph = {"nodes": nodes, "arg_nodes": [0], "node_row_ptr": [0, 1, 2, 3, 4], "heads": [[3, 0, 0]], "attrs": attrs}
    return json.dumps(graph), tvm.build(parts, target="llvm")


def test_a_graph_by_hand_over_functions_of_a_library(tmp_path: Path) -> None:
    import tvm
    from tvm import rpc
    from tvm.contrib import graph_executor

    graph, lib = _graph_over_functions()
    module, x = graph_executor.create(graph, lib, tvm.cpu(0)), _random(2, 3)
    module.run(x=x)
    np.testing.assert_allclose(module.get_output(0).numpy(), 3 * (x + 1), rtol=1e-6)
    server = rpc.Server("127.0.0.1", 9800, 9900)
    remote = rpc.connect(server.host, server.port)
    lib.export_library(tmp_path / "lib.so")
    remote.upload(str(tmp_path / "lib.so"))
    far = graph_executor.create(graph, remote.load_module("lib.so"), remote.cpu(0))
    far.run(x=tvm.nd.array(x, remote.cpu(0)))
    np.testing.assert_allclose(far.get_output(0).numpy(), 3 * (x + 1), rtol=1e-6)
    server.terminate()


def test_the_debug_executor_tells_of_every_node(tmp_path: Path) -> None:
    import tvm
    from tvm.contrib.debugger import debug_executor

    graph, lib = _graph_over_functions()
    module, x = debug_executor.create(graph, lib, tvm.cpu(0)), _random(2, 3)
    module.run(x=x)
    np.testing.assert_allclose(module.debug_get_output("inc").numpy(), x + 1, rtol=1e-6)
    np.testing.assert_array_equal(module.debug_get_output(0).numpy(), x)
    rows = [line.split() for line in module.debug_datum.get_debug_result(sort_by_time=False).splitlines()]
    assert [row[0] for row in rows[2:]] == ["inc", "flat", "out", "Total_time"]
    folder = Path(module._dump_path)
    events = json.loads((folder / "_tvmdbg_execution_trace.json").read_text())["traceEvents"]
    assert [event["ph"] for event in events] == ["B", "E"] * 4
    module.exit()
    assert not folder.exists()
    with pytest.raises(InputError, match="no node 'nowhere'"):
        module.debug_get_output("nowhere")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda graph: graph.pop("heads"), "no graph of the graph executor: KeyError: 'heads'"),
        (lambda graph: graph["nodes"][1].update(op="call"), "node 'inc' of the graph is a 'call'"),
        (lambda graph: graph["nodes"][1].update(inputs=[[3, 0, 0]]), "'inc' of the graph reads entry 3"),
        (lambda graph: graph["nodes"][1].update(inputs=[[9, 0, 0]]), r"entry \[9, 0, 0\] of the graph is of no node"),
        (lambda graph: graph["nodes"][1].update(inputs=[]), "another number of inputs or outputs"),
        (lambda graph: graph["attrs"]["shape"][1].pop(), "4 entries, 4 types and 3 shapes"),
        (lambda graph: graph["nodes"][1]["attrs"].update(func_name="dec"), "the module has no function 'dec'"),
    ],
)
def test_graphs_that_are_none(change: Any, message: str) -> None:
    import tvm
    from tvm.contrib import graph_executor

    text, lib = _graph_over_functions()
    graph = json.loads(text)
    change(graph)
    with pytest.raises((ModelError, InputError), match=message):
        graph_executor.create(json.dumps(graph), lib, tvm.cpu(0))


def test_the_graph_of_a_compiled_model_is_as_the_format_says() -> None:
    import tvm
    from tvm import relay

    x, y = relay.var("x", shape=(4, 6)), relay.var("y", shape=(4, 6))
    parts = relay.split(relay.tanh(relay.nn.dense(x, relay.const(_random(6, 6)))) + y, 2, axis=0)
    body = relay.Tuple([relay.reshape(parts[0], (12,)), relay.exp(parts[1]), y])
    lib = relay.build(tvm.IRModule.from_expr(relay.Function([x, y], body)), "llvm")
    graph = json.loads(lib.get_graph_json())
    nodes, rows = graph["nodes"], graph["node_row_ptr"]
    assert [node["name"] for node in nodes if node["op"] == "null"][:2] == ["x", "y"]
    assert graph["arg_nodes"] == [i for i, node in enumerate(nodes) if node["op"] == "null"]
    assert {nodes[i]["name"] for i in graph["arg_nodes"]} == {"x", "y", *lib.get_params()}
    for number, node in enumerate(nodes):
        assert all(one < number and 0 <= index < rows[one + 1] - rows[one] for one, index, _ in node["inputs"])
        if node["op"] == "tvm_op":
            assert all(isinstance(value, str) for value in node["attrs"].values())
            assert int(node["attrs"]["num_outputs"]) == rows[number + 1] - rows[number]
    kinds = {key: kind for key, (kind, _) in graph["attrs"].items()}
    assert kinds == {"dltype": "list_str", "storage_id": "list_int", "shape": "list_shape"}
    assert all(len(column) == rows[-1] for _, column in graph["attrs"].values())
    shapes = [graph["attrs"]["shape"][1][rows[node] + index] for node, index, _ in graph["heads"]]
    assert shapes == [[12], [2, 6], [4, 6]]


def test_a_pattern_is_rewritten_by_a_callback() -> None:
    import tvm
    from tvm import relay
    from tvm.relay.dataflow_pattern import DFPatternCallback, is_constant, is_op, rewrite, wildcard

    class MultiplyInstead(DFPatternCallback):
        """x + x becomes 2 x."""

        def __init__(self) -> None:
            super().__init__()
            self.x = wildcard()
            self.pattern = is_op("add")(self.x, self.x)

        def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
            return node_map[self.x][0] * relay.const(2.0)

    x = relay.var("x", shape=(4,))
    found = rewrite(MultiplyInstead(), relay.Function([x], relay.exp(x + x)))
    assert is_op("exp")(is_op("multiply")(wildcard(), is_constant())).match(found.body)
    given = _random(4)
    result = relay.create_executor("graph", mod=tvm.IRModule.from_expr(found)).evaluate()(given)
    np.testing.assert_allclose(result.numpy(), np.exp(2 * given), rtol=1e-5)


def test_a_pattern_with_attributes_is_partitioned() -> None:
    import tvm
    from tvm import relay
    from tvm.relay.dataflow_pattern import is_op, wildcard

    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    out = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1)))
    pattern = is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard()).has_attr({"padding": (1, 1, 1, 1)}))
    assert pattern.match(out)
    parted = pattern.partition(relay.Function([x, w], out))
    assert isinstance(parted.body.op, relay.Function) and parted.body.op.attrs["PartitionedFromPattern"]
    image, kernel = _random(1, 3, 8, 8), _random(4, 3, 3, 3, seed=1)
    found = relay.create_executor("graph", mod=tvm.IRModule.from_expr(parted)).evaluate()(image, kernel).numpy()
    wide = np.lib.stride_tricks.sliding_window_view(np.pad(image[0], ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2))
    np.testing.assert_allclose(
        found[0], np.maximum(np.einsum("cyxij,fcij->fyx", wide, kernel), 0), rtol=1e-4, atol=1e-4
    )


def test_a_pass_instrument_sees_every_pass() -> None:
    import tvm
    from tvm import relay
    from tvm.ir.instrument import pass_instrument

    @pass_instrument
    class Counting:
        def __init__(self) -> None:
            self.begun: list[str] = []
            self.ended: list[str] = []

        def run_before_pass(self, mod: Any, info: Any) -> None:
            self.begun.append(info.name)

        def run_after_pass(self, mod: Any, info: Any) -> None:
            self.ended.append(info.name)

    mod, params, oracle = _perceptron()
    counting = Counting()
    with tvm.transform.PassContext(opt_level=3, instruments=[counting]):
        changed = tvm.transform.Sequential([relay.transform.FoldConstant(), relay.transform.DeadCodeElimination()])(mod)
    assert {"FoldConstant", "DeadCodeElimination"} <= set(counting.begun) and set(counting.begun) == set(counting.ended)
    x = _random(3, 8)
    found = relay.create_executor("graph", mod=changed, params=params).evaluate()(x)
    np.testing.assert_allclose(found.numpy(), oracle(x), rtol=1e-5)


def test_a_micro_kernel_in_c_is_tensorized() -> None:
    import tvm
    from tvm import te
    from tvm.contrib import clang, utils

    if not clang.find_clang(required=False) and importlib.util.find_spec("ziglang") is None:
        pytest.skip("needs Clang, or the one in ziglang")
    code = """extern "C" int axpy(float* out, const float* x, const float* y, float a, int n) {
        for (int i = 0; i < n; ++i) out[i] = a * x[i] + y[i];
        return 0; }"""
    folder = utils.tempdir()
    brought = clang.create_llvm(code, output=folder.relpath("axpy.ll"))
    lanes = 16
    x, y = te.placeholder((lanes,), name="x"), te.placeholder((lanes,), name="y")
    z = te.compute((lanes,), lambda i: x[i] * 3.0 + y[i], name="z")

    def block(tensor: Any) -> Any:
        return tvm.tir.decl_buffer(tensor.shape, tensor.dtype, tensor.op.name, offset_factor=1, strides=[1])

    def call(ins: Any, outs: Any) -> Any:
        builder = tvm.tir.ir_builder.create()
        pointers = [one.access_ptr(mode) for one, mode in ((outs[0], "w"), (ins[0], "r"), (ins[1], "r"))]
        builder.emit(tvm.tir.call_extern("int32", "axpy", *pointers, tvm.tir.const(3.0, "float32"), lanes))
        return builder.get()

    intrin = te.decl_tensor_intrin(z.op, call, binds={one: block(one) for one in (x, y, z)})
    a, b = te.placeholder((8, 48), name="a"), te.placeholder((8, 48), name="b")
    c = te.compute((8, 48), lambda i, j: a[i, j] * 3.0 + b[i, j], name="c")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[1], lanes)
    s[c].tensorize(inner, intrin)
    s[c].pragma(outer, "import_llvm", brought)
    func = tvm.build(s, [a, b, c], "llvm", name="scaled")
    p, q, out = _random(8, 48), _random(8, 48, seed=1), tvm.nd.array(np.zeros((8, 48), "float32"))
    func(tvm.nd.array(p), tvm.nd.array(q), out)
    np.testing.assert_allclose(out.numpy(), 3 * p + q, rtol=1e-5, atol=1e-6)


def test_gradients_of_tensor_expressions() -> None:
    import tvm
    from tvm import te

    x, w = te.placeholder((4, 6), name="x"), te.placeholder((5, 6), name="w")
    k = te.reduce_axis((0, 6), name="k")
    y = te.compute((4, 5), lambda i, j: te.tanh(te.sum(x[i, k] * w[j, k], axis=k)) if False else te.sum(
        x[i, k] * w[j, k], axis=k), name="y")  # fmt: skip
    z = te.compute((4, 5), lambda i, j: te.tanh(y[i, j]), name="z")
    dx, dw = te.gradient(z, [x, w], head=te.placeholder((4, 5), name="head"))
    head = next(one for one in _placeholders(dx) if one.op.name == "head")
    func = tvm.build(te.create_schedule([dx.op, dw.op]), [x, w, head, dx, dw], "llvm")
    xv, wv, hv = _random(4, 6), _random(5, 6, seed=1), _random(4, 5, seed=2)
    outs = [tvm.nd.array(np.zeros(shape, "float32")) for shape in ((4, 6), (5, 6))]
    func(*map(tvm.nd.array, (xv, wv, hv)), *outs)
    inner = hv * (1 - np.tanh(xv @ wv.T) ** 2)
    np.testing.assert_allclose(outs[0].numpy(), inner @ wv, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(outs[1].numpy(), inner.T @ xv, rtol=1e-4, atol=1e-5)


def _placeholders(tensor: Any) -> list[Any]:
    """The inputs that a tensor is computed from."""
    below = [one for given in tensor.op.input_tensors for one in _placeholders(given)]
    return below if tensor.op.input_tensors else [tensor]


def test_a_step_of_gradient_descent() -> None:
    import tvm
    from tvm import relay

    x, w = relay.var("x", shape=(6, 3)), relay.var("w", shape=(2, 3))
    loss = relay.sum(relay.nn.dense(x, w) * relay.nn.dense(x, w))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, w], loss)))
    backward = relay.transform.gradient(mod["main"], mod=mod, mode="first_order")
    value, (_, dw) = relay.create_executor("graph").evaluate(backward)(_random(6, 3), _random(2, 3, seed=1))
    xv, wv = _random(6, 3), _random(2, 3, seed=1)
    np.testing.assert_allclose(value.numpy(), np.sum((xv @ wv.T) ** 2), rtol=1e-5)
    np.testing.assert_allclose(dw.numpy(), 2 * (xv @ wv.T).T @ xv, rtol=1e-4)


def test_three_files_are_deployed(tmp_path: Path) -> None:
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    mod, params, oracle = _perceptron()
    graph, lib, built = relay.build(mod, "llvm", params=params)
    lib.export_library(tmp_path / "deploy_lib.tar")
    (tmp_path / "deploy_graph.json").write_text(graph)
    (tmp_path / "deploy_param.params").write_bytes(relay.save_param_dict(built))
    loaded = tvm.runtime.load_module(str(tmp_path / "deploy_lib.tar"))
    text = (tmp_path / "deploy_graph.json").read_text()
    module = graph_executor.create(text, loaded, tvm.cpu(0))
    x = _random(3, 8)
    module.run(x=tvm.nd.array(x))
    np.testing.assert_allclose(module.get_output(0).numpy(), oracle(x), rtol=1e-5)
    again = relay.load_param_dict((tmp_path / "deploy_param.params").read_bytes())
    assert list(again) == ["p0", "p1"] and module.get_num_inputs() == 1
    module.load_params(relay.save_param_dict(again))
    with pytest.raises(InputError, match="'p0' is a constant of the compiled model, of another value"):
        module.set_input("p0", again["p0"].numpy() + 1)
    with pytest.raises(InputError, match="no input 'p7'"):
        module.set_input("p7", again["p0"])


def test_a_program_of_text_with_a_loop() -> None:
    import tvm
    from tvm import relay

    mod = tvm.parser.fromtext(
        """
        #[version = "0.0.5"]
        def @power(%n: int32, %x: Tensor[(3), float32]) -> Tensor[(3), float32] {
          if (less_equal(%n, 0)) {
            ones_like(%x)
          } else {
            %0 = subtract(%n, 1);
            %1 = @power(%0, %x);
            multiply(%1, %x)
          }
        }
        def @main(%n: int32, %x: Tensor[(3), float32]) -> Tensor[(3), float32] {
          @power(%n, %x)
        }
        """
    )
    x = _random(3)
    found = relay.create_executor("vm", mod=mod).evaluate()(np.int32(4), x)
    np.testing.assert_allclose(found.numpy(), x**4, rtol=1e-5)


def test_a_model_in_half_precision() -> None:
    import tvm
    from tvm import relay

    mod, params, oracle = _perceptron()
    mod = relay.transform.InferType()(mod)
    half = relay.transform.ToMixedPrecision("float16")(mod)
    assert "float16" in half["main"].astext(show_meta_data=False)
    x = _random(3, 8)
    found = relay.create_executor("graph", mod=half, params=params).evaluate()(x)
    np.testing.assert_allclose(found.numpy().astype("float32"), oracle(x), rtol=3e-2, atol=3e-2)
    assert isinstance(half, tvm.IRModule)


def test_batches_of_any_size() -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(relay.Any(), 8))
    w = _random(4, 8, seed=1)
    bias = relay.const(np.arange(4, dtype="float32"))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.bias_add(relay.nn.dense(x, relay.const(w)), bias)))
    compiled = relay.create_executor("vm", mod=mod, device=tvm.cpu(), target="llvm").evaluate()
    for rows in (1, 3, 7):
        given = _random(rows, 8, seed=rows)
        np.testing.assert_allclose(compiled(given).numpy(), given @ w.T + np.arange(4), rtol=1e-4, atol=1e-5)


def test_arrays_go_to_and_from_other_libraries() -> None:
    import tvm
    from tvm import te

    n = te.size_var("n")
    a = te.placeholder((n,), dtype="int32", name="a")
    b = te.compute((n,), lambda i: te.if_then_else(a[i] % 2 == 0, a[i] // 2, 3 * a[i] + 1), name="b")
    func = tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="collatz")
    given = np.arange(1, 20, dtype="int32")
    shared, out = tvm.nd.from_dlpack(given), tvm.nd.empty((19,), "int32")
    func(shared, out)
    assert np.shares_memory(shared.numpy(), given)
    np.testing.assert_array_equal(np.from_dlpack(out), np.where(given % 2 == 0, given // 2, 3 * given + 1))


def test_quantized_weights_stay_near_the_floats() -> None:
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    x, w = relay.var("data", shape=(1, 8, 6, 6)), _random(8, 8, 3, 3, seed=1)
    body = relay.nn.relu(relay.nn.conv2d(x, relay.var("weight", shape=w.shape), padding=(1, 1)))
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    with relay.quantize.qconfig(calibrate_mode="global_scale", global_scale=4.0, skip_conv_layers=[]):
        quantized = relay.quantize.quantize(mod, {"weight": w})
    stored: list[str] = []
    relay.analysis.post_order_visit(
        quantized["main"], lambda node: stored.append(node.data.dtype) if isinstance(node, relay.Constant) else None
    )
    assert "int8" in stored
    module = graph_executor.GraphModule(relay.build(quantized, "llvm")["default"](tvm.cpu()))
    given = _random(1, 8, 6, 6)
    module.run(data=given)
    wide = np.lib.stride_tricks.sliding_window_view(np.pad(given[0], ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2))
    exact = np.maximum(np.einsum("cyxij,fcij->fyx", wide, w), 0)
    error = np.abs(module.get_output(0).numpy()[0] - exact)
    assert error.max() > 0 and error.mean() < 0.05 * exact.std()


def test_loops_are_written_with_the_builder() -> None:
    import tvm
    from tvm import te

    def sorted_rows(ins: Any, outs: Any) -> Any:
        """Each row by insertion."""
        ib = tvm.tir.ir_builder.create()
        source, target = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        rows, columns = (int(extent) for extent in ins[0].shape)
        with ib.for_range(0, rows, "i", kind="parallel") as i:
            with ib.for_range(0, columns, "j") as j:
                target[i * columns + j] = source[i * columns + j]
            with ib.for_range(0, columns, "end") as end, ib.for_range(0, columns - 1, "k") as k:
                lower, upper = i * columns + k, i * columns + k + 1
                with ib.if_scope(tvm.tir.all(end >= 0, target[lower] > target[upper])):
                    kept = ib.let("kept", target[lower])
                    target[lower] = target[upper]
                    target[upper] = kept
        return ib.get()

    a = te.placeholder((3, 9), name="a")
    b = te.extern((3, 9), [a], sorted_rows, name="b", dtype="float32")
    func = tvm.build(te.create_schedule(b.op), [a, b], "llvm")
    x, out = _random(3, 9), tvm.nd.array(np.zeros((3, 9), "float32"))
    func(tvm.nd.array(x), out)
    np.testing.assert_array_equal(out.numpy(), np.sort(x, axis=1))
