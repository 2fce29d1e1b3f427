"""Parsing of the options that several verbs share."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from tilewright.cli.inputs import INTEGER_LIMIT, random_inputs
from tilewright.cli.main import cli
from tilewright.cli.options import parse_shapes
from tilewright.errors import InputError, ShapeError
from tilewright.frontend.onnx.reference.exact import open_reference
from tilewright.runtime.signature import TensorSpec
from tilewright.support.dtype import DType


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (None, None),
        ("", None),
        ("x:[1,3,224,224]", {"x": (1, 3, 224, 224)}),
        (" a : [ 1 , 2 ] , b:[3],", {"a": (1, 2), "b": (3,)}),
        ("serving_default_input_2:0:[1,43844,1]", {"serving_default_input_2:0": (1, 43844, 1)}),
        ("scalar:[]", {"scalar": ()}),
    ],
)
def test_shapes_are_parsed_by_input(text: str | None, shapes: dict[str, tuple[int, ...]] | None) -> None:
    assert parse_shapes(text) == shapes


@pytest.mark.parametrize("text", ["x", "x:1,2", "x:[1,2", "x:[a]", "x:[1.5]", ":[1]", "x:[1] y:[2]", "x:[,]"])
def test_shapes_that_are_not_understood(text: str) -> None:
    with pytest.raises(ShapeError, match="is not understood; write it as"):
        parse_shapes(text)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "uint8", "int64", "bool"])
def test_random_inputs_have_the_dtype_and_follow_the_seed(dtype: str) -> None:
    spec = TensorSpec("x", (4, 50), DType(dtype))
    (first,), (again,) = (random_inputs([spec], 5).values() for _ in range(2))
    assert first.dtype == spec.numpy and first.shape == (4, 50)
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first)) > 1
    if spec.dtype.is_int:
        assert set(first.flat) <= set(range(INTEGER_LIMIT))


def test_the_package_is_a_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["tilewright", "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("tilewright", run_name="__main__")
    assert end.value.code == 0 and "verify" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["verify", "bisect", "bench"])
@pytest.mark.parametrize("text", ["nan", "inf", "-1", "much"])
def test_numbers_that_bound_nothing_are_wrong_usage(verb: str, text: str) -> None:
    option = "--seconds" if verb == "bench" else "--rtol"
    done = CliRunner().invoke(cli, [verb, "model.onnx", option, text])
    assert done.exit_code == 2 and f"Invalid value for '{option}'" in done.output


def test_inputs_that_the_other_engine_refuses_are_said_to_be(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    text = "g (float[4] x, int64[2] i, float[2] u) => (float[4] y) { y = ScatterElements <axis=0> (x, i, u) }"
    path = tmp_path / "scatter.onnx"
    path.write_bytes(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}').SerializeToString())
    engine = open_reference(
        "onnxruntime", str(path), {"x": np.ones(4, "f"), "i": np.array([1, 9]), "u": np.ones(2, "f")}, 1
    )
    with pytest.raises(InputError, match=r"does not run .* on these inputs: .*out of data bounds"):
        engine.run()
