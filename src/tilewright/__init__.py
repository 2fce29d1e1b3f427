"""Tilewright: an end-to-end optimizing compiler for deep learning. The public names, imported on first use."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright import autotvm as autotvm
    from tilewright import errors as errors
    from tilewright import relay as relay
    from tilewright import rpc as rpc
    from tilewright import runtime as runtime
    from tilewright import te as te
    from tilewright import tir as tir
    from tilewright import topi as topi
    from tilewright import vta as vta
    from tilewright.backend.build import build as build
    from tilewright.compile import compile as compile
    from tilewright.frontend.formats.table import initial_states as initial_states
    from tilewright.frontend.formats.table import metadata as metadata
    from tilewright.frontend.torch.coverage import torch_report as torch_report
    from tilewright.load import load as load
    from tilewright.quantize.aware import quantize_aware as quantize_aware
    from tilewright.quantize.quantize import quantize as quantize
    from tilewright.runtime.executor import Executable as Executable
    from tilewright.target import Target as Target
    from tilewright.tir import arith as arith

#: public name -> (module, attribute); an attribute of "" is the module itself.
_PUBLIC = {
    "compile": ("tilewright.compile", "compile"),
    "load": ("tilewright.load", "load"),
    "quantize": ("tilewright.quantize", "quantize"),
    "quantize_aware": ("tilewright.quantize", "quantize_aware"),
    "initial_states": ("tilewright.frontend.formats.table", "initial_states"),
    "metadata": ("tilewright.frontend.formats.table", "metadata"),
    "torch_report": ("tilewright.frontend.torch.coverage", "torch_report"),
    "Executable": ("tilewright.runtime.executor", "Executable"),
    "Target": ("tilewright.target", "Target"),
    "build": ("tilewright.backend", "build"),
    "te": ("tilewright.te", ""),
    "tir": ("tilewright.tir", ""),
    "arith": ("tilewright.tir.arith", ""),
    "topi": ("tilewright.topi", ""),
    "relay": ("tilewright.relay", ""),
    "rpc": ("tilewright.rpc", ""),
    "autotvm": ("tilewright.autotvm", ""),
    "vta": ("tilewright.vta", ""),
    "runtime": ("tilewright.runtime", ""),
    "errors": ("tilewright.errors", ""),
}

__all__ = [*_PUBLIC]


if not TYPE_CHECKING:  # type checkers know every name from above, and report those that there are not

    def __getattr__(name: str) -> object:
        if name not in _PUBLIC:
            raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
        module_name, attribute = _PUBLIC[name]
        module = importlib.import_module(module_name)
        value = getattr(module, attribute) if attribute else module
        globals()[name] = value
        return value


class _Package(ModuleType):
    """This package: `tilewright.compile` stays the function when somebody imports the module of the same name."""

    def __setattr__(self, name: str, value: object) -> None:
        # The import system binds a submodule to its package, whether or not a public name stood there.
        if isinstance(value, ModuleType) and _PUBLIC.get(name) == (value.__name__, name):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted(__all__)
