"""Enclaves: a model's C source as a program that can do nothing but compute, under seccomp and as WebAssembly."""

from tilewright.enclave.build import EnclaveSource, allowed_symbols, undefined_symbols
from tilewright.enclave.kinds import KINDS, TARGETS, open_enclave, require_kind, source_of
from tilewright.enclave.model import EnclaveModel
from tilewright.enclave.seccomp import SeccompModel
from tilewright.enclave.wasm import WasmModel

__all__ = [
    "KINDS",
    "TARGETS",
    "EnclaveModel",
    "EnclaveSource",
    "SeccompModel",
    "WasmModel",
    "allowed_symbols",
    "open_enclave",
    "require_kind",
    "source_of",
    "undefined_symbols",
]
