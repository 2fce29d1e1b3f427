"""Products with weights of a few bits in blocks along the depth, each with a scale: weight-only quantization."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright import te, topi
from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import OpPattern, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.op import work
from tilewright.relay.op.common import Types, call, known_size, require, same_dims, tensors
from tilewright.tir.dot_product import GROUP
from tilewright.tir.look_up import ENTRIES
from tilewright.topi.reference import blockwise as ref

#: Levels of accuracy as ONNX's MatMulNBits has them, to the bytes of an activation: float32, float16, bfloat16, int8.
_DIGITS = {0: 3, 1: 3, 2: 2, 3: 2, 4: 1}


def _type(types: Types, attrs: Attrs) -> Type:
    data, weight, scales, *zeros = tensors(types)
    bits, units = attrs["bits"], attrs["units"]
    require(bits in ref.BITS, f"codes of {bits} bits; {', '.join(map(str, ref.BITS))} are supported")
    require(attrs["accuracy_level"] in _DIGITS, f"accuracy_level={attrs['accuracy_level']}; it is one of 0 to 4")
    table = attrs["table"]
    fits = table is None or (len(table) == 1 << bits and bits in ref.WHOLE and len(table) <= ENTRIES and not zeros)
    require(fits, f"a table has 2 ** bits numbers, of 1, 2 or 4 bits, and no zero points; not {len(table or ())}")
    require(data.ndim >= 2, "the data needs at least two dimensions; reshape a vector to one row")
    floats = data.dtype.is_float and scales.dtype.is_float
    require(floats, f"data and scales are floats, not {data.dtype} and {scales.dtype}")
    require(weight.dtype == "uint8" and weight.ndim in (3, 5), f"weights are bytes [N, blocks, bytes], not {weight}")
    rows, blocks, *inner = (known_size(size, "each size of the weight") for size in weight.shape)
    panel = inner[1] if len(inner) == 3 else 0
    wanted = (rows, blocks, panel) if panel else (rows, blocks)
    for name, numbers in (("scales", scales), *(("zero points", z) for z in zeros)):
        require(same_dims(numbers.shape, wanted), f"{name} of shape {wanted} are needed, not {numbers.shape}")
    held = rows * panel if panel else rows
    require(units is None or 0 <= held - units < max(panel, 1), f"units={units}, but the weight makes {held}")
    size, depth = math.prod(inner) // (panel or 1), data.shape[-1]
    block, whole = size * 8 // bits, GROUP * ref.step_of(bits)[1] if panel else 8 // min(ref.planes_of(bits))
    require(size * 8 % bits == 0 and block % whole == 0, f"{size} bytes of a block hold no multiple of {whole} codes")
    fits = not isinstance(depth, int) or blocks == -(-depth // block)
    require(fits, f"the data has {depth} columns, the weight {blocks} blocks of {block}")
    return TensorType((*data.shape[:-1], held if units is None else units), data.dtype)


def _compute(attrs: Attrs, inputs: Sequence[te.Tensor], out: Type) -> list[te.Tensor]:
    data, weight, scales, *rest = inputs
    zeros = rest[0] if rest else None
    if weight.ndim == 3:
        return [topi.nn.dense_blockwise(data, weight, scales, zeros, attrs["bits"], attrs["table"])]
    assert isinstance(out, TensorType)
    if attrs["table"] is not None:
        return [topi.nn.dense_of_table_pack(data, weight, scales, out.shape[-1], attrs["bits"], attrs["table"])]
    digits = _DIGITS[attrs["accuracy_level"]]
    return [topi.nn.dense_blockwise_pack(data, weight, scales, zeros, out.shape[-1], attrs["bits"], digits)]


def _reference(
    attrs: Attrs, data: np.ndarray, weight: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None = None
) -> np.ndarray:
    return ref.dense_blockwise(data, weight, scales, zeros, attrs["bits"], attrs["units"], attrs["table"])


register(
    "nn.dense_blockwise",
    num_inputs=-1,
    type_rule=_type,
    compute=_compute,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    reference=_reference,
    flops=work.product,
    attributes={
        "bits": attr.integer(4),
        "units": attr.optional(attr.integer()),
        "accuracy_level": attr.integer(0),
        "table": attr.optional(attr.tuple_of(attr.number())),
    },
)


def dense_blockwise(
    data: Expr,
    weight: Expr,
    scales: Expr,
    zero_points: Expr | None = None,
    bits: int = 4,
    units: int | None = None,
    accuracy_level: int = 0,
    table: Sequence[float] | None = None,
) -> Call:
    """`data` [..., K] times the transpose of weights (code - zero point) * scale with a scale for each block of K.

    `weight` [N, blocks, bytes of a block] holds codes of 1 to 8 bits, lowest bits first, those of 3, 5, 6 and 7 bits in
    planes (`topi/reference/blockwise.py`); `scales` and `zero_points` are [N, blocks]; without zero points each is the
    middle, 2 ** (bits - 1). The last block may be longer than what is left of K. `accuracy_level` is ONNX's: 0 and 1
    are as exact as float32, 2 and 3 round activations to 16 bits of the largest of a block, 4 to 8. Packed for a
    kernel (`pack_blockwise`) all have a panel of `units` as a further axis. With a `table` of 2 ** bits numbers, for 1,
    2 or 4 bits, codes stand for these, and products are of floats at every level; there are no zero points then.
    """
    numbers = [scales] if zero_points is None else [scales, zero_points]
    numbers_of_codes = None if table is None else tuple(map(float, table))
    attrs = {"bits": bits, "units": units, "accuracy_level": accuracy_level, "table": numbers_of_codes}
    return call("nn.dense_blockwise", data, weight, *numbers, **attrs)
