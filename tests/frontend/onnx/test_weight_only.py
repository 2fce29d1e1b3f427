"""Products and tables with weights of a few bits: onnxruntime, float64, and the bytes of the artifact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontend.onnx.conftest import build_model, reference_outputs
from tilewright import compile as compile_model
from tilewright.topi.reference.blockwise import code_bits, dense_blockwise

RNG = np.random.default_rng(41)
MS = {"com.microsoft": 1}


def _product(bits: int, block: int, units: int, depth: int, level: int = 0, **rest: np.ndarray) -> Any:
    """A model of one MatMulNBits of data [2, 3, depth], the data, and the exact result."""
    blocks = -(-depth // block)
    weight = RNG.integers(0, 256, (units, blocks, block * bits // 8)).astype(np.uint8)
    scales = (RNG.random((units, blocks)) + 0.5).astype(np.float32)
    data = RNG.standard_normal((2, 3, depth)).astype(np.float32)
    names = ("zeros", "groups", "bias")
    last = max((i for i, name in enumerate(names) if name in rest), default=-1) + 1
    inputs = ["x", "w", "s", *(name if name in rest else "" for name in names[:last])]
    attrs = {"N": units, "K": depth, "bits": bits, "block_size": block, "accuracy_level": level}
    node = helper.make_node("MatMulNBits", inputs, ["y"], domain="com.microsoft", **attrs)
    model = build_model([node], {"x": data}, ["y"], 17, {"w": weight, "s": scales.reshape(-1), **rest}, MS)
    zeros = rest.get("zeros")
    if zeros is not None:
        zeros = zeros if zeros.dtype != np.uint8 else code_bits(zeros.reshape(units, -1), bits)[:, :blocks]
    group = rest.get("groups", np.arange(depth) // block)
    middle = np.full(scales.shape, 1 << (bits - 1)) if zeros is None else zeros.reshape(units, blocks)
    codes = code_bits(weight, bits).reshape(units, -1)[:, :depth].astype(np.float64)
    exact = data.astype(np.float64) @ ((codes - middle[:, group]) * scales.astype(np.float64)[:, group]).T
    return model, data, exact + rest.get("bias", 0)


def _error(got: np.ndarray, exact: np.ndarray) -> float:
    return float(np.abs(got - exact).max() / np.abs(exact).max())


CASES = {
    "4_bits": (_product, (4, 32, 40, 96), {}),
    "tail_of_a_block": (_product, (4, 16, 33, 40), {}),
    "2_bits": (_product, (2, 64, 32, 100), {}),
    "8_bits": (_product, (8, 32, 17, 64), {}),
    "zero_points": (_product, (4, 32, 33, 96), {"zeros": RNG.integers(0, 256, (33 * 2,)).astype(np.uint8)}),
    "float_zero_points": (_product, (4, 32, 32, 64), {"zeros": RNG.random((32, 2)).astype(np.float32) * 15}),
    "act_order": (_product, (4, 16, 32, 48), {"groups": RNG.permutation(np.repeat(np.int32([0, 1, 2]), 16))}),
    "bias": (_product, (4, 32, 32, 64), {"bias": RNG.random(32).astype(np.float32)}),
}


@pytest.mark.parametrize("name", CASES)
def test_products_are_as_exact_as_onnxruntime_in_float32(name: str) -> None:
    make, sizes, rest = CASES[name]
    model, data, exact = make(*sizes, **rest)
    assert _error(compile_model(model)(data), exact) < 1e-6
    assert _error(reference_outputs(model, {"x": data})[0], exact) < 1e-5


def test_uneven_groups_fill_their_last_block_with_nothing() -> None:
    groups = RNG.permutation(np.repeat(np.int32([0, 1, 2]), [20, 9, 19]))
    model, data, exact = _product(4, 16, 32, 48, groups=groups)
    assert _error(compile_model(model)(data), exact) < 1e-6


def test_a_model_may_ask_for_activations_of_eight_bits() -> None:
    """Level 4 rounds activations, as onnxruntime does; without it no model loses anything."""
    model, data, exact = _product(4, 32, 64, 512, level=4)
    ours, theirs = _error(compile_model(model)(data), exact), _error(reference_outputs(model, {"x": data})[0], exact)
    assert 1e-4 < ours < 2e-2 and ours < 2 * theirs


def test_widths_that_do_not_divide_a_byte_are_refused() -> None:
    model, _, _ = _product(4, 32, 32, 64)
    next(a for a in model.graph.node[0].attribute if a.name == "bits").i = 3
    with pytest.raises(Exception, match="bits=3; supported: 2, 4, 8"):
        compile_model(model)


def test_the_artifact_is_as_large_as_the_model(tmp_path: Path) -> None:
    model, _, _ = _product(4, 32, 512, 4096, zeros=RNG.integers(0, 256, (512, 64)).astype(np.uint8))
    exe = compile_model(model)
    exe.save(tmp_path / "m.tw")
    assert (tmp_path / "m.tw").stat().st_size <= 1.05 * len(model.SerializeToString())


def _table(kind: str, bits: int, zeros: bool) -> Any:
    """A table [8, 64] in blocks of 16 along the columns."""
    signed, least = kind == "int4", -8 if kind == "int4" else 0
    codes = RNG.integers(least, least + (1 << bits), (8, 64))
    points = RNG.integers(least, least + (1 << bits), (8, 4))
    scales = RNG.random((8, 4)).astype(np.float32)
    middle = points if zeros else np.full((8, 4), 1 << (bits - 1) if kind == "uint8" else 0)
    real = (codes - np.repeat(middle, 16, 1)) * np.repeat(scales, 16, 1)

    def stored(name: str, values: np.ndarray) -> Any:
        fields = (values & ((1 << bits) - 1)).reshape(8, -1, 8 // bits) << np.arange(0, 8, bits)
        packed = np.bitwise_or.reduce(fields, axis=-1).astype(np.uint8)
        if kind == "uint8":
            return helper.make_tensor(name, TensorProto.UINT8, packed.shape, packed.tobytes(), raw=True)
        element = TensorProto.INT4 if signed else TensorProto.UINT4
        return helper.make_tensor(name, element, values.shape, packed.tobytes(), raw=True)

    inputs = ["t", "i", "s", *(["z"] if zeros else [])]
    attrs = {"bits": bits, "block_size": 16, "quantize_axis": 1}
    node = helper.make_node("GatherBlockQuantized", inputs, ["y"], domain="com.microsoft", **attrs)
    indices = np.array([[1, 7, 3], [0, 1, 5]])
    model = build_model([node], {"i": indices}, ["y"], 21, {"s": scales}, MS)
    model.graph.initializer.extend([stored("t", codes), *([stored("z", points)] if zeros else [])])
    return model, indices, real[indices].astype(np.float32)


@pytest.mark.parametrize(("kind", "bits"), [("uint8", 2), ("uint8", 4), ("uint8", 8), ("int4", 4), ("uint4", 4)])
@pytest.mark.parametrize("zeros", [False, True])
def test_slices_of_tables_are_dequantized_when_picked(kind: str, bits: int, zeros: bool) -> None:
    model, indices, exact = _table(kind, bits, zeros)
    exe = compile_model(model)
    np.testing.assert_allclose(exe(indices), exact, rtol=1e-6)
    np.testing.assert_allclose(reference_outputs(model, {"i": indices})[0], exact, rtol=1e-6)


def test_the_reference_of_products_is_exact() -> None:
    model, data, exact = _product(4, 32, 8, 64)
    weight, scales = (np.frombuffer(t.raw_data, t_type) for t, t_type in zip(model.graph.initializer, ("u1", "f4")))
    got = dense_blockwise(data.astype(np.float64), weight.reshape(8, 2, 16), scales.reshape(8, 2))
    np.testing.assert_allclose(got, exact, rtol=1e-12)


@pytest.mark.parametrize("block", [16, 64])
def test_numbers_of_a_table_stay_codes(tmp_path: Path, block: int) -> None:
    """MatMulBnb4, with blocks that end within rows and with blocks that do not."""
    units, depth = 512, 1056
    codes, scales = RNG.integers(0, 256, units * depth // 2).astype(np.uint8), RNG.random(units * depth // block)
    data = RNG.standard_normal((3, depth)).astype(np.float32)
    attrs = {"K": depth, "N": units, "block_size": block, "quant_type": 1}
    node = helper.make_node("MatMulBnb4", ["x", "w", "s"], ["y"], domain="com.microsoft", **attrs)
    stored = {"w": codes, "s": scales.astype(np.float32)}
    model = build_model([node], {"x": data}, ["y"], 17, stored, MS)
    exe = compile_model(model)
    np.testing.assert_allclose(exe(data), reference_outputs(model, {"x": data})[0], rtol=1e-4, atol=1e-4)
    exe.save(tmp_path / "m.tw")
    assert (tmp_path / "m.tw").stat().st_size <= 1.3 * len(model.SerializeToString())
