"""The kinds of enclave by name, and a model of C source in one of them.

files = tilewright.compile.export_source("model.onnx", "model.c", target=TARGETS["wasm"], freestanding=True)
model = open_enclave(files, "wasm")
model.run({"x": x})
"""

from __future__ import annotations

from tilewright.driver.build_source import Exported
from tilewright.enclave.build import EnclaveSource
from tilewright.enclave.model import EnclaveModel
from tilewright.enclave.seccomp import SeccompModel
from tilewright.enclave.wasm import WasmModel
from tilewright.errors import InputError

KINDS: dict[str, type[SeccompModel] | type[WasmModel]] = {"seccomp": SeccompModel, "wasm": WasmModel}
#: The target whose tiles suit each kind.
TARGETS = {"seccomp": "c", "wasm": "wasm"}


def open_enclave(files: Exported, kind: str, optimize: str = "-O2") -> EnclaveModel:
    """The model in freestanding C source, one, in an enclave; `optimize` is the compiler's option.

    The files may go afterwards. Raises as the kind's class does, and `InputError` for an unknown kind.
    """
    require_kind(kind)
    return KINDS[kind](source_of(files), optimize)


def source_of(files: Exported) -> EnclaveSource:
    """The model in C source, one, with what a program around it has to know. Raises `InputError`."""
    if len(files.models) != 1:
        raise InputError("an enclave runs one model: write them one by one")
    (model,) = files.models
    weights = files[2] if len(files) > 2 else None
    if weights is not None and weights.suffix == ".sealed":
        raise InputError("sealed weights are opened by a program with the keys; write the model without --encrypt")
    target, version = str(model.manifest.target), model.manifest.tilewright_version
    return EnclaveSource(model.name, model.c_model.interface, files[0], files[1], weights, target, version)


def require_kind(kind: str) -> None:
    """Raise `InputError` for an unknown kind."""
    if kind not in KINDS:
        raise InputError(f"{kind!r} is no kind of enclave; known: {', '.join(KINDS)}")
