"""What runs compiled models: tensors, modules, executables and their files, threads. Imports no compiler."""

from tilewright.runtime.device import Device, cpu
from tilewright.runtime.executor import Executable
from tilewright.runtime.module import FunctionInfo, Module, Param
from tilewright.runtime.signature import TensorSpec
from tilewright.runtime.tensor import Tensor

__all__ = ["Device", "Executable", "FunctionInfo", "Module", "Param", "Tensor", "TensorSpec", "cpu"]
