"""The prelude of functional programs: lists, options, trees and their functions, written in Relay and parsed.

    prelude = Prelude()
    xs = prelude.list_of([relay.const(1), relay.const(2)])
    mod = relay.IRModule.from_expr(prelude.sum(xs)).merge(prelude.mod)

`prelude.map`, `prelude.foldl` … are global variables, `prelude.Cons`, `prelude.Some` … constructors. A program in text
uses them by parsing on top of it: `relay.parse(text, Prelude().mod)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from tilewright.errors import InputError
from tilewright.relay.ir.adt import Constructor
from tilewright.relay.ir.expr import Call, Expr, GlobalVar
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.parser import parse
from tilewright.relay.ir.prelude_text import PRELUDE, TENSOR_ARRAY
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import GlobalTypeVar, TensorType
from tilewright.relay.ir.values import ConstructorValue, Value


@cache
def prelude_module() -> IRModule:
    """The prelude, parsed and typed once; nothing in it changes, so all modules may share its functions."""
    return infer_type(parse(PRELUDE))


class Prelude:
    """The prelude on top of `mod`: `mod` with its definitions, and they by name."""

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = prelude_module() if mod is None else mod.merge(prelude_module())

    def __getattr__(self, name: str) -> GlobalVar | Constructor:
        mod = self.__dict__.get("mod")
        if mod is not None:
            if name in mod:
                return mod.global_var(name)
            for data in mod.type_definitions.values():
                for constructor in data.constructors:
                    if constructor.name == name:
                        return constructor
        raise AttributeError(f"the prelude has no {name!r}")

    def type(self, name: str) -> GlobalTypeVar:
        """The data type called `name`: "List", "Option", "Tree"."""
        return self.mod.type_data(name).header

    def list_of(self, items: Iterable[Expr]) -> Expr:
        """A list of expressions of one type."""
        result: Expr = Call(self.mod.constructor("List", "Nil"), ())
        for item in reversed(list(items)):
            result = Call(self.mod.constructor("List", "Cons"), (item, result))
        return result

    def list_value(self, items: Iterable[Value]) -> Value:
        """A list of values, as an input of a program."""
        result = ConstructorValue(self.mod.constructor("List", "Nil"), ())
        for item in reversed(list(items)):
            result = ConstructorValue(self.mod.constructor("List", "Cons"), (item, result))
        return result

    def tensor_array(self, dtype: Any, ndim: int) -> dict[str, GlobalVar]:
        """Functions on arrays of tensors of `ndim` dimensions, whose sizes are known at run time only.

        They are added to `mod`, and returned by what they do: "create" (int32) makes an array of that many empty
        slots, "write" (array, index, tensor) returns it with a slot filled, "read" (array, index) a tensor, "size", and
        "stack" all tensors as one with a new first axis. Raises InputError where that is no number of dimensions.
        """
        if ndim < 0:
            raise InputError(f"an array of tensors of {ndim} dimensions is requested")
        element = TensorType([AnyDim()] * ndim, dtype)
        suffix = f"{element.dtype}_{ndim}"
        if f"tensor_array_create_{suffix}" not in self.mod:
            stacked = TensorType([AnyDim()] * (ndim + 1), dtype)
            text = TENSOR_ARRAY.format(suffix=suffix, element=element, stacked=stacked)
            self.mod = parse(text, self.mod)
        names = ("create", "write", "read", "size", "stack")
        return {name: self.mod.global_var(f"tensor_array_{name}_{suffix}") for name in names}
