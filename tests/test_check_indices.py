"""Indices out of range: what a model does with them, and the error that `check=True` makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import tilewright as tw
from tests.onnx_models import make_model
from tilewright.cli.main import cli
from tilewright.errors import InputError

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
TABLE = np.arange(12, dtype="float32").reshape(4, 3)

#: operator -> (its attributes, indices in range, indices out of range, what it makes of those, given updates of ones)
CASES: dict[str, tuple[dict[str, Any], Any, Any, Any]] = {
    "Gather": ({"axis": 0}, [0, -4, 3], [0, 9, -9], TABLE[[0, 3, 0]]),
    "GatherElements": ({"axis": 1}, [[0], [2]], [[3], [-4]], [[2.0], [3.0]]),
    "GatherND": ({}, [[0, -1], [3, 2]], [[4, 0], [0, 3]], [9.0, 2.0]),
    "ScatterElements": ({"axis": 0}, [[0, 1, 2]], [[4, 0, 7]], np.where(np.arange(12).reshape(4, 3) == 1, 1, TABLE)),
    "ScatterND": ({}, [[1, 1]], [[4, 1]], TABLE),
}


def model_of(op: str) -> onnx.ModelProto:
    attributes, fine, _, _ = CASES[op]
    node = helper.make_node(
        op, ["data", "indices", *(["updates"] if "Scatter" in op else [])], ["y"], "place", **attributes
    )
    shape = np.shape(fine)
    inputs = {"data": (FLOAT, TABLE.shape), "indices": (INT64, shape)}
    if "Scatter" in op:
        inputs["updates"] = (FLOAT, shape if op == "ScatterElements" else shape[:1])
    return make_model([node], inputs, {"y": (FLOAT, None)}, opset=18)


def feeds_of(op: str, indices: Any) -> dict[str, np.ndarray]:
    shape = np.shape(indices)
    feeds = {"data": TABLE, "indices": np.array(indices, "int64")}
    if "Scatter" in op:
        feeds["updates"] = np.ones(shape if op == "ScatterElements" else shape[:1], "float32")
    return feeds


@pytest.mark.parametrize("op", CASES)
def test_without_checks_the_nearest_is_read_and_nothing_written(op: str) -> None:
    _, _, wrong, expected = CASES[op]
    (got,) = tw.compile(model_of(op), cache=False).run(feeds_of(op, wrong))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("op", CASES)
def test_a_checked_model_computes_the_same_and_refuses_what_is_out_of_range(op: str) -> None:
    _, fine, wrong, _ = CASES[op]
    checked = tw.compile(model_of(op), cache=False, check=True)
    expected = tw.compile(model_of(op), cache=False).run(feeds_of(op, fine))
    np.testing.assert_array_equal(checked.run(feeds_of(op, fine))[0], expected[0])
    with pytest.raises(
        InputError, match=r"from place\): the index .* is out of range for axis \d of data of shape \[4, 3\]"
    ):
        checked.run(feeds_of(op, wrong))


def test_an_index_beyond_32_bits_is_clipped_too() -> None:
    (got,) = tw.compile(model_of("Gather"), cache=False).run(feeds_of("Gather", [1 << 32, -(1 << 32), 1 << 62]))
    np.testing.assert_array_equal(got, TABLE[[3, 0, 3]])


def test_a_checked_compilation_is_not_taken_from_the_cache_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")
    for check in (False, True, False):
        model = tw.compile(model_of("Gather"), check=check)
        if check:
            with pytest.raises(InputError):
                model.run(feeds_of("Gather", CASES["Gather"][2]))
        else:
            model.run(feeds_of("Gather", CASES["Gather"][2]))


def test_the_command_line_checks_too(tmp_path: Path) -> None:
    onnx.save(model_of("Gather"), tmp_path / "m.onnx")
    np.save(tmp_path / "i.npy", np.array([0, 9, 1]))
    arguments = ["run", str(tmp_path / "m.onnx"), "--input", f"indices={tmp_path / 'i.npy'}", "--no-cache"]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    failed = CliRunner().invoke(cli, [*arguments, "--check"])
    assert failed.exit_code != 0
    assert isinstance(failed.exception, InputError)


def test_an_artifact_and_a_comparison_can_have_the_check(tmp_path: Path) -> None:
    onnx.save(model_of("Gather"), tmp_path / "m.onnx")
    np.save(tmp_path / "i.npy", np.array([0, 9, 1]))
    model, artifact, given = str(tmp_path / "m.onnx"), str(tmp_path / "m.tw"), f"indices={tmp_path / 'i.npy'}"
    assert CliRunner().invoke(cli, ["compile", model, "-o", artifact, "--check", "--no-cache"]).exit_code == 0
    for arguments in (["run", artifact], ["verify", model, "--check", "--no-cache"]):
        failed = CliRunner().invoke(cli, [*arguments, "--input", given])
        assert isinstance(failed.exception, InputError) and "9" in str(failed.exception)


@pytest.mark.parametrize("end", [".c", ".so"])
def test_c_code_has_no_check(end: str, tmp_path: Path) -> None:
    onnx.save(model_of("Gather"), tmp_path / "m.onnx")
    failed = CliRunner().invoke(cli, ["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / f"m{end}"), "--check"])
    assert isinstance(failed.exception, InputError) and "--check runs on the host" in str(failed.exception)
