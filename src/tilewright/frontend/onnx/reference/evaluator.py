"""ONNX's own evaluator for whole models: NumPy, written after the specification, exact in integers.

The package lacks DequantizeLinear before opset 19, which most quantized models have; it stands here. This module is
imported only where the evaluator is requested: `onnx` is optional.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

Array = np.ndarray[Any, Any]


class DequantizeLinear(OpRun):
    """(x - zero) * scale, of opsets 10 and 13: a scale and zero point for all, or one for each slice of `axis`."""

    op_domain = ""

    def _run(self, x: Array, scale: Array, zero: Array | None = None, axis: int = 1, **_: Any) -> tuple[Array]:
        shape = [1] * x.ndim
        if scale.size > 1:
            shape[axis] = scale.size
        codes = x.astype(np.int64) - (0 if zero is None else zero.astype(np.int64).reshape(shape))
        return ((codes * scale.reshape(shape)).astype(scale.dtype),)


def evaluator(model: Any, operators: Sequence[type] = ()) -> ReferenceEvaluator:
    """The evaluator of an `onnx.ModelProto`, with more operators (subclasses of ONNX's `OpRun`)."""
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
    return ReferenceEvaluator(model, new_ops=[*([DequantizeLinear] if opset < 19 else []), *operators])
