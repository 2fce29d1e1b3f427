"""`relay.op.op.register` and its kin: operators of a program's own, described one property after the other.

    op.register("mine", "what it computes")
    op.get("mine").set_num_inputs(1)
    op.get("mine").add_type_rel("Identity")
    op.register_compute("mine", lambda attrs, inputs, out_type: [topi.exp(inputs[0])])

With a compute it is compiled, folded and interpreted like any other. The operators of this package are complete when
they are registered: nothing can be added to those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import te
from tilewright.backend import build as build_functions
from tilewright.errors import InputError, TilewrightError, TypeMismatchError, UnsupportedError
from tilewright.relay.ir import registry
from tilewright.relay.ir.expr import NO_ATTRS
from tilewright.relay.ir.registry import OpPattern
from tilewright.relay.ir.type import TensorType, Type, tensor_types
from tilewright.relay.op.common import broadcast_shapes, same_as_input, tensor
from tilewright.support.named import named


def _broadcast(types: Sequence[Type], _attrs: Any) -> Type:
    first, second = tensor(types[0]), tensor(types[1])
    return TensorType(broadcast_shapes(first.shape, second.shape), first.dtype)


def _compared(types: Sequence[Type], attrs: Any) -> Type:
    return TensorType(tensor(_broadcast(types, attrs)).shape, "bool")


#: Relations between types that the classic stack has under a name.
RELATIONS: dict[str, Callable[..., Type]] = {
    "Identity": same_as_input,
    "Broadcast": _broadcast,
    "BroadcastComp": _compared,
}


class OwnOperator(registry.Op):
    """An operator that a classic program describes; its methods set what the registry's entries are made with."""

    def _set(self, **fields: Any) -> OwnOperator:
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        return self

    def set_num_inputs(self, n: int) -> None:
        """Set the number of arguments of a call."""
        self._set(num_inputs=n)

    def add_argument(self, name: str, type: str, description: str) -> None:
        """Describe an argument, for readers of the program; no text of this package shows it."""

    def set_support_level(self, level: int) -> None:
        """Accept the support level of the operator, which nothing reads."""

    def set_attrs_type_key(self, key: str) -> None:
        """The class of its attributes; "DictAttrs" takes any. Raises `UnsupportedError` for other classes."""
        if key != "DictAttrs":
            raise UnsupportedError(f'{self.name}: the attributes of an own operator are "DictAttrs", not {key!r}')

    def add_type_rel(self, rel_name: str, type_rel_func: Callable[..., Any] | None = None) -> None:
        """Set the type rule: `type_rel_func(types of the arguments, attributes)`, or a relation by name.

        Raises `UnsupportedError` for a name that is not in `RELATIONS`.
        """
        if type_rel_func is None and rel_name not in RELATIONS:
            raise UnsupportedError(
                f"{self.name}: there is no type relation {rel_name!r} here (there are: {', '.join(RELATIONS)}); "
                "pass a function of the types of the arguments and the attributes"
            )
        self._set(type_rule=RELATIONS[rel_name] if type_rel_func is None else _checked(self.name, type_rel_func))


def _checked(name: str, relation: Callable[..., Any]) -> Callable[..., Type]:
    def type_rule(types: Sequence[Type], attrs: Any) -> Type:
        try:
            found = relation(types, attrs)
        except TilewrightError:
            raise
        except Exception as error:
            raise TypeMismatchError(f"{name}: its type relation raised {type(error).__name__}: {error}") from error
        if not isinstance(found, Type):
            raise TypeMismatchError(f"{name}: its type relation gave {found!r}, not a type")
        return found

    return type_rule


def register(op_name: str, describe: str = "") -> OwnOperator:
    """Enter an operator of the program's own. Raises `InputError` for a name that is taken."""
    if op_name in registry.names():
        raise InputError(f"relay.op.register: the operator {op_name!r} is registered already")

    def no_type(_types: Any, _attrs: Any) -> Type:
        raise TypeMismatchError(f"{op_name} has no type relation: call relay.op.get({op_name!r}).add_type_rel(…)")

    made = OwnOperator(
        op_name, num_inputs=-1, type_rule=no_type, pattern=OpPattern.OPAQUE, reference=_no_reference(op_name),
        attributes=None,
    )  # fmt: skip
    return registry.enter(made)  # type: ignore[return-value]


def _no_reference(op_name: str) -> Callable[..., Any]:
    def reference(*_: Any) -> Any:
        raise UnsupportedError(f"{op_name} has no compute: register one by relay.op.register_compute({op_name!r}, …)")

    return reference


def _own(op_name: str, what: str) -> OwnOperator:
    found = registry.get(op_name)
    if not isinstance(found, OwnOperator):
        raise UnsupportedError(
            f"relay.op.{what}: {op_name} is an operator of this package, complete when it is registered; "
            "register one of a name of your own"
        )
    return found


def _setter(what: str, make: Callable[[str, Any], dict[str, Any]]) -> Callable[..., Any]:
    """A function `what(op_name, value)` that sets fields of an own operator; without the value a decorator."""

    def setter(op_name: str, value: Any = None, level: int = 10) -> Any:
        def put(given: Any) -> Any:
            _own(op_name, what)._set(**make(op_name, given))
            return given

        return put if value is None else put(value)

    return named(
        setter, what, f"`{what}` of an operator that `register` entered. Raises `UnsupportedError` for others."
    )


def _computed(op_name: str, function: Callable[..., Any]) -> dict[str, Any]:
    def compute(attrs: Any, inputs: list[te.Tensor], out_type: Type) -> list[te.Tensor]:
        made = function(attrs, inputs, out_type)
        return list(made) if isinstance(made, list | tuple) else [made]

    def reference(attrs: Any, *arrays: np.ndarray[Any, Any]) -> Any:
        types = [TensorType(array.shape, array.dtype) for array in arrays]
        out_type = registry.get(op_name).type_rule(types, attrs or NO_ATTRS)
        return run_compute(compute, attrs, arrays, out_type)

    return {"compute": compute, "reference": reference}


def run_compute(
    compute: Callable[..., list[te.Tensor]], attrs: Any, arrays: Sequence[np.ndarray[Any, Any]], out_type: Type
) -> Any:
    """The results of a compute for `arrays`, compiled with its default schedule."""
    inputs = [te.placeholder(array.shape, name=f"in{at}", dtype=str(array.dtype)) for at, array in enumerate(arrays)]
    outputs = compute(attrs, inputs, out_type)
    made = [np.empty(part.shape, part.dtype.numpy) for part in tensor_types(out_type)]
    schedule = te.create_schedule([output.op for output in outputs])
    module = build_functions(te.lower(schedule, [*inputs, *outputs], name="own_operator"))
    module["own_operator"](*map(np.ascontiguousarray, arrays), *made)
    return made[0] if len(made) == 1 else tuple(made)


register_pattern = _setter("register_pattern", lambda _name, pattern: {"pattern": OpPattern(pattern)})
register_compute = _setter("register_compute", _computed)


def register_gradient(op_name: str, fgradient: Callable[..., Any] | None = None, level: int = 10) -> Any:
    """`fgradient(call, gradient of its result)` returns the gradient of each argument; without it a decorator."""

    def put(given: Callable[..., Any]) -> Callable[..., Any]:
        _own(op_name, "register_gradient")
        registry.set_gradient(op_name, lambda call, gradient: list(given(call, gradient)))
        return given

    return put if fgradient is None else put(fgradient)


def register_stateful(op_name: str, stateful: bool, level: int = 10) -> None:
    """Mark calls of an own operator as having effects: then they are neither merged nor moved nor folded."""
    _own(op_name, "register_stateful")._set(effects=bool(stateful))
