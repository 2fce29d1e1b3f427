"""Functions of the loop IR as code, for this process or for another one."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tilewright.codegen.build_device import DeviceCompiled
from tilewright.codegen.native.pool_code import pool_code
from tilewright.runtime.module import FunctionInfo, Module, save_module
from tilewright.runtime.native import PoolCode, pool_key
from tilewright.target import Target


@dataclass(frozen=True)
class Compiled:
    """Functions as object code that is not loaded yet, so that another process can load it."""

    object_code: bytes
    functions: tuple[FunctionInfo, ...]
    messages: tuple[str, ...]
    target: str

    def load(self, threads: int | None = None) -> Module:
        """The functions, ready to be called."""
        return Module(self.object_code, self.functions, self.messages, self.target, threads)

    def pool(self) -> PoolCode:
        """The native runtime for the machine of the code."""
        architecture = Target(self.target).architecture
        return PoolCode(pool_key(architecture), pool_code(architecture))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write them to one file, which `Module.load` reads on that machine."""
        save_module(path, self.object_code, self.functions, self.messages, self.target, self.pool())


#: Functions that can be sent to another process, for a processor or a device.
AnyCompiled = Compiled | DeviceCompiled
