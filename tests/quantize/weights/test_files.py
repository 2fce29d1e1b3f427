"""Files of weights: GGUF's types against gguf's own arithmetic, layers in safetensors, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.relay.helpers import module
from tilewright import relay
from tilewright.driver.model.build import build_model
from tilewright.errors import EnvironmentError_, ModelError, ShapeError, UnsupportedError
from tilewright.quantize.weights import GGUF_TYPES, CodedWeights, from_gguf, read_weights
from tilewright.target import Target

RNG = np.random.default_rng(59)

#: Of each type the offsets of its numbers in float16.
_HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
}  # fmt: skip


def _stored(kind: str, units: int, depth: int) -> np.ndarray:
    """Rows of any bytes, with numbers in float16 that are some."""
    weights, size, _ = GGUF_TYPES[kind]
    blocks = RNG.integers(0, 256, (units, depth // weights, size)).astype(np.uint8)
    for at in _HALVES[kind]:
        numbers = RNG.uniform(-0.1, 0.1, blocks.shape[:2]).astype(np.float16)
        blocks[..., at : at + 2] = numbers[..., None].view(np.uint8)
    for at in _HALVES[kind][:1]:
        blocks[0, 0, at : at + 2] = 0  # a scale of 0 leaves the offset
    if kind == "MXFP4":
        blocks[..., 0] = 120 + blocks[..., 0] % 16
    return blocks.reshape(units, -1)


@pytest.mark.parametrize("kind", GGUF_TYPES)
def test_types_of_gguf_stand_for_what_gguf_says(kind: str) -> None:
    quants = pytest.importorskip("gguf.quants", reason="gguf is not installed")
    constants = pytest.importorskip("gguf.constants")
    stored = _stored(kind, 32, 512)
    meant = quants.dequantize(stored, constants.GGMLQuantizationType[kind])
    weights = from_gguf(stored, kind)
    np.testing.assert_allclose(weights.numpy(), meant, rtol=1e-6, atol=1e-6 * np.abs(meant).max())
    data = RNG.standard_normal((2, 512)).astype(np.float32)
    got = build_model(module(weights.dense(relay.var("x", shape=data.shape))), Target("cpu"), threads=1)(data)
    exact = data.astype(np.float64) @ weights.numpy().T
    assert np.abs(got - exact).max() <= 1e-6 * np.abs(exact).max()


def test_codes_keep_their_bits() -> None:
    for kind, bits in (("Q4_0", 4), ("Q5_1", 5), ("Q6_K", 6), ("Q4_K", 4), ("Q8_0", 8), ("Q2_K", 2)):
        assert from_gguf(_stored(kind, 32, 512), kind).packed.nbytes == 32 * 512 * bits // 8
    assert from_gguf(_stored("Q4_0", 32, 512), "Q4_0").nbytes == _stored("Q4_0", 32, 512).nbytes


def test_a_gguf_file_is_read(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    kinds, path = gguf.GGMLQuantizationType, tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    weights = RNG.standard_normal((64, 256)).astype(np.float32)
    norm, table = RNG.random(64).astype(np.float32), RNG.standard_normal((8, 64)).astype(np.float16)
    for name in ("Q4_0", "Q8_0"):
        writer.add_tensor(name, gguf.quants.quantize(weights, kinds[name]), raw_dtype=kinds[name])
    writer.add_tensor("norm", norm)
    writer.add_tensor("table", table)
    writer.add_tensor("wide", gguf.quants.quantize(weights, kinds.BF16), raw_dtype=kinds.BF16)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    found = read_weights(path)
    for name in ("Q4_0", "Q8_0"):
        coded = found[name]
        assert isinstance(coded, CodedWeights) and coded.shape == (64, 256)
        meant = gguf.quants.dequantize(gguf.quants.quantize(weights, kinds[name]), kinds[name])
        np.testing.assert_allclose(coded.numpy(), meant, rtol=1e-6)
    np.testing.assert_array_equal(found["norm"], norm)
    np.testing.assert_array_equal(found["table"], table)
    np.testing.assert_allclose(found["wide"], weights, rtol=1e-2)


def _save(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    pytest.importorskip("safetensors.numpy", reason="safetensors is not installed").save_file(arrays, path)
    return path


def test_layers_in_safetensors_are_joined(tmp_path: Path) -> None:
    words, scales = RNG.integers(0, 1 << 31, (16, 32)).astype(np.int32), np.ones((4, 32), np.float16)
    arrays = {
        "a.qweight": words, "a.scales": scales, "a.qzeros": np.full((4, 4), 0x77777777, np.int32),
        "a.g_idx": np.arange(128, dtype=np.int32) // 32, "a.bias": np.ones(32, np.float16),
        "b.qweight": RNG.integers(0, 1 << 31, (128, 4)).astype(np.int32), "b.scales": scales,
        "b.qzeros": np.zeros((4, 4), np.int32),
        "c.W_q": RNG.integers(0, 256, (32, 64)).astype(np.uint8), "c.scale": np.ones((64, 1), np.float16),
        "c.zero": np.ones((64, 1), np.float16), "c.nbits": np.array(4), "c.group_size": np.array(64),
        "c.shape": np.array([32, 128]), "c.axis": np.array(1), "norm.weight": np.ones(3, np.float32),
    }  # fmt: skip
    found = read_weights(_save(tmp_path / "model.safetensors", arrays))
    assert set(found) == {"a.weight", "a.bias", "b.weight", "c.weight", "norm.weight"}
    layers = [found[f"{name}.weight"] for name in "abc"]
    assert all(isinstance(x, CodedWeights) and x.shape == (32, 128) and x.bits == 4 for x in layers)
    assert layers[0].zeros is None and layers[1].zeros.dtype == np.uint8 and layers[2].block == 64
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": {"checkpoint_format": "gptq_v2"}}))
    assert (read_weights(tmp_path / "model.safetensors")["a.weight"].zeros == 7).all()


def test_files_that_are_no_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match=r"none.gguf: there is no such file"):
        read_weights(tmp_path / "none.gguf")
    (tmp_path / "m.bin").write_bytes(b"ONNX")
    with pytest.raises(ModelError, match="neither GGUF nor a file of safetensors"):
        read_weights(tmp_path / "m.bin")
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(EnvironmentError_, match=r"needs the package gguf.*pip install 'tilewright\[weights\]'"):
        read_weights(tmp_path / "m.gguf")
    with pytest.raises(UnsupportedError, match=r"weights of GGUF's type IQ2_S; supported: Q4_0, "):
        from_gguf(np.zeros((1, 18), np.uint8), "IQ2_S")
    with pytest.raises(ShapeError, match=r"rows of Q4_0 are bytes, a multiple of 18, not uint8\[1, 19\]"):
        from_gguf(np.zeros((1, 19), np.uint8), "Q4_0")


def test_a_layer_without_its_scales_is_refused(tmp_path: Path) -> None:
    path = _save(tmp_path / "m.safetensors", {"a.qweight": np.zeros((4, 4), np.int32)})
    with pytest.raises(ModelError, match=r"m.safetensors: a has qweight, but no scales, qzeros"):
        read_weights(path)
