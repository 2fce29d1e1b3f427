"""Codes in `tilewright inspect`: types, scales and zero points of layers, and the instructions that multiply them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tilewright.relay.ir.expr import Call, Expr, Function
    from tilewright.relay.ir.module import IRModule

#: Layers that the summary lists; a screen shows no more.
_MOST_LAYERS = 12
#: What multiplies codes or floats, in the assembly of x86 and Arm.
_PRODUCTS = re.compile(
    r"\b(tdpb\w+|vpdp\w+|vpmadd\w+|pmadd\w+|vdpbf16ps|vpopcnt\w+|[us]dot|usdot|[us]mmla|usmmla|[us]mlal2?|vfmadd\w+|fmla)\b"
)
#: Lookups in tables of sixteen bytes, which multiply few bits; beside other products they only move bytes.
_LOOKUPS = re.compile(r"\b(v?pshufb|tbl)\b")


def layer_codes(module: IRModule) -> list[str]:
    """A line for each product of codes: data, weights, and their scales and zero points; the first of many."""
    # only when it runs: `tilewright --help` reads this module
    from tilewright.relay.ir.visitor import calls

    found = [line for call in calls(module["main"].body) if (line := _layer(call))]
    rest = len(found) - _MOST_LAYERS
    return [*found[:_MOST_LAYERS], *([f"and {rest} more"] if rest > 0 else [])]


def _layer(call: Call) -> str:
    """`conv1: uint8 (scale 0.05, zero point 3) by int8 (8 scales, 0.01 to 0.02)`; "" for other calls."""
    from tilewright.relay.ir.type import tensor_types  # as above

    name = getattr(call.op, "name", "")
    if name == "nn.dense_blockwise":
        scales = tensor_types(call.args[2].checked_type)[0].shape
        return f"{call.span or name}: floats by {call.attrs.bits} bits, {scales[1]} scales a row"
    if not name.startswith("nn.") or not name.endswith(("dense", "matmul", "conv1d", "conv2d", "conv3d", "transpose")):
        return ""
    data, weight = (_codes(arg) for arg in call.args[:2])
    return f"{call.span or name}: {data or 'floats'} by {weight or 'floats'}" if data or weight else ""


def _codes(value: Expr) -> str:
    """The type of the codes that `value` is dequantized from, with scales and zero points; "" for others."""
    from tilewright.relay.ir.expr import Call, Constant  # as above
    from tilewright.relay.ir.type import tensor_types

    while isinstance(value, Call) and getattr(value.op, "rearranges", False):
        value = value.args[0]
    if not isinstance(value, Call) or getattr(value.op, "name", "") != "qnn.dequantize":
        return ""
    parts = [np.unique(arg.data) if isinstance(arg, Constant) else np.empty(0) for arg in value.args[1:3]]
    words = [text for text in (_numbers("scale", parts[0]), _numbers("zero point", parts[1][parts[1] != 0])) if text]
    return f"{tensor_types(value.args[0].checked_type)[0].dtype} ({', '.join(words)})"


def _numbers(name: str, values: np.ndarray) -> str:
    if not values.size:
        return ""
    return (
        f"{name} {values[0]:.4g}" if values.size == 1 else f"{values.size} {name}s, {values[0]:.4g} to {values[-1]:.4g}"
    )


def multiplies_codes(kernel: Function) -> bool:
    """True if a kernel has an operand of 16 bits or fewer."""
    from tilewright.relay.ir.type import tensor_types  # as above
    from tilewright.relay.ir.visitor import calls

    types = (kind for call in calls(kernel.body) for arg in call.args for kind in tensor_types(arg.checked_type))
    return any(kind.dtype.itemsize <= 2 for kind in types)


def product_instructions(assembly: str) -> Iterator[str]:
    """A line of the instructions that multiply in a kernel's assembly, with their counts; or none."""
    lines = [line.partition("#")[0] for line in assembly.splitlines()]
    for pattern in (_PRODUCTS, _LOOKUPS):
        count = Counter(match.group(1) for line in lines if (match := pattern.search(line)))
        if count:
            yield f"products by {', '.join(f'{name} ({times})' for name, times in count.most_common())}"
            return
