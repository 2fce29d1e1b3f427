"""Spelling of scalars, attributes, names and types in Relay's text, and the data type of each spelling."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any

import numpy as np

from tilewright.relay.ir.expr import Attrs
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import FuncType, RefType, TensorType, TupleType, Type, TypeCall, TypeVar
from tilewright.support.dtype import DType
from tilewright.support.recursion import nested
from tilewright.tir import expr as tir
from tilewright.tir.expr import Expr as TirExpr
from tilewright.tir.expr import SizeVar
from tilewright.tir.expr import Var as TirVar
from tilewright.tir.visitor import collect_vars, substitute

#: Behind a number: its data type. An integer without one is int32.
SUFFIXES = {
    "f": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16",
    "i8": "int8", "i16": "int16", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip
_SUFFIX_OF = {dtype: suffix for suffix, dtype in SUFFIXES.items()} | {"int32": ""}
_DIGITS = {"float64": 17, "float32": 9, "float16": 5, "bfloat16": 4}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")
_RESERVED = {"Tensor", "True", "False", "None", "fn", "ref", "min", "max", "floordiv", "floormod"}


def scalar_text(data: np.ndarray[Any, Any]) -> str | None:
    """A scalar as text that reads back as the same bits; None where there is no such spelling."""
    dtype = DType(data.dtype)
    if data.ndim or (dtype not in _SUFFIX_OF and not dtype.is_bool):
        return None
    if dtype.is_bool:
        return str(bool(data))
    if not dtype.is_float:
        return f"{int(data)}{_SUFFIX_OF[dtype]}"
    if np.isnan(data) and data.tobytes() != np.asarray(np.nan).astype(dtype.numpy).tobytes():
        return None
    return f"{float(data):.{_DIGITS[dtype]}g}{_SUFFIX_OF[dtype]}"


def quoted(name: str) -> str:
    """`name` as it stands behind `%` or `@`: in quotes unless it is letters, digits and underscores."""
    return name if _NAME.match(name) else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


class TypeTexts:
    """Types and attributes as text; variables that share a name are distinguished by a number."""

    def __init__(self) -> None:
        self._names: dict[TirVar, str] = {}
        self._taken = set(_RESERVED)
        self._renamed: dict[TirVar, TirVar] = {}
        self.start_definition()

    def start_definition(self) -> None:
        """Type variables belong to one definition, so the next may have their names again."""
        self._type_vars: dict[TypeVar, str] = {}

    def type_var(self, var: TypeVar) -> str:
        """The name of a type variable in this definition."""
        if var not in self._type_vars:
            self._type_vars[var] = _unique(var.name, {*_RESERVED, *self._type_vars.values()})
        return self._type_vars[var]

    def size_var(self, var: TirVar) -> str:
        """The name of a size variable in the whole text."""
        if var not in self._names:
            unique = _unique(var.name, self._taken)
            self._taken.add(unique)
            self._names[var] = unique
            if unique != var.name:
                self._renamed[var] = SizeVar(unique, var.dtype)
        return self._names[var]

    @nested
    def type(self, type_: Type) -> str:
        """`Tensor[(n, 4), float32]`, `fn [A](A) -> A` …"""
        if isinstance(type_, TensorType):
            if type_.is_static:
                return str(type_)
            dims = ", ".join(map(self.dim, type_.shape))
            return f"Tensor[({dims}{',' if type_.ndim == 1 else ''}), {type_.dtype}]"
        if isinstance(type_, TypeVar):
            return self.type_var(type_)
        if isinstance(type_, TupleType):
            return f"({self.types(type_.fields)}{',' if len(type_.fields) == 1 else ''})"
        if isinstance(type_, FuncType):
            head = f"[{self.types(type_.type_params)}]" if type_.type_params else ""
            return f"fn {head}({self.types(type_.arg_types)}) -> {self.type(type_.ret_type)}"
        if isinstance(type_, RefType):
            return f"ref({self.type(type_.value)})"
        if isinstance(type_, TypeCall) and type_.args:
            return f"{type_.func}[{self.types(type_.args)}]"
        return str(type_)

    def types(self, types: Iterable[Type]) -> str:
        """Several, separated by commas."""
        return ", ".join(map(self.type, types))

    def dim(self, dim: Any) -> str:
        """A dimension: `3`, `n + 1`, `?`."""
        if not isinstance(dim, TirExpr):
            return str(dim)
        for var in collect_vars(dim):
            self.size_var(var)
        return dim_text(substitute(dim, self._renamed) if self._renamed else dim)

    def attr(self, value: Any) -> str:
        """An attribute's value in the classic spelling: lists in brackets, strings in double quotes."""
        if isinstance(value, tuple):
            return f"[{', '.join(map(self.attr, value))}]"
        if isinstance(value, str):
            text = str.__str__(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            return f'"{text}"'
        if isinstance(value, float):
            return f"{value!r}f"
        if isinstance(value, Attrs):
            return f"{{{', '.join(self.attrs(value))}}}"
        if isinstance(value, Type):
            return self.type(value)
        return self.dim(value) if isinstance(value, TirExpr | AnyDim) else str(value)

    def attrs(self, attrs: Mapping[str, Any]) -> list[str]:
        """`key=value` of each attribute."""
        return [f"{key}={self.attr(value)}" for key, value in attrs.items()]


def dim_text(dim: TirExpr) -> str:
    """A symbolic dimension; `//` begins a comment in Relay and `%` a variable, so both are spelled as functions."""
    if isinstance(dim, tir.BinaryExpr):
        a, b = dim_text(dim.a), dim_text(dim.b)
        sign = _SIGNS.get(type(dim))
        if sign is None:
            return f"{_FUNCTIONS[type(dim)]}({a}, {b})"
        tight = isinstance(dim, tir.Mul)
        a = f"({a})" if tight and isinstance(dim.a, tir.Add | tir.Sub) else a
        b = f"({b})" if type(dim.b) in _SIGNS and (tight or isinstance(dim, tir.Sub)) else b
        return f"{a} {sign} {b}"
    return str(dim)


_SIGNS: dict[type, str] = {tir.Add: "+", tir.Sub: "-", tir.Mul: "*"}
_FUNCTIONS: dict[type, str] = {tir.FloorDiv: "floordiv", tir.FloorMod: "floormod", tir.Min: "min", tir.Max: "max"}


def _unique(name: str, taken: Container[str]) -> str:
    """`name`, with what stands in no name left out and a number behind it if it is taken."""
    base = re.sub(r"\W", "_", name)
    unique = base = base if _NAME.match(base) else f"v{base}"
    number = 0
    while unique in taken:
        number += 1
        unique = f"{base}_{number}"
    return unique
