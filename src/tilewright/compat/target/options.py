"""Options of classic targets: which of them this package's targets have, and which only say something about a target.

    llvm -mcpu=core-avx2 -libs=mkl --system-lib        ->  "llvm -mcpu=core-avx2", {"mcpu": …, "libs": ["mkl"], …}

Libraries, boards, schedules by device and how a module is linked make no difference to code that this package makes:
their options are kept as attributes. Any other option is a `TargetError` of the target itself.
"""

from __future__ import annotations

from typing import Any

_NOTED = {
    *("libs", "device", "model", "keys", "tag", "host", "opt-level", "mabi", "mfloat-abi", "from_device"),
    *("system-lib", "link-params", "runtime", "executor", "interface-api", "unpacked-api", "workspace-byte-alignment"),
    *("constants-byte-alignment", "fast-math", "fast-math-nnan", "fast-math-ninf", "fast-math-nsz", "fast-math-arcp"),
    *("fast-math-contract", "fast-math-reassoc", "registers_per_block", "supports_float16", "supports_int64"),
}
_LISTS = ("libs", "keys", "mattr")
_RENAMED = {"max_num_threads": "max_threads_per_block", "target": "mtriple", "march": "mcpu"}
#: Kinds of targets whose kernels can run on the host's processor, and which of them do.
_CAN_BE_EMULATED = ("cuda", "metal")
_EMULATED: set[str] = set()


def emulate_devices(on: bool) -> None:
    """From now on, run kernels of devices that can be emulated on the host's processor, or no longer."""
    _EMULATED.clear()
    if on:
        _EMULATED.update(_CAN_BE_EMULATED)


def classic_options(spelling: str) -> tuple[str, dict[str, Any]]:
    """The spelling that this package's `Target` takes, and all options by name.

    `-libs=`, `-keys=` and `-mattr=` have lists as values, flags True, what looks like a whole number is one.
    """
    kind, *words = spelling.split() or [""]
    if kind == "ext_dev":  # of those there is one
        kind, words = "vta", ["-keys=vta,cpu", "-device=vta", *words]
    taken, attrs = [kind], dict[str, Any]()
    for word in _joined(words):
        name, has_value, text = word.lstrip("-").partition("=")
        attrs[name] = _value(name, text) if has_value else True
        if name not in _NOTED:
            taken.append(f"-{_RENAMED.get(name, name)}={text}" if has_value else word)
    if kind in _EMULATED and "emulate" not in attrs:
        taken.append("-emulate=1")
    return " ".join(taken), attrs


def _value(name: str, text: str) -> Any:
    if name in _LISTS:
        return text.split(",")
    return int(text) if text.isdigit() else text


def _joined(words: list[str]) -> list[str]:
    """`-name value` as `-name=value`."""
    joined: list[str] = []
    for word in words:
        if word.startswith("-") or not joined or "=" in joined[-1]:
            joined.append(word)
        else:
            joined[-1] += f"={word}"
    return joined
