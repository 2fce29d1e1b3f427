"""Types of Relay expressions, compared by content: tensors, tuples, functions, references and data types.

    type  ::= Tensor[(dim, …), dtype] | dtype            a tensor; a scalar is its dtype alone
            | (type, …)                                  a tuple
            | fn [A, …](type, …) -> type                 a function, polymorphic in A, …
            | ref(type)                                  a reference
            | A                                          a type variable
            | List[type, …]                              a data type of the module, applied
    dim   ::= 3 | n + 1 | ?

A dimension is an int, an int32 loop IR expression over size variables (symbolic: two are equal if they are the same
object, since such expressions are interned and simplified here), or `Any()`: not known before run time.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import Enum

from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.node import Node, binder, node, operand, value_node
from tilewright.support.dtype import DType
from tilewright.support.recursion import nested
from tilewright.tir.arith import Analyzer
from tilewright.tir.expr import Expr, IntImm

#: `int | tir.Expr | Any`. Typed loosely, because passes over static graphs compute with dimensions as integers.
Dim: typing.TypeAlias = typing.Any


class Any:
    """A dimension that is known at run time only. One object; not known to be equal to anything, itself included.

    Arithmetic with it yields it again.
    """

    __slots__ = ()
    _only: typing.ClassVar[Any | None] = None

    def __new__(cls) -> Any:
        if cls._only is None:
            cls._only = object.__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "?"

    def __reduce__(self) -> tuple[typing.Any, ...]:
        return (Any, ())

    def _absorb(self, _other: object = None) -> Any:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _absorb
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = _absorb


class Type(Node):
    """Base of all types."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Kind(Enum):
    """The kind of a type variable. `TYPE` is any type; the rest is what classic programs may write."""

    TYPE = 0
    SHAPE_VAR = 1
    BASE_TYPE = 2
    SHAPE = 3
    CONSTRAINT = 4
    ADT_HANDLE = 5
    TYPE_DATA = 6


@value_node
class TensorType(Type):
    """A dense tensor: `shape` in elements (`()` is a scalar) and the `dtype` of one element."""

    shape: tuple[Dim, ...]
    dtype: DType

    def __init__(self, shape: Iterable[Dim] = (), dtype: typing.Any = "float32") -> None:
        object.__setattr__(self, "shape", tuple([dim if type(dim) is int else as_dim(dim) for dim in shape]))
        object.__setattr__(self, "dtype", DType(dtype))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """True if every dimension is an integer."""
        return all(type(dim) is int for dim in self.shape)

    @property
    def has_any(self) -> bool:
        """True if a dimension is not even symbolic."""
        return any(type(dim) is Any for dim in self.shape)

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape, every dimension an integer. Raises `TypeMismatchError` where one is not."""
        if not self.is_static:
            raise TypeMismatchError(f"{self} has dimensions that are not known before run time")
        return self.shape

    @property
    def size(self) -> Dim:
        """Number of elements: an int, an expression where a dimension is symbolic, `Any()` where one is unknown."""
        if self.is_static:
            return math.prod(self.shape)
        return Any() if self.has_any else as_dim(math.prod(self.shape[1:], start=self.shape[0]))

    @property
    def nbytes(self) -> Dim:
        """Bytes of the elements, without padding; a dimension, as `size` is."""
        size = self.size
        return size if type(size) is Any else as_dim(size * self.dtype.itemsize)

    @nested
    def __str__(self) -> str:
        if not self.shape:
            return str(self.dtype)
        dims = ", ".join(map(str, self.shape))
        return f"Tensor[({dims}{',' if len(self.shape) == 1 else ''}), {self.dtype}]"


@value_node
class TupleType(Type):
    """A tuple of values, each with its own type."""

    fields: tuple[Type, ...] = operand()

    def __init__(self, fields: Iterable[Type]) -> None:
        object.__setattr__(self, "fields", tuple(fields))

    @nested
    def __str__(self) -> str:
        return f"({', '.join(map(str, self.fields))}{',' if len(self.fields) == 1 else ''})"


@node
class TypeVar(Type):
    """A type that a polymorphic function or data type leaves open. Identity is the object; the name is for printing."""

    name: str
    kind: Kind = Kind.TYPE

    @property
    def name_hint(self) -> str:
        """The name, in the classic spelling."""
        return self.name

    @nested
    def __str__(self) -> str:
        return self.name


@node
class FuncType(Type):
    """A function from `arg_types` to `ret_type`, for every choice of `type_params`, whose names do not count."""

    arg_types: tuple[Type, ...] = operand()
    ret_type: Type = operand()
    type_params: tuple[TypeVar, ...] = binder(default=())

    def __init__(
        self,
        arg_types: Iterable[Type],
        ret_type: Type,
        type_params: Iterable[TypeVar] | None = (),
        type_constraints: Iterable[Type] | None = (),
    ) -> None:
        if type_constraints:
            raise TypeMismatchError(
                "constraints of a function's type are not supported: operators check their operands"
            )
        object.__setattr__(self, "arg_types", tuple(arg_types))
        object.__setattr__(self, "ret_type", ret_type)
        object.__setattr__(self, "type_params", tuple(type_params or ()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FuncType) or len(self.type_params) != len(other.type_params):
            return False
        if self.type_params:
            other = FuncType(*other.instantiate(self.type_params))
        return self.ret_type == other.ret_type and self.arg_types == other.arg_types

    def __hash__(self) -> int:
        if self.type_params:
            return hash((len(self.type_params), len(self.arg_types)))
        return hash((self.arg_types, self.ret_type))

    def instantiate(self, types: Iterable[Type]) -> tuple[tuple[Type, ...], Type]:
        """Argument types and result type with `types`, one each, instead of the type parameters."""
        mapping = dict(zip(self.type_params, types, strict=True))
        return tuple([substitute_type(arg, mapping) for arg in self.arg_types]), substitute_type(self.ret_type, mapping)

    @nested
    def __str__(self) -> str:
        params = f"[{', '.join(map(str, self.type_params))}]" if self.type_params else ""
        return f"fn {params}({', '.join(map(str, self.arg_types))}) -> {self.ret_type}"


@value_node
class RefType(Type):
    """A reference to a value of type `value`, which may be overwritten."""

    value: Type = operand()

    @nested
    def __str__(self) -> str:
        return f"ref({self.value})"


@value_node
class GlobalTypeVar(Type):
    """The name of a data type; the module that defines it holds its `TypeData`. Compared by name."""

    name: str

    @property
    def name_hint(self) -> str:
        """The name, in the classic spelling."""
        return self.name

    @property
    def kind(self) -> Kind:
        """Always `ADT_HANDLE`."""
        return Kind.ADT_HANDLE

    def __call__(self, *args: Type) -> TypeCall:
        return TypeCall(self, args)

    @nested
    def __str__(self) -> str:
        return self.name


@value_node
class TypeCall(Type):
    """A data type applied to arguments, one for each of its type variables: `List[float32]`."""

    func: GlobalTypeVar = field()
    args: tuple[Type, ...] = operand()

    def __init__(self, func: GlobalTypeVar, args: Iterable[Type] = ()) -> None:
        object.__setattr__(self, "func", func)
        object.__setattr__(self, "args", tuple(args))

    @nested
    def __str__(self) -> str:
        return f"{self.func}[{', '.join(map(str, self.args))}]" if self.args else str(self.func)


#: The type of a value that only host operators look into.
OBJECT = GlobalTypeVar("Object")

#: The head of the type of a list of tensors, as the operators `list.*` make them: `List[Tensor[(3,), float32]]`.
LIST = GlobalTypeVar("HostList")


@node
class IncompleteType(Type):
    """A type still to be found. Type inference replaces it; none is left when it is done."""

    kind: Kind = Kind.TYPE

    @nested
    def __str__(self) -> str:
        return "_"


def as_dim(value: typing.Any) -> Dim:
    """`value` as a dimension: an int, `Any()` as it is, or a symbolic expression, simplified."""
    if isinstance(value, Any):
        return value
    if not isinstance(value, Expr):
        return int(value)
    simplified = Analyzer().simplify(value)
    return simplified.value if isinstance(simplified, IntImm) else simplified


def scalar_type(dtype: typing.Any) -> TensorType:
    """The type of one element: `scalar_type("bool")`."""
    return TensorType((), dtype)


@nested
def tensor_types(type_: Type) -> list[TensorType]:
    """The tensors inside `type_`, left to right: itself, or the flattened fields of a tuple.

    Raises TypeError for a type that holds other things than tensors.
    """
    if isinstance(type_, TensorType):
        return [type_]
    if isinstance(type_, TupleType):
        return [leaf for field in type_.fields for leaf in tensor_types(field)]
    raise TypeError(f"{type_} holds no tensors")


def parts(type_: Type) -> tuple[Type, ...]:
    """The types that `type_` is built from, outermost only; the head of a `TypeCall` is not among them."""
    return type_.operands()


def with_parts(type_: Type, kids: tuple[Type, ...]) -> Type:
    """`type_` built from other parts; the same object if they are the same objects."""
    if all(new is old for new, old in zip(kids, parts(type_), strict=True)):
        return type_
    built: Type = type_.with_operands(kids)
    return built


@nested
def map_type(type_: Type, rule: typing.Callable[[Type], Type | None]) -> Type:
    """`type_` rebuilt from the leaves up; `rule` returns each part's replacement, or None to keep it."""
    kids = parts(type_)
    rebuilt = with_parts(type_, tuple([map_type(kid, rule) for kid in kids])) if kids else type_
    replacement = rule(rebuilt)
    return rebuilt if replacement is None else replacement


def walk_type(type_: Type) -> Iterator[Type]:
    """`type_` and all its parts, itself first."""
    stack = [type_]
    while stack:
        found = stack.pop()
        yield found
        stack.extend(reversed(parts(found)))


def substitute_type(type_: Type, mapping: Mapping[TypeVar, Type]) -> Type:
    """`type_` with type variables replaced."""
    return map_type(type_, lambda part: mapping.get(part) if isinstance(part, TypeVar) else None) if mapping else type_
