"""Programs in operators that have converters: mutations made functional, other operators decomposed by PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.frontend.torch.families import find_converter

#: Decompositions may give operators that want decomposing themselves; this deep at most.
_MOST_ROUNDS = 8


def calls(program: Any) -> Iterator[Any]:
    """The nodes of `program` that call ATen operators (or those of other libraries)."""
    # torch is optional
    import torch

    for module in program.graph_module.modules():  # those of branches and loops too
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
                yield node


def overload_name(target: Any) -> str:
    """The name of an overload as the registry has it: ``aten.add.Tensor``."""
    return str(target)


def decomposed(program: Any) -> Any:
    """`program` without mutation, with what has no converter decomposed where PyTorch knows how."""
    if any(node.target._schema.is_mutable for node in calls(program)):
        program = program.run_decompositions({})
    for _ in range(_MOST_ROUNDS):
        missing = {node.target for node in calls(program) if find_converter(overload_name(node.target)) is None}
        table = _decompositions(missing)
        if not table:
            break
        program = program.run_decompositions(table)
    return program


def _decompositions(operators: set[Any]) -> dict[Any, Any]:
    """What PyTorch decomposes each of `operators` into, of those that it does."""
    if not operators:
        return {}
    import torch
    from torch._decomp import decomposition_table

    composite = torch.export.default_decompositions()
    found: dict[Any, Any] = {}
    for operator in operators:
        if operator in decomposition_table:
            found[operator] = decomposition_table[operator]
        elif operator in composite:
            found[operator] = composite[operator]
    return found
