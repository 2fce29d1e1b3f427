"""Loops: unrolled if the trip count is constant, else recursive functions.

    while i < n: y[i] = h = f(h, x[i])  ->  @while_1(i, h, y, x) { if (i < n) @while_1(i + 1, …) else (i, h, y) }

Loop-invariant values are parameters that are passed on unchanged; constant numbers and shapes stay constant. A list
that iterations write to is carried as one tensor, `Rows`, of the shape that the first iteration writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.frontend.builders.loops import recursive_call
from tilewright.frontend.graph_walk import UNAVAILABLE
from tilewright.frontend.idioms import full, shape_of
from tilewright.frontend.tensorflow.control import truth
from tilewright.frontend.tensorflow.lists import rows_of, written_rows
from tilewright.frontend.tensorflow.node import TfNode, converts
from tilewright.frontend.tensorflow.values import Dims, Handle, Items, Rows, expression
from tilewright.relay.ir.expr import Constant, Expr, Tuple, Var, var
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import all_vars
from tilewright.tir.expr import Var as TirVar
from tilewright.tir.visitor import collect_vars

#: Rounds of a loop that are written out at most, where it is known before the run how many there are.
_MOST_ROUNDS = 1024

#: Of the values of a loop and where it is: whether it goes on, or the values of the next round.
Part = Callable[[Sequence[Any], str], Any]


@converts("While", "StatelessWhile")
def convert_while(node: TfNode) -> list[Any]:
    """The results of a loop: unrolled if its condition is constant, else a call of a recursive function."""
    test, body = node.function("cond"), node.function("body")

    def goes_on(values: Sequence[Any], scope: str) -> Any:
        return node.importer.call(test, values, scope)[0]

    return loop(node, goes_on, lambda values, scope: node.importer.call(body, values, scope))


@converts("Exit", "RefExit")
def convert_exit(node: TfNode) -> list[Any]:
    """All values of a loop of TensorFlow 1, of which the first is the one that this Exit lets out."""
    goes_on, body = node.importer.frame(node.name)
    return loop(node, goes_on, body)


def loop(node: TfNode, test: Part, body: Part) -> list[Any]:
    """The values of `node` behind a loop, or `[UNAVAILABLE]`."""
    values: list[Any] = list(node.values)
    for turn in range(_MOST_ROUNDS):
        scope = f"{node.name}/{turn}/"
        go_on = test(values, scope)
        if go_on is UNAVAILABLE:
            return [UNAVAILABLE]
        go_on = truth(expression(go_on))
        if not isinstance(go_on, Constant):
            break
        if not go_on.data:
            return values
        values = body(values, scope)
        if any(value is UNAVAILABLE for value in values):
            return [UNAVAILABLE]
    else:
        node.unsupported(f"a loop of more than {_MOST_ROUNDS} rounds whose number is known before the run")
    return _recursive(node, test, body, values)


def _recursive(node: TfNode, test: Part, body: Part, start: Sequence[Any]) -> list[Any]:
    scope = f"{node.name}/"
    carried = _carried(node, start, body)
    if carried is None:
        return [UNAVAILABLE]
    inside = [value for value, _, _ in carried]
    sizes = [full(False, (one,), "bool") for one in _loose_sizes(carried)]
    extra = [var(f"size_{position}", type_of(one)) for position, one in enumerate(sizes)]
    params = [param for _, _, param in carried if param is not None]
    first = [value for _, value, param in carried if param is not None]
    types = [type_of(param) for param in params]
    go_on, results = test(inside, scope), list(body(inside, scope))
    if go_on is UNAVAILABLE or any(value is UNAVAILABLE for value in results):
        return [UNAVAILABLE]
    again = [_carries(value) for value, (_, _, param) in zip(results, carried) if param is not None]
    if len(results) != len(start) or [type_of(value) for value in again] != types:
        node.unsupported("a loop whose values change their types")
    condition = truth(expression(go_on))
    captured: list[Var] = [one for one in all_vars(Tuple([condition, *again])) if one not in params]
    everything, further = [*params, *captured, *extra], [*again, *captured, *extra]
    begin = [*first, *captured, *sizes]
    functions = node.importer.loops
    made = recursive_call(functions, "while", everything, len(types), condition, further, begin, node.name)
    positions = iter(range(len(params)))
    return [
        before if param is None else _behind(before, made[next(positions)])
        for before, (_, _, param) in zip(start, carried)
    ]


def _carried(node: TfNode, start: Sequence[Any], body: Part) -> list[tuple[Any, Any, Var | None]] | None:
    """For each value, its expression in an iteration, its initial value, and its parameter.

    A value without a parameter is constant. None if an iteration cannot be converted.
    """
    probes = [var(f"carried_{position}", type_of(v)) if isinstance(v := expression(one), Expr) else one
              for position, one in enumerate(start)]  # fmt: skip
    loops = dict(node.importer.loops)
    results = body(probes, f"{node.name}/")
    node.importer.loops = loops  # those within are made anew with the round that stays
    if any(value is UNAVAILABLE for value in results):
        return None
    found: list[tuple[Any, Any, Var | None]] = []
    for position, (value, probe, result) in enumerate(zip(start, probes, results)):
        same = result is probe
        if isinstance(value, Handle) or (same and isinstance(value, Constant | Dims)):
            found.append((value, value, None))
            continue
        if isinstance(value, Items | Rows):
            rows = rows_of(value) if same else written_rows(value, result)
            if not same and (rows is None or rows.data is None):
                node.unsupported("a list of tensors of different shapes in a loop whose rounds are counted at run time")
            if rows is None or rows.data is None:
                found.append((value, value, None))
                continue
            param = var(f"carried_{position}", type_of(rows.data))
            found.append((Rows(param, rows.count, rows.dtype, rows.shape), rows.data, param))
            continue
        param = var(f"carried_{position}", type_of(expression(value)))
        found.append((param, expression(value), param))
    return found


def _loose_sizes(carried: Sequence[tuple[Any, Any, Var | None]]) -> list[Any]:
    """Sizes that are used within a loop, and that no parameter has as an extent of its own."""
    used: dict[Any, None] = {}
    plain: set[Any] = set()
    for value, _, param in carried:
        extents = value.extents if param is None and isinstance(value, Dims) else ()
        extents = extents if param is None else shape_of(param)
        for extent in extents:
            used.update(dict.fromkeys(_variables(extent)))
            plain.update([extent] if param is not None and isinstance(extent, TirVar) else [])
    return [one for one in used if one not in plain]


def _variables(extent: Any) -> Sequence[Any]:
    return () if isinstance(extent, int) else list(collect_vars(extent))


def _carries(value: Any) -> Expr:
    """The carried value of an iteration."""
    if isinstance(value, Items | Rows):
        rows = rows_of(value)
        assert rows is not None and rows.data is not None
        return rows.data
    return expression(value)


def _behind(before: Any, made: Expr) -> Any:
    """A value behind the loop."""
    if not isinstance(before, Items | Rows):
        return made
    kind = type_of(made)
    assert isinstance(kind, TensorType)
    return Rows(made, kind.shape[0], before.dtype, before.shape)
