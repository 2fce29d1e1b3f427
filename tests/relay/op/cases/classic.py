"""Cases of further element-wise functions, shapes taken from other tensors, sorting, and positions."""

from __future__ import annotations

import numpy as np

from tests.relay.op.cases.values import RNG, f, i
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, const


def lengths(count: int, longest: int, dtype: str = "int32") -> Constant:
    """The lengths of `count` sequences."""
    return const(RNG.integers(0, longest + 1, count).astype(dtype))


EVERYWHERE = ("asinh", "atan", "cosh", "erfc", "expm1", "sinh", "fast_exp", "fast_erf", "fast_tanh")
INSIDE = ("acos", "asin", "atanh")
ALIGNMENTS = ("LEFT_LEFT", "LEFT_RIGHT", "RIGHT_LEFT", "RIGHT_RIGHT")
MARKS = {
    "bitpack_start": {},
    "bitpack_end": {},
    "cast_hint": {"dtype": "float16"},
    "checkpoint": {},
    "compiler_begin": {"compiler": "vendor"},
    "compiler_end": {"compiler": "vendor"},
    "stop_fusion": {},
    "with_funcid": {"func_id": 3},
}

CASES = {
    **{name: [getattr(op, name)(f(3, 5, 19, low=-5, high=5)), getattr(op, name)(f(7, low=-0.01, high=0.01))]
       for name in EVERYWHERE},
    **{name: [getattr(op, name)(f(3, 5, 19, low=-0.99, high=0.99))] for name in INSIDE},
    "acosh": [op.acosh(f(4, 19, low=1.01, high=30))],
    "log1p": [op.log1p(f(4, 19, low=-0.9, high=30)), op.log1p(f(7, low=-1e-3, high=1e-3))],
    "log2": [op.log2(f(4, 19, low=0.1, high=30))],
    "log10": [op.log10(f(4, 19, low=0.1, high=30))],
    "reinterpret": [op.reinterpret(f(4, 19), "int32"), op.reinterpret(i(9), "float64")],
    "fixed_point_multiply": [
        op.fixed_point_multiply(i(4, 19, low=-999, high=999, dtype="int32"), 1395864371, shift) for shift in (-3, 0, 2)
    ],
    **{f"annotation.{name}": [getattr(op.annotation, name)(f(4, 19), **attrs)] for name, attrs in MARKS.items()},
    "debug": [op.debug(f(4, 19))],
    "device_copy": [op.device_copy(f(4, 19))],
    "on_device": [op.on_device(f(4, 19))],
    "cast_like": [op.cast_like(f(4, 19), i(3)), op.cast_like(i(4), f(2, 2))],
    "full_like": [op.full_like(f(4, 19), const(2.5))],
    "broadcast_to_like": [op.broadcast_to_like(f(4, 1), f(3, 4, 19))],
    "reshape_like": [op.reshape_like(f(4, 6), f(8, 3)), op.reshape_like(f(4, 6, 5), f(2, 12, 7), 0, 2, 0, 2)],
    "contrib_reverse_reshape": [op.contrib_reverse_reshape(f(4, 6, 5), (-1, 3, 0))],
    "slice_like": [op.slice_like(f(4, 6, 5), f(2, 3, 5)), op.slice_like(f(4, 6), f(9, 2), (-1,))],
    "collapse_sum_to": [op.collapse_sum_to(f(3, 4, 19), (4, 1)), op.collapse_sum_to(f(3, 4), (3, 4))],
    "collapse_sum_like": [op.collapse_sum_like(f(3, 4, 19), f(1, 19))],
    "argsort": [
        op.argsort(f(4, 19)),
        op.argsort(i(7, 5, high=4), 0, False, "int64"),
        op.argsort(const(np.float32([2, np.nan, -1, 2, np.nan])), is_ascend=False),
    ],
    "sort": [op.sort(f(4, 19)), op.sort(f(7, 5), 0, False)],
    "topk": [
        op.topk(f(4, 19), 3),
        op.topk(f(7, 5), 2, 0, "values", True),
        op.topk(f(7, 5), 0, 1, "indices", dtype="int64"),
    ],
    "searchsorted": [
        op.searchsorted(const(np.sort(RNG.random(19).astype("float32"))), f(4, 7, low=0, high=1)),
        op.searchsorted(const(np.sort(RNG.integers(0, 9, (3, 12)))), i(3, 5, high=9), True, "int64"),
    ],
    "adv_index": [op.adv_index([f(5, 6, 7), i(3, 1), i(4)]), op.adv_index([f(5, 6), i(2, 3, low=-5)])],
    "invert_permutation": [op.invert_permutation(const(RNG.permutation(19)))],
    "unravel_index": [op.unravel_index(i(3, 5, high=24), const(np.array([2, 3, 4])))],
    "ndarray_size": [op.ndarray_size(f(3, 5)), op.ndarray_size(f(), "int64")],
    "meshgrid": [op.meshgrid([f(3), f(4), f(2)]), op.meshgrid([f(3), f(4)], "xy")],
    "sequence_mask": [
        op.sequence_mask(f(7, 4, 5), lengths(4, 7), -1.5),
        op.sequence_mask(f(4, 7), lengths(4, 7, "int64"), axis=1),
    ],
    "reverse_sequence": [
        op.reverse_sequence(f(4, 7, 5), lengths(4, 7)),
        op.reverse_sequence(f(3, 7, 4), lengths(4, 7, "int64"), 1, 2),
    ],
    "strided_set": [
        op.strided_set(f(5, 7), f(2, 4), (1, 0), (5, 7), (2, 2)),
        op.strided_set(f(5, 7), f(3, 7), (4,), (1,), (-1,)),
    ],
    "matrix_set_diag": [
        op.matrix_set_diag(f(2, 4, 5), f(2, 4)),
        op.matrix_set_diag(f(4, 6), f(3), 3),
        *[op.matrix_set_diag(f(2, 4, 5), f(2, 4, 4), (-1, 2), align) for align in ALIGNMENTS],
    ],
}  # fmt: skip
