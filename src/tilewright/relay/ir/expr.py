"""Expressions of the graph IR: immutable nodes with identity, one class per kind, each declared once.

A graph is a DAG: a node that is used twice is one object. Nodes compare and hash by identity (two equal calls are two
nodes until `eliminate_common_subexpr` merges them), so a node is a key of any dict, and "unchanged" is `is`.

The type of a node follows from the node alone, so it is computed once, by `transform.infer_type`, and kept with it
(`checked_type`). `FIELDS` and `visitor.children` let every walker be written once for all classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from tilewright.errors import IllFormedError, TypeMismatchError
from tilewright.relay.ir.constant_data import ConstantData
from tilewright.relay.ir.node import Node, binder, label, node, operand
from tilewright.relay.ir.node_methods import METHODS
from tilewright.relay.ir.type import FuncType, TensorType, Type, TypeVar
from tilewright.support.dtype import DType


class Attrs(Mapping[str, Any]):
    """The attributes of a call or function: an immutable mapping, read as `attrs["axis"]` or `attrs.axis`.

    Lists become tuples and NumPy scalars become Python ones, so that attributes hash and compare by value.
    """

    __slots__ = ("_hash", "_values")

    def __init__(self, values: Mapping[str, Any] | None = None, **more: Any) -> None:
        merged = {**(values or {}), **more}
        object.__setattr__(self, "_values", {key: _plain(value) for key, value in merged.items()})
        object.__setattr__(self, "_hash", None)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __getattr__(self, key: str) -> Any:
        try:
            return self._values[key]
        except KeyError:
            raise AttributeError(f"no attribute {key!r}; there are: {', '.join(self._values) or 'none'}") from None

    def __setattr__(self, key: str, value: Any) -> None:
        raise AttributeError(f"attributes are immutable; use .replace({key}=…)")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash(tuple(sorted(self._values.items(), key=lambda item: item[0]))))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self._values == dict(other)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Attrs, (self._values,))

    def __repr__(self) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in self._values.items())

    def replace(self, **changes: Any) -> Attrs:
        """These attributes with `changes` put in."""
        return Attrs(self._values, **changes)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple([_plain(item) for item in value])
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return Attrs(value)
    return value


NO_ATTRS = Attrs()


class Operator:
    """A callee that is not the value of an expression: an `Op` of the registry, its one kind."""

    __slots__ = ()
    name: str


class Expr(Node):
    """Base of all graph nodes."""

    __slots__ = ("_type",)
    #: True for what only names a function or constructor: no operand of the call that names it.
    is_name: ClassVar[bool] = False

    @property
    def checked_type(self) -> Type:
        """The type found by `infer_type`. Raises IllFormedError where it has not run on this node."""
        found = self.inferred_type
        if found is None:
            raise IllFormedError(
                f"the type of this {type(self).__name__} is not known yet; run relay.transform.InferType first, and "
                "ask the functions of the module that it returns"
            )
        return found

    @property
    def inferred_type(self) -> Type | None:
        """The type, or None before `infer_type`."""
        return getattr(self, "_type", None)

    def set_inferred_type(self, type_: Type | None) -> None:
        """Keep the type that `infer_type` derived (None: it is to be derived again); of no concern to anyone else."""
        object.__setattr__(self, "_type", type_)

    def same_as(self, other: object) -> bool:
        """True if both are one object."""
        return self is other

    def __repr__(self) -> str:
        return METHODS.to_text(self)

    #: `for` over an expression would go on forever: how many fields it has is known with its type only.
    __iter__ = None
    #: NumPy leaves arithmetic with an array on the left to the operators below.
    __array_ufunc__ = None

    def __getitem__(self, index: int) -> TupleGetItem:
        return TupleGetItem(self, index)

    def astext(self, show_meta_data: bool = True) -> str:
        """The expression as text that `relay.parse_expr` reads; without `show_meta_data` no contents of constants."""
        return METHODS.astext(self, show_meta_data)

    def __add__(self, other: Any) -> Call:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Call:
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> Call:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Call:
        return _binary("subtract", other, self)

    def __mul__(self, other: Any) -> Call:
        return _binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Call:
        return _binary("multiply", other, self)

    def __truediv__(self, other: Any) -> Call:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: Any) -> Call:
        return _binary("divide", other, self)

    def __neg__(self) -> Call:
        return Call(METHODS.get("negative"), (self,))

    def __lt__(self, other: Any) -> Call:
        return _binary("less", self, other)

    def __gt__(self, other: Any) -> Call:
        return _binary("greater", self, other)

    def __le__(self, other: Any) -> Call:
        return _binary("less_equal", self, other)

    def __ge__(self, other: Any) -> Call:
        return _binary("greater_equal", self, other)

    def __call__(self, *args: Expr) -> Call:
        """A call of this expression, whose value is a function: `GlobalVar("f")(x, y)`."""
        return Call(self, args)

    def astype(self, dtype: Any) -> Call:
        """This expression with its elements converted to `dtype`."""
        return Call(METHODS.get("cast"), (self,), {"dtype": str(DType(dtype))})


@node
class Var(Expr):
    """An input of a function or a name bound by `Let`. Identity is the object; the name is for printing and feeding."""

    name: str = label()
    type_annotation: Type | None = None

    @property
    def name_hint(self) -> str:
        """The name, in the classic spelling."""
        return self.name

    @property
    def vid(self) -> Var:
        """The identity of the variable, which distinguishes variables of one name: the variable itself."""
        return self


@node
class Constant(Expr):
    """A tensor known at compile time. `data` is never written to; a view is fine. Tensors of the runtime are read."""

    data: np.ndarray[Any, Any]

    def __init__(self, data: Any) -> None:
        array = data if isinstance(data, np.ndarray) else np.asarray(data.numpy() if hasattr(data, "numpy") else data)
        object.__setattr__(self, "data", array.view(ConstantData))

    @property
    def tensor_type(self) -> TensorType:
        """Shape and dtype of `data`."""
        return TensorType(self.data.shape, DType(self.data.dtype))


@node
class Tuple(Expr):
    """Several values as one."""

    fields: tuple[Expr, ...] = operand()

    def __init__(self, fields: Iterable[Expr]) -> None:
        object.__setattr__(self, "fields", tuple(fields))

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, index: int) -> Expr:  # type: ignore[override]
        """The field itself: nothing has to be taken out of a tuple that is at hand."""
        return self.fields[index]

    def __bool__(self) -> bool:
        return True  # an expression, also without fields


@node
class TupleGetItem(Expr):
    """Field `index` of a tuple-valued expression."""

    tuple_value: Expr = operand()
    index: int = field()


@node
class Call(Expr):
    """`op` applied to `args`: an operator, or an expression whose value is a function or constructor.

    `span` names the source model's nodes it came from, separated by ";".
    """

    op: Operator | Expr = operand()
    args: tuple[Expr, ...] = operand()
    attrs: Attrs = NO_ATTRS
    span: str = label(default="")

    def __init__(
        self,
        op: Operator | Expr,
        args: Iterable[Expr],
        attrs: Mapping[str, Any] | None = NO_ATTRS,
        span: str | Iterable[Type] | None = "",
        span_behind_types: object = "",
    ) -> None:
        # Classic programs pass the types that type variables stand for in fourth position, which follow from the
        # arguments, and the span behind them.
        object.__setattr__(self, "op", op)
        object.__setattr__(self, "args", tuple(args))
        object.__setattr__(self, "attrs", attrs if isinstance(attrs, Attrs) else Attrs(attrs))
        object.__setattr__(self, "span", span if isinstance(span, str) else str(span_behind_types or ""))

    @property
    def type_args(self) -> tuple[Type, ...]:
        """The instances of the callee's type variables in this call; of an operator the types of the arguments.

        Known once `infer_type` has run.
        """
        return METHODS.type_args(self)

    def operands(self) -> tuple[Expr, ...]:
        """The callee, unless it is an operator, a fused function or a mere name, and the arguments."""
        op = self.op
        if not isinstance(op, Expr) or op.is_name or (type(op) is Function and op.is_primitive):
            return self.args
        return (op, *self.args)

    def with_operands(self, kids: tuple[Expr, ...]) -> Call:
        """The same call with other operands."""
        if len(kids) == len(self.args):
            return Call(self.op, kids, self.attrs, self.span)
        return Call(kids[0], kids[1:], self.attrs, self.span)


@node
class Let(Expr):
    """`value` bound to `var` within `body`."""

    var: Var = binder()
    value: Expr = operand()
    body: Expr = operand()


@node
class If(Expr):
    """`true_branch` if the scalar bool `cond` holds, else `false_branch`; only the branch taken is evaluated."""

    cond: Expr = operand()
    true_branch: Expr = operand()
    false_branch: Expr = operand()


@node
class GlobalVar(Expr):
    """The name of a function of a module. A pass that changes the function's type makes a new `GlobalVar`."""

    is_name: ClassVar[bool] = True
    name: str = field()

    @property
    def name_hint(self) -> str:
        """The name, in the classic spelling."""
        return self.name


def _body(value: Any) -> Expr:
    """The expression that `value` stands for: the call, where a builder gave the fields of one (`astuple`)."""
    stands_for = value.astuple() if hasattr(value, "astuple") else None
    if not isinstance(stands_for, Expr):
        raise TypeMismatchError(f"the body of a function is an expression, not {type(value).__name__}")
    return stands_for


@node
class Function(Expr):
    """A function of `params`, polymorphic in `type_params`; a closure if its body uses variables from around it.

    A closure that a `Let` binds may call itself by the name of the binding. `attrs["Primitive"]` marks a fused
    function: closed, and one kernel.
    """

    params: tuple[Var, ...] = binder()
    body: Expr = operand()
    ret_type: Type | None = None
    type_params: tuple[TypeVar, ...] = ()
    attrs: Attrs = field(default=NO_ATTRS)

    def __init__(
        self,
        params: Iterable[Var],
        body: Expr,
        ret_type: Type | None = None,
        type_params: Iterable[TypeVar] | None = (),
        attrs: Mapping[str, Any] | None = NO_ATTRS,
    ) -> None:
        object.__setattr__(self, "params", tuple(params))
        object.__setattr__(self, "body", body if isinstance(body, Expr) else _body(body))
        object.__setattr__(self, "ret_type", ret_type)
        object.__setattr__(self, "type_params", _type_vars(type_params or ()))
        object.__setattr__(self, "attrs", attrs if isinstance(attrs, Attrs) else Attrs(attrs))

    def operands(self) -> tuple[Expr, ...]:
        """The body, which may use variables from around it; none for a fused function, which walkers take as a leaf."""
        return () if self.is_primitive else (self.body,)

    def with_operands(self, kids: tuple[Expr, ...]) -> Function:
        """The same function with another body."""
        return self.with_body(kids[0])

    @property
    def is_primitive(self) -> bool:
        """True for a fused or composite function, which walkers take as one operator."""
        return bool(self.attrs) and bool(self.attrs.get("Primitive") or self.attrs.get("Composite"))

    @property
    def func_type(self) -> FuncType:
        """The type of the function once `infer_type` has run."""
        found = self.checked_type
        assert isinstance(found, FuncType)
        return found

    def with_attr(self, key: str, value: Any) -> Function:
        """The same function with the attribute `key` set to `value`."""
        attrs = self.attrs.replace(**{key: value})
        return Function(self.params, self.body, self.ret_type, self.type_params, attrs)

    def with_body(self, body: Expr) -> Function:
        """The same function with another body (itself if the body is the same object)."""
        if body is self.body:
            return self
        return Function(self.params, body, self.ret_type, self.type_params, self.attrs)


def _type_vars(type_params: Iterable[TypeVar]) -> tuple[TypeVar, ...]:
    found = tuple(type_params)
    if not all(isinstance(param, TypeVar) for param in found):
        raise TypeMismatchError("the type parameters of a Function must be type variables; attributes go by attrs=…")
    return found


@node
class RefCreate(Expr):
    """A new reference, which holds `value`."""

    value: Expr = operand()


@node
class RefRead(Expr):
    """The value that the reference `ref` holds now."""

    ref: Expr = operand()


@node
class RefWrite(Expr):
    """Put `value` into the reference `ref`; the result is the empty tuple."""

    ref: Expr = operand()
    value: Expr = operand()


def var(
    name: str, type_annotation: Type | None = None, shape: Iterable[int] | None = None, dtype: Any = "float32"
) -> Var:
    """A variable, by type or by `shape` and `dtype`: `var("x", shape=(1, 3))`."""
    if type_annotation is None and shape is not None:
        type_annotation = TensorType(shape, dtype)
    return Var(name, type_annotation)


def const(value: Any, dtype: Any = None) -> Constant:
    """A constant from a number or array. Without `dtype`, Python floats become float32 and Python ints int32.

    The type of a scalar says its dtype, too.
    """
    dtype = dtype.dtype if isinstance(dtype, TensorType) else dtype
    if isinstance(value, np.ndarray | np.generic):
        data = np.asarray(value)
        return Constant(data if dtype is None else data.astype(DType(dtype).numpy))
    data = np.asarray(value)
    if dtype is None:
        dtype = {"float64": "float32", "int64": "int32"}.get(str(data.dtype), data.dtype)
    return Constant(data.astype(DType(dtype).numpy))


def merge_spans(*exprs: Expr) -> str:
    """The source names of `exprs` (calls; others have none), each once, in order, joined by ";"."""
    names = [name for expr in exprs if isinstance(expr, Call) and expr.span for name in expr.span.split(";")]
    return ";".join(dict.fromkeys(names))


def _binary(op_name: str, a: Any, b: Any) -> Call:
    reference = a if isinstance(a, Expr) else b
    args = [arg if isinstance(arg, Expr) else const(arg, element_type(reference)) for arg in (a, b)]
    return Call(METHODS.get(op_name), args)


def element_type(expr: Any) -> DType | None:
    """The element type of a tensor-valued expression, inferred if need be; None if there is none or it is not known."""
    if not isinstance(expr, Expr):
        return None
    try:
        found = METHODS.type_of(expr)
    except TypeMismatchError:
        return None
    return found.dtype if isinstance(found, TensorType) else None
