"""The part of the parser for types, dimensions and attributes. Grammar: docs/relay.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from typing import TypeVar as Generic

from tilewright.errors import ParseError
from tilewright.relay.ir.expr import Attrs
from tilewright.relay.ir.lexer import Tokens
from tilewright.relay.ir.literals import SUFFIXES
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    as_dim,
)
from tilewright.support.dtype import DType
from tilewright.support.recursion import nested
from tilewright.tir import op as tir
from tilewright.tir.expr import SizeVar

T = Generic("T")

#: Types of values that only host operators look into; no module defines them.
OPAQUE_TYPES = ("Object", "HostList")


class TypeParser:
    """Reads types, dimensions and attribute values. Size variables are known by their names in the whole text."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.data_types: dict[str, GlobalTypeVar] = {}
        self.type_vars: list[dict[str, TypeVar]] = [{}]
        self._sizes: dict[str, SizeVar] = {}

    def sequence(self, opening: str, item: Callable[[], T], closing: str) -> list[T]:
        """Items between brackets, separated by commas; one may stand behind the last."""
        self.tokens.expect(opening)
        items: list[T] = []
        while not self.tokens.at(closing):
            items.append(item())
            if not self.tokens.accept(","):
                break
        self.tokens.expect(closing)
        return items

    def type_params(self) -> list[TypeVar]:
        """`[A, B]`, known from here on in the innermost scope; nothing if there is no bracket."""
        if not self.tokens.at("["):
            return []
        params = [
            TypeVar(token.text)
            for token in self.sequence("[", lambda: self.tokens.expect_kind("ident", "a type parameter"), "]")
        ]
        self.type_vars[-1].update({param.name: param for param in params})
        return params

    @nested
    def type(self) -> Type:
        """A type."""
        tokens = self.tokens
        if tokens.at("("):
            return self._tuple_type()
        token = tokens.expect_kind("ident", "a type")
        if token.text == "Tensor":
            return self._tensor_type()
        if token.text == "fn":
            return self._func_type()
        if token.text == "_":
            return IncompleteType()
        if token.text == "ref" and tokens.at("("):
            return RefType(self.sequence("(", self.type, ")")[0])
        for scope in reversed(self.type_vars):
            if token.text in scope:
                return scope[token.text]
        if token.text in OPAQUE_TYPES and token.text not in self.data_types:
            head = GlobalTypeVar(token.text)
            return head(*self.sequence("[", self.type, "]")) if tokens.at("[") else head
        if token.text in self.data_types:
            args = self.sequence("[", self.type, "]") if tokens.at("[") else []
            return TypeCall(self.data_types[token.text], args)
        try:
            return TensorType((), token.text)
        except TypeError:
            tokens.fail(f"there is no type {token.text!r}", token.start, token.end)

    def _tuple_type(self) -> Type:
        return TupleType(self.sequence("(", self.type, ")"))

    def _tensor_type(self) -> Type:
        tokens = self.tokens
        tokens.expect("[")
        shape = self.sequence("(", self.dim, ")") if tokens.at("(") else [self.dim()]
        tokens.expect(",")
        token = tokens.expect_kind("ident", "a data type")
        tokens.expect("]")
        try:
            return TensorType(shape, DType(token.text))
        except TypeError as error:
            tokens.fail(str(error), token.start, token.end)

    def _func_type(self) -> Type:
        self.type_vars.append({})
        params = self.type_params()
        arguments = self.sequence("(", self.type, ")")
        self.tokens.expect("->")
        result = self.type()
        self.type_vars.pop()
        return FuncType(arguments, result, params)

    # -------------------------------------------------------------------------------------------------- dimensions
    def dim(self) -> Any:
        """`3`, `?` or an expression such as `floordiv(n + 1, 2)`."""
        if self.tokens.accept("?"):
            return AnyDim()
        return as_dim(self._sum())

    def _sum(self) -> Any:
        left = self._product()
        while self.tokens.at("+", "-"):
            left = (tir.add if self.tokens.take().text == "+" else tir.subtract)(left, self._product())
        return left

    def _product(self) -> Any:
        left = self._factor()
        while self.tokens.accept("*"):
            left = tir.multiply(left, self._factor())
        return left

    @nested
    def _factor(self) -> Any:
        tokens = self.tokens
        if tokens.accept("-"):
            return tir.negative(self._factor())
        if tokens.at("("):
            return self.sequence("(", self._sum, ")")[0]
        if tokens.next.kind == "number":
            return tir.const(int(tokens.take().text), "int32")
        token = tokens.expect_kind("ident", "a dimension")
        if token.text in _FUNCTIONS and tokens.at("("):
            arguments = self.sequence("(", self._sum, ")")
            return _FUNCTIONS[token.text](*arguments)
        return self._sizes.setdefault(token.text, SizeVar(token.text, "int32"))

    # -------------------------------------------------------------------------------------------------- attributes
    def attr(self) -> Any:
        """The value of an attribute."""
        tokens = self.tokens
        token = tokens.next
        if token.kind == "string":
            return tokens.take().text
        if tokens.at("["):
            return tuple(self.sequence("[", self.attr, "]"))
        if tokens.at("{"):
            return Attrs(dict(self.sequence("{", self.named_attr, "}")))
        if token.kind == "ident" and token.text in _WORDS:
            return _WORDS[tokens.take().text]
        sign = tokens.at("-")
        number = tokens.peek() if sign else token
        if number.kind == "number" or (number.kind == "ident" and number.text in ("inff", "nanf")):
            return self._number_or_dim()
        return self._type_or_dim()

    def named_attr(self) -> tuple[str, Any]:
        """`key=value`."""
        key = self.tokens.expect_kind("ident", "the name of an attribute").text
        self.tokens.expect("=")
        return key, self.attr()

    def _number_or_dim(self) -> Any:
        tokens, start = self.tokens, self.tokens.position
        sign = -1 if tokens.accept("-") else 1
        token = tokens.take()
        if token.kind == "ident":
            return sign * float(token.text[:-1])
        if token.suffix in SUFFIXES:
            digits = token.text[: -len(token.suffix)]
            return sign * (float(digits) if token.suffix == "f" else int(digits))
        if "." in token.text or "e" in token.text.lower():
            return sign * float(token.text)
        if tokens.at("+", "-", "*"):
            tokens.position = start
            return self.dim()
        return sign * int(token.text)

    def _type_or_dim(self) -> Any:
        tokens, start = self.tokens, self.tokens.position
        try:
            return self.type()
        except ParseError:
            tokens.position = start
            return self.dim()


_FUNCTIONS = {"min": tir.minimum, "max": tir.maximum, "floordiv": tir.floordiv, "floormod": tir.floormod}
_WORDS = {"True": True, "False": False, "None": None}
