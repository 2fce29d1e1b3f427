"""Dense layers of bytes by constant weights of few values, such as -1, 0 and 1 (ternary), from the bits of the weights.

    sum x w = sum x code + least * sum x                       code = w - least, of few bits

The weights are stored as planes: ternary ones take two bits, a quarter of the bytes that a row of data waits for.
"""

from __future__ import annotations

import numpy as np

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op.nn.bitserial import contrib_bitserial_dense
from tilewright.topi.bitserial_form import DATA_BITS, WEIGHT_BITS, BitSerial
from tilewright.topi.reference.bitserial import pack_weight
from tilewright.topi.schedule.workload import BitserialProduct


def has_few_values(weight: np.ndarray) -> bool:
    """True for integers within a range of so many values as codes have."""
    return weight.size > 0 and int(weight.max()) - int(weight.min()) < 1 << WEIGHT_BITS


def few_bit_dense(data: Expr, weight: np.ndarray, backend: GraphBackend) -> Expr | None:
    """The int32 product of uint8 `data` [M, K] and weights [N, K]; None where it costs less in bytes.

    The weights have few values (`has_few_values`).
    """
    shape = tensor_type_of(data).shape
    if len(shape) != 2 or not all(isinstance(size, int) for size in shape) or 0 in shape:
        return None
    least = int(weight.min())
    bits = max(1, (int(weight.max()) - least).bit_length())
    codes = (weight.astype(np.int64) - least)[:, None, None]
    image = (1, 1, *shape)
    form = backend.bitserial_form(
        BitserialProduct(image, len(weight), (1, 1), (1, 1), (0, 0, 0, 0), DATA_BITS, bits, least != 0)
    )
    if form is None:
        return None
    packed = Constant(pack_weight(codes, bits, DATA_BITS, form.method, form.lanes))
    return contrib_bitserial_dense(data, packed, BitSerial(form.method, len(weight), DATA_BITS, 1, -least))
