"""The files of the classic standard library that a module can import: the prelude, natural numbers, gradients.

All but the prelude, which is this package's own, are beside this module. The gradients of `gradient.rly` are made when
they are read: most are zero, and some are one.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.parser import parse
from tilewright.relay.ir.prelude import prelude_module

_FILES = ("core.rly", "gradient.rly", "nat.rly")


def _text(file_name: str) -> str:
    return (files("tilewright.compat.ir") / file_name).read_text()


@cache
def standard_module(file_name: str) -> IRModule:
    """The module in the file, such as "prelude.rly". Raises `UnsupportedError` for a file that is not there."""
    if file_name == "prelude.rly":
        own = prelude_module()
        # The classic `map_accuml` puts each result before those that came earlier.
        return own.with_function("map_accuml", parse(_text("map_accuml.rly"), own)["backwards"])
    if file_name in _FILES:
        return parse(_text(file_name))
    known = ", ".join(sorted([*_FILES, "prelude.rly"]))
    raise UnsupportedError(f"the standard library has no file {file_name!r} here; there are: {known}")
