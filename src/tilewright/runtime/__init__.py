"""Execution of compiled models: tensors, modules, executables and their files, threads. Imports no compiler."""

from tilewright.runtime.device import Device, cpu
from tilewright.runtime.executor import Executable
from tilewright.runtime.model import Model
from tilewright.runtime.module import FunctionInfo, Module, Param
from tilewright.runtime.signature import TensorSpec
from tilewright.runtime.tensor import Tensor
from tilewright.runtime.types import Array, ArrayLike, Result, SupportsDLPack, Value

__all__ = [
    "Array",
    "ArrayLike",
    "Device",
    "Executable",
    "FunctionInfo",
    "Model",
    "Module",
    "Param",
    "Result",
    "SupportsDLPack",
    "Tensor",
    "TensorSpec",
    "Value",
    "cpu",
]
