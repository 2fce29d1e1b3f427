"""Programs in operators that have converters: mutations made functional, other operators decomposed by PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.frontend.torch.importer import converter_of, wants_converter

#: Decompositions may yield operators that need decomposing themselves; this deep at most.
_MOST_ROUNDS = 8

#: Regions of the program, of which PyTorch's trace makes what they hold, with the casts of automatic precision.
_REGIONS = ("wrap_with_autocast", "wrap_with_set_grad_enabled")


def calls(program: Any) -> Iterator[Any]:
    """The nodes of `program` that call ATen operators (or those of other libraries)."""
    # torch is optional
    import torch

    for module in program.graph_module.modules():  # those of branches and loops too
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
                yield node


def decomposed(program: Any) -> Any:
    """`program` without mutation, with what has no converter decomposed where PyTorch knows how."""
    regions = any(str(node.target) in _REGIONS for node in program.graph.nodes)
    if regions or any(node.target._schema.is_mutable for node in calls(program)):
        program = _run(program, {})
    table: dict[Any, Any] = {}
    for _ in range(_MOST_ROUNDS):
        missing = {node.target for node in calls(program) if wants_converter(node) and converter_of(node) is None}
        more = _decompositions(missing - set(table))  # what is left of others is not decomposed another time either
        if not more:
            break
        table |= more
        try:
            program = _run(program, table)
        except UnsupportedError:  # where a rule of Python does not trace, that of the library may
            table |= {operator: _composite()[operator] for operator in more if operator in _composite()}
            program = _run(program, table)
    return program


def _run(program: Any, table: dict[Any, Any]) -> Any:
    try:
        return program.run_decompositions(table)
    except Exception as error:  # whatever PyTorch meets in a graph that contradicts itself
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UnsupportedError(f"PyTorch cannot trace the program again: {first}") from error


def contradiction(program: Any) -> str | None:
    """The first call of `program` whose result is not what it says, or that PyTorch refuses; None where all fit."""
    import torch
    from torch._guards import detect_fake_mode

    def known(node: Any) -> Any:
        return node.meta.get("val") if node.op != "get_attr" else getattr(node.graph.owning_module, node.target)

    for node in program.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        mode = detect_fake_mode([known(operand) for operand in node.all_input_nodes])
        if mode is None:
            continue
        try:
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), known)
            with mode, torch.no_grad():
                found = node.target(*args, **kwargs)
        except Exception as error:  # as above
            return f"{node.target} ({node.name}): {str(error).strip().splitlines()[0]}"
        pairs = zip(*(torch.utils._pytree.tree_leaves(value) for value in (found, node.meta.get("val"))))
        if any(_kind(one) != _kind(other) for one, other in pairs):
            return f"{node.target} ({node.name}) does not make what it says it does"
    return None


def _kind(value: Any) -> Any:
    """The properties that two results must share: element type and axes of tensors."""
    return (value.dtype, value.dim()) if hasattr(value, "dtype") else None


def _decompositions(operators: set[Any]) -> dict[Any, Any]:
    """PyTorch's decompositions of `operators`, of those that it decomposes."""
    if not operators:
        return {}
    from torch._decomp import decomposition_table

    tables = _composite(), decomposition_table
    return {operator: table[operator] for table in tables for operator in operators if operator in table}


@cache
def _composite() -> Any:
    """The decompositions that `torch.export` has by default, which take PyTorch a while to list."""
    import torch

    return torch.export.default_decompositions()
