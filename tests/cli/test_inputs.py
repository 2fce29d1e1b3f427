"""`--input` and `--seed` on every verb that runs a model: sizes, seeds, and integers that stay within their tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.conftest import Command
from tests.onnx_models import make_model, perceptron, saved
from tilewright.cli.inputs import parse_seeds
from tilewright.errors import InputError
from tilewright.frontend.formats.table import frontend_of
from tilewright.frontend.onnx.index_limits import index_limits

VERBS = ["run", "verify", "bench", "profile", "bisect"]
QUICK = {"bench": ("--rounds", 1), "profile": ("--repeat", 1)}


def lookup() -> onnx.ModelProto:
    """Rows of a table of 7, by ids that come through a cast and a reshape; and whatever other integers there are."""
    nodes = [
        helper.make_node("Cast", ["ids"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["wide", "flat"], ["vector"]),
        helper.make_node("Gather", ["table", "vector"], ["rows"], axis=0),
        helper.make_node("Cast", ["free"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["rows", "real"], ["y"]),
    ]
    weights = {"table": np.arange(21, dtype=np.float32).reshape(7, 3), "flat": np.int64([-1])}
    inputs = {"ids": (TensorProto.INT32, (50, 4)), "free": (TensorProto.INT64, (200, 3))}
    return make_model(nodes, inputs, {"y": (TensorProto.FLOAT, (200, 3))}, weights)


def two_sizes() -> onnx.ModelProto:
    """x [batch, n] + offset: two inputs that share a size, and a scalar."""
    nodes = [helper.make_node("Mul", ["x", "rate"], ["scaled"]), helper.make_node("Add", ["scaled", "y"], ["z"])]
    shape = (TensorProto.FLOAT, ("batch", "n"))
    return make_model(nodes, {"x": shape, "y": shape, "rate": (TensorProto.FLOAT, ())}, {"z": shape})


def test_seeds_are_numbers_and_ranges() -> None:
    assert list(parse_seeds("7")) == [7] and list(parse_seeds("2..4")) == [2, 3, 4]
    for wrong in ("", "x", "-1", "3..1", "1..2..3", "0..99999999"):
        with pytest.raises(InputError, match="is not understood"):
            parse_seeds(wrong)


def test_integers_stay_within_the_table_that_they_index(tilewright: Command, tmp_path: Path) -> None:
    path = saved(lookup(), tmp_path / "lookup.onnx")
    assert index_limits(str(path)) == {"ids": 7}
    assert tilewright("run", path, "--seed", 1, "--output", tmp_path / "y.npz").status == 0
    outcome = tilewright("verify", path, "--seed", "0..2")
    assert outcome.status == 0 and outcome.out.count("ok       y") == 3


@pytest.mark.parametrize(
    ("node", "table", "limit"),
    [
        (helper.make_node("GatherElements", ["t", "x"], ["y"], axis=-1), (5, 9), 9),
        (helper.make_node("GatherND", ["t", "x"], ["y"]), (8, 4, 6), 4),
        (helper.make_node("ScatterElements", ["t", "x", "u"], ["y"], axis=1), (5, 9), 9),
        (helper.make_node("GatherBlockQuantized", ["t", "x"], ["y"], gather_axis=1, domain="com.microsoft"), (5, 8), 8),
        (helper.make_node("Gather", ["t", "x"], ["y"]), (500, 2), 500),
        (helper.make_node("Add", ["t", "x"], ["y"]), (5,), None),
    ],
)  # fmt: skip
def test_tables_of_every_operator_that_looks_up(
    node: onnx.NodeProto, table: tuple[int, ...], limit: int | None, tmp_path: Path
) -> None:
    inputs: dict[str, Any] = {"x": (TensorProto.INT64, (2, 2))}
    inputs |= {name: (TensorProto.FLOAT, (2, 2)) for name in node.input if name in "us"}
    model = make_model([node], inputs, {"y": (TensorProto.FLOAT, ())}, {"t": np.zeros(table, np.float32)})
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert index_limits(str(tmp_path / "m.onnx")) == ({} if limit is None else {"x": limit})


def test_tables_within_branches(tmp_path: Path) -> None:
    inner = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["row"])], "b", [],
        [helper.make_tensor_value_info("row", TensorProto.FLOAT, None)],
    )  # fmt: skip
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)]
    inputs = {"ids": (TensorProto.INT64, (2,)), "c": (TensorProto.BOOL, ())}
    model = make_model(nodes, inputs, {"y": (TensorProto.FLOAT, (2, 3))}, {"table": np.zeros((11, 3), np.float32)})
    assert index_limits(str(saved(model, tmp_path / "m.onnx"))) == {"ids": 11}


@pytest.mark.parametrize("verb", VERBS)
def test_given_arrays_fix_open_sizes_and_scalars_are_written_inline(
    verb: str, tilewright: Command, tmp_path: Path
) -> None:
    path = saved(two_sizes(), tmp_path / "open.onnx")
    assert [entry.labels for entry in frontend_of(path).declared(path)] == [("batch", "n"), ("batch", "n"), ()]
    np.save(tmp_path / "x.npy", np.ones((3, 5), np.float32))
    given = ("--input", f"x={tmp_path / 'x.npy'}", "--input", "rate=2", "--input", "y=uniform(0,1)")
    outcome = tilewright(verb, path, *given, *QUICK.get(verb, ()))
    assert outcome.status == 0 and outcome.err == "", outcome.err
    if verb == "run":
        assert "z: float32[3, 5] in [2" in outcome.out and "): y" in outcome.out


@pytest.mark.parametrize("verb", VERBS)
def test_open_sizes_are_named_at_once_with_a_command_that_works(
    verb: str, tilewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(two_sizes(), tmp_path / "open.onnx")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    outcome = tilewright(verb, path)
    assert outcome.status == 2 and outcome.err.startswith(
        "error: input 'x' is [batch, n]; input 'y' is [batch, n]: random values need the dynamic dimensions batch, n;"
    )
    assert not (tmp_path / "cache").exists(), "something was compiled first"
    advice = outcome.err[outcome.err.index('--input-shapes "') :].split('"')[1]
    assert tilewright(verb, path, "--input-shapes", advice, *QUICK.get(verb, ())).status == 0


def test_open_sizes_of_an_artifact(tilewright: Command, tmp_path: Path) -> None:
    path, artifact = saved(perceptron(rows="batch"), tmp_path / "open.onnx"), tmp_path / "open.tw"
    assert tilewright("compile", path, "-o", artifact).status == 0
    refused = tilewright("run", artifact)
    assert refused.status == 2 and '--input "x=normal(0,1)[1,8]"' in refused.err
    outcome = tilewright("run", artifact, "--input", "x=normal(0,1)[6,8]")
    assert outcome.status == 0 and "y: float32[6, 4]" in outcome.out


def test_several_seeds_run_one_by_one(tilewright: Command, model: Path, tmp_path: Path) -> None:
    outcome = tilewright("run", model, "--seed", 3, "--seed", "5..6")
    assert [line for line in outcome.out.splitlines() if "seed" in line] == [
        f"random input (seed {seed}): x" for seed in (3, 5, 6)
    ]
    assert tilewright("bench", model, "--seed", "0..3", "--rounds", 1).status == 0
    assert "no output differs" in tilewright("bisect", model, "--seed", "0..2").out
    for verb, *rest in (("profile",), ("run", "--output", tmp_path / "y.npz")):
        refused = tilewright(verb, model, "--seed", "0..1", *rest)
        assert refused.status == 2 and "use one --seed" in refused.err


@pytest.mark.parametrize("verb", VERBS)
def test_a_value_that_does_not_fit(verb: str, tilewright: Command, model: Path) -> None:
    outcome = tilewright(verb, model, "--input", 'x=["a"]')
    assert outcome.status == 2 and 'input x: float32[1, 8] cannot hold ["a"]' in outcome.err
    outcome = tilewright(verb, model, "--input", "z=1")
    assert outcome.status == 2 and "the model has no input 'z'" in outcome.err
