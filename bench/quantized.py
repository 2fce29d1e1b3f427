"""Networks in QDQ form, as onnxruntime's quantizer makes them: bytes for activations and, by channel, for weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def quantized(path: Path, folder: Path, activations: str = "int8", seven_bits: bool = False) -> Path:
    """The network in `folder`, with int8 or uint8 activations and int8 weights, calibrated on two random inputs.

    With `seven_bits` weights stay within -64 and 63, as onnxruntime advises for x86 without VNNI.
    """
    made = folder / path.name
    if made.exists():
        return made
    # an optional package, which takes seconds to import
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    inputs = list(onnx.load(str(path)).graph.input)
    rng = np.random.default_rng(0)

    def values(info: Any) -> np.ndarray:
        shape = [d.dim_value or 1 for d in info.type.tensor_type.shape.dim]
        kind = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        return (rng.standard_normal(shape) if kind.kind == "f" else np.ones(shape)).astype(kind)

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        left = 2

        def get_next(self) -> dict[str, Any] | None:
            self.left -= 1
            return {info.name: values(info) for info in inputs} if self.left >= 0 else None

    folder.mkdir(parents=True, exist_ok=True)
    kind = QuantType.QInt8 if activations == "int8" else QuantType.QUInt8
    quantize_static(str(path), str(made), Reader(), quant_format=QuantFormat.QDQ, activation_type=kind,
                    weight_type=QuantType.QInt8, per_channel=True, reduce_range=seven_bits)  # fmt: skip
    return made
