"""Convolutions and dense layers with constant weights, computed in 8-bit integers.

Before: nn.conv2d(%x, w)
After:  %0 = qnn.quantize(%x, 0.0625f, 0); %1 = qnn.conv2d(%0, w8, 0, 0, 0.0625f, 0.0078125f);
        qnn.dequantize(%1, 0.00048828125f, 0)

Sums are exact in 32 bits; what stands between the layers is computed in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.analysis import bind
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Tuple
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import children, post_order, rebuild
from tilewright.relay.op import qnn
from tilewright.relay.transform.quantize.partition_conversions import partition_conversions
from tilewright.relay.transform.quantize.qconfig import QConfig, current_qconfig
from tilewright.relay.transform.quantize.thresholds import kl_threshold, percentile_threshold
from tilewright.relay.transform.simplify.fold_constant import fold_constant
from tilewright.relay.transform.simplify.fold_scale_axis import fold_scale_axis
from tilewright.relay.transform.simplify.make import is_call
from tilewright.relay.transform.simplify.simplify_inference import simplify_inference

#: The results of a function on each of several inputs by name.
Run = Callable[[Function, Iterable[Mapping[str, Any]]], Iterable[Sequence[np.ndarray[Any, Any]]]]

_LEVELS = 128
#: How a calibration by a data set finds the magnitude that values are cut off at.
_THRESHOLDS = {"kl_divergence": kl_threshold, "percentile": percentile_threshold}


def _interpreted(func: Function, dataset: Iterable[Mapping[str, Any]]) -> Iterable[Sequence[np.ndarray[Any, Any]]]:
    return [interpret(func, dict(batch)) for batch in dataset]


def quantize(
    mod: IRModule,
    params: Mapping[str, Any] | None = None,
    dataset: Iterable[Mapping[str, Any]] | None = None,
    run: Run = _interpreted,
) -> IRModule:
    """The module with the layers that the current `qconfig` chooses in integers.

    `params` are values of parameters by name, `dataset` inputs by name: some tens of typical ones, which the
    calibrations "kl_divergence" and "percentile" run the model on, by `run`: in NumPy, unless the caller can compile.
    Raises `InputError` where it is missing.
    """
    config = current_qconfig()
    main = mod["main"]
    if params:
        bound = bind(main, {name: Constant(np.asarray(value)) for name, value in params.items()})
        assert isinstance(bound, Function)
        main = bound
    mod = mod.with_function("main", main)
    for prepare in (simplify_inference, fold_scale_axis, fold_constant):
        mod = infer_type(prepare(infer_type(mod)))
    ranges = _ranges(mod["main"], _layers(mod["main"], config), config, dataset, run)
    mod = infer_type(mod.with_function("main", mod["main"].with_body(_replaced(mod["main"].body, ranges, config))))
    if config.partition_conversions == "disabled":
        return mod
    return partition_conversions(mod, integral=config.partition_conversions == "fully_integral")


def _replaced(body: Expr, ranges: Mapping[Expr, float], config: QConfig) -> Expr:
    made: dict[Expr, Expr] = {}
    for node in post_order(body):
        made[node] = rebuild(node, tuple([made[child] for child in children(node)]))
        if node in ranges:
            made[node] = _quantized(made[node], ranges[node], config)
    return made[body]


def _quantized(call: Expr, largest: float, config: QConfig) -> Expr:
    """`call` on integers, its input cut off at the magnitude `largest`."""
    assert isinstance(call, Call) and isinstance(call.op, Op) and isinstance(call.args[1], Constant)
    weight = call.args[1].data
    top = float(np.abs(weight).max(initial=0.0)) or 1.0
    if config.weight_scale == "power2":
        top = 2.0 ** float(np.ceil(np.log2(top)))
    scales = np.float32(largest / _LEVELS), np.float32(top / _LEVELS)
    integers = np.clip(np.rint(weight / scales[1]), 1 - _LEVELS, _LEVELS - 1).astype("int8")
    build = qnn.conv2d if is_call(call, "nn.conv2d") else qnn.dense
    attrs = {name: value for name, value in call.attrs.items() if name != "out_dtype"}
    data = qnn.quantize(call.args[0], scales[0], 0, out_dtype="int8")
    sums = build(data, Constant(integers), 0, 0, *scales, **attrs)
    return qnn.dequantize(sums, scales[0] * scales[1], 0)


def _layers(main: Function, config: QConfig) -> list[Call]:
    """The calls to replace, in order of computation."""
    found, convolutions = [], 0
    for node in post_order(main.body):
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            continue
        fits = (
            len(node.args) == 2 and isinstance(node.args[1], Constant) and str(tensor_type_of(node).dtype) == "float32"
        )
        if is_call(node, "nn.conv2d"):
            if fits and convolutions not in config.skip_conv_layers:
                found.append(node)
            convolutions += 1
        elif is_call(node, "nn.dense") and fits and not config.skip_dense_layer:
            found.append(node)
    return found


def _ranges(
    main: Function, layers: Sequence[Call], config: QConfig, dataset: Iterable[Mapping[str, Any]] | None, run: Run
) -> dict[Expr, float]:
    """The magnitude at which the input of each layer is cut off."""
    if config.calibrate_mode == "global_scale":
        return dict.fromkeys(layers, config.global_scale)
    if dataset is None:
        raise InputError(f'quantize with calibrate_mode="{config.calibrate_mode}" needs a dataset= of inputs by name')
    probe = Function(main.params, Tuple([layer.args[0] for layer in layers]))
    seen = list(run(probe, dataset))
    if not seen:
        raise InputError("quantize: the dataset is empty; pass some tens of typical inputs")
    joined = [np.concatenate([np.ravel(values[i]) for values in seen]) for i in range(len(layers))]
    threshold = _THRESHOLDS[config.calibrate_mode]
    return {layer: threshold(values) for layer, values in zip(layers, joined, strict=True)}
