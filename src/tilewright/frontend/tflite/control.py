"""Control flow and state: branches, loops, calls, and variables, whose values travel with the control flow.

A WHILE whose rounds are known is written out; any other becomes a function of the module that calls itself:

    @while_1(%i, %x, states…) { if (cond) @while_1(body…) else (%i, %x, states…) }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.errors import ModelError
from tilewright.frontend.builders.loops import recursive_call
from tilewright.frontend.idioms import constant, reshape
from tilewright.frontend.tflite.flatbuffer import Record
from tilewright.frontend.tflite.node import Node, World, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, If, Tuple, TupleGetItem, Var, var
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import post_order


def _run(node: Node, index: int, arguments: Sequence[Expr], world: World) -> list[Expr]:
    results = node.importer.subgraph(index, arguments, world, f"{node.span}/")
    if results is None:
        node.unsupported(f"an operator of the subgraph {index}")
    return results


# ---------------------------------------------------------------------------------------------------- variables


def variable_name(options: Record) -> str:
    """The name of the variable that VAR_HANDLE refers to."""
    container, name = (getattr(options, which, None) or "" for which in ("container", "shared_name"))
    return f"{container}/{name}" if container else name


def named(node: Node, what: str = "variable") -> str:
    """The name of the variable, or of another thing, whose handle input 0 is."""
    handle = node.array(0)
    if handle is None or handle.size != 1:
        node.unsupported(f"a {what} that is chosen at run time")
    number = int(handle.reshape(-1)[0])
    if not 0 <= number < len(node.importer.handles):
        raise ModelError(f"{node.label} names no {what}")
    return node.importer.handles[number]


@converts("READ_VARIABLE")
def convert_read_variable(node: Node) -> Expr:
    name = named(node)
    if name not in node.world.values:
        tensor = node.output()
        if not tensor.dtype or min(tensor.shape, default=0) < 0:
            node.unsupported(f"a variable of type {tensor.element_type} and shape {list(tensor.shape)}")
        node.importer.declare(name, TensorType(tensor.shape, tensor.dtype))
        return node.importer.parameter(name)
    return node.world.values[name]


@converts("ASSIGN_VARIABLE")
def convert_assign_variable(node: Node) -> list[Expr]:
    name, value = named(node), node[1]
    node.importer.declare(name, tensor_type_of(value))
    if tensor_type_of(value) != node.importer.variables[name]:
        node.unsupported(
            f"the variable {name!r} of type {node.importer.variables[name]} given a {tensor_type_of(value)}"
        )
    node.world.values[name] = value
    return []


@converts("CALL_ONCE")
def convert_call_once(node: Node) -> list[Expr]:
    """The assignments that a model makes before its first run, as the variables' initial values."""
    world = World()
    _run(node, int(node.option("init_subgraph_index")), [], world)
    for name, value in world.values.items():
        if not isinstance(value, Constant):
            node.unsupported(f"an initial value of {name!r} that is not constant")
        node.importer.initial[name] = value.data
    return []


# ------------------------------------------------------------------------------------------------------ branches
@converts("IF")
def convert_if(node: Node) -> list[Expr]:
    positions = [int(node.option(f"{which}_subgraph_index")) for which in ("then", "else")]
    known = node.array(0)
    if known is not None and known.size == 1:
        return _run(node, positions[0 if known.reshape(-1)[0] else 1], node.given()[1:], node.world)
    return _branches(node, [reshape(node[0], ())], positions)


@converts("STABLEHLO_CASE")
def convert_case(node: Node) -> list[Expr]:
    """The branch that a number names; for one that is none, the last."""
    positions = [int(position) for position in node.option("branch_subgraph_indices")]
    if not positions:
        raise ModelError(f"{node.label} has no branches")
    known = node.array(0)
    if known is not None and known.size == 1:
        index = int(known.reshape(-1)[0])
        return _run(node, positions[index if 0 <= index < len(positions) else -1], node.given()[1:], node.world)
    chosen = reshape(node[0], ())
    return _branches(node, [op.equal(chosen, position) for position in range(len(positions) - 1)], positions)


def _branches(node: Node, tests: Sequence[Expr], positions: Sequence[int]) -> list[Expr]:
    """The results of the subgraph of the first of `tests` that is true, or of the last; variables go along."""
    worlds = [node.world.copy() for _ in positions]
    branches = [_run(node, position, node.given()[1:], world) for position, world in zip(positions, worlds)]
    states = _changed(node, node.world, worlds)
    values = [[*branch, *[_state(node, world, name) for name in states]] for branch, world in zip(branches, worlds)]
    if any([type_of(value) for value in some] != [type_of(value) for value in values[0]] for some in values):
        node.bad("its branches return values of different types")
    if not tests:
        results = values[-1]
    else:
        chosen: Expr = Tuple(values[-1])
        for test, some in zip(reversed(tests), reversed(values[:-1])):
            chosen = If(test, Tuple(some), chosen)
        results = [TupleGetItem(chosen, index) for index in range(len(values[0]))]
    node.world.values.update(zip(states, results[len(branches[0]) :]))
    return results[: len(branches[0])]


def _changed(node: Node, before: World, worlds: Sequence[World]) -> list[str]:
    names = [name for world in worlds for name, value in world.values.items() if before.values.get(name) is not value]
    return list(dict.fromkeys(names))


def _state(node: Node, world: World, name: str) -> Expr:
    value = world.values.get(name)
    return node.importer.parameter(name) if value is None else value


# --------------------------------------------------------------------------------------------------------- loops
#: Loops of more rounds are functions.
_MOST_ROUNDS = 512


@converts("WHILE", "STABLEHLO_WHILE")
def convert_while(node: Node) -> list[Expr]:
    condition, body = (int(node.option(f"{which}_subgraph_index")) for which in ("cond", "body"))
    functions = dict(node.importer.functions)
    written = _written_out(node, condition, body)
    if written is not None:
        return written
    node.importer.functions = functions
    return _recursive(node, condition, body)


def _written_out(node: Node, condition: int, body: int) -> list[Expr] | None:
    """The values behind a loop whose condition is known before each round; None for one where it is not."""
    world, values = node.world.copy(), node.given()
    for _ in range(_MOST_ROUNDS):
        (goes_on, *_) = _run(node, condition, values, world)
        if not isinstance(goes_on, Constant):
            return None
        if not goes_on.data.any():
            node.world.values.update(world.values)
            return values
        values = _run(node, body, values, world)
    return None


def _recursive(node: Node, condition: int, body: int) -> list[Expr]:
    carried = node.given()
    handles = [node.tensor(index).element_type == "RESOURCE" for index in range(len(carried))]
    moving = [value for value, is_handle in zip(carried, handles) if not is_handle]
    states = _assigned(node, condition, body, carried)
    types = [type_of(value) for value in moving] + [node.importer.variables[name] for name in states]
    params = [var(f"carried_{index}", type_) for index, type_ in enumerate(types)]
    own = iter(params)
    inside = [value if is_handle else next(own) for value, is_handle in zip(carried, handles)]
    world = World({**node.world.values, **dict(zip(states, list(own)))})
    test = _run(node, condition, inside, world)
    results = _run(node, body, inside, world)
    again = [value for value, is_handle in zip(results, handles) if not is_handle]
    again += [world.values[name] for name in states]
    found = [type_of(value) for value in again]
    if len(results) != len(carried) or found != types:
        node.unsupported(f"a loop whose values change their types from {types} to {found}")
    captured = _outer(node, [*test, *again], params)
    start = [*moving, *[_state(node, node.world, state) for state in states], *captured]
    result = recursive_call(
        node.importer.functions, "while", [*params, *captured], len(types), test[0], [*again, *captured], start,
        node.span,
    )  # fmt: skip
    node.world.values.update({state: result[len(moving) + i] for i, state in enumerate(states)})
    values = iter([result[index] for index in range(len(moving))])
    return [value if is_handle else next(values) for value, is_handle in zip(carried, handles)]


def loop(
    node: Node, label: str, start: Sequence[Expr], goes_on: Callable[[list[Expr]], Expr],
    body: Callable[[list[Expr]], Sequence[Expr]],
) -> list[Expr]:  # fmt: skip
    """The values that a loop ends with: `body` of them while `goes_on`, which tells by one bool."""
    params = [var(f"carried_{index}", type_of(value)) for index, value in enumerate(start)]
    test, again = goes_on(list(params)), body(list(params))
    result = recursive_call(node.importer.functions, label, params, len(params), test, again, start, node.span)
    return [result[index] for index in range(len(params))]


def _assigned(node: Node, condition: int, body: int, carried: Sequence[Expr]) -> list[str]:
    """The variables that one round of the loop assigns."""
    world = node.world.copy()
    for index in (condition, body):
        _run(node, index, carried, world)
    return _changed(node, node.world, [world])


def _outer(node: Node, values: Sequence[Expr], params: Sequence[Expr]) -> list[Var]:
    """The parameters of `main` that a loop's body reads; they are passed on, under their own names."""
    used = {part for value in values for part in post_order(value)}
    return [param for param in node.importer.parameters() if param in used]


converts.functions({
    "VAR_HANDLE": lambda node: constant(node.importer.handle(variable_name(node.operator.options)), "int32"),
    "CALL": lambda node: _run(node, int(node.option("subgraph")), node.given(), node.world),
    # an operator by the subgraph that it is made of
    "STABLEHLO_COMPOSITE": lambda node: _run(
        node, int(node.option("decomposition_subgraph_index")), node.given(), node.world
    ),
})  # fmt: skip
