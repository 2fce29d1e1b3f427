"""Exact results of models with products of bytes, on whatever processor the tests run.

Where x86 has no dot products of bytes (AVX-512 VNNI, AVX-VNNI), onnxruntime adds pairs of products of unsigned by
signed bytes in 16 bits, which saturate: 255 * 127 + 255 * 127 is 32767 there. So such products are compared with
ONNX's own evaluator, to which this file adds onnxruntime's quantized operators in NumPy, and with onnxruntime where it
is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_dynamic_quantize_linear, op_qlinear_conv

from tilewright.frontend.onnx.reference.evaluator import evaluator
from tilewright.frontend.onnx.reference.saturation import saturates
from tilewright.target import Target

Array = np.ndarray[Any, Any]


def open_session(model: onnx.ModelProto | Path | str, optimized: bool = True) -> onnxruntime.InferenceSession:
    """The model in onnxruntime: quiet, on one thread, its optimizations on or off.

    With them on, constant signed weights are made unsigned where products by signed ones would saturate.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.x64quantprecision", "1")
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def exact_outputs(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs by ONNX's evaluator, integer products in integers."""
    return [np.asarray(value) for value in evaluator(model, _OPERATORS).run(None, dict(feeds))]


def product_outputs(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[list[Array]]:
    """The outputs by each oracle that is right here: ONNX's evaluator, and onnxruntime where it is exact."""
    oracles = [exact_outputs(model, feeds)]
    if not saturates(Target.host()):
        inferred = onnx.shape_inference.infer_shapes(model)
        oracles.append(open_session(inferred).run(None, dict(feeds)))
    return oracles


# --------------------------------------------------------------------------- onnxruntime's operators, in NumPy


def _real(codes: Array, scale: Array, zero: Array | int = 0) -> Array:
    """The real numbers that `codes` stand for; a scale and zero point for each column, or one for all."""
    return (codes.astype(np.int64) - np.asarray(zero, np.int64)) * scale.astype(np.float64)


class _Microsoft(OpRun):
    op_domain = "com.microsoft"


class MatMulIntegerToFloat(_Microsoft):
    """A product of bytes as a float, and a bias."""

    def _run(
        self, a: Array, b: Array, a_scale: Array, b_scale: Array, a_zero: Array, b_zero: Array, bias: Array
    ) -> tuple[Array]:
        return ((_real(a, a_scale, a_zero) @ _real(b, b_scale, b_zero) + bias).astype(np.float32),)


class DynamicQuantizeMatMul(_Microsoft):
    """A product of floats, quantized by their own range, and bytes."""

    def _run(self, a: Array, b: Array, b_scale: Array, b_zero: Array, bias: Array) -> tuple[Array]:
        codes, scale, zero = op_dynamic_quantize_linear.DynamicQuantizeLinear.eval(a)
        return ((_real(codes, scale, zero) @ _real(b, b_scale, b_zero) + bias).astype(np.float32),)


class QGemm(_Microsoft):
    """A product of bytes plus integers of its own scale, quantized again."""

    def _run(self, *inputs: Array, transB: int) -> tuple[Array]:
        a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero = inputs
        right = _real(b, b_scale, b_zero)
        product = _real(a, a_scale, a_zero) @ (right.T if transB else right) + _real(c, a_scale * b_scale)
        limits = np.iinfo(y_zero.dtype)
        return (np.clip(np.rint(product / y_scale) + y_zero, limits.min, limits.max).astype(y_zero.dtype),)


class QLinearConv(_Microsoft):
    """ONNX's, with the channels last where it says so."""

    def _run(self, x: Array, *others: Array, channels_last: int = 0, **attributes: Any) -> tuple[Array]:
        plain = op_qlinear_conv.QLinearConv
        if not channels_last:
            return (plain.eval(x, *others, **attributes),)
        return (np.moveaxis(plain.eval(np.moveaxis(x, -1, 1), *others, **attributes), 1, -1),)


class QAttention(_Microsoft):
    """Attention of the query, key and value that a product of bytes gives; a mask counts each sequence's keys."""

    def _run(self, *inputs: Array | None, num_heads: int, unidirectional: int = 0) -> tuple[Array]:
        x, w, bias, x_scale, w_scale, mask, x_zero, w_zero = inputs
        projected = _real(x, x_scale, x_zero) @ _real(w, w_scale, w_zero) + bias
        batch, rows = projected.shape[:2]
        query, key, value = projected.reshape(batch, rows, 3, num_heads, -1).transpose(2, 0, 3, 1, 4)
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(query.shape[-1])
        if mask is not None:
            scores += np.where(np.arange(rows) < mask[:, None], 0, -10000.0)[:, None, None]
        if unidirectional:
            scores += np.where(np.tri(rows, dtype=bool), 0, -10000.0)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        result = weights / weights.sum(-1, keepdims=True) @ value
        return (result.transpose(0, 2, 1, 3).reshape(batch, rows, -1).astype(np.float32),)


class DynamicQuantizeLSTM(_Microsoft):
    """ONNX's LSTM whose products read the inputs of all steps, and in each step the states, rounded to bytes."""

    def _run(self, *inputs: Array | None, hidden_size: int, direction: str = "forward") -> tuple[Array, Array, Array]:
        x, w, r, bias, _, _, _, _, w_scale, w_zero, r_scale, r_zero = inputs
        each = (-1, 1, 1) if w_scale.ndim == 1 else (w_scale.shape[0], 1, -1)
        w, r = (
            _real(codes, scale.reshape(each), zero.reshape(each))
            for codes, scale, zero in ((w, w_scale, w_zero), (r, r_scale, r_zero))
        )
        given, steps = _rounded(x), x.shape[0]
        sequence = np.zeros((steps, len(w), x.shape[1], hidden_size))
        last = np.zeros((2, *sequence.shape[1:]))
        for way in range(len(w)):
            ahead = bias[way, : 4 * hidden_size] + bias[way, 4 * hidden_size :]
            hidden = cell = np.zeros((x.shape[1], hidden_size), np.float32)
            backward = way == 1 or direction == "reverse"
            for t in range(steps)[:: -1 if backward else 1]:
                gates = given[t] @ w[way] + _rounded(hidden) @ r[way] + ahead
                into, out, forget = (1 / (1 + np.exp(-part)) for part in np.split(gates, 4, axis=1)[:3])
                cell = forget * cell + into * np.tanh(gates[:, 3 * hidden_size :])
                hidden = (out * np.tanh(cell)).astype(np.float32)
                sequence[t, way] = hidden
            last[:, way] = hidden, cell
        return tuple(value.astype(np.float32) for value in (sequence, *last))


def _rounded(x: Array) -> Array:
    """`x` rounded to bytes of its own range."""
    return _real(*op_dynamic_quantize_linear.DynamicQuantizeLinear.eval(x)) if x.any() else np.zeros(x.shape)


_OPERATORS = (MatMulIntegerToFloat, DynamicQuantizeMatMul, QGemm, QLinearConv, QAttention, DynamicQuantizeLSTM)
