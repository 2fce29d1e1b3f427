"""`relay.prelude.Prelude` and the natural numbers of `relay.testing`, added to a module in place."""

from __future__ import annotations

from typing import Any

from tilewright import relay
from tilewright.compat.ir.module import IRModule
from tilewright.compat.relay.tensor_arrays import StaticTensorArrayOps, define_tensors
from tilewright.errors import InputError
from tilewright.relay.ir import prelude as own
from tilewright.relay.ir.values import ConstructorValue

#: Data types, constructors and functions as v0.7 and before name them on the prelude.
_OLD_TYPES = {"l": "List", "optional": "Option", "tree": "Tree", "nat": "nat"}
_OLD_NAMES = {
    "nil": "Nil",
    "cons": "Cons",
    "some": "Some",
    "none": "None",
    "rose": "Rose",
    "z": "Z",
    "s": "S",
    "add": "nat_add",
    "double": "nat_double",
}


class Prelude(own.Prelude):
    """The prelude, whose definitions `mod` gets where it has none of the same names."""

    mod: IRModule

    def __init__(self, mod: IRModule | None = None) -> None:
        target = IRModule() if mod is None else mod
        target.import_from_std("prelude.rly")
        self.mod = target

    def __getattr__(self, name: str) -> Any:
        if name in _OLD_TYPES:
            return self.mod.type_data(_OLD_TYPES[name]).header
        return super().__getattr__(_OLD_NAMES.get(name, name))

    def get_type(self, canonical: str, dtype: str | None = None) -> Any:
        """The variable of a data type, then its constructors; of "tensor_t" of a `dtype` the variable."""
        if dtype is None:
            return self.mod.get_type(canonical)
        define_tensors(self.mod, dtype)
        return self.mod.get_global_type_var(self.get_name(canonical, dtype))

    def get_name(self, canonical: str, dtype: str) -> str:
        """The name of a function, a constructor or the type of tensors of `dtype`."""
        return f"tensor_{dtype}_t" if canonical == "tensor_t" else f"{canonical}_{dtype}"

    def get_global_var(self, canonical: str, dtype: str) -> relay.GlobalVar:
        """The variable of a function on tensors of `dtype`, or arrays of them; see `tensor_arrays`."""
        define_tensors(self.mod, dtype)
        return self.mod.get_global_var(self.get_name(canonical, dtype))

    def get_tensor_ctor(self, canonical: str, dtype: str) -> Any:
        """The constructor "tensor_nil", or "tensor0" to "tensor6" of so many dimensions."""
        define_tensors(self.mod, dtype)
        return getattr(self, self.get_name(canonical, dtype))

    def get_name_static(self, canonical: str, dtype: str, shape: Any, batch_dim: int | None = None) -> str:
        """The name of a function or constructor of `StaticTensorArrayOps`."""
        return StaticTensorArrayOps(self, dtype, shape, batch_dim).get_name(canonical)

    def get_global_var_static(self, canonical: str, dtype: str, shape: Any, batch_dim: int | None = None) -> Any:
        """The variable of a function that `StaticTensorArrayOps` registered."""
        return StaticTensorArrayOps(self, dtype, shape, batch_dim).get_global_var(canonical)

    def get_tensor_ctor_static(self, canonical: str, dtype: str, shape: Any) -> Any:
        """The constructor that `StaticTensorArrayOps` registered."""
        return StaticTensorArrayOps(self, dtype, shape).get_ctor(canonical)

    def get_var(self, canonical: str) -> relay.GlobalVar:
        """The variable of a function of the prelude."""
        return self.mod.global_var(canonical)


def add_nat_definitions(prelude: Prelude) -> None:
    """Add the data type nat, `nat_add`, `nat_double` and `nat_iterate` to the prelude's module."""
    if "nat_add" not in prelude.mod:
        prelude.mod.import_from_std("nat.rly")


def make_nat_expr(prelude: Prelude, n: int) -> relay.Expr:
    """The number `n` as an expression. Raises `InputError` for a negative one."""
    _, zero, successor = _constructors(prelude, n)
    result: relay.Expr = zero()
    for _ in range(n):
        result = successor(result)
    return result


def make_nat_value(prelude: Prelude, n: int) -> ConstructorValue:
    """The number `n` as a value."""
    _, zero, successor = _constructors(prelude, n)
    result = ConstructorValue(zero, ())
    for _ in range(n):
        result = ConstructorValue(successor, (result,))
    return result


def _constructors(prelude: Prelude, n: int) -> tuple[Any, ...]:
    if n < 0:
        raise InputError(f"a natural number is not negative, as {n} is")
    add_nat_definitions(prelude)
    return prelude.get_type("nat")


def count(prelude: Prelude, n: Any) -> int:
    """The number that a value or an expression of type nat stands for."""
    result = 0
    while True:
        constructor, fields = (n.constructor, n.fields) if isinstance(n, ConstructorValue) else (n.op, n.args)
        if constructor.name == "Z":
            return result
        result, n = result + 1, fields[0]
