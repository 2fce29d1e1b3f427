"""A short description of a model, in words and numbers, for `tilewright inspect`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tilewright.relay.ir.expr import Call, Constant
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import TensorType, TupleType, Type
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import post_order


@dataclass(frozen=True)
class Description:
    """`origin` says of what version and made by whom; a value is a line like `x: float32[batch, 8]`.

    `parameters` counts the numbers that are stored by element type, `parameter_bytes` what they take.
    """

    origin: str
    inputs: list[str]
    outputs: list[str]
    operators: Counter[str] = field(default_factory=Counter)
    parameters: Counter[str] = field(default_factory=Counter)
    parameter_bytes: int = 0


def describe_module(mod: IRModule, origin: str) -> Description:
    """A description by what a model became: its operators are those of Relay."""
    main = mod["main"]
    results = type_of(main.body)
    types: tuple[Type, ...] = tuple(results.fields) if isinstance(results, TupleType) else (results,)
    names = main.attrs.get("output_names") or tuple(f"output{index}" for index in range(len(types)))
    operators: Counter[str] = Counter()
    parameters: Counter[str] = Counter()
    nbytes = 0
    for node in post_order(*(function.body for function in mod.functions.values())):
        if isinstance(node, Call) and isinstance(node.op, Op):
            operators[node.op.name] += 1
        elif isinstance(node, Constant):
            parameters[str(node.data.dtype)] += node.data.size
            nbytes += node.data.nbytes
    return Description(
        origin,
        [_value(param.name, type_of(param)) for param in main.params],
        [_value(name, type_) for name, type_ in zip(names, types)],
        operators,
        parameters,
        nbytes,
    )


def _value(name: str, type_: Type) -> str:
    if not isinstance(type_, TensorType):
        return f"{name}: {type_}"
    return f"{name}: {type_.dtype}[{', '.join(map(str, type_.shape))}]"
