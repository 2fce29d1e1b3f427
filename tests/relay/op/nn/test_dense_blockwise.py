"""Products with weights of a few bits against float64, and what the type rule refuses."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.expr import const
from tilewright.relay.ir.type_of import type_of

RNG = np.random.default_rng(29)


def _weights(bits, block, units=6, blocks=3):
    codes = RNG.integers(0, 1 << bits, (units, blocks, block)).astype(np.uint8)
    planes, below = [], 0
    for width in (8, 4, 2, 1):  # plane after plane, the lowest bits of the codes in the widest
        if bits & width:
            part = (codes >> below & ((1 << width) - 1)).reshape(units, blocks, -1, 8 // width)
            planes.append(np.bitwise_or.reduce(part << np.arange(0, 8, width), axis=-1).astype(np.uint8))
            below += width
    scales = RNG.standard_normal((units, blocks)).astype(np.float32)
    return codes.astype(np.float64), np.concatenate(planes, axis=-1), scales


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("zero", ["middle", "codes", "floats"])
def test_codes_stand_for_scaled_differences(check, bits, zero):
    codes, packed, scales = _weights(bits, 16)
    middle = np.full((6, 3), 1 << (bits - 1))
    zeros = {"middle": middle, "codes": RNG.integers(0, 1 << bits, (6, 3)), "floats": RNG.standard_normal((6, 3))}[zero]
    data = RNG.standard_normal((2, 3, 41)).astype(np.float32)
    real = ((codes - zeros[..., None]) * scales[..., None]).reshape(6, -1)[:, :41]
    given = None if zero == "middle" else const(zeros.astype(np.uint8 if zero == "codes" else np.float64))
    call = op.nn.dense_blockwise(const(data), const(packed), const(scales), given, bits=bits)
    check(call, (data @ real.T).astype(np.float32), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 9}, "codes of 9 bits; 1, 2, 3, 4, 5, 6, 7, 8 are supported"),
        ({"bits": 3}, "8 bytes of a block hold no multiple of 8 codes"),
        ({"table": (1.0,) * 8}, "a table has 2 \\*\\* bits numbers, of 1, 2 or 4 bits, and no zero points; not 8"),
        ({"accuracy_level": 5}, "accuracy_level=5; it is one of 0 to 4"),
        ({"units": 7}, "units=7, but the weight makes 6"),
        ({"scales": np.ones((6, 2), np.float32)}, r"scales of shape \(6, 3\) are needed, not \(6, 2\)"),
        ({"scales": np.ones((6, 3), np.int32)}, "data and scales are floats, not float32 and int32"),
        ({"data": np.ones((2, 49), np.float32)}, "the data has 49 columns, the weight 3 blocks of 16"),
        ({"data": np.ones(48, np.float32)}, "at least two dimensions"),
    ],
)
def test_operands_that_do_not_fit_are_refused(change, message):
    _, packed, scales = _weights(4, 16)
    given = {"data": np.ones((2, 48), np.float32), "scales": scales, **change}
    attrs = {name: value for name, value in given.items() if name not in ("data", "scales")}
    with pytest.raises(TypeMismatchError, match=message):
        type_of(op.nn.dense_blockwise(const(given["data"]), const(packed), const(given["scales"]), **attrs))
