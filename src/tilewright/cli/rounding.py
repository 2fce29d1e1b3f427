"""Step functions in a model: where two right engines differ by a whole step, because their inputs lie beside one.

Floor of 2.9999998 is 2 and of 3.0000002 it is 3: a difference of one unit in the last place before such a node is one
of a whole unit behind it. `verify` names these nodes where an output that follows them differs, `bisect` says so of the
node that it finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.frontend.reference import Node

#: Operators that are constant but for steps, by their names in all formats, in lower case without "_" and ".".
_STEPS = {
    "floor", "ceil", "round", "trunc", "rint", "sign", "floordiv", "floormod", "mod", "cast", "quantize",
    "quantizelinear", "dynamicquantizelinear", "fakequantize", "greater", "greaterequal", "greaterorequal", "less",
    "lessequal", "lessorequal", "equal", "notequal", "argmax", "argmin", "topk", "topkv2", "nonzero", "onehot",
    "bucketize", "searchsorted", "digitize", "unique", "nonmaxsuppression",
}  # fmt: skip


def is_step(operator: str) -> bool:
    """True for an operator whose result changes in steps ("Floor", "aten.floor.default")."""
    names = operator.lower().replace("_", "").split(".")
    return any(name in _STEPS for name in names)


def steps_before(nodes: Sequence[Node], output: str) -> list[Node]:
    """The step functions that the value `output` depends on, in the order of `nodes`."""
    needed, found = {output}, list[Node]()
    for node in reversed(nodes):
        if needed & set(node.outputs):
            needed |= set(node.inputs)
            if is_step(node.operator):
                found.append(node)
    return found[::-1]


def rounding_note(nodes: Sequence[Node], outputs: Iterable[str]) -> str:
    """A sentence about the step functions before `outputs` that differ; "" where there are none."""
    steps = list(dict.fromkeys(node for output in outputs for node in steps_before(nodes, output)))
    if not steps:
        return ""
    first = steps[0]
    name = first.name or next(iter(first.outputs), "")
    more = f" and {len(steps) - 1} others" if len(steps) > 1 else ""
    return (
        f"rounding: what differs depends on step functions ({first.operator} {name}{more}); where their input lies "
        "beside a step, two right engines differ by the whole step"
    )
