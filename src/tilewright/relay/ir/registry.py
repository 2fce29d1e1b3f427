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
- `gradient(call, output_gradient)` gives the gradient of each argument of `call`, in Relay operators: an expression of
  the argument's type (a `Tuple` for a tuple), or None where nothing flows (an index, a constant piece). The types of
  `call` and of its arguments are known. Gradients are tables of their own (`relay/op/gradients`), entered by
  `set_gradient`.
- `expansion(args, attrs)` writes the operator in other operators. Such an operator needs nothing else but its
  reference: type, compute and gradient follow (`relay/op/composite.py`), and `transform.expand_operators` puts the
  expansion in its place before any other pass looks at it.
- `data_dependent` marks an operator whose output shape depends on the values of its inputs: its type has `Any`
  dimensions, it has no compute, and its reference runs on the host.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from tilewright.errors import InternalError, UnsupportedError
from tilewright.relay.ir.expr import Attrs, Call, Expr, Operator
from tilewright.relay.ir.node_methods import node_method
from tilewright.relay.ir.type import TensorType, Type

if TYPE_CHECKING:
    import numpy as np

    from tilewright.target import Target
    from tilewright.te import Tensor


class OpPattern(IntEnum):
    """How an operator fuses: the four categories of the OSDI 2018 paper (section 3), the first split in three.

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
    """What a layout rule wants: a layout per (flattened) input, that of the output, and the new attributes.

    A layout of None leaves that input as it is: a scalar, or a vector that has no layout. The cost is what the operator
    takes in these layouts, in cycles; operators that only follow say 0.
    """

    inputs: tuple[str | None, ...]
    output: str
    attrs: Attrs
    cost: float = 0.0


TypeRule = Callable[["Sequence[Type]", "Attrs"], "Type"]
Compute = Callable[["Attrs", "list[Tensor]", "Type"], "list[Tensor]"]
Reference = Callable[..., "np.ndarray[Any, Any] | tuple[np.ndarray[Any, Any], ...]"]
Gradient = Callable[["Call", "Expr"], "Sequence[Expr | None]"]
Expansion = Callable[["Sequence[Expr]", "Attrs"], "Expr"]
#: (attrs, layouts the inputs are in: "NCHW16c" or None for plain, their types in the plain layout, target) -> what the
#: operator wants, several choices where it can run in several ways (the usual one first), or None if it reads plain
#: inputs only and writes a plain output.
LayoutRule = Callable[
    ["Attrs", "Sequence[str | None]", "Sequence[TensorType]", "Target | None"],
    "LayoutChoice | tuple[LayoutChoice, ...] | None",
]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Op(Operator):
    """An operator; see the module's docstring for the conventions. `num_inputs` is -1 where it varies."""

    name: str
    num_inputs: int
    type_rule: TypeRule
    pattern: OpPattern
    reference: Reference
    compute: Compute | None = None
    gradient: Gradient | None = None
    layout: LayoutRule | None = None
    expansion: Expansion | None = None
    data_dependent: bool = False

    def __repr__(self) -> str:
        return f"Op({self.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (get, (self.name,))


_OPS: dict[str, Op] = {}
_BUILDERS: dict[str, Callable[..., Any]] = {}


def register(
    name: str,
    *,
    num_inputs: int,
    type_rule: TypeRule,
    pattern: OpPattern,
    reference: Reference,
    compute: Compute | None = None,
    gradient: Gradient | None = None,
    layout: LayoutRule | None = None,
    expansion: Expansion | None = None,
    data_dependent: bool = False,
) -> Op:
    """Enter an operator into the table and return it. A second registration of a name is an internal error."""
    if name in _OPS:
        raise InternalError(f"the operator {name!r} is registered twice")
    op = Op(
        name=name,
        num_inputs=num_inputs,
        type_rule=type_rule,
        pattern=pattern,
        reference=reference,
        compute=compute,
        gradient=gradient,
        layout=layout,
        expansion=expansion,
        data_dependent=data_dependent,
    )
    _OPS[name] = op
    return op


def set_gradient(name: str, gradient: Gradient) -> None:
    """Give the operator `name` its gradient, once; a second one is an internal error."""
    op = get(name)
    if op.gradient is not None:
        raise InternalError(f"the operator {name!r} has two gradients")
    object.__setattr__(op, "gradient", gradient)


@node_method
def get(name: str) -> Op:
    """The operator called `name`; `UnsupportedError` with the nearest names if there is none."""
    op = _OPS.get(name)
    if op is None:
        near = difflib.get_close_matches(name, _OPS, n=3)
        hint = f"; near it: {', '.join(near)}" if near else ""
        raise UnsupportedError(f"there is no Relay operator {name!r}{hint}")
    return op


def set_builders(package: ModuleType) -> None:
    """Enter the functions that build the calls of operators: those of `package` of the same dotted names."""
    for name in _OPS:
        found: Any = package
        for part in name.split("."):
            found = getattr(found, part, None)
        if isinstance(found, FunctionType):
            _BUILDERS[name] = found


def builder(name: str) -> Callable[..., Any] | None:
    """The function that builds calls of the operator `name`, as `relay.op.nn.relu` does for "nn.relu"."""
    return _BUILDERS.get(name)


def names() -> list[str]:
    """All registered names, sorted."""
    return sorted(_OPS)
