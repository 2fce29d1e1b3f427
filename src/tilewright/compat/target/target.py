"""`tvm.target.Target`: this package's target, which a `with` statement may make the current one."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from tilewright import target as own
from tilewright.compat.target.options import classic_options
from tilewright.errors import TargetError
from tilewright.support.named import named

_STACK: ContextVar[tuple[Any, ...]] = ContextVar("tilewright_compat_targets", default=())


class Target:
    """`Target("llvm -mcpu=…")`; `with Target("llvm"):` makes it the current one, `Target.current()` tells which is."""

    def __new__(cls, target: Any = "llvm", host: Any = None) -> Any:
        """This package's target with the classic attributes and methods added.

        `target` is a spelling, JSON text, a mapping or a target; `host`, where given, is where the host's part runs.
        """
        if isinstance(target, _Scope) and host is None:
            return target
        if isinstance(target, own.Target):
            return _scoped(target, getattr(target, "attrs", {}), None if host is None else Target(host))
        spelling, given_host = _spelling(target)
        spelling, attrs = classic_options(spelling)
        named_host = attrs.pop("host", given_host)
        host = named_host if host is None else host
        return _scoped(own.Target(spelling), attrs, None if host is None else Target(host))

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
        return stack[-1] if stack else None


class TargetKind(str):
    """The kind of a target, a string that also has it as `name`."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The kind: "llvm"."""
        return str(self)


def _option(name: str, default: Any, doc: str) -> Any:
    """The property of a target that is its option `name`, in the type of the `default`."""
    return property(lambda self: type(default)(self.attrs.get(name, default)), doc=doc)


class _Scope(own.Target):
    """A context that makes a target the current one, with the classic object's properties."""

    __slots__ = ()
    attrs: Mapping[str, Any]
    host: Any

    def __enter__(self) -> _Scope:
        _STACK.set((*_STACK.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _STACK.set(_STACK.get()[:-1])

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (str(self), self.attrs, self.host))

    @property
    def keys(self) -> list[str]:
        """The names of the target, the most special first: ["arm_cpu", "cpu"]."""
        kind = str(self.kind)
        usual = [kind, "gpu"] if isinstance(self, own.DeviceTarget) else ["cpu"]
        device = [self.attrs["device"]] if "device" in self.attrs else []
        return list(dict.fromkeys([*self.attrs.get("keys", []), *device, *usual]))

    @property
    def target_name(self) -> str:
        """The kind, by its oldest name."""
        return str(self.kind)

    @property
    def options(self) -> list[str]:
        """The requested options as words: ["-libs=cblas"]."""
        words = ((key, value) for key, value in self.attrs.items() if key not in ("keys", "host"))
        return [f"-{key}={','.join(value) if isinstance(value, list | tuple) else value}" for key, value in words]

    def with_host(self, host: Any) -> _Scope:
        """The same target, whose host's part runs on `host`."""
        return _scoped(self, self.attrs, Target(host))

    mcpu = _option("mcpu", "", 'The requested processor; "" for the usual one.')
    mattr = _option("mattr", [], "The requested features.")
    libs = _option("libs", [], "The requested libraries; this package's own kernels stand for them.")
    model = _option("model", "unknown", "The name of the board or chip.")
    device_name = _option("device", "", 'The name given by `-device=`, or "".')

    @property
    def max_num_threads(self) -> int:
        """The most threads of a block; 1 where there are no blocks."""
        return int(getattr(self, "max_threads_per_block", 1))

    def export(self) -> dict[str, Any]:
        """The target as a mapping that `Target` takes."""
        return {"kind": str(self.kind), "keys": self.keys, **self.attrs}


@functools.cache
def _scope_of(cls: Any) -> type[_Scope]:
    """`cls` with a scope."""
    return type(cls.__name__, (_Scope, cls), {"__slots__": ("attrs", "host")})


def _scoped(target: own.Target, attrs: Mapping[str, Any], host: Any = None) -> _Scope:
    """`target` with a scope, of its own class still."""
    own_class: Any = type(target).__mro__[2] if isinstance(target, _Scope) else type(target)
    made = object.__new__(_scope_of(own_class))
    for cls in own_class.__mro__:
        for name in getattr(cls, "__slots__", ()):
            object.__setattr__(made, name, getattr(target, name))
    for name, value in (("kind", TargetKind(target.kind)), ("attrs", dict(attrs)), ("host", host)):
        object.__setattr__(made, name, value)
    return made


def _restored(spelling: str, attrs: Mapping[str, Any], host: Any) -> _Scope:
    return _scoped(own.Target(spelling), attrs, host)


def _spelling(target: Any) -> tuple[str, Any]:
    """A target given by its attributes, as a mapping or JSON text: its spelling, and its host if it names one.

        {"kind": "llvm", "mcpu": "znver4"}    ->    "llvm -mcpu=znver4", None

    Raises `TargetError` for what is none of these.
    """
    if isinstance(target, str) and target.lstrip().startswith("{"):
        target = json.loads(target)
    if isinstance(target, str):
        return target, None
    if not isinstance(target, Mapping) or "kind" not in target:
        raise TargetError(
            f"a target is a spelling such as 'llvm -mcpu=haswell', or a mapping with a 'kind': {target!r}"
        )
    words = [str(target["kind"])]
    for key, value in target.items():
        if key not in ("kind", "tag", "host"):
            words.append(f"-{key}={','.join(map(str, value)) if isinstance(value, list | tuple) else value}")
    return " ".join(words), target.get("host")


def llvm(options: Any = ()) -> Any:
    """A CPU, with options such as ["-mcpu=znver4"]."""
    return Target(" ".join(["llvm", *_words(options)]))


def _words(options: Any) -> list[str]:
    return [options] if isinstance(options, str) else list(options or ())


def arm_cpu(model: str = "unknown", options: Any = None) -> Any:
    """A CPU of ARM's architecture, 64 bits wide."""
    return Target(" ".join(["llvm -device=arm_cpu", f"-model={model}", "-mtriple=aarch64-linux-gnu", *_words(options)]))


def cuda(model: str = "unknown", arch: str | None = None, options: Any = None) -> Any:
    """A GPU of NVIDIA. Raises `TargetError` as long as nothing is compiled for one."""
    return _of_kind("cuda", model, [*([] if arch is None else [f"-arch={arch}"]), *_words(options)])


def _of_kind(kind: str, model: str, options: Any) -> Any:
    return Target(" ".join([kind, *([] if model == "unknown" else [f"-model={model}"]), *_words(options)]))


def _through_opencl(name: str, maker: str) -> Any:
    def make(model: str = "unknown", options: Any = None) -> Any:
        return _of_kind("opencl", model, options)

    return named(make, name, f"A GPU of {maker}, through OpenCL.")


mali, bifrost = _through_opencl("mali", "ARM"), _through_opencl("bifrost", "ARM")
intel_graphics = _through_opencl("intel_graphics", "Intel")


def vta(model: str = "unknown", options: Any = None) -> Any:
    """The accelerator VTA."""
    return Target(" ".join(["ext_dev", f"-model={model}", *_words(options)]))


def llvm_version_major(allow_none: bool = False) -> int:
    """The version of LLVM that code is made with."""
    from llvmlite import binding  # LLVM is loaded by those who compile only

    return int(binding.llvm_version_info[0])
