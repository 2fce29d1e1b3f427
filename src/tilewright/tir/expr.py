"""Expressions of the loop IR: immutable, typed and interned, so that equality is identity.

`docs/ir.md` has the grammar and the semantics. Operators build expressions (`operators.py`): `a + b`, `a < b`.
`a == b` does too where an expression is wanted; as a truth value it is identity, so dicts and sets hold expressions.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.errors import NoTruthValue
from tilewright.support.dtype import DType
from tilewright.tir.node import Node, intern, node
from tilewright.tir.operators import ExprOp, build_by

if TYPE_CHECKING:
    from tilewright.tir.buffer import Buffer

BOOL, INT32 = DType("bool"), DType("int32")


class Expr(ExprOp, Node):
    """Base of all expressions. `dtype` is the type of the value, lanes included."""

    __slots__ = ("dtype",)
    dtype: DType

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self.fields())

    def __bool__(self) -> bool:
        raise NoTruthValue(
            "an expression has no truth value while the program is being built; "
            "use tir.all/tir.any instead of and/or, tir.if_then_else instead of if"
        )

    def same_as(self, other: object) -> bool:
        """True if both are one node; equal expressions are."""
        return self is other


# ---------------------------------------------------------------------------------------------------- leaves
@node
class IntImm(Expr):
    """An integer or bool constant. `value` is within the range of `dtype`."""

    dtype: DType
    value: int

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return self.value != 0

    def __new__(cls, dtype: str, value: int) -> IntImm:
        dtype = DType(dtype)
        return intern(cls, dtype, (int(value),), (dtype, int(value)))


@node
class FloatImm(Expr):
    """A floating point constant, kept as a Python float; distinct for 0.0 and -0.0 and for each NaN payload."""

    dtype: DType
    value: float

    def __float__(self) -> float:
        return self.value

    def __new__(cls, dtype: str, value: float) -> FloatImm:
        dtype = DType(dtype)
        return intern(cls, dtype, (struct.pack("<d", value),), (dtype, float(value)))


@node
class StringImm(Expr):
    """A string constant; only an argument of a call or the value of an attribute."""

    value: str
    __hash__ = ExprOp.__hash__

    def __eq__(self, other: object) -> Any:
        return self.value == other if isinstance(other, str) else ExprOp.__eq__(self, other)

    def __ne__(self, other: object) -> Any:
        return self.value != other if isinstance(other, str) else ExprOp.__ne__(self, other)

    def __new__(cls, value: str) -> StringImm:
        return intern(cls, DType("handle"), (value,), (value,))


class Var(Expr):
    """A variable: identity is the object, the name is for printing. Not interned."""

    __slots__ = ("name",)
    FIELDS = ("name", "dtype")
    name: str

    def __init__(self, name: str, dtype: str = "int32") -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "dtype", DType(dtype))


class SizeVar(Var):
    """A variable known to be at least 0, such as a symbolic extent (`te.var` may be any).

    `hint` is a size that schedules may suppose where they must choose a tile; it has no meaning for the program.
    """

    __slots__ = ("hint",)
    hint: int

    def __init__(self, name: str, dtype: str = "int32", hint: int = 256) -> None:
        super().__init__(name, dtype)
        object.__setattr__(self, "hint", hint)


# ------------------------------------------------------------------------------------------------ arithmetic
class BinaryExpr(Expr):
    """Two operands of one dtype; the result has the same dtype (bool for comparisons and logic)."""

    __slots__ = ("a", "b")
    FIELDS = ("a", "b")
    a: Expr
    b: Expr

    def __new__(cls, a: Expr, b: Expr) -> BinaryExpr:
        if a.dtype is not b.dtype:
            raise TypeError(f"{cls.__name__} of {a.dtype} and {b.dtype}: {a!r}, {b!r}; cast one of them")
        return intern(cls, cls._result(a.dtype), (a, b), (a, b))

    @classmethod
    def _result(cls, dtype: DType) -> DType:
        return dtype


class Add(BinaryExpr):
    """a + b; integers wrap around (index arithmetic must not overflow, see docs/ir.md)."""

    __slots__ = ()


class Sub(BinaryExpr):
    """a - b."""

    __slots__ = ()


class Mul(BinaryExpr):
    """a * b."""

    __slots__ = ()


class Div(BinaryExpr):
    """Floating point division, IEEE; on integers division that rounds towards zero."""

    __slots__ = ()


class Mod(BinaryExpr):
    """Remainder of `Div`: sign of the dividend (C's % and fmod)."""

    __slots__ = ()


class FloorDiv(BinaryExpr):
    """Integer division that rounds towards minus infinity (Python's //)."""

    __slots__ = ()


class FloorMod(BinaryExpr):
    """Remainder of `FloorDiv`: sign of the divisor (Python's %)."""

    __slots__ = ()


class Min(BinaryExpr):
    """The smaller operand; NaN if either is."""

    __slots__ = ()


class Max(BinaryExpr):
    """The larger operand; NaN if either is."""

    __slots__ = ()


class CompareExpr(BinaryExpr):
    """A comparison; the result is bool with the operands' lanes."""

    __slots__ = ()

    @classmethod
    def _result(cls, dtype: DType) -> DType:
        return BOOL.with_lanes(dtype.lanes)


class EQ(CompareExpr):
    """a == b (false where either is NaN)."""

    __slots__ = ()


class NE(CompareExpr):
    """a != b (true where either is NaN)."""

    __slots__ = ()


class LT(CompareExpr):
    """a < b."""

    __slots__ = ()


class LE(CompareExpr):
    """a <= b."""

    __slots__ = ()


class GT(CompareExpr):
    """a > b."""

    __slots__ = ()


class GE(CompareExpr):
    """a >= b."""

    __slots__ = ()


class And(CompareExpr):
    """Logical and of two bools; both sides are evaluated."""

    __slots__ = ()


class Or(CompareExpr):
    """Logical or of two bools; both sides are evaluated."""

    __slots__ = ()


@node
class Not(Expr):
    """Logical negation of a bool."""

    a: Expr

    def __new__(cls, a: Expr) -> Not:
        if not a.dtype.is_bool:
            raise TypeError(f"Not of {a.dtype}: {a!r}; compare it first")
        return intern(cls, a.dtype, (a,), (a,))


@node
class Cast(Expr):
    """Conversion. Float to int rounds towards zero and is undefined out of range; to bool means != 0."""

    dtype: DType
    value: Expr

    def __new__(cls, dtype: str, value: Expr) -> Cast:
        dtype = DType(dtype)
        if dtype.lanes != value.dtype.lanes:
            raise TypeError(f"cast of {value.dtype} to {dtype}: the lane counts differ")
        return intern(cls, dtype, (value,), (dtype, value))


@node
class Select(Expr):
    """`true_value` where `condition` else `false_value`; both are evaluated, so neither may fault."""

    condition: Expr
    true_value: Expr
    false_value: Expr

    def __new__(cls, condition: Expr, true_value: Expr, false_value: Expr) -> Select:
        if true_value.dtype is not false_value.dtype or not condition.dtype.is_bool:
            raise TypeError(f"select of {condition.dtype} ? {true_value.dtype} : {false_value.dtype}")
        values = (condition, true_value, false_value)
        return intern(cls, true_value.dtype, values, values)


@node
class Let(Expr):
    """`value` bound to `var` within `body`."""

    var: Var
    value: Expr
    body: Expr

    def __new__(cls, var: Var, value: Expr, body: Expr) -> Let:
        return intern(cls, body.dtype, (var, value, body), (var, value, body))


# ---------------------------------------------------------------------------------------------------- vectors
@node
class Ramp(Expr):
    """The vector base, base + stride, … of `lanes` lanes."""

    base: Expr
    stride: Expr
    lanes: int

    def __new__(cls, base: Expr, stride: Expr, lanes: int) -> Ramp:
        return intern(cls, base.dtype.with_lanes(lanes), (base, stride, lanes), (base, stride, lanes))


@node
class Broadcast(Expr):
    """A scalar repeated in `lanes` lanes."""

    value: Expr
    lanes: int

    def __new__(cls, value: Expr, lanes: int) -> Broadcast:
        return intern(cls, value.dtype.with_lanes(lanes), (value, lanes), (value, lanes))


@node
class Shuffle(Expr):
    """Lanes of the concatenated `vectors` (all of one element type) picked by the constants `indices`."""

    vectors: tuple[Expr, ...]
    indices: tuple[int, ...]

    def __new__(cls, vectors: Sequence[Expr], indices: Sequence[int]) -> Shuffle:
        vectors, indices = tuple(vectors), tuple(indices)
        dtype = vectors[0].dtype.with_lanes(len(indices))
        return intern(cls, dtype, (vectors, indices), (vectors, indices))


# ----------------------------------------------------------------------------------------- memory, calls, te
@node
class BufferLoad(Expr):
    """`buffer[indices]`. Only the last index may be a vector; the result then has its lanes."""

    buffer: Buffer
    indices: tuple[Expr, ...]

    @property
    def buffer_var(self) -> Var:
        """The buffer's address, by which classic loads name it."""
        return self.buffer.var

    @property
    def index(self) -> Expr:
        """The one index into a flat buffer."""
        (only,) = self.indices
        return only

    def __new__(cls, buffer: Buffer, indices: Sequence[Expr]) -> BufferLoad:
        indices = tuple(indices)
        if len(indices) != len(buffer.shape):
            raise TypeError(f"{buffer.name} has {len(buffer.shape)} dimensions and is read with {len(indices)} indices")
        lanes = indices[-1].dtype.lanes if indices else 1
        dtype = buffer.dtype.with_lanes(lanes)
        return intern(cls, dtype, (buffer, indices), (buffer, indices))


class IntrinsicName(str):
    """The callee of a `Call`: its short name, "exp"; `name` is the one by which registries know it, "tir.exp"."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name with the namespace before it."""
        return f"tir.{self}"


@node
class Call(Expr):
    """A call of an intrinsic or function named by `op` (see `tir/intrinsics.py` for the known names)."""

    dtype: DType
    op: IntrinsicName
    args: tuple[Expr, ...]

    def __new__(cls, dtype: str, op: str, args: Sequence[Expr]) -> Call:
        dtype, op, args = DType(dtype), IntrinsicName(op), tuple(args)
        return intern(cls, dtype, (op, args), (dtype, op, args))


@node
class ProducerLoad(Expr):
    """A read of element `indices` of output `producer` (a `te.Tensor`); exists before lowering to loops only."""

    producer: Any
    indices: tuple[Expr, ...]

    def __new__(cls, producer: Any, indices: Sequence[Expr]) -> ProducerLoad:
        indices = tuple(indices)
        return intern(cls, DType(producer.dtype), (producer, indices), (producer, indices))


@node
class Reduce(Expr):
    """Output `value_index` of a reduction of `source` over `axis`; the outermost node of a `te.compute` body only.

    `combiner` is a `te.CommReducer`, `source` and `init` hold one expression per output (`init` may be empty: the
    combiner's identity), `axis` the reduction `te.IterVar`s, `condition` a bool: elements where it is false do not
    count.
    """

    combiner: Any
    source: tuple[Expr, ...]
    axis: tuple[Any, ...]
    condition: Expr
    value_index: int
    init: tuple[Expr, ...]

    def __new__(
        cls,
        combiner: Any,
        source: Sequence[Expr],
        axis: Sequence[Any],
        condition: Expr,
        value_index: int = 0,
        init: Sequence[Expr] = (),
    ) -> Reduce:
        values = (combiner, tuple(source), tuple(axis), condition, value_index, tuple(init))
        return intern(cls, values[1][value_index].dtype, values, values)


from tilewright.tir import bits, op  # noqa: E402  (they build the classes above, and operators call them)

build_by(op, bits)
