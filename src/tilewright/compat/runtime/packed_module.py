"""A library with the classic packed interface as a module of functions."""

from __future__ import annotations

import os
from typing import Any

from tilewright.compat.runtime.benchmark import BenchmarkResult, device_as_ctx, measure
from tilewright.compat.runtime.compiled_module import CompiledModule
from tilewright.compat.runtime.packed_library import PackedFunction, PackedLibrary
from tilewright.errors import UnsupportedError


class PackedModule(CompiledModule):
    """The functions of a library, as `CompiledModule` has those of this package."""

    type_key = "library"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.library = PackedLibrary(path)
        super().__init__(self.library.names or [""], self.library)

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction:  # type: ignore[override]
        """The function called `name`. Raises `InputError` for another name."""
        return self.library[name]

    @property
    def entry_func(self) -> PackedFunction:  # type: ignore[override]
        """The function that the library is called by."""
        return self.library[self.library.entry_name]

    def __call__(self, *args: Any) -> Any:
        """Call the function that the library is called by."""
        return self.entry_func(*args)

    @device_as_ctx
    def time_evaluator(
        self,
        func_name: str,
        dev: Any = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        f_preproc: str = "",
    ) -> Any:
        """As `CompiledModule.time_evaluator`; the arguments are packed for each call."""
        if f_preproc:
            raise UnsupportedError("time_evaluator(f_preproc=…): measure the function and what comes before it apart")
        function = self.library[func_name]

        def timed(*args: Any) -> BenchmarkResult:
            return measure(lambda: function(*args), number, repeat, min_repeat_ms)

        return timed
