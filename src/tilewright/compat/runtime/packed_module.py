"""A library with the classic packed interface as a module of functions."""

from __future__ import annotations

import os

from tilewright.compat.runtime.compiled_module import CompiledModule
from tilewright.compat.runtime.packed_library import PackedFunction, PackedLibrary


class PackedModule(CompiledModule):
    """The functions of a library, as `CompiledModule` has those of this package."""

    type_key = "library"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.library = PackedLibrary(path)
        super().__init__(self.library.names or [""], self.library)

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction:
        """The function called `name`. Raises `InputError` for another name."""
        return self.library[name]

    @property
    def entry_func(self) -> PackedFunction:
        """The function that the library is called by."""
        return self.library[self.library.entry_name]
