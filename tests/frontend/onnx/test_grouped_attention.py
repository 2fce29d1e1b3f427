"""Attention over caches: sequences of different lengths, shared buffers, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

RNG = np.random.default_rng(9)
HEADS, SHARED, DEPTH = 4, 2, 16

#: batch, steps, length of the cache, lengths of the sequences less one, total_sequence_length.
CASES = {
    "one step each": (2, 1, 6, [4, 6], 7),
    "a cache as long as all there will be": (2, 1, 8, [4, 6], 8),
    "one sequence in a longer cache": (1, 1, 8, [4], 5),
    "several steps": (1, 3, 8, [6], 7),
    "the beginning": (2, 5, 0, [4, 4], 5),
}


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("attributes", [{}, {"do_rotary": 1}, {"softcap": 5.0}, {"local_window_size": 3}], ids=str)
def test_sequences_of_different_lengths_agree_with_onnxruntime(
    make_model: Any, run_model: Any, run_reference: Any, case: str, attributes: dict[str, Any]
) -> None:
    batch, steps, past, lengths, total = CASES[case]
    feeds = {
        "q": floats(batch, steps, HEADS * DEPTH),
        "k": floats(batch, steps, SHARED * DEPTH),
        "v": floats(batch, steps, SHARED * DEPTH),
        "pk": floats(batch, SHARED, past, DEPTH),
        "pv": floats(batch, SHARED, past, DEPTH),
        "lengths": np.int32(lengths),
    }
    consts = {"total": np.int32(total), "cos": floats(16, DEPTH // 2), "sin": floats(16, DEPTH // 2)}
    node = helper.make_node(
        "GroupQueryAttention",
        ["q", "k", "v", "pk", "pv", "lengths", "total", "cos", "sin"],
        ["y", "nk", "nv"],
        domain="com.microsoft",
        num_heads=HEADS,
        kv_num_heads=SHARED,
        **attributes,
    )
    model = make_model([node], feeds, ["y", "nk", "nv"], 17, consts, {"com.microsoft": 1})
    (result, *caches), (wanted, *wanted_caches) = run_model(model, feeds), run_reference(model, feeds)
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
    for cache, wanted_cache in zip(caches, wanted_caches, strict=True):
        assert cache.shape == wanted_cache.shape
        for row, length in enumerate(lengths):  # what is behind the end of a sequence is not defined
            np.testing.assert_allclose(cache[row, :, : length + 1], wanted_cache[row, :, : length + 1], atol=1e-5)
