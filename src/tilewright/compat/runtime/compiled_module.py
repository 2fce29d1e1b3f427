"""Compiled functions as `tvm.build` returns them and `tvm.runtime.load_module` reads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.compat.runtime.arguments import argument_values
from tilewright.compat.runtime.benchmark import BenchmarkResult, Runs, Timed, measure
from tilewright.compat.runtime.linked import is_object, load_linked
from tilewright.errors import InputError, TargetError, UnsupportedError
from tilewright.runtime.module import Module
from tilewright.target import Target


class Exported:
    """A model or a module that is written to a file."""

    def export_library(
        self,
        file_name: str | os.PathLike[str],
        fcompile: Any = None,
        addons: Sequence[Any] | None = None,
        workspace_dir: str | None = None,
        **options: Any,
    ) -> None:
        """Write it as a shared library that classic programs load (`.so`), else in this package's own format.

        `tvm.runtime.load_module` reads both. No compiler is run, so `fcompile` and its options and a directory for its
        files change nothing. Raises `UnsupportedError` for `addons`.
        """
        if addons:
            raise UnsupportedError(
                "export_library(addons=…): it is one file; link other objects with your program, or with an object "
                "that save() wrote"
            )
        self._export(file_name)

    def _export(self, path: str | os.PathLike[str]) -> None:
        raise NotImplementedError


class CompiledModule(Timed):
    """Compiled functions: `module(a, b)` calls the first, `module["name"]` is one of them."""

    type_key = "llvm"
    imported_modules: Sequence[Any] = ()
    target: Any = "another one"
    #: What a device lacks on this machine; raised when a function is requested.
    missing: Exception | None = None

    def __init__(self, names: Sequence[str], code: Any) -> None:
        self.names = list(names)
        self.entry_name = self.names[0]
        self._code = code

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CompiledModule:
        """The functions that `export_library` wrote, or those in an object that `save` wrote or a library linked of it.

        Raises `ArtifactError` for anything else.
        """
        code: Any = load_linked(path) if is_object(path) else Module.load(path)
        return cls(list(code.functions), code)

    @property
    def entry_func(self) -> Callable[..., Any]:
        """The first function."""
        return self[self.entry_name]

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self.get_function(name)

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """The function called `name`. Raises `InputError` for another name or a machine that cannot run it."""
        return BuiltFunction(self._of_name(name), name)

    def _of_name(self, name: str) -> Any:
        if name not in self.names:
            raise InputError(f"the module has no function {name!r}; it has: {', '.join(self.names)}")
        if self.missing is not None:
            raise self.missing
        if self._code is None:
            raise TargetError(f"this machine ({Target.host()}) cannot run code for {self.target}; save it instead")
        return self._code[name]

    def __call__(self, *args: Any) -> Any:
        """Call the first function."""
        return self.entry_func(*args)

    def _timed(self, func_name: str, dev: Any, f_preproc: str, runs: Runs) -> Callable[..., BenchmarkResult]:
        """Of calls with the arguments given. Raises `UnsupportedError` for `f_preproc`."""
        if f_preproc:
            raise UnsupportedError("time_evaluator(f_preproc=…): measure the function and what comes before it apart")
        function = self[func_name]
        if runs.min_repeat_ms or not isinstance(function, BuiltFunction):
            return lambda *args: measure(lambda: function(*args), *runs)
        return lambda *args: BenchmarkResult(function.time(*args, number=runs.number, repeat=runs.repeat))


class BuiltFunction:
    """One compiled function, of arrays and numbers."""

    def __init__(self, code: Any, name: str) -> None:
        self._code = code
        self.name = name

    def __call__(self, *args: Any) -> None:
        """Run once; results are written to arrays among `args`."""
        self._code(*argument_values(self._code, args))

    def time(self, *args: Any, number: int, repeat: int) -> list[float]:
        """Seconds a call takes: `repeat` times the mean of `number` calls."""
        return list(self._code.time(*argument_values(self._code, args), number=number, repeat=repeat))
