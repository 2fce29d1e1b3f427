"""`tvm.script`: loop functions written as Python (`@T.prim_func`), read from their text and never run.

Where every block computes one buffer, element by element or as a reduction, the function is one of tensor expressions
(`tensor_function.py`), which `tir.Schedule` takes. Any other is read as the loops that it spells.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from tilewright import tir
from tilewright.compat.ir.module import IRModule
from tilewright.compat.runtime.refused import Refused
from tilewright.compat.tir.script_blocks import BlockReader, NotTensors
from tilewright.compat.tir.script_loops import LoopReader
from tilewright.compat.tir.script_words import Words
from tilewright.errors import InputError, TilewrightError, UnsupportedError


def prim_func(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """The loop function that the text of a Python function spells.

    Of one that is not read the result raises `UnsupportedError`, which says why, when it is used.
    """
    if func is None:
        return lambda given: prim_func(given, **options)
    tree, names = _source(func)
    try:
        return BlockReader(tree, names).function()
    except (NotTensors, AttributeError, TypeError, TilewrightError):
        try:
            return LoopReader(tree, names).function()
        except (AttributeError, TypeError, NameError, TilewrightError) as error:
            return Refused(func.__name__, f"a script of it is not read: {error}")


def _source(func: Callable[..., Any]) -> tuple[ast.FunctionDef, dict[str, Any]]:
    """The tree of a function's text, and what its names mean outside of it."""
    try:
        text = textwrap.dedent(inspect.getsource(func))
    except OSError:
        raise InputError(f"the text of {func.__name__} is not known: write it to a file") from None
    tree = ast.parse(text).body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise InputError(f"{func.__name__} is no function")
    closed = inspect.getclosurevars(func).nonlocals
    return tree, {**func.__globals__, **closed}


def ir_module(mod: type | None = None, **options: Any) -> Any:
    """The module of the loop functions that a class has; where one of them is not read, that one's refusal."""
    if mod is None:
        return lambda given: ir_module(given, **options)
    functions = {name: made for name, made in vars(mod).items() if isinstance(made, tir.PrimFunc)}
    unread = [made for made in vars(mod).values() if isinstance(made, Refused)]
    if unread:  # says why when the module is used
        return unread[0]
    if not functions:
        raise UnsupportedError(f"the class {mod.__name__} has no function marked by @T.prim_func")
    return IRModule({name: made.with_attr("global_symbol", name) for name, made in functions.items()})


#: What scripts call `T`.
words = Words(prim_func)


class ModuleWords:
    """The names that scripts find in `I`: `I.ir_module`."""

    ir_module = staticmethod(ir_module)


module_words = ModuleWords()
