"""The kernels of a model held to be oblivious: an error names each that shows data by its branches or addresses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager

from tilewright.backend.c.backend import MASK_CHOICES
from tilewright.backend.kernels import Task
from tilewright.driver.lower import lowering_stages
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.manager.pass_manager import PassContext
from tilewright.target import Target
from tilewright.tir.oblivious import Dependence, data_dependences

#: What can be done, by the kind of what was found.
_REMEDIES = {
    "address": "scan a whole table instead of reading at an index (`take` and `gather` of a fixed axis are scanned)",
    "branch": "choose between values (`where`) instead of running one side",
    "trip count": "compute a fixed number of steps",
    "division": "divide by constants or in floating point",
    "call": "replace the operator by one that is compiled",
}


#: Functions of C source, by the beginning of their names, that branch.
_UNEVEN = {
    "fmod": "takes as long as its argument is large",
    "tilewright_to_half": "branches by the size of the number (float16)",
    "tilewright_from_half": "branches by the size of the number (float16)",
    "tilewright_to_bfloat": "branches for NaN (bfloat16)",
}


def oblivious_context() -> AbstractContextManager[object]:
    """The open `PassContext` with what oblivious code needs: scans for gathers, masks for choices, no tables."""
    now = PassContext.current()
    return PassContext(
        opt_level=now.opt_level,
        required_pass=[*now.required_pass, "scan_gathers"],
        disabled_pass=[*now.disabled_pass, "lookup_tables"],
        instruments=now.instruments,
        config={**now.config, MASK_CHOICES: True},
    )


def require_oblivious(tasks: Sequence[Task], target: Target) -> None:
    """Raise `UnsupportedError` that names each kernel that is not, its operators and nodes, why, and what to do."""
    found = {task: dependences for task in tasks if (dependences := _dependences(task, target))}
    if not found:
        return
    lines = [line for task, dependences in found.items() for line in _described(task, dependences)]
    kinds = dict.fromkeys(one.kind for dependences in found.values() for one in dependences)
    raise UnsupportedError(
        f"{len(found)} of {len(tasks)} kernels are not oblivious:\n"
        + "\n".join([*lines, *(f"what to do ({kind}): {_REMEDIES[kind]}" for kind in kinds)])
    )


def require_plain_functions(text: str) -> None:
    """Raise `UnsupportedError` for kernels in C that call a function whose time depends on its arguments."""
    called = [f"{name}, which {why}" for name, why in _UNEVEN.items() if re.search(rf"\b{name}", text)]
    if called:
        raise UnsupportedError(f"the model is not oblivious: it calls {'; '.join(called)}; compute it in another way")


def _dependences(task: Task, target: Target) -> list[Dependence]:
    *_, (_, func) = lowering_stages(task.function, task.name, target)
    return data_dependences(func)


def _described(task: Task, dependences: Sequence[Dependence]) -> list[str]:
    nested = calls(task.function.body)
    operators = dict.fromkeys(call.op.name for call in nested if isinstance(call.op, Op))
    nodes = dict.fromkeys(str(call.span) for call in nested if call.span)
    named = f" (node {', '.join(nodes)})" if nodes else ""
    return [f"{task.name}: {', '.join(operators)}{named}", *(f"  {one}" for one in dependences)]
