"""One interface for every format: sizes, signatures, results by name, states and metadata by the same calls."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.caffe.builder import layer, net
from tests.frontend.caffe2.builder import nets
from tests.frontend.caffe2.builder import op as caffe2_op
from tests.frontend.coreml.builder import operation, package, specification
from tests.frontend.darknet.builder import packed
from tests.frontend.protobuf import encode
from tests.onnx_models import convolution
from tilewright.errors import InputError, ShapeError, UnsupportedError
from tilewright.frontend.formats.table import FRONTENDS, frontend_of
from tilewright.frontend.tensorflow.schema import SCHEMA
from tilewright.relay import op
from tilewright.relay.ir.expr import Function, Tuple, var
from tilewright.relay.ir.module import IRModule

ROOT = Path(__file__).resolve().parents[1]
REAL = ROOT.parent / "shared/models/real"
HAND = REAL / "tflite/mediapipe/hand_landmark_lite.tflite"

spec = importlib.util.spec_from_file_location("any_model", ROOT / "examples/any_model.py")
assert spec is not None and spec.loader is not None
any_model = importlib.util.module_from_spec(spec)
spec.loader.exec_module(any_model)

X = np.random.default_rng(1).standard_normal((2, 3)).astype("f")


def tensorflow_graph() -> bytes:
    """relu(x) * relu(x), in which relu has no batch."""
    shape = {"dim": [{"size": -1}, {"size": 3}]}
    nodes = [
        {"name": "x", "op": "Placeholder", "attr": {"dtype": {"type": 1}, "shape": {"shape": shape}}},
        {"name": "body/relu", "op": "Relu", "input": ["x"], "attr": {"T": {"type": 1}}},
        {"name": "body/square", "op": "Mul", "input": ["body/relu", "body/relu"], "attr": {"T": {"type": 1}}},
    ]
    return encode(SCHEMA, "GraphDef", {"node": nodes})


def mxnet_symbol() -> bytes:
    nodes = [
        {"op": "null", "name": "data", "attrs": {}, "inputs": []},
        {"op": "Activation", "name": "act", "attrs": {"act_type": "relu"}, "inputs": [[0, 0, 0]]},
        {"op": "tanh", "name": "out", "attrs": {}, "inputs": [[1, 0, 0]]},
    ]
    return json.dumps({"nodes": nodes, "arg_nodes": [], "heads": [[2, 0, 0]]}).encode()


EMPTY_PARAMETERS = np.array([0x112, 0, 0, 0], "<u8").tobytes()


def paddle_program() -> tuple[bytes, bytes]:
    from tests.frontend.paddle.test_programs import PARAMETERS, PIR

    return PIR, PARAMETERS


def real(*parts: str) -> Any:
    path = REAL.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"../shared/models/real/{'/'.join(parts)} is absent")
    return path


DARKNET = b"[net]\nwidth=4\nheight=4\nchannels=2\n[maxpool]\nsize=2\nstride=2\n"

#: Of each format a model in a folder, and the shapes of its inputs by position, where it does not say them.
MODELS: dict[str, tuple[Callable[[Path], Any], Any]] = {
    "onnx": (lambda folder: convolution(), None),
    "tflite": (lambda folder: real("tflite", "mlperf_tiny", "ad01_fp32.tflite"), None),
    "keras": (lambda folder: real("keras", "deepcut", "deepcut_rebuilt.keras"), [(1, 21)] * 2),
    "darknet": (lambda folder: (DARKNET, packed()), None),
    "caffe2": (lambda folder: nets({}, caffe2_op("Relu", "x", "y")), [(2, 3)]),
    "caffe": (lambda folder: (net(layer("ReLU", "r"), layer("TanH", "t", ["r"]), data=(1, 3)).encode(), b""), None),
    "coreml": (lambda folder: package(
        folder, specification({"x": (2, 3)}, ["y"], operation("relu", "h", x="%x"), operation("tanh", "y", x="%h"))
    ), None),
    "paddle": (lambda folder: paddle_program(), None),
    "mxnet": (lambda folder: (mxnet_symbol(), EMPTY_PARAMETERS), [(2, 3)]),
    "tensorflow": (lambda folder: tensorflow_graph(), [(2, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_same_program_runs_every_format(name: str, tmp_path: Path) -> None:
    if name == "keras":
        pytest.importorskip("h5py", reason="the weights of Keras models are read by h5py, which is not installed")
    make, shapes = MODELS[name]
    model = make(tmp_path)
    assert frontend_of(model).name == name
    found = any_model.run_any(model, shapes)
    assert found and all(value.size for value in found.values())


def test_a_model_of_states_begins_as_it_says() -> None:
    found = any_model.run_any(real("tflite", "micro_wakeword", "hey_jarvis.tflite"))
    assert any(name.endswith(":next") for name in found)


@pytest.mark.parametrize("frontend", [one for one in FRONTENDS if one.name not in ("tensorflow", "tflite", "coreml")],
                         ids=lambda one: one.name)  # fmt: skip
def test_formats_without_signatures_say_so_in_one_message(frontend: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"has one entry, and no signatures; leave out signature='serve'"):
        frontend.with_signature("serve")


def test_a_signature_that_is_none_names_those_that_there_are() -> None:
    with pytest.raises(InputError, match=r"has no signature 'serve'; there are: "):
        tw.compile(real("tflite", "mlperf_tiny", "ad01_fp32.tflite"), signature="serve")


# -------------------------------------------------------------------------------------------------------------- results
def test_a_node_within_by_its_name_and_by_its_end() -> None:
    executable = tw.compile(tensorflow_graph(), input_shapes=[(2, 3)], outputs=["body/relu"], cache=False)
    np.testing.assert_array_equal(executable(X), np.maximum(X, 0))
    symbol = tw.compile((mxnet_symbol(), EMPTY_PARAMETERS), input_shapes=[(2, 3)], outputs="act", cache=False)
    np.testing.assert_array_equal(symbol(X), np.maximum(X, 0))
    assert [one.name for one in symbol.outputs] == ["act"]


def test_several_results_in_the_order_that_is_asked_for(tmp_path: Path) -> None:
    model = MODELS["coreml"][0](tmp_path)
    executable = tw.compile(model, outputs=["y", "h"], cache=False)
    first, second = executable.run({"x": X})
    np.testing.assert_allclose(first, np.tanh(np.maximum(X, 0)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(second, np.maximum(X, 0))


def test_a_name_that_is_none_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no result and no node 'yy'; did you mean 'y'.* Its results are 'y'"):
        tw.compile(MODELS["coreml"][0](tmp_path), outputs=["yy"], cache=False)


def test_inputs_that_results_do_not_need_are_left_out() -> None:
    a, b = var("a", shape=(2,), dtype="float32"), var("b", shape=(2,), dtype="float32")
    first, second = op.exp(a), op.add(a, b)
    both = IRModule.from_expr(Function([a, b], Tuple([first, second]), attrs={"output_names": ("first", "second")}))
    assert [one.name for one in tw.compile(both, outputs="first", cache=False).inputs] == ["a"]
    assert [one.name for one in tw.compile(both, outputs=["second"], cache=False).inputs] == ["a", "b"]


# ---------------------------------------------------------------------------------------------------------------- sizes
@pytest.mark.parametrize("shapes", [{"x": (2, 3)}, {0: (2, 3)}, {"0": (2, 3)}, [(2, 3)], ((2, 3),)])
def test_sizes_by_name_and_by_position(shapes: Any) -> None:
    executable = tw.compile(tensorflow_graph(), input_shapes=shapes, cache=False)
    assert [tuple(one.shape) for one in executable.inputs] == [(2, 3)]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({1: (2, 3)}, "has a shape for the input 1; the model has 1: x"),
        ({"x": (2, 3), 0: (2, 3)}, "a shape for the input 'x' by its name and by its position"),
        ("x:[2,3]", "is no mapping of names to shapes"),
        ({"x": "2,3"}, "is no mapping of names to shapes"),
    ],
)
def test_sizes_that_are_none(shapes: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        tw.compile(tensorflow_graph(), input_shapes=shapes, cache=False)


# ------------------------------------------------------------------------------------------------------------- metadata
@pytest.mark.skipif(not HAND.is_file(), reason="../shared/models/real/tflite/mediapipe is absent")
def test_metadata_of_tflite() -> None:
    said = tw.metadata(HAND)
    assert list(said.labels.values()) == [["Left", "Right"]]
    assert said.normalization["input_1"].deviation == (255.0, 255.0, 255.0)
    assert said.about["name"] == "HandLandmarkDetector"


def test_metadata_of_onnx() -> None:
    model = convolution()
    entry = model.metadata_props.add()
    entry.key, entry.value = "names", "{0: 'cat', 1: 'dog'}"
    model.doc_string = "pets"
    said = tw.metadata(model.SerializeToString())
    assert said.labels == {"features": ["cat", "dog"]} and said.about["description"] == "pets"


def test_a_format_that_says_nothing_has_empty_metadata() -> None:
    assert tw.metadata(tensorflow_graph()) == tw.metadata((mxnet_symbol(), EMPTY_PARAMETERS))
    assert not tw.metadata(tensorflow_graph()).about
