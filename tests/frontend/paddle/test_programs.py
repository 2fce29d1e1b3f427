"""Programs that Paddle did not write: both forms, what is wrong with them, and damaged ones."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontend.protobuf import encode
from tests.frontend.running import mutations, refused, run
from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.formats.table import frontend_of
from tilewright.frontend.paddle import from_paddle
from tilewright.frontend.paddle.schema import SCHEMA

rng = np.random.default_rng(2)
WEIGHT, BIAS = rng.standard_normal((6, 3)).astype("f"), rng.standard_normal(3).astype("f")


def type_of(shape: list[int]) -> dict[str, Any]:
    return {"#": "0.t_dtensor", "D": [{"#": "0.t_f32"}, shape, "NCHW", [], 0]}


def op(kind: str, inputs: list[int], output: int, shape: list[int], **attrs: Any) -> dict[str, Any]:
    listed = [{"N": name, "AT": {"#": "0.a_str", "D": value}} for name, value in attrs.items()]
    return {"#": kind, "A": listed, "I": [{"%": one} for one in inputs], "O": [{"%": output, "TT": type_of(shape)}]}


def pir(*operations: dict[str, Any], result: int) -> bytes:
    parameters = [
        {"#": "p", "A": [0, 1, 1, name], "O": {"%": key, "TT": type_of(list(data.shape))}}
        for key, name, data in ((1, "b", BIAS), (2, "w", WEIGHT))
    ]
    ops = [*parameters, op("1.data", [], 3, [2, 6], name="x"), *operations, op("1.fetch", [result], 99, [2, 3])]
    program = {"regions": [{"#": "region_0", "blocks": [{"#": "block_0", "args": [], "ops": ops}]}]}
    return json.dumps({"base_code": {"magic": "pir", "version": 4}, "program": program}).encode()


def tensor(data: np.ndarray) -> bytes:
    desc = encode(SCHEMA, "TensorDesc", {"data_type": "float32"})
    desc += b"".join(b"\x10" + bytes([extent]) for extent in data.shape)
    return struct.pack("<IQIi", 0, 0, 0, len(desc)) + desc + data.tobytes()


PARAMETERS = tensor(BIAS) + tensor(WEIGHT)
PIR = pir(op("1.matmul", [3, 2], 4, [2, 3]), op("1.add", [4, 1], 5, [2, 3]), op("1.relu", [5], 6, [2, 3]), result=6)


def variable(name: str, shape: tuple[int, ...], persistable: bool = False) -> dict[str, Any]:
    desc = {"tensor": {"data_type": "float32", "dims": list(shape)}}
    return {"name": name, "persistable": persistable, "type": {"type": "LOD_TENSOR", "lod_tensor": desc}}


def old(kind: str, inputs: dict[str, str], output: str, *attrs: dict[str, Any]) -> dict[str, Any]:
    return {
        "inputs": [{"parameter": name, "arguments": [value]} for name, value in inputs.items()],
        "outputs": [{"parameter": "Out", "arguments": [output]}],
        "type": kind,
        "attrs": list(attrs),
    }


LEGACY = encode(SCHEMA, "ProgramDesc", {"blocks": [{
    "idx": 0, "parent_idx": -1,
    "vars": [variable("x", (2, 6)), variable("w", WEIGHT.shape, True), variable("b", BIAS.shape, True),
             variable("h", (2, 3))],
    "ops": [old("feed", {"X": "feed"}, "x"), old("mul", {"X": "x", "Y": "w"}, "h"),
            old("elementwise_add", {"X": "h", "Y": "b"}, "h", {"name": "axis", "type": "INT", "i": 1}),
            old("relu", {"X": "h"}, "h"), old("fetch", {"X": "h"}, "fetch")],
}]})  # fmt: skip


@pytest.mark.parametrize("program", [PIR, LEGACY], ids=["pir", "legacy"])
def test_both_forms_give_the_same(program: bytes) -> None:
    assert frontend_of(program).name == frontend_of((program, PARAMETERS)).name == "paddle"
    mod, specs = from_paddle(program, PARAMETERS)
    x = rng.standard_normal((2, 6)).astype("f")
    (found,) = run(mod, {specs[0].name: x})
    np.testing.assert_allclose(found, np.maximum(x @ WEIGHT + BIAS, 0), rtol=1e-5, atol=1e-6)


def test_a_folder_of_a_program_and_a_file_for_each_parameter(tmp_path: Path) -> None:
    (tmp_path / "__model__").write_bytes(LEGACY)
    for name, data in (("w", WEIGHT), ("b", BIAS)):
        (tmp_path / name).write_bytes(tensor(data))
    assert frontend_of(tmp_path).name == "paddle"
    mod, _ = from_paddle(tmp_path)
    (found,) = run(mod, {"x": np.ones((2, 6), "f")})
    np.testing.assert_allclose(found[0], np.maximum(WEIGHT.sum(0) + BIAS, 0), rtol=1e-5)
    hostile = LEGACY.replace(b"\x0a\x01w", b"\x0a\x01/")
    (tmp_path / "__model__").write_bytes(hostile)
    with pytest.raises(ModelError, match="no name of a file beside it"):
        from_paddle(tmp_path)


@pytest.mark.parametrize(
    ("program", "parameters", "error", "says"),
    [
        (pir(op("1.wavelet", [3], 4, [2, 3]), op("1.fourier", [4], 5, [2, 3]), result=5), PARAMETERS, UnsupportedError,
         "2 things.*\n.*wavelet 'wavelet_%4': no converter"),
        (pir(op("1.relu", [77], 4, [2, 3]), result=4), PARAMETERS, ModelError, "reads '%77', which no input"),
        (PIR, tensor(WEIGHT) + tensor(BIAS), ModelError, "the file is of another program"),
        (PIR, PARAMETERS + b"more", ModelError, "4 bytes behind"),
        (PIR, PARAMETERS[:-1], ModelError, "truncated or damaged"),
        (PIR, struct.pack("<IQ", 0, 1 << 40), ModelError, "levels of"),
        (PIR[:-40], PARAMETERS, ModelError, "truncated or damaged Paddle program"),
        (PIR, None, ModelError, "has no parameters"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(program: bytes, parameters: bytes, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        from_paddle(program, parameters)


@pytest.mark.parametrize(("program", "least"), [(PIR, 150), (LEGACY, 100)], ids=["pir", "legacy"])
def test_mutated_programs_are_refused_or_read(program: bytes, least: int) -> None:
    assert refused(lambda contents: from_paddle(contents, PARAMETERS), mutations(program, 250)) > least


def test_mutated_parameters_are_refused_or_read() -> None:
    assert refused(lambda contents: from_paddle(PIR, contents), mutations(PARAMETERS, 150)) > 60


def recurrent(**attrs: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The operator of an LSTM of one unit over steps of three numbers, and its weights by name."""
    shapes = [(4, 3), (4, 1), (4,), (4,)]
    settings = {"mode": "LSTM", "num_layers": 1, "hidden_size": 1, "is_bidirec": False, "is_test": True, **attrs}
    return settings, [rng.standard_normal(shape).astype("f") for shape in shapes]


def lstm(x: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    matrix, inner, bias, other = weights
    hidden = cell = np.zeros((x.shape[1], 1))
    made = []
    for row in x:
        take, keep, new, out = np.split(row @ matrix.T + hidden @ inner.T + bias + other, 4, 1)
        cell = cell / (1 + np.exp(-keep)) + np.tanh(new) / (1 + np.exp(-take))
        hidden = np.tanh(cell) / (1 + np.exp(-out))
        made.append(hidden)
    return np.stack(made)


def test_recurrent_layers_and_parameters_that_no_file_has() -> None:
    settings, weights = recurrent()
    names = ["w_a", "w_b", "w_c", "w_d"]
    block = [
        {"#": "p", "A": [0, 1, 1, name], "O": {"%": key, "TT": type_of(list(data.shape))}, "OA": [1, 0, 1]}
        for key, (name, data) in enumerate(zip(names, weights, strict=True), 1)
    ]
    block.append({"#": "p", "A": [0, 1, 1, "dropout"], "O": {"%": 5, "TT": type_of([])}, "OA": [0, 1, 0]})
    block += [op("1.data", [], 6, [5, 2, 3], name="x"), op("1.data", [], 7, [1, 2, 1], name="h")]
    block += [op("0.combine", [7, 7], 8, []), op("0.combine", [1, 2, 3, 4], 9, [])]
    block += [op("1.rnn", [6, 8, 9, 0, 5], 10, [5, 2, 1], **settings), op("1.fetch", [10], 99, [5, 2, 1])]
    program = {"regions": [{"#": "region_0", "blocks": [{"#": "block_0", "args": [], "ops": block}]}]}
    whole = json.dumps({"base_code": {"magic": "pir", "version": 4}, "program": program}).encode()
    mod, _ = from_paddle(whole, b"".join(tensor(data) for data in weights))
    x = rng.standard_normal((5, 2, 3)).astype("f")
    (found,) = run(mod, {"x": x, "h": np.zeros((1, 2, 1), "f")})
    np.testing.assert_allclose(found, lstm(x, weights), rtol=1e-5, atol=1e-6)
    block[-1] = op("1.fetch", [5], 99, [])
    whole = json.dumps({"base_code": {"magic": "pir", "version": 4}, "program": program}).encode()
    with pytest.raises(ModelError, match="'None'"):
        from_paddle(whole, b"".join(tensor(data) for data in weights))


def test_recurrent_layers_of_older_programs() -> None:
    settings, weights = recurrent()
    kinds = {str: ("STRING", "s"), int: ("INT", "i"), bool: ("BOOLEAN", "b")}
    attrs = [{"name": name, "type": kinds[type(value)][0], kinds[type(value)][1]: value} for name, value in
             settings.items()]  # fmt: skip
    names = ["w_a", "w_b", "w_c", "w_d"]
    layer = {
        "inputs": [{"parameter": "Input", "arguments": ["x"]}, {"parameter": "PreState", "arguments": ["h", "h"]},
                   {"parameter": "WeightList", "arguments": names}],
        "outputs": [{"parameter": "DropoutState", "arguments": ["d"]}, {"parameter": "Out", "arguments": ["y"]},
                    {"parameter": "State", "arguments": ["s", "t"]}],
        "type": "rnn", "attrs": attrs,
    }  # fmt: skip
    stored = [variable(name, data.shape, True) for name, data in zip(names, weights, strict=True)]
    whole = encode(SCHEMA, "ProgramDesc", {"blocks": [{
        "idx": 0, "parent_idx": -1,
        "vars": [variable("x", (5, 2, 3)), variable("h", (1, 2, 1)), variable("y", (5, 2, 1)), *stored],
        "ops": [old("feed", {"X": "feed"}, "x"), old("feed", {"X": "feed"}, "h"), layer,
                old("fetch", {"X": "y"}, "fetch"), old("fetch", {"X": "s"}, "fetch")],
    }]})  # fmt: skip
    mod, _ = from_paddle(whole, b"".join(tensor(data) for data in weights))
    x = rng.standard_normal((5, 2, 3)).astype("f")
    found, last = run(mod, {"x": x, "h": np.zeros((1, 2, 1), "f")})
    wanted = lstm(x, weights)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last[0], wanted[-1], rtol=1e-5, atol=1e-6)
