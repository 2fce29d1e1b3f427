"""`tvm.target.Target`: this package's target, which a `with` statement may make the current one."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from tilewright import target as own
from tilewright.errors import TargetError

_STACK: ContextVar[tuple[own.Target, ...]] = ContextVar("tilewright_compat_targets", default=())


class Target:
    """`Target("llvm -mcpu=…")`; `with Target("llvm"):` makes it the current one, `Target.current()` tells which is."""

    def __new__(cls, target: Any = "llvm", host: Any = None) -> Any:
        """This package's target with the classic methods added."""
        return _scoped(own.Target(_spelling(target)))

    @staticmethod
    def list_kinds() -> list[str]:
        """The kinds of targets there are."""
        return sorted({*own.CpuTarget.KINDS, *own.DeviceTarget.KINDS})

    @staticmethod
    def check_and_update_host_consist(target: Any, host: Any = None) -> tuple[Any, Any]:
        """The target, and the host that goes with it: this processor unless another is given."""
        made = None if target is None else Target(target)
        return made, Target(host) if host is not None else Target("llvm")

    @staticmethod
    def current(allow_none: bool = True) -> Any:
        """The innermost current target, or None. Raises `TargetError` instead if None is not allowed."""
        stack = _STACK.get()
        if not stack and not allow_none:
            raise TargetError("there is no current target: open one by `with tvm.target.Target(...)`")
        return _scoped(stack[-1]) if stack else None


class _Scope(own.Target):
    """What makes a target one that can be the current one."""

    __slots__ = ()

    def __enter__(self) -> _Scope:
        _STACK.set((*_STACK.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _STACK.set(_STACK.get()[:-1])


@functools.cache
def _scope_of(cls: Any) -> type[_Scope]:
    """`cls` with a scope."""
    return type(cls.__name__, (_Scope, cls), {"__slots__": ()})


def _scoped(target: own.Target) -> _Scope:
    """`target` with a scope, of its own class still."""
    if isinstance(target, _Scope):
        return target
    own_class: Any = type(target)
    made = object.__new__(_scope_of(own_class))
    for cls in own_class.__mro__:
        for name in getattr(cls, "__slots__", ()):
            object.__setattr__(made, name, getattr(target, name))
    return made


def _spelling(target: Any) -> Any:
    """The spelling of a target given by its attributes, as JSON has it: {"kind": "llvm", "mcpu": "znver4"}."""
    if not isinstance(target, Mapping):
        return target
    options = [f"-{key}={','.join(v) if isinstance(v, list) else v}" for key, v in target.items() if key != "kind"]
    return " ".join([target["kind"], *options])


def create(target: Any) -> Any:
    """The target spelled `target`."""
    return Target(target)


def llvm(options: Any = ()) -> Any:
    """A CPU, with options such as ["-mcpu=znver4"]."""
    return Target(" ".join(["llvm", *([options] if isinstance(options, str) else options)]))


def arm_cpu(model: str = "unknown", options: Any = None) -> Any:
    """A CPU of ARM's architecture, 64 bits wide."""
    return Target("llvm -mtriple=aarch64-linux-gnu")


def cuda(model: str = "unknown", arch: str | None = None, options: Any = None) -> Any:
    """A GPU of NVIDIA. Raises `TargetError` as long as nothing is compiled for one."""
    return Target("cuda" if arch is None else f"cuda -arch={arch}")


def mali(model: str = "unknown", options: Any = None) -> Any:
    """A GPU of ARM, through OpenCL."""
    return Target("opencl")


def bifrost(model: str = "unknown", options: Any = None) -> Any:
    """A GPU of ARM, through OpenCL."""
    return Target("opencl")


def intel_graphics(model: str = "unknown", options: Any = None) -> Any:
    """A GPU of Intel, through OpenCL."""
    return Target("opencl")


def llvm_version_major(allow_none: bool = False) -> int:
    """The version of LLVM that code is made with."""
    from llvmlite import binding  # LLVM is loaded by those who compile only

    return int(binding.llvm_version_info[0])
