"""The devices and platforms of Amazon's model as targets of ours, or the reason why there is none.

Processors are those that Amazon's and the boards' data sheets name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.errors import TargetError
from tilewright.service.neo.errors import ValidationException
from tilewright.target import Target

_X86, _ARM = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={}", "llvm -mtriple=aarch64-linux-gnu -mcpu={}"
_32_BITS = (
    "runs programs of 32 bits, which no artifact is made for; where its system has 64 bits, take TargetPlatform "
    "{Os: LINUX, Arch: ARM64}"
)
_OLD_GPU = "has a GPU that current CUDA makes no code for; its processor is TargetPlatform {Os: LINUX, Arch: ARM64}"
_OWN_COMPILER = "is programmed by its maker's compiler alone"

#: TargetDevice -> target.
DEVICES = {
    # Lambda promises AVX2 and no more
    "lambda": _X86.format("haswell"),
    "ml_m4": _X86.format("broadwell"), "ml_m5": _X86.format("skylake-avx512"),
    "ml_c4": _X86.format("haswell"), "ml_c5": _X86.format("skylake-avx512"),
    "ml_m6g": _ARM.format("neoverse-n1"), "ml_c6g": _ARM.format("neoverse-n1"),
    "ml_g4dn": "cuda -arch=sm_75",
    "deeplens": _X86.format("goldmont"),
    "rasp4b": _ARM.format("cortex-a72"), "rk3399": _ARM.format("cortex-a72"), "aisage": _ARM.format("cortex-a72"),
    "imx8qm": _ARM.format("cortex-a72"), "imx8mplus": _ARM.format("cortex-a53"),
    "qcs603": _ARM.format("cortex-a55"), "qcs605": _ARM.format("cortex-a55"), "sbe_c": _ARM.format("cortex-a53"),
}  # fmt: skip

#: TargetDevice -> why there is no target.
REFUSED = {
    "ml_p2": "has Kepler GPUs, which current CUDA makes no code for",
    "ml_p3": "has Volta GPUs, which current CUDA makes no code for",
    **dict.fromkeys(("ml_inf1", "ml_inf2", "ml_trn1", "ml_eia2"), _OWN_COMPILER),
    **dict.fromkeys(("jetson_tx1", "jetson_tx2", "jetson_nano", "jetson_xavier"), _OLD_GPU),
    **dict.fromkeys(("rasp3b", "rk3288", "sitara_am57x"), _32_BITS),
    **dict.fromkeys(("amba_cv2", "amba_cv22", "amba_cv25", "jacinto_tda4vm"), _OWN_COMPILER),
    **dict.fromkeys(("x86_win32", "x86_win64"), "runs Windows, which no artifact is made for"),
    "coreml": "is Apple's format, which is read and not written",
}  # fmt: skip

_OPTIONS = ("mcpu", "gpu-code", "precision", "trt-ver", "cuda-ver")
_PRECISIONS = ("float32", "bf16", "tf32-like", "f16")


@dataclass(frozen=True)
class Compiled:
    """A target of ours, and the precision of products."""

    target: str
    precision: str = "float32"


def target_of(output: Mapping[str, Any]) -> Compiled:
    """The target of an OutputConfig. Raises `ValidationException` with the reason where there is none."""
    device, platform = output.get("TargetDevice"), output.get("TargetPlatform")
    if (device is None) == (platform is None):
        raise ValidationException("OutputConfig takes one of TargetDevice and TargetPlatform")
    options = _options(output.get("CompilerOptions"))
    text = _of_device(str(device), options) if platform is None else _of_platform(platform, options)
    try:
        Target(text)
    except TargetError as error:
        raise ValidationException(f"CompilerOptions: {error}") from None
    return Compiled(text, options.get("precision", "float32"))


def _options(text: str | None) -> dict[str, str]:
    if text is None:
        return {}
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
        raise ValidationException('CompilerOptions is no JSON object of texts, as {"mcpu": "skylake-avx512"}')
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise ValidationException(f"CompilerOptions has {', '.join(unknown)}; known: {', '.join(_OPTIONS)}")
    if options.get("precision", "float32") not in _PRECISIONS:
        raise ValidationException(f"CompilerOptions: precision is one of {', '.join(_PRECISIONS)}")
    if any(not value.replace("-", "").replace("_", "").replace(".", "").isalnum() for value in options.values()):
        raise ValidationException("CompilerOptions: values are names and numbers")
    return options


def _of_device(device: str, options: Mapping[str, str]) -> str:
    if device in REFUSED:
        raise ValidationException(f"TargetDevice {device} {REFUSED[device]}")
    found = DEVICES[device]
    return f"{found.rpartition('=')[0]}={options['mcpu']}" if "mcpu" in options else found


def _of_platform(platform: Mapping[str, str], options: Mapping[str, str]) -> str:
    system, arch, accelerator = platform["Os"], platform["Arch"], platform.get("Accelerator")
    if system != "LINUX":
        raise ValidationException(f"Os {system}: artifacts are made for LINUX")
    if arch not in ("X86_64", "ARM64"):
        raise ValidationException(f"Arch {arch}: artifacts are made for X86_64 and ARM64, which have 64 bits")
    if accelerator == "NVIDIA":
        if "gpu-code" not in options:
            raise ValidationException('Accelerator NVIDIA needs CompilerOptions {"gpu-code": "sm_86"}')
        return f"cuda -arch={options['gpu-code']}"
    if accelerator in ("MALI", "INTEL_GRAPHICS"):
        return "opencl"
    if accelerator is not None:
        raise ValidationException(f"Accelerator {accelerator} {_OWN_COMPILER}")
    if arch == "X86_64":
        return _X86.format(options.get("mcpu", "x86-64-v2"))
    return _ARM.format(options.get("mcpu", "cortex-a53"))


def input_shapes(text: str | None) -> dict[str, list[int]] | list[list[int]] | None:
    """The shapes of a DataInputConfig: by name, in order, or None. Raises `ValidationException`.

    Known are Neo's forms: `{"x": [1, 3, 224, 224]}`, `[[1, 3, 224, 224]]`, and `{"x": {"shape": [1, 3, 224, 224]}}`.
    """
    if text is None:
        return None
    try:
        found = json.loads(text.replace("'", '"'))
    except ValueError:
        raise ValidationException('DataInputConfig is no JSON, as {"x": [1, 3, 224, 224]}') from None
    if isinstance(found, dict):
        return {str(name): _shape(name, value) for name, value in found.items()}
    if isinstance(found, list):
        return [_shape(index, value) for index, value in enumerate(found)]
    raise ValidationException("DataInputConfig is an object of shapes by name, or a list of shapes")


def _shape(name: object, value: Any) -> list[int]:
    shape = value.get("shape") if isinstance(value, dict) else value
    sizes = shape if isinstance(shape, list) else None
    if sizes is None or not all(type(size) is int and 0 < size < 2**31 for size in sizes):
        raise ValidationException(f"DataInputConfig: the shape of {name} is a list of positive whole numbers")
    return sizes
