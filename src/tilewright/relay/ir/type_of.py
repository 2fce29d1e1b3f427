"""The type of one expression, derived on first use. `transform.infer_type` is the pass over a whole module."""

from __future__ import annotations

from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.node_methods import node_method
from tilewright.relay.ir.type import FuncType, IncompleteType, TensorType, Type
from tilewright.relay.ir.typing_rules import Inference
from tilewright.relay.ir.unify import Unifier


@node_method
def type_of(expr: Expr) -> Type:
    """The type of `expr`, derived now if it is not known yet. Iterative: depth is no limit.

    Raises TypeMismatchError naming the first call that does not fit.
    """
    found = expr.inferred_type
    if found is not None:
        return found
    inference = Inference()
    inference.visit(expr)
    inference.finish()
    return expr.checked_type


def tensor_type_of(expr: Expr) -> TensorType:
    """The type of a tensor-valued `expr`. Raises TypeMismatchError if it is a tuple or function."""
    found = type_of(expr)
    if not isinstance(found, TensorType):
        raise TypeMismatchError(f"a tensor is needed here, not {found}")
    return found


@node_method
def type_args(call: Call) -> tuple[Type, ...]:
    """The instances of the callee's type variables in `call`; of an operator the types of its arguments.

    Nothing where the types of the arguments are not known yet.
    """
    if any(arg.inferred_type is None for arg in call.args):
        return ()
    found = tuple([arg.checked_type for arg in call.args])
    if not isinstance(call.op, Expr):
        return found
    callee = call.op.checked_type
    if not isinstance(callee, FuncType) or not callee.type_params:
        return ()
    unifier, holes = Unifier(), [IncompleteType() for _ in callee.type_params]
    for wanted, given in zip(callee.instantiate(holes)[0], found, strict=True):
        unifier.unify(wanted, given)
    return tuple(map(unifier.resolve, holes))
