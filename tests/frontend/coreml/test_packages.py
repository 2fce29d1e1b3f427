"""Packages that coremltools did not write: what they hold, what is wrong with them, and damaged ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.coreml.builder import blob, kind, operation, package, specification, value, weights
from tests.frontend.protobuf import encode
from tests.frontend.running import mutations, refused, run
from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.coreml import from_coreml
from tilewright.frontend.coreml.metadata import read_metadata
from tilewright.frontend.coreml.schema import SCHEMA
from tilewright.frontend.formats.table import frontend_of

rng = np.random.default_rng(1)
KERNEL = rng.standard_normal((4, 3, 3, 3)).astype("f")
MODEL = Path(__file__).resolve().parents[3].parent / "shared" / "models" / "real" / "coreml" / "basic_pitch"


def net(offset: int, name: str = "@model_path/weights/weight.bin") -> bytes:
    return specification(
        {"x": (None, 3, 8, 9)}, ["out"],
        operation("conv", "c", x="%x", weight=blob("float32", KERNEL.shape, offset, name), pad_type="same",
                  strides=[2, 2]),
        operation("relu", "r", x="%c"),
        operation("reduce_mean", "m", x="%r", axes=[2, 3], keep_dims=False),
        operation("concat", "out", values=["%m", "%m"], axis=1, interleave=True),
    )  # fmt: skip


def test_a_package_with_weights_beside_its_program_runs(tmp_path: Path) -> None:
    data, (offset,) = weights(KERNEL)
    path = package(tmp_path, net(offset), data)
    assert frontend_of(path).name == "coreml"
    x = rng.standard_normal((2, 3, 8, 9)).astype("f")
    found = np.asarray(tw.compile(path)(x))
    padded = np.pad(x, ((0, 0), (0, 0), (0, 1), (1, 1)))
    wanted = np.zeros((2, 4))
    for row, column in np.ndindex(4, 5):
        window = padded[:, None, :, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
        wanted += np.maximum((KERNEL * window).sum((2, 3, 4)), 0) / 20
    np.testing.assert_allclose(found, wanted.repeat(2, 1), rtol=1e-4, atol=1e-5)
    assert [found.name for found in frontend_of(path).companions(path)] == ["model.mlmodel", "weight.bin"]


def test_a_classifier_gives_probabilities_and_its_metadata_the_labels() -> None:
    texts = {
        "type": {"listType": {}},
        "immediateValue": {"list": {"values": [value("cat"), value("dog"), value("owl")]}},
    }
    made = operation("classify", "label", probabilities="%p", classes=texts)
    made["outputs"].append({"name": "scores", "type": kind("float32", [])})
    spec = specification({"x": (2, 3)}, ["label", "scores"], operation("softmax", "p", x="%x", axis=-1), made)
    x = rng.standard_normal((2, 3)).astype("f")
    mod, _ = from_coreml(spec)
    (found,) = run(mod, {"x": x})
    np.testing.assert_allclose(found, np.exp(x) / np.exp(x).sum(-1, keepdims=True), rtol=1e-5)
    assert mod["main"].attrs["output_names"] == ("scores",)
    assert read_metadata(spec).labels == {"scores": ["cat", "dog", "owl"]}


def test_recurrent_gates_stand_in_the_order_of_mil() -> None:
    x, hidden = rng.standard_normal((3, 1, 2)).astype("f"), rng.standard_normal((1, 2)).astype("f")
    w, u, b = (rng.standard_normal(shape).astype("f") for shape in ((6, 2), (6, 2), (6,)))
    spec = specification(
        {"x": x.shape, "h": hidden.shape}, ["out"],
        operation("gru", "out", x="%x", initial_h="%h", weight_ih=w, weight_hh=u, bias=b, output_sequence=True),
    )  # fmt: skip
    mod, _ = from_coreml(spec)
    (found,) = run(mod, {"x": x, "h": hidden})
    for step in range(3):
        (xr, xo, xz), (hr, ho, hz) = np.split(x[step] @ w.T + b, 3, 1), np.split(hidden @ u.T, 3, 1)
        r, z = 1 / (1 + np.exp(-xr - hr)), 1 / (1 + np.exp(-xz - hz))
        hidden = (1 - z) * np.tanh(xo + r * ho) + z * hidden
        np.testing.assert_allclose(found[step], hidden, rtol=1e-4, atol=1e-5)


def test_weights_in_fewer_bits() -> None:
    table, positions = np.array([-1, 0.5, 2, 8], "f"), np.array([3, 1, 0, 2, 2])
    packed = np.packbits((positions[:, None] >> np.arange(2) & 1).astype(np.uint8).ravel(), bitorder="little")
    spec = specification(
        {"x": (5,)}, ["out"],
        operation("constexpr_lut_to_dense", "w", indices=packed.astype("i4"), lut=table, shape=[5]),
        operation("constexpr_sparse_to_dense", "s", nonzero_data=np.array([4, 5], "f"), mask=np.array([0b10010], "i4"),
                  shape=[5]),
        operation("add", "a", x="%x", y="%w"), operation("add", "out", x="%a", y="%s"),
    )  # fmt: skip
    mod, _ = from_coreml(spec)
    (found,) = run(mod, {"x": np.zeros(5, "f")})
    np.testing.assert_array_equal(found, table[positions] + np.array([0, 4, 0, 0, 5], "f"))


@pytest.mark.parametrize(
    ("operations", "error", "says"),
    [
        ([operation("wavelet", "w", x="%x"), operation("fourier", "out", x="%w")], UnsupportedError,
         "2 things.*\n.*wavelet 'w': no converter"),
        ([operation("relu", "out", x="%nothing")], ModelError, "reads 'nothing', which no input"),
        ([operation("relu", "out")], ModelError, "its argument x is missing"),
        ([operation("transpose", "out", x="%x", perm=[0, 7])], ModelError, "axis 7 is out of range"),
        ([operation("reduce_sum", "out", x="%x", axes="%x")], UnsupportedError, "axes is computed at run time"),
        ([operation("split", "out", x="%x", num_splits=5, axis=1)], ModelError, "do not make 5 parts"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(operations: list[object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        from_coreml(specification({"x": (2, 3)}, ["out"], *operations))


def test_files_out_of_the_package_are_refused(tmp_path: Path) -> None:
    data, (offset,) = weights(KERNEL)
    secret = tmp_path / "secret.bin"
    secret.write_bytes(data)
    for index, name in enumerate(
        ("@model_path/../../../secret.bin", str(secret), "@model_path//etc/passwd", "@model_path/.")
    ):
        path = package(tmp_path / str(index), net(offset, name), data)
        with pytest.raises(ModelError, match="not within the model"):
            from_coreml(path)
    path = package(tmp_path / "link", net(offset, "@model_path/weights/link.bin"), data)
    (path / "Data" / "com.apple.CoreML" / "weights" / "link.bin").symlink_to(secret)
    with pytest.raises(ModelError, match="not within the model"):
        from_coreml(path)
    path = package(tmp_path / "manifest", net(offset), data, path="../../secret.bin")
    with pytest.raises(ModelError, match="not within the model"):
        from_coreml(path)


def test_blobs_that_are_not_there(tmp_path: Path) -> None:
    data, (offset,) = weights(KERNEL)
    for index, (position, contents, says) in enumerate((
        (offset + 8, data, "where no blob begins"),
        (1 << 40, data, "names byte"),
        (offset, data[: offset + 80], "bytes at"),
        (offset, weights(KERNEL[:1])[0], "bytes at"),
    )):  # fmt: skip
        with pytest.raises(ModelError, match=says):
            from_coreml(package(tmp_path / str(index), net(position), contents))
    with pytest.raises(ModelError, match="pass the path of the"):
        from_coreml(net(offset))


def test_models_that_are_no_programs() -> None:
    old = encode(SCHEMA, "Model", {"specificationVersion": 4, "description": {}, "pipeline": {}})
    assert frontend_of(old).name == "coreml"
    with pytest.raises(UnsupportedError, match="a pipeline, neither an ML program nor"):
        from_coreml(old)


def test_mutated_programs_give_one_error_or_a_model(tmp_path: Path) -> None:
    data, (offset,) = weights(KERNEL)
    path = package(tmp_path, net(offset), data)
    spec = path / "Data" / "com.apple.CoreML" / "model.mlmodel"

    def convert(contents: bytes) -> None:
        spec.write_bytes(contents)
        from_coreml(path)

    assert refused(convert, mutations(net(offset), 500)) > 300
    spec.write_bytes(net(offset))

    def convert_weights(contents: bytes) -> None:
        (spec.parent / "weights" / "weight.bin").write_bytes(contents)
        from_coreml(path)

    refused(convert_weights, mutations(data, 60))


@pytest.mark.skipif(not MODEL.is_dir(), reason="../shared/models/real/coreml is absent")
def test_basic_pitch_agrees_with_its_onnx_form() -> None:
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    (onnx,) = (MODEL.parents[1] / "onnx" / "basic_pitch").glob("*.onnx")
    session = ort.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
    x = rng.uniform(-1, 1, (1, 43844, 1)).astype("f")
    wanted = session.run(None, {session.get_inputs()[0].name: x})
    found = [np.asarray(value) for value in tw.compile(MODEL / "nmp.mlpackage")(x)]
    assert len(found) == len(wanted)
    for ours in found:
        assert min(abs(ours - theirs).max() for theirs in wanted if theirs.shape == ours.shape) < 5e-5
