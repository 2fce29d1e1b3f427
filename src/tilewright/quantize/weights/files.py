"""Weights of a few bits from files: GGUF, and safetensors with GPTQ's, AWQ's or HQQ's arrays."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import ModelError, UnsupportedError
from tilewright.quantize.weights.coded import CodedWeights
from tilewright.quantize.weights.gguf_blocks import GGUF_TYPES, from_gguf
from tilewright.quantize.weights.packings import from_awq, from_gptq, from_hqq
from tilewright.support.packages import package

Array = np.ndarray[Any, Any]

#: Files beside a checkpoint that say how it was quantized.
_CONFIGURATIONS = ("quantize_config.json", "config.json")


def read_weights(path: str | os.PathLike[str]) -> dict[str, CodedWeights | Array]:
    """The tensors of a file by name: weights of a few bits as such, others as arrays.

    Of GGUF names are the file's own; in safetensors a layer's arrays (`NAME.qweight`, `NAME.scales` …) become one entry
    `NAME.weight`. Needs the packages of `pip install 'tilewright[weights]'`.
    """
    file = Path(path)
    if not file.is_file():
        raise ModelError(f"{file}: there is no such file")
    if file.suffix == ".safetensors":
        return _joined(_safetensors(file), file)
    with file.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            raise ModelError(f"{file}: neither GGUF nor a file of safetensors (.safetensors)")
    return _gguf(file)


def _gguf(file: Path) -> dict[str, CodedWeights | Array]:
    reader = package("gguf", "reading GGUF files", "weights").GGUFReader(file)
    found: dict[str, CodedWeights | Array] = {}
    for tensor in reader.tensors:
        kind, data = tensor.tensor_type.name, tensor.data
        if kind in GGUF_TYPES:
            rows = from_gguf(data.reshape(-1, data.shape[-1]), kind)
            if data.ndim != 2:
                raise UnsupportedError(f"{file}: {tensor.name} has {data.ndim} dimensions of {kind}; 2 are supported")
            found[tensor.name] = rows
        elif kind == "BF16":
            found[tensor.name] = (np.ascontiguousarray(data).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        elif data.dtype != np.uint8:
            found[tensor.name] = np.array(data)
        else:
            raise UnsupportedError(
                f"{file}: {tensor.name} is of GGUF's type {kind}; supported: {', '.join(GGUF_TYPES)} and plain numbers"
            )
    return found


def _safetensors(file: Path) -> dict[str, Array]:
    with package("safetensors", "reading safetensors", "weights").safe_open(file, framework="numpy") as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (it is no mapping)


def _joined(tensors: Mapping[str, Array], file: Path) -> dict[str, CodedWeights | Array]:
    """The layers of `tensors`: their arrays as one entry each."""
    found: dict[str, CodedWeights | Array] = {}
    version = 2 if _checkpoint_format(file) == "gptq_v2" else 1
    layers = {name.rpartition(".")[0] for name in tensors if name.endswith((".qweight", ".W_q"))}
    for name, array in tensors.items():
        layer, _, part = name.rpartition(".")
        if layer not in layers or part == "bias":
            found[name] = array
        elif part in ("qweight", "W_q"):
            arrays = {key.rpartition(".")[2]: x for key, x in tensors.items() if key.rpartition(".")[0] == layer}
            found[f"{layer}.weight"] = _layer(f"{file}: {layer}", arrays, version)
    return found


def _layer(label: str, arrays: Mapping[str, Array], version: int) -> CodedWeights:
    """The weights of a layer, by the arrays that it has."""
    hqq = "W_q" in arrays
    needed = ("scale", "zero", "nbits", "group_size", "shape") if hqq else ("scales", "qzeros")
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise ModelError(f"{label} has {', '.join(sorted(arrays))}, but no {', '.join(missing)}")
    if hqq:
        bits, group, axis = (int(arrays[name]) if name in arrays else 1 for name in ("nbits", "group_size", "axis"))
        units, depth = map(int, arrays["shape"])
        return from_hqq(arrays["W_q"], arrays["scale"], arrays["zero"], (units, depth), bits, group, axis)
    weight, scales, zeros = arrays["qweight"], arrays["scales"], arrays["qzeros"]
    if weight.shape[1] == scales.shape[1]:
        bits = zeros.shape[1] * 32 // scales.shape[1]
        return from_gptq(weight, scales, zeros, arrays.get("g_idx"), bits, version)
    return from_awq(weight, scales, zeros)


def _checkpoint_format(file: Path) -> str:
    """The format that the configuration beside a checkpoint names, or nothing."""
    for name in _CONFIGURATIONS:
        beside = file.with_name(name)
        if beside.is_file():
            read = json.loads(beside.read_text())
            return str(read.get("quantization_config", read).get("checkpoint_format", ""))
    return ""
