"""Manifests: read and written without loss, and whatever is wrong in one is an `ArtifactError` that names it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay, te
from tilewright.errors import ArtifactError
from tilewright.runtime.artifact import FORMAT, file_manifest
from tilewright.runtime.container import read_container, write_container
from tilewright.runtime.manifest import Manifest

SYMBOLIC: dict[str, Any] = {
    "inputs": [{"name": "x", "shape": ["H", 4], "dtype": "float32"}, {"name": "y", "shape": ["2*H"], "dtype": "int8"}],
    "outputs": [{"name": "z", "shape": None, "dtype": "Optional[Tensor]"}],
    "dynamic": {
        "dims": [{"name": "H", "input": 0, "axis": 0}],
        "checks": [{"input": 1, "axis": 0, "value": ["*", "H", 2]}],
        "buffers": [{"bytes": ["*", "H", 16], "first": 0, "last": 3}],
        "values": [["max", "H", 1]],
        "equal": [{"a": "H", "b": 3, "where": "the sum"}],
        "workspace_bytes": [64],
        "worker_workspace_bytes": [0],
        "output_shapes": [["H", 4]],
    },
    "kernels": [{"name": "k", "args": [["input", 1], ["arena", 0, 1, 2], ["table", 4]], "flops": 3}],
    "checks": ["H must be even"],
}


def test_nothing_is_lost() -> None:
    manifest = Manifest.from_json(SYMBOLIC)
    assert manifest.to_json() == SYMBOLIC
    assert Manifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest
    assert manifest.dynamic is not None and manifest.dynamic.table_entries == 5
    assert manifest.dynamic.checks[0].value == ("*", "H", 2)
    assert Manifest.from_json({**SYMBOLIC, "later": 1}) == manifest  # a key of a later version


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("arena_bytes",), "many", r"manifest.arena_bytes must be a number from 0; got 'many'"),
        (("arena_bytes",), -1, r"manifest.arena_bytes must be a number from 0; got -1"),
        (("arena_bytes",), True, r"manifest.arena_bytes must be a number"),
        (("inputs",), {}, r"manifest.inputs must be a list; got \{\}"),
        (("inputs", 0, "dtype"), "float33", r"manifest.inputs\[0\] is no TensorSpec"),
        (("inputs", 0, "shape"), [-1], r"manifest.inputs\[0\] is no TensorSpec"),
        (("dynamic",), 3, r"manifest.dynamic must be an object; got 3"),
        (("dynamic", "dims", 0, "input"), 2, r"manifest.dynamic.dims\[0\].input is 2, and there are 2"),
        (("dynamic", "dims"), SYMBOLIC["dynamic"]["dims"] * 2, r"manifest.dynamic.dims has two dimensions of one name"),
        (("dynamic", "checks", 0, "axis"), 1, r"manifest.dynamic.checks\[0\].axis is 1, and there are 1"),
        (("dynamic", "values", 0), [3, 4], r"manifest.dynamic.values\[0\] must be a size; got \[3, 4\]"),
        (("kernels", 0, "args", 0), ["moon", 0], r"manifest.kernels\[0\].args\[0\] is from an unknown space 'moon'"),
        (("kernels", 0, "args", 0), ["input", 2], r"manifest.kernels\[0\].args\[0\] is 2, and there are 2"),
        (("kernels", 0, "args", 1), ["arena", 0, 5], r"manifest.kernels\[0\].args\[1\] is 5, and there are 5"),
        (("kernels", 0, "args", 1), ["arena"], r"manifest.kernels\[0\].args\[1\] must be a space and numbers"),
        (("kernels", 0, "args", 1), [], r"manifest.kernels\[0\].args\[1\] is from an unknown space"),
        (("kernels", 0, "source"), 3, r"manifest.kernels\[0\].source must be a text or a list; got 3"),
        (("checks", 0), None, r"manifest.checks\[0\] must be a text; got None"),
        (("max_workers",), 0, r"manifest.max_workers must be at least 1"),
        (("packed",), [{"segment": 0}], r"manifest.packed\[0\].segment is 0, and there are 0"),
        (("dynamic", "buffers", 0, "first"), 4, r"manifest.dynamic.buffers\[0\].first is 4, after the last step, 3"),
        (("dynamic", "output_shapes"), [["H"], ["H"]], r"manifest.dynamic.output_shapes are of ranks \[1, 1\]"),
        (("dynamic",), None, r"manifest.inputs\[0\] is x: float32\[H, 4\]: no tensor of known size"),
        (("weights",), [{"name": "w", "offset": 4, "bytes": 4}], r"manifest.weights\[0\].offset is 4, no multiple"),
        (("constants",), [{"shape": [2], "dtype": "int8"}], r"manifest.constants\[0\] ends at byte 2 of the weights"),
        (("constants",), [{"shape": [2], "dtype": "odd"}], r"manifest.constants\[0\].dtype is 'odd'"),
        (("constants",), [{"shape": [2], "value": ["a"]}], r"manifest.constants\[0\] has 1 texts for the shape \[2\]"),
        (("kernels", 0, "choice"), {"alone": "long"}, r"manifest.kernels\[0\].choice.alone must be a number"),
    ],
)
def test_what_is_wrong_is_named(path: tuple[str | int, ...], value: Any, message: str) -> None:
    data = copy.deepcopy(SYMBOLIC)
    position: Any = data
    for part in path[:-1]:
        position = position[part]
    position[path[-1]] = value
    with pytest.raises(ArtifactError, match=message):
        Manifest.from_json(data)


def test_sizes_are_not_nested_without_end() -> None:
    size: Any = "H"
    for _ in range(5000):
        size = ["+", size, 1]
    data = copy.deepcopy(SYMBOLIC)
    data["dynamic"]["values"] = [size]
    with pytest.raises(ArtifactError, match=r"nested more than 150 deep|nested too deep"):
        Manifest.from_json(data)


def model(kind: str, path: Path) -> Path:
    """An artifact of each kind of executable."""
    rows = {"graph": 4, "dynamic": te.size_var("H"), "vm": relay.Any()}[kind]
    x = relay.var("x", shape=(rows, 8))
    weight = relay.const(np.ones((8, 8), "float32"))
    body = relay.nn.relu(relay.nn.dense(x, weight))
    tw.compile(relay.IRModule.from_expr(relay.Function([x], body)), cache=False).save(path)
    return path


def positions(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything in JSON data."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from positions(value, (*path, key))


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["graph", "dynamic", "vm"])
def test_a_forged_artifact_is_an_artifact_error(kind: str, tmp_path: Path) -> None:
    found = read_container(model(kind, tmp_path / "model.tw"), FORMAT)
    forged, refused = tmp_path / "forged.tw", 0
    weights = [(0, found.weights)], found.weights.size
    for path in positions(found.manifest):
        for value in (None, -3, 10**6, "odd", [[]], {"x": 1}, 2.5):
            data = copy.deepcopy(found.manifest)
            position: Any = data
            for part in path[:-1]:
                position = position[part]
            position[path[-1]] = value
            write_container(forged, data, found.object_code, *weights, durable=False, pool=found.pool)
            try:
                tw.load(forged, threads=1)
            except ArtifactError as error:
                refused += 1
                assert "\n" not in str(error)
    assert refused > 100


def test_the_file_says_what_it_is() -> None:
    data = file_manifest(Manifest.from_json(SYMBOLIC))
    assert (data["format"], data["version"]) == (FORMAT, 2)
