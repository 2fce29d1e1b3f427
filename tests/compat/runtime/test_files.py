"""Files of the classic stack, written by hand after their descriptions: read here, and written the same way."""

from __future__ import annotations

import json
import struct

import numpy as np


def _params(values: dict[str, np.ndarray]) -> bytes:
    """A file of parameters: magic, names, arrays, as the format is described."""
    texts = b"".join(struct.pack("<Q", len(name)) + name.encode() for name in values)
    out = struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, len(values)) + texts + struct.pack("<Q", len(values))
    codes = {"i": 0, "u": 1, "f": 2}
    for value in values.values():
        head = struct.pack("<QQiii", 0xDD5E40F096B4A13F, 0, 1, 0, value.ndim)
        kind = struct.pack("<BBH", codes[value.dtype.kind], value.dtype.itemsize * 8, 1)
        out += head + kind + struct.pack(f"<{value.ndim}q", *value.shape) + struct.pack("<q", value.nbytes)
        out += value.tobytes()
    return out


def test_parameters_byte_for_byte() -> None:
    from tvm import relay

    values = {"p0": np.arange(6, dtype="float32").reshape(2, 3), "ids": np.array([1, -2], "int64"), "s": np.uint8([7])}
    content = _params(values)
    read = relay.load_param_dict(content)
    assert list(read) == list(values)
    for name, value in values.items():
        np.testing.assert_array_equal(read[name].numpy(), value)
        assert read[name].dtype == str(value.dtype)
    assert bytes(relay.save_param_dict(read)) == content


TEXT = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 4), float32], %w: Tensor[(3, 4), float32]) {
  %0 = nn.dense(%x, %w, units=None);
  nn.relu(%0)
}
"""


def test_programs_as_text_and_as_json_of_nodes() -> None:
    import tvm
    from tvm import relay

    mod = tvm.parser.fromtext(TEXT)
    again = tvm.parser.fromtext(mod.astext())
    written = tvm.ir.save_json(mod)
    loaded = tvm.ir.load_json(written)
    tree = json.loads(written)
    assert {"root", "nodes", "b64ndarrays", "attrs"} <= set(tree)
    assert tree["nodes"][tree["root"]]["type_key"] == "IRModule"
    x, w = np.random.default_rng(0).random((2, 12), dtype="float32")
    for one in (mod, again, loaded):
        found = relay.create_executor("graph", mod=one).evaluate()(x[:4].reshape(1, 4), w.reshape(3, 4))
        np.testing.assert_allclose(found.numpy(), np.maximum(x[:4].reshape(1, 4) @ w.reshape(3, 4).T, 0), rtol=1e-5)


def test_records_of_tuning() -> None:
    from tvm import autotvm

    line = json.dumps(
        {
            "input": ["llvm -keys=cpu", "demo/matmul", [64, 64, 64, "float32"], {}],
            "config": {
                "index": 37, "code_hash": None,
                "entity": [["tile_y", "sp", [-1, 4]], ["ord", "re", [0, 1]], ["ann", "an", ["none"]], ["n", "ot", 0]],
            },
            "result": [[0.00015, 0.00016], 0, 0.75, 1541030400.25],
            "version": 0.2,
            "tvm_version": "0.8.0",
        }
    )  # fmt: skip
    inputs, result = autotvm.record.decode(line)
    assert result.costs == (0.00015, 0.00016) and inputs.config["tile_y"].size == [-1, 4]
    told, expected = json.loads(autotvm.record.encode(inputs, result)), json.loads(line)
    assert {key: told[key] for key in ("config", "result", "version")} == {
        key: expected[key] for key in ("config", "result", "version")
    }
    assert told["input"][1:] == expected["input"][1:]
