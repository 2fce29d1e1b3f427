"""Every way a model can be unusable gives one message that says what, where and what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.errors import EnvironmentError_, ModelError, ShapeError, UnsupportedError, UserError
from tilewright.frontend.onnx import from_onnx
from tilewright.frontend.onnx.load import MAX_OPSET


def relu_model(dims: list[int | str | None] | None = None, opset: int = 17) -> onnx.ModelProto:
    shape = [1, 3] if dims is None else dims
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="act")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def test_path_bytes_and_proto_give_the_same_module(tmp_path: Path) -> None:
    model = relu_model()
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    texts = {repr(from_onnx(source)[0]) for source in (path, str(path), model.SerializeToString(), model)}
    assert len(texts) == 1


@pytest.mark.parametrize("content", [b"", b"hello, this is no model", b"\x89PNG\r\n\x1a\n\x00\x00", b"\x00" * 64])
def test_not_a_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"bad\.onnx.*(not an ONNX model|no graph)"):
        from_onnx(path)


def test_every_truncation_is_a_model_error() -> None:
    model = relu_model()
    model.graph.initializer.append(numpy_helper.from_array(np.arange(50, dtype=np.float32), "w"))
    data = model.SerializeToString()
    for length in range(len(data)):
        with pytest.raises(ModelError):
            from_onnx(data[:length])
    with pytest.raises(ModelError, match="truncated or damaged"):
        from_onnx(data[: len(data) // 2])


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        from_onnx(tmp_path / "absent.onnx")
    with pytest.raises(ModelError, match="is a directory"):
        from_onnx(tmp_path)


def test_initializer_of_wrong_length() -> None:
    model = relu_model()
    weight = numpy_helper.from_array(np.zeros(4, np.float32), "w")
    weight.dims[0] = 5
    model.graph.initializer.append(weight)
    with pytest.raises(ModelError, match=r"'w' declares shape \[5\].*holds 4"):
        from_onnx(model)


def test_all_unknown_operators_are_named_at_once() -> None:
    nodes = [
        helper.make_node("Wavelet", ["x", "x"], ["a"], name="wave"),
        helper.make_node("Relu", ["a"], ["b"], name="after"),
        helper.make_node("Frobnicate", ["b"], ["y"], name="frob", domain="my.ops"),
    ]
    model = relu_model()
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.opset_import.append(helper.make_opsetid("my.ops", 3))
    with pytest.raises(UnsupportedError) as caught:
        from_onnx(model)
    message = str(caught.value)
    assert "2 things" in message
    assert "node 'wave' (ai.onnx.Wavelet, opset 17)" in message
    assert "node 'frob' (my.ops.Frobnicate, opset 3)" in message
    assert "after" not in message


def test_unsupported_attribute_value_is_named() -> None:
    model = relu_model([1, 1, 4, 4])
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("SpaceToDepth", ["x"], ["y"], name="spread", blocksize=2, mode="ABC"))
    model.opset_import[0].version = 28
    with pytest.raises(UnsupportedError, match=r"node 'spread' \(ai\.onnx\.SpaceToDepth, opset 28\): .*mode='ABC'"):
        from_onnx(model)


def test_unread_attribute_is_reported() -> None:
    model = relu_model()
    model.graph.node[0].attribute.append(helper.make_attribute("slope_of_tomorrow", 1))
    with pytest.raises(UnsupportedError, match="attribute slope_of_tomorrow"):
        from_onnx(model)


def test_a_newer_opset_names_the_newest_read() -> None:
    with pytest.raises(UnsupportedError, match=rf"version {MAX_OPSET + 1} .* up to {MAX_OPSET}"):
        from_onnx(relu_model(opset=MAX_OPSET + 1))


def test_an_undefined_name_is_named_with_its_node() -> None:
    model = relu_model()
    model.graph.node[0].input[0] = "nowhere"
    with pytest.raises(ModelError, match=r"node 'act' .* reads 'nowhere'"):
        from_onnx(model)


def test_a_missing_input_is_named() -> None:
    model = relu_model()
    model.graph.node[0].op_type = "Add"
    with pytest.raises(ModelError, match=r"node 'act' \(ai\.onnx\.Add, opset 17\) lacks its input 1"):
        from_onnx(model)


def test_a_cycle_names_both_nodes() -> None:
    model = relu_model()
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("Add", ["x", "b"], ["a"], name="first"))
    model.graph.node.append(helper.make_node("Relu", ["a"], ["b"], name="second"))
    model.graph.node.append(helper.make_node("Relu", ["b"], ["y"], name="third"))
    with pytest.raises(ModelError, match=r"'first' \(Add\) reads 'b', which node 'second' computes .* cycle"):
        from_onnx(model)


def test_a_name_computed_twice() -> None:
    model = relu_model()
    model.graph.node.append(helper.make_node("Exp", ["x"], ["y"], name="again"))
    with pytest.raises(ModelError, match="node 'again' computes 'y', and so does node 'act'"):
        from_onnx(model)


def values(*names: str, shape: list[int] | None = None, kind: int = TensorProto.FLOAT) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, kind, shape) for name in names]


def choosing(then: list[onnx.NodeProto], *behind: onnx.NodeProto) -> onnx.ModelProto:
    """A model that takes the branch `then`, which computes "o", or passes its input on; nodes stand behind it."""
    branch = helper.make_graph(then, "then", [], values("o"))
    other = helper.make_graph([helper.make_node("Identity", ["x"], ["p"])], "else", [], values("p"))
    node = helper.make_node("If", ["c"], ["y"], name="choose", then_branch=branch, else_branch=other)
    inputs = values("x", shape=[2]) + values("c", shape=[], kind=TensorProto.BOOL)
    graph = helper.make_graph([node, *behind], "g", inputs, values("y"))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_branch_that_reads_a_later_value() -> None:
    later = helper.make_node("Exp", ["x"], ["later"], name="after")
    with pytest.raises(
        ModelError, match=r"node 'choose/inner' \(Relu\) reads 'later', which node 'after' computes only"
    ):
        from_onnx(choosing([helper.make_node("Relu", ["later"], ["o"], name="inner")], later))


def test_a_branch_with_a_cycle_or_a_name_given_twice() -> None:
    """Malformed at once, unlike a branch that only does not fit the shapes given."""
    cycle = [helper.make_node("Add", ["x", "q"], ["o"], name="a"), helper.make_node("Exp", ["o"], ["q"], name="b")]
    with pytest.raises(
        ModelError, match=r"node 'choose/a' \(Add\) reads 'q', which node 'choose/b' computes only behind"
    ):
        from_onnx(choosing(cycle))
    twice = [helper.make_node("Relu", ["x"], ["o"], name="a"), helper.make_node("Exp", ["x"], ["o"], name="b")]
    with pytest.raises(ModelError, match="node 'choose/b' computes 'o', and so does node 'choose/a'"):
        from_onnx(choosing(twice))
    with pytest.raises(ModelError, match="the graph of 'choose' reads 'o', which no input"):
        from_onnx(choosing([helper.make_node("Relu", ["x"], ["z"], name="a")]))


@pytest.mark.parametrize("trips", [3, None], ids=["known", "at run time"])
def test_shapes_that_do_not_fit_deep_in_a_loop_name_the_node(trips: int | None) -> None:
    nodes = [helper.make_node("Identity", ["c"], ["again"]), helper.make_node("Add", ["s", "w"], ["t"], name="sum")]
    state = values("s", shape=[2, 3]), values("t", shape=[2, 3])
    weight = numpy_helper.from_array(np.zeros(4, np.float32), "w")
    body = helper.make_graph(
        nodes,
        "body",
        [*values("i", shape=[], kind=TensorProto.INT64), *values("c", shape=[], kind=TensorProto.BOOL), *state[0]],
        [*values("again", shape=[], kind=TensorProto.BOOL), *state[1]],
        [weight],
    )
    inputs = values("x", shape=[2, 3])
    constants = [numpy_helper.from_array(np.array(True), "true")]
    if trips is None:
        inputs += values("n", shape=[], kind=TensorProto.INT64)
    else:
        constants.append(numpy_helper.from_array(np.array(trips), "n"))
    loop = helper.make_node("Loop", ["n", "true", "x"], ["y"], name="outer", body=body)
    graph = helper.make_graph([loop], "g", inputs, values("y"), constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ModelError, match=r"node 'outer/sum' .*the shapes \(2, 3\) and \(4,\) do not broadcast"):
        from_onnx(model)


def test_inputs_and_initializers_are_given_once() -> None:
    model = relu_model()
    model.graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]))
    with pytest.raises(ModelError, match="the graph has two inputs called 'x'; names are given once"):
        from_onnx(model)
    model = relu_model()
    model.graph.initializer.extend([numpy_helper.from_array(np.zeros(2, np.float32), "w")] * 2)
    with pytest.raises(ModelError, match="the graph has two initializers called 'w'"):
        from_onnx(model)


@pytest.mark.parametrize("name", [b"act", b"Relu"])
def test_names_that_are_not_text(name: bytes) -> None:
    data = relu_model().SerializeToString().replace(name, b"\xff\xfe\xfd\xfc"[: len(name)], 1)
    with pytest.raises(ModelError, match=r"node 0 of the graph holds a name that is not text: \[.*b'.xff.xfe"):
        from_onnx(data)


def test_an_unknown_domain_is_named() -> None:
    model = relu_model()
    model.graph.node[0].domain = "some.vendor"
    model.opset_import.append(helper.make_opsetid("some.vendor", 2))
    with pytest.raises(UnsupportedError, match=r"node 'act' \(some\.vendor\.Relu, opset 2\): no converter"):
        from_onnx(model)


def test_a_sparse_input_is_refused() -> None:
    model = relu_model()
    model.graph.input[0].type.sparse_tensor_type.elem_type = TensorProto.FLOAT
    with pytest.raises(UnsupportedError, match="input 'x' is a sparse tensor; only dense ones"):
        from_onnx(model)


def test_shapes_that_do_not_fit_name_the_node() -> None:
    model = relu_model([2, 3])
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(4, np.float32), "w"))
    model.graph.node.insert(0, helper.make_node("Add", ["x", "w"], ["z"], name="sum"))
    with pytest.raises(ModelError, match=r"node 'sum' .*does not fit its inputs"):
        from_onnx(model)


def test_inputs_of_unknown_rank_are_listed_with_a_ready_flag() -> None:
    model = relu_model()
    model.graph.input[0].type.tensor_type.ClearField("shape")
    model.graph.input.append(helper.make_tensor_value_info("state:0", TensorProto.FLOAT, ["batch", 8]))
    with pytest.raises(ShapeError) as caught:
        from_onnx(model)
    message = str(caught.value)
    assert "'x': [unknown rank]" in message
    assert '--input-shapes "x:[1,3,224,224]"' in message


def test_open_extents_are_symbolic_and_shared_by_name() -> None:
    model = relu_model(["batch", 3, "h", None])
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 8]))
    module, specs = from_onnx(model)
    batch, channels, height, width = specs[0].shape
    assert channels == 3
    assert specs[1].shape[0] is batch
    assert len({batch, height, width}) == 3
    assert module["main"].params[0].type_annotation.shape == specs[0].shape


def test_a_symbol_given_once_holds_everywhere() -> None:
    model = relu_model(["batch", 3])
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 8]))
    _, specs = from_onnx(model, {"x": (5, 3)})
    assert [spec.shape for spec in specs] == [(5, 3), (5, 8)]
    with pytest.raises(ShapeError, match="'batch' to 2, but input 'x' sets the same dimension to 5"):
        from_onnx(model, {"x": (5, 3), "z": (2, 8)})


@pytest.mark.parametrize(
    ("given", "pattern"),
    [
        ({"y": (1, 3)}, r"no input named 'y'; its inputs are: 'x' \[n, 3\]"),
        ({"x": (1, 3, 1)}, "has 3 dimensions, but the model declares 2"),
        ({"x": (1, 4)}, "extent 4 at axis 1, which the model fixes to 3"),
        ({"x": (-1, 3)}, "negative extent"),
    ],
)
def test_shapes_that_do_not_fit_are_named(given: dict[str, tuple[int, ...]], pattern: str) -> None:
    with pytest.raises(ShapeError, match=pattern):
        from_onnx(relu_model(["n", 3]), given)


def test_external_data_is_mapped_and_checked(tmp_path: Path) -> None:
    model = relu_model([4])
    model.graph.node.insert(0, helper.make_node("Add", ["x", "w"], ["z"]))
    model.graph.node[1].input[0] = "z"
    model.graph.initializer.append(numpy_helper.from_array(np.arange(4, dtype=np.float32), "w"))
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert "add" in repr(from_onnx(path)[0])
    with pytest.raises(ModelError, match="no directory to look in"):
        from_onnx(path.read_bytes())
    (tmp_path / "w.bin").write_bytes(b"\0" * 3)
    with pytest.raises(ModelError, match="has only 3"):
        from_onnx(path)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ModelError, match="does not exist"):
        from_onnx(path)


def external(folder: Path, **entries: str) -> Path:
    """A model with one weight of 16 bytes in w.bin; `entries` change what it says of that file."""
    model = relu_model([4])
    model.graph.node[0].input[0] = "w"
    weight = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[4])
    weight.data_location = TensorProto.EXTERNAL
    for key, value in ({"location": "w.bin"} | entries).items():
        weight.external_data.add(key=key, value=value)
    path = folder / "model" / "m.onnx"
    path.parent.mkdir()
    path.write_bytes(model.SerializeToString())
    for position in (folder, path.parent):
        (position / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    return path


@pytest.mark.parametrize(
    ("entries", "pattern"),
    [
        ({"location": "../w.bin"}, r"'w' points to external data '\.\./w\.bin', outside the model's directory"),
        ({"location": "/etc/hostname"}, "outside the model's directory"),
        ({"location": "link.bin"}, "outside the model's directory"),
        ({"location": ""}, "outside the model's directory"),
        ({"location": "."}, "which does not exist"),
        ({"offset": "4"}, r"'w' needs bytes 4 to 20 of .*w\.bin, which has only 16"),
        ({"offset": "-4"}, "the offset '-4', which is no number"),
        ({"offset": "many"}, "the offset 'many', which is no number; the file is damaged"),
        ({"length": "12"}, r"declares shape \[4\] \(16 bytes\) but keeps 12 bytes in .*w\.bin"),
    ],
)
def test_damaged_external_data(entries: dict[str, str], pattern: str, tmp_path: Path) -> None:
    path = external(tmp_path, **entries)
    (path.parent / "link.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(ModelError, match=pattern):
        from_onnx(path)


def test_external_data_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = external(tmp_path)
    monkeypatch.setattr(np, "memmap", refuse)
    with pytest.raises(ModelError, match=r"'w' needs the external data file .*w\.bin: Permission denied"):
        from_onnx(path)


def test_without_the_onnx_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(EnvironmentError_, match=r"pip install tilewright\[onnx\]"):
        from_onnx("m.onnx")


def test_damaged_bytes_never_crash_the_importer() -> None:
    """A model with random bytes changed imports, or gives an error that the user can read."""
    model = relu_model([1, 4, 8, 8])
    weight = numpy_helper.from_array(np.ones((4, 1, 3, 3), np.float32), "w")
    target = numpy_helper.from_array(np.array([0, -1]), "shape")
    model.graph.initializer.extend([weight, target])
    attributes = {"group": 4, "pads": [1, 1, 1, 1], "strides": [2, 2]}
    model.graph.node.insert(0, helper.make_node("Conv", ["x", "w"], ["c"], **attributes))
    model.graph.node.append(helper.make_node("Reshape", ["y", "shape"], ["z"]))
    model.graph.node[1].input[0] = "c"
    model.graph.output[0].name = "z"
    data = model.SerializeToString()
    assert "conv2d" in repr(from_onnx(data)[0])
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(1500):
        damaged = bytearray(data)
        for position in rng.integers(0, len(data), rng.integers(1, 4)):
            damaged[position] = rng.integers(0, 256)
        try:
            from_onnx(bytes(damaged))
        except UserError:
            refused += 1
    assert refused > 300


def small_model(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], opset: int = 17) -> onnx.ModelProto:
    """A model of `nodes` from a float32 input x to y."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4,))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("version", [-1, 1 << 31, 1 << 62])
def test_operator_sets_that_cannot_be(version: int) -> None:
    with pytest.raises(ModelError, match=f"requires version {version} of the operator set 'ai.onnx'"):
        from_onnx(relu_model(opset=version))


@pytest.mark.parametrize("number", [-1, 999])
def test_element_types_that_cannot_be(number: int) -> None:
    model = relu_model()
    model.graph.input[0].type.tensor_type.elem_type = number
    with pytest.raises(UnsupportedError, match=f"element type {number}"):
        from_onnx(model)


def test_functions_that_call_themselves() -> None:
    model = small_model([helper.make_node("Again", ["x"], ["y"], domain="own")], {})
    model.opset_import.append(helper.make_opsetid("own", 1))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    body = [helper.make_node("Again", ["a"], ["b"], domain="own")]
    model.functions.append(helper.make_function("own", "Again", ["a"], ["b"], body, opsets))
    with pytest.raises(ModelError, match="functions that the model defines cannot be put in place of their calls"):
        from_onnx(model)


@pytest.mark.parametrize(
    ("node", "weights"),
    [
        (helper.make_node("Expand", ["x", "s"], ["y"]), {"s": np.array([3], np.int64)}),
        (helper.make_node("Pad", ["x", "s"], ["y"]), {"s": np.array([1, 1, 1, 1], np.int64)}),
        (helper.make_node("Unique", ["x", "s"], ["y"]), {"s": np.array([1], np.int64)}),
        (helper.make_node("Conv", ["x", "s"], ["y"]), {"s": np.ones((1, 1), np.float32)}),
    ],
    ids=["Expand", "Pad", "Unique", "Conv"],
)
def test_nodes_that_do_not_fit_their_inputs(node: onnx.NodeProto, weights: dict[str, np.ndarray]) -> None:
    with pytest.raises(ModelError, match=f"node .*{node.op_type}.*opset 17"):
        from_onnx(small_model([node], weights))


@pytest.mark.parametrize("size", [1 << 37, 1 << 62])
def test_a_constant_of_a_huge_shape_takes_no_memory(size: int) -> None:
    """Readers of its shape get it; readers of its elements get an error, before anything is allocated."""
    fill = helper.make_node("ConstantOfShape", ["s"], ["c"])
    shape = from_onnx(small_model([fill, helper.make_node("Shape", ["c"], ["y"])], {"s": np.array([size])}))[0]
    assert shape["main"].body.data.tolist() == [size]
    mod = from_onnx(small_model([fill, helper.make_node("ReduceMax", ["c"], ["y"])], {"s": np.array([size])}))[0]
    assert "reduce" in repr(mod) or "max" in repr(mod)


def test_a_constant_of_a_negative_shape() -> None:
    with pytest.raises(ModelError, match=r"a tensor cannot have the shape \[-5\]"):
        from_onnx(small_model([helper.make_node("ConstantOfShape", ["s"], ["y"])], {"s": np.array([-5])}))
