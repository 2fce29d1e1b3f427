"""Weights packed in planes of bits."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.topi.bitserial_form import LOOKUP, POPCOUNT
from tilewright.topi.reference.bitserial import pack_weight


@pytest.mark.parametrize("method", [POPCOUNT, LOOKUP])
def test_transposed_weights_are_packed_like_others(method: str) -> None:
    weight = np.random.default_rng(1).integers(0, 4, (40, 1, 1, 24)).astype(np.int32)
    turned = np.ascontiguousarray(weight.T).T
    np.testing.assert_array_equal(pack_weight(turned, 2, 2, method, 8), pack_weight(weight, 2, 2, method, 8))
