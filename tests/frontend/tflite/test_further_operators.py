"""Boxes, transforms, random numbers and tables against LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.running import run
from tests.frontend.tflite.builder import Graph, Op, T, build, check, opened, outputs_of, single
from tilewright.errors import UnsupportedError
from tilewright.frontend.tflite import from_tflite

rng = np.random.default_rng(17)


def c(value: Any, dtype: str = "int32") -> T:
    data = np.asarray(value, dtype)
    return T(data.shape, dtype, data)


def compare(model: bytes, feeds: list[np.ndarray], tolerance: float = 2e-5) -> None:
    wanted = outputs_of(opened(model), feeds)
    module, specs = from_tflite(model)
    found = tw.compile(module, cache=False).run(dict(zip([spec.name for spec in specs], feeds)))
    assert len(found) == len(wanted)
    for ours, theirs in zip(map(np.asarray, found), wanted):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("most", [3, 40])
@pytest.mark.parametrize(
    ("overlap", "least", "sigma"), [(0.5, 0.2, None), (0.3, 0.0, 0.0), (0.7, 0.1, 0.4), (1.0, 0.3, 0.2)]
)
def test_suppression_agrees_with_litert(most: int, overlap: float, least: float, sigma: float | None) -> None:
    corners = rng.uniform(0, 1, (25, 4)).astype(np.float32)
    corners[3] = corners[4]
    corners[5, 2] = corners[5, 0]  # a box without area
    scores = rng.permutation(np.linspace(0.05, 0.95, 25)).astype(np.float32)
    inputs = [T((25, 4)), T((25,)), c(most), c(overlap, "float32"), c(least, "float32")]
    results = [T((most,), "int32"), T((), "int32")]
    name = "NON_MAX_SUPPRESSION_V4"
    if sigma is not None:
        inputs, name = [*inputs, c(sigma, "float32")], "NON_MAX_SUPPRESSION_V5"
        results = [T((most,), "int32"), T((most,)), T((), "int32")]
    compare(single(name, inputs, results, (f"NonMaxSuppressionV{name[-1]}Options", {})), [corners, scores])


def transforms() -> Iterator[Any]:
    for height, width in ((4, 8), (8, 4), (2, 16)):
        for part in ("REAL", "IMAG", "COMPLEX_ABS"):
            yield pytest.param(height, width, part, id=f"{height}-{width}-{part}")


@pytest.mark.parametrize(("height", "width", "part"), [*transforms()])
def test_parts_of_a_transform(height: int, width: int, part: str) -> None:
    lines = (2, height, width // 2 + 1)
    tensors = [T((2, 4, 8)), c([height, width]), T(lines, "COMPLEX64"), T(lines)]
    ops = [Op("RFFT2D", [0, 1], [2]), Op(part, [2], [3])]
    check(build(Graph(tensors, [0], [3], ops)))


def test_a_complex_output_is_refused() -> None:
    model = single("RFFT2D", [T((4, 8)), c([4, 8])], [T((4, 5), "COMPLEX64")], None)
    with pytest.raises(UnsupportedError, match="is complex; pass its parts"):
        from_tflite(model)


def test_complex_numbers_go_nowhere_else() -> None:
    tensors = [T((4, 8)), c([4, 8]), T((4, 5), "COMPLEX64"), T((4, 5), "COMPLEX64"), T((4, 5))]
    ops = [Op("RFFT2D", [0, 1], [2]), Op("MUL", [2, 2], [3], ("MulOptions", {})), Op("REAL", [3], [4])]
    with pytest.raises(UnsupportedError, match="complex numbers are taken by REAL"):
        from_tflite(build(Graph(tensors, [0], [4], ops)))


@pytest.mark.parametrize(
    ("name", "inputs", "shape", "options"),
    [
        ("SQUEEZE", [], (4, 5), ("SqueezeOptions", {"squeezeDims": [0]})),
        ("SQUEEZE", [], (4, 5), ("SqueezeOptions", {"squeezeDims": []})),
        ("RESHAPE", [[5, 4]], (5, 4), ("ReshapeOptions", {})),
        ("EXPAND_DIMS", [-1], (1, 4, 5, 1), ("ExpandDimsOptions", {})),
        ("TRANSPOSE", [[2, 0, 1]], (5, 1, 4), ("TransposeOptions", {})),
        ("STRIDED_SLICE", [[0, 1, 4], [1, 3, 0], [1, 1, -1]], (1, 2, 4), ("StridedSliceOptions", {})),
    ],
)
def test_complex_numbers_are_moved(name: str, inputs: list[Any], shape: tuple[int, ...], options: Any) -> None:
    data = rng.standard_normal((1, 4, 8)).astype(np.float32)
    more = [c(one) for one in inputs]
    tensors = [T((1, 4, 8)), c([4, 8]), T((1, 4, 5), "COMPLEX64"), *more, T(shape, "COMPLEX64"), T(shape)]
    moved = 3 + len(more)
    ops = [
        Op("RFFT2D", [0, 1], [2]), Op(name, [2, *range(3, moved)], [moved], options),
        Op("COMPLEX_ABS", [moved], [moved + 1]),
    ]  # fmt: skip
    module, _ = from_tflite(build(Graph(tensors, [0], [moved + 1], ops)))
    (found,) = run(module, {"t0": data})
    whole = np.abs(np.fft.rfft2(data))
    wanted = whole.transpose(2, 0, 1) if name == "TRANSPOSE" else whole
    wanted = whole[:, 1:3, 4:0:-1] if name == "STRIDED_SLICE" else wanted.reshape(shape)
    assert found.shape == shape
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"])
@pytest.mark.parametrize("seeds", [(1, 2), (1234567890123, 0), (0, -5)])
def test_random_numbers_of_a_seed(name: str, seeds: tuple[int, int]) -> None:
    options = ("RandomOptions", {"seed": seeds[0], "seed2": seeds[1]})
    compare(single(name, [c([3, 7])], [T((3, 7))], options), [], tolerance=1e-6)


@pytest.mark.parametrize("samples", [5, 64])
def test_samples_of_a_seed(samples: int) -> None:
    options = ("RandomOptions", {"seed": 3, "seed2": 11})
    logits = rng.standard_normal((3, 9)).astype(np.float32)
    logits[1, 4] = -np.inf
    model = single("MULTINOMIAL", [T((3, 9)), c(samples)], [T((3, samples), "int64")], options)
    compare(model, [logits])


def test_random_numbers_without_a_seed_are_the_same_in_each_run() -> None:
    module, _ = from_tflite(single("RANDOM_UNIFORM", [c([1000])], [T((1000,))], ("RandomOptions", {})))
    executable = tw.compile(module, cache=False)
    first, second = (np.asarray(executable.run({})[0]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert first.min() >= 0 and first.max() < 1 and abs(first.mean() - 0.5) < 0.05


@pytest.mark.parametrize(("algorithm", "words"), [(0, 2), (1, 2), (1, 3), (2, 2)])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_bits_of_a_state(algorithm: int, words: int, dtype: str) -> None:
    state = rng.integers(0, 1 << 63, words, dtype=np.uint64)
    options = ("StablehloRngBitGeneratorOptions", {"algorithm": algorithm})
    outputs = [T((words,), "uint64"), T((3, 7), dtype)]
    compare(single("STABLEHLO_RNG_BIT_GENERATOR", [c(state, "uint64")], outputs, options), [])


def test_rows_found_by_keys() -> None:
    inputs = [T((4,), "int32"), c([1, 5, 9]), c(rng.standard_normal((3, 2)), "float32")]
    model = single("HASHTABLE_LOOKUP", inputs, [T((4, 2)), T((4,), "uint8")], None)
    compare(model, [np.array([9, 2, 1, 5], np.int32)])


@pytest.mark.parametrize("combiner", [0, 1, 2])
def test_sums_of_rows_that_a_list_names(combiner: int) -> None:
    positions = c([[0, 0, 0], [0, 0, 1], [0, 2, 0], [1, 1, 0]])
    inputs = [c([1, 3, 0, 2]), positions, c([2, 3, 2]), T((4,)), c(rng.standard_normal((4, 5)), "float32")]
    options = ("EmbeddingLookupSparseOptions", {"combiner": combiner})
    compare(single("EMBEDDING_LOOKUP_SPARSE", inputs, [T((2, 3, 5))], options), [np.float32([1, 0.5, 2, 3])])
