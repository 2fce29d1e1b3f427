"""The one table of Relay operators: each is registered once, with everything the compiler needs to know of it.

    relu = register(
        "nn.relu", num_inputs=1, type_rule=same_as_input, compute=relu_compute,
        pattern=OpPattern.ELEMWISE, reference=lambda attrs, x: np.maximum(x, 0), layout=follow_input,
    )
    Call(relu, [x])

Conventions of the functions in an `Op`:

- An argument of a call that is a tuple (as of `concatenate`) counts as one input and shows in `type_rule` as a
  `TupleType`; `compute`, `reference` and `layout` get its fields flattened in place.
- `type_rule` raises `TypeMismatchError` with a sentence on what does not fit; `infer_type` adds which call it was.
- `reference` gets and returns NumPy arrays (a tuple of them for a tuple-valued operator) of exactly the declared
  types; it honours the layout attributes (`data_layout`, `kernel_layout`, `out_layout`, `layout`), so that a graph can
  be checked before and after `alter_layout`.
- `gradient(call, output_gradient)` returns the gradient of each argument of `call`, in Relay operators: an expression
  of the argument's type (a `Tuple` for a tuple), or None where nothing flows (an index, a constant piece). The types of
  `call` and of its arguments are known. Gradients are written in other operators, so they are given after all of
  these are registered, by `set_gradient` (`relay/op/gradients`); operators themselves never change.
- `expansion(args, attrs)` writes the operator in other operators. Such an operator needs nothing else but its
  reference: type, compute and gradient follow (`relay/op/composite.py`), and `transform.expand_operators` puts the
  expansion instead of it before any other pass looks at it.
- What a pass asks of an operator (`costly`, `neutral`, `view` …) is a field, set where it is registered; no other
  table has operators as its keys.
- `data_dependent` marks an operator whose output shape depends on the values of its inputs: its type has `Any`
  dimensions, it has no compute, and its reference runs on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

from tilewright.errors import InternalError, UnsupportedError
from tilewright.relay.ir.attributes import Schema
from tilewright.relay.ir.expr import Attrs, Call, Expr, Operator
from tilewright.relay.ir.node_methods import node_method
from tilewright.relay.ir.type import Dim, TensorType, Type
from tilewright.support import plugins
from tilewright.support.entry_points import OPERATORS, load_plugins
from tilewright.support.suggestion import suggestion

if TYPE_CHECKING:
    import numpy as np

    from tilewright.relay.ir.backend import GraphBackend
    from tilewright.te import Tensor

P = ParamSpec("P")


class OpPattern(IntEnum):
    """Fusion categories of operators: the four of the OSDI 2018 paper (section 3), the first split in three.

    Ordered: a fused group has the largest pattern of its members.
    """

    ELEMWISE = 0
    """injective, output element i reads element i of each input"""
    BROADCAST = 1
    """injective, inputs are broadcast to the output"""
    INJECTIVE = 2
    """injective, any one-to-one or gather-like index map: transpose, concatenate, slice"""
    COMM_REDUCE = 3
    """reduction: sum, max"""
    OUT_ELEMWISE_FUSABLE = 4
    """complex-out-fusable: elementwise operators can follow in the same kernel: conv2d, dense"""
    OPAQUE = 8
    """cannot be fused"""


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """The result of a layout rule: a layout per (flattened) input, that of the output, and the new attributes.

    A layout of None leaves that input as it is: a scalar, or a vector that has no layout. The cost is what the operator
    takes in these layouts, in cycles; operators that only follow say 0. Where another operator does the work,
    `rewrite(call, inputs)` makes it of the call, given its inputs in the layouts wanted; of those, `constants` must be
    constants.
    """

    inputs: tuple[str | None, ...]
    output: str
    attrs: Attrs
    cost: float = 0.0
    rewrite: Callable[[Call, Sequence[Expr]], Call] | None = None
    constants: tuple[int, ...] = ()


class Precision(IntEnum):
    """In which precision an operator is computed where a program requests 16 bits; the numbers are the classic ones."""

    ALWAYS = 0
    """in 16 bits whatever its inputs are: the operators that cost; with an `out_dtype` sums are float32"""
    FOLLOW = 1
    """in 16 bits if all its inputs that are no constants come in 16 bits: casts would cost more than they save"""
    NEVER = 2
    """in float32: sums of many terms, exponentials"""


class Moved(NamedTuple):
    """A change of a tensor's layout, from one ("NCHW") to another ("NHWC", "NCHW16c")."""

    was: str
    now: str


@dataclass(frozen=True, slots=True)
class Followed:
    """The layout of each (flattened) operand and result (None: unchanged), and the new attributes."""

    inputs: tuple[Moved | None, ...]
    outputs: tuple[Moved | None, ...]
    attrs: Attrs


TypeRule = Callable[["Sequence[Type]", "Attrs"], "Type"]
Compute = Callable[["Attrs", "list[Tensor]", "Type"], "list[Tensor]"]
Reference = Callable[..., "np.ndarray[Any, Any] | tuple[np.ndarray[Any, Any], ...]"]
Gradient = Callable[["Call", "Expr"], "Sequence[Expr | None]"]
Expansion = Callable[["Sequence[Expr]", "Attrs"], "Expr"]
#: (attrs, layouts the inputs are in: "NCHW16c" or None for plain, their types in the plain layout, target) -> what the
#: operator wants, several choices where it can run in several ways (the usual one first), or None if it reads plain
#: inputs only and writes a plain output.
LayoutRule = Callable[
    ["Attrs", "Sequence[str | None]", "Sequence[TensorType]", "GraphBackend"],
    "LayoutChoice | tuple[LayoutChoice, ...] | None",
]
#: (attrs, types of the tensors it reads, type of its first result) -> floating-point operations.
Flops = Callable[["Attrs", "Sequence[TensorType]", "TensorType"], int]
#: (type of the first operand, attrs) -> the type of each operand after it, None where nothing follows.
ExpectedOperands = Callable[["TensorType", "Attrs"], "list[TensorType | None]"]
#: (call, types of the tensors it reads) -> pairs of sizes that must be equal.
EqualSizes = Callable[["Call", "Sequence[TensorType]"], "Iterable[tuple[Dim, Dim]]"]
#: (call, type of its input) -> where its results lie in the memory of its input, in bytes; None if it has to move them.
View = Callable[["Call", "TensorType"], "tuple[Dim, ...] | None"]
#: (call, how the tensors that it reads have moved, their types before) -> how it follows, None if it does not.
Follow = Callable[["Call", "Sequence[Moved | None]", "Sequence[TensorType]"], Followed | None]
#: (weights, a factor for each output channel, attrs) -> the weights whose result is the scaled one.
ScaledWeights = Callable[["np.ndarray[Any, Any]", "np.ndarray[Any, Any]", "Attrs"], "np.ndarray[Any, Any]"]
#: (call, values of its arguments from `first_shape` on) -> the call of a static operator, or None.
Static = Callable[..., "Expr | None"]


@dataclass(frozen=True, slots=True)
class IndexedAxes:
    """Axes of the first operand that the numbers of the second one are positions on; none for its elements in a row.

    `coordinates`: one axis for each slice of the first axis of the indices. `from_back`: -1 is the last position.
    """

    axes: tuple[int, ...]
    coordinates: bool = False
    from_back: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class Op(Operator):
    """An operator; see the module's docstring for the conventions. `num_inputs` is -1 where it varies."""

    name: str
    _: KW_ONLY
    num_inputs: int
    type_rule: TypeRule
    pattern: OpPattern
    reference: Reference
    attributes: Schema | None = field(default_factory=dict)
    """what its calls have beside arguments (`relay/ir/attributes.py`); None: whatever they say"""
    compute: Compute | None = None
    layout: LayoutRule | None = None
    expansion: Expansion | None = None
    data_dependent: bool = False
    effects: bool = False
    """its calls make or change storage: they are not to be merged, folded or moved"""
    launches: Callable[[Attrs], int] | None = None
    """of a call that begins work on an accelerator and returns a token at once, about how many cycles that takes"""
    waits: bool = False
    """it waits for the work whose token is its first operand"""
    # what it costs
    flops: Flops | None = None
    """where the default of `relay.cost` (one for each element) is wrong"""
    passes: int = 1
    """how often it reads each element of its input"""
    costly: bool = False
    """too costly to compute an element of several times within one kernel"""
    precision: Precision | None = None
    by_rows: bool = False
    """its elements follow from reductions of their row, which one kernel may finish together"""
    # what it expects of its operands
    always_folded: bool = False
    """its value for constants is stored however large it is: what reads it reads nothing else"""
    expected_operands: ExpectedOperands | None = None
    equal_sizes: EqualSizes | None = None
    statistics: int = 0
    """how many of its last operands are statistics of data: training leaves them"""
    # its algebra
    commutative: bool = False
    associative: bool = False
    """as far as rounding does not matter: constants may combine"""
    neutral: float | None = None
    """x op neutral is x; for a commutative operator, neutral op x too"""
    absorbing: float | None = None
    """x op absorbing is absorbing"""
    idempotent: bool = False
    """op(op(x)) is op(x)"""
    involution: bool = False
    """op(op(x)) is x"""
    homogeneous: bool = False
    """op(s x) is s op(x) for a positive factor of each channel"""
    fill: float | None = None
    """every element of the result is this number"""
    # how it moves elements
    rearranges: bool = False
    """its result has the elements of its input, each once, in another order or shape"""
    picks: bool = False
    """each element of its result is one of its first input"""
    identity_on_same_type: bool = False
    """its result is its input where both have one type"""
    view: View | None = None
    positions: Callable[[Call], IndexedAxes | None] | None = None
    """where it reads or writes at the numbers of its second operand; None where any number will do"""
    spatial_axes: int = 0
    """of images, the axes beside batch and channels, whose order a program may choose (`convert_layout`)"""
    follows: Follow | None = None
    """how it runs on data in another layout (`relay/op/following.py`)"""
    # what stands for it elsewhere
    attrs_class: str = ""
    """the class of its attributes in classic JSON, where they have one"""
    fast: str = ""
    """the operator that computes the same, cheaper and coarser"""
    quantized: str = ""
    """the operator that computes the same on quantized operands"""
    joins: bool = False
    """between quantized layers it computes few numbers of what they compute: in bytes it reads and writes less"""
    scaled_weights: ScaledWeights | None = None
    first_shape: int = 0
    static: Static | None = None
    """the operator of known shapes instead of it, where its arguments from `first_shape` on are known"""

    @property
    def gradient(self) -> Gradient | None:
        """The gradient registered by `set_gradient`."""
        return _GRADIENTS.get(self.name)

    def __repr__(self) -> str:
        return f"Op({self.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (get, (self.name,))


_OPS: dict[str, Op] = {}
_GRADIENTS: dict[str, Gradient] = {}


def _registering(make: Callable[P, Op]) -> Callable[P, Op]:
    def register(*args: P.args, **fields: P.kwargs) -> Op:
        """Enter an operator into the table and return it. A second registration of a name is an internal error."""
        return enter(make(*args, **fields))

    return register


def enter(op: Op) -> Op:
    """Enter `op` into the table and return it. A second registration of a name is an internal error."""
    if op.name in _OPS:
        raise InternalError(f"the operator {op.name!r} is registered twice")
    _OPS[op.name] = op
    plugins.note("operator", op.name, op)
    return op


#: Takes the fields of an `Op`, its name first.
register = _registering(Op)


def set_gradient(name: str, gradient: Gradient) -> None:
    """Set the gradient of the operator `name`, once; a second one is an internal error."""
    if get(name).name in _GRADIENTS:
        raise InternalError(f"the operator {name!r} has two gradients")
    _GRADIENTS[name] = gradient
    plugins.note("gradient", name, gradient)


@node_method
def get(name: str) -> Op:
    """The operator called `name`; `UnsupportedError` with the nearest names if there is none."""
    if name not in _OPS:
        load_plugins(OPERATORS)
    op = _OPS.get(name)
    if op is None:
        raise UnsupportedError(f"there is no Relay operator {name!r}{suggestion(name, _OPS)}")
    return op


def names() -> list[str]:
    """All registered names, sorted."""
    return sorted(_OPS)
