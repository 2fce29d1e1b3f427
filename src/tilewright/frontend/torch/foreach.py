"""Operators on lists of tensors (`torch._foreach_…`), as optimizers and the clipping of gradients call them.

Each is the operator of one tensor, called for one after another: a rule for PyTorch to decompose it by.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

_PREFIX = "_foreach_"

#: Those whose operator of one tensor has another name.
_NAMES = {"norm": "linalg_vector_norm", "max": "max"}


@cache
def foreach_rules() -> dict[Any, Callable[..., Any]]:
    """What PyTorch decomposes the operators of lists into, of those that write into nothing."""
    # torch is optional
    import torch

    rules = {}
    for name in dir(torch._C._VariableFunctions):
        if not name.startswith(_PREFIX) or name.endswith("_"):
            continue
        packet = getattr(torch.ops.aten, name)
        single = _NAMES.get(name.removeprefix(_PREFIX), name.removeprefix(_PREFIX))
        function = getattr(torch.ops.aten, single, None)
        for overload in packet.overloads() if function is not None else ():
            schema = getattr(packet, overload)._schema
            if not schema.is_mutable and len(schema.returns) == 1:
                rules[getattr(packet, overload)] = _one_by_one(function, schema)
    return rules


def _one_by_one(function: Any, schema: Any) -> Callable[..., Any]:
    """Calls of `function` for each of the tensors of the lists that an operator of this schema gets."""
    lists = [str(declared.type).startswith("List[") for declared in schema.arguments]
    first = lists.index(True)
    places = {declared.name: place for place, declared in enumerate(schema.arguments)}
    by_name = _named_only(function)

    def run(*args: Any, **kwargs: Any) -> list[Any]:
        results = []
        for index in range(len(args[first])):
            given = [value[index] if lists[place] else value for place, value in enumerate(args)]
            named = {name: value[index] if lists[places[name]] else value for name, value in kwargs.items()}
            for place in range(len(given) - 1, 0, -1):  # such as the factor of addcmul
                if schema.arguments[place].name in by_name:
                    named[schema.arguments[place].name] = given.pop(place)
            results.append(function(*given, **named))
        return results

    return run


def _named_only(function: Any) -> set[str]:
    """The arguments of an operator that are given by name only, in every overload that has them."""
    schemas = [getattr(function, overload)._schema for overload in function.overloads()]
    arguments = [declared for schema in schemas for declared in schema.arguments]
    taken = {declared.name for declared in arguments if not declared.kwarg_only}
    return {declared.name for declared in arguments if declared.kwarg_only} - taken
