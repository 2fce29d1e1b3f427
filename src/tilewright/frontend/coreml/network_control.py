"""Branches and loops of Core ML networks: layers that hold networks, which write into the network around them.

A loop becomes one of ML programs (`control.py`) whose variables are a count of its iterations and the
values that its networks write. One iteration tests, then runs the body; the writes of the last test are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.frontend.coreml.control import loop
from tilewright.frontend.coreml.network_node import LayerNode, Nested, layers, read_within
from tilewright.frontend.finish import Finisher, fold_call
from tilewright.frontend.idioms import broadcast_to, cast, constant, reshape
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type_of import tensor_type_of

#: How a loop calls the number of its iterations, which no network can write.
_LIMIT = ""


@layers("branch")
def convert_branch(node: LayerNode) -> list[Expr]:
    """The values that either network writes: of a known condition, or both computed and one chosen."""
    nested, pred = _nested(node), _folded(op.not_equal(reshape(node[0], ()), 0))
    ways = [nested.run(field, {}) for field in ("ifBranch", "elseBranch")]
    if isinstance(pred, Constant):
        chosen, other = ways if pred.data else ways[::-1]
        return [chosen[name] if name in chosen else _nothing(other[name]) for name in nested.names]
    found: list[Expr] = []
    for name in nested.names:
        yes, no = (way[name] if name in way else _nothing(ways[1 - side][name]) for side, way in enumerate(ways))
        if tensor_type_of(yes) != tensor_type_of(no):
            node.unsupported(
                f"{name!r} is {tensor_type_of(yes)} after one branch and {tensor_type_of(no)} after the other"
            )
        found.append(op.where(pred, yes, no))
    return found


@layers("loop")
def convert_loop(node: LayerNode) -> list[Expr]:
    """The values that the networks of a loop write, after its last iteration."""
    nested, functions = _nested(node), dict(_nested(node).functions)
    loop_ = _Loop(node, nested)
    before = nested.before()
    start = {name: before[name] for name in nested.names if name in before}
    if len(start) < len(nested.names):  # what is written first in an iteration: nothing yet, of the type that it gets
        once = loop_.iterated({})
        start.update({name: _nothing(value) for name, value in once.items() if name not in start})
        nested.functions.clear()
        nested.functions.update(functions)
    final = loop(node, loop_, [constant(0.0), *[start[name] for name in nested.names]])
    values = dict(zip(nested.names, final[1:]))
    return list({**values, **loop_.tested(values)}.values())


class _Loop:
    """The blocks of a loop as `control.loop` takes them: the test and the body, of a count and what they write."""

    count = 2

    def __init__(self, node: LayerNode, nested: Nested) -> None:
        self._node, self._nested = node, nested
        self.functions = nested.functions
        self._test = node.p.has("conditionNetwork")
        if self._test and not node.p.conditionVar:
            node.bad("its condition has no name")
        bound = int(node.p.maxLoopIterations)
        self._limit = cast(reshape(node[0], ()), "float32") if node.has(0) else constant(float(bound))
        self._bounded = node.has(0) or bound > 0 or not self._test

    def tested(self, values: Mapping[str, Expr]) -> dict[str, Expr]:
        """The values after a test that begins with `values`."""
        return self._nested.run("conditionNetwork", values) if self._test else dict(values)

    def iterated(self, values: Mapping[str, Expr]) -> dict[str, Expr]:
        """The values after an iteration that begins with `values`."""
        return self._nested.run("bodyNetwork", {**values, **self.tested(values)})

    def results(self, index: int, arguments: Sequence[Expr], outer: Mapping[str, Expr] | None = None) -> list[Expr]:
        """The test, true while the loop goes on; or the variables after an iteration."""
        around = dict(outer or {})
        limit = around.pop(_LIMIT, self._limit)
        values = {**around, **dict(zip(self._nested.names, arguments[1:]))}
        if index:
            after = self.iterated(values)
            return [_folded(arguments[0] + constant(1.0)), *[after[name] for name in self._nested.names]]
        tests = [op.less(arguments[0], limit)] if self._bounded else []
        if self._test:
            found = self.tested(values).get(self._node.p.conditionVar)
            if found is None:
                self._node.bad(f"its condition does not write {self._node.p.conditionVar!r}")
            tests.append(op.not_equal(reshape(found, ()), 0))
        return [_folded(op.logical_and(*tests) if len(tests) == 2 else tests[0])]

    def outer(self) -> dict[str, Expr]:
        """The values from around the loop that it reads and does not write; and its limit."""
        values = {name: value for name, value in self._nested.before().items() if not isinstance(value, Constant)}
        read = [name for name in read_within(self._node.p) if name not in self._nested.names]
        found = {name: values[name] for name in read if name in values}
        return found if isinstance(self._limit, Constant) else {**found, _LIMIT: self._limit}


def _nested(node: LayerNode) -> Nested:
    if node.nested is None:
        node.bad("it has no networks")
    return node.nested


def _nothing(value: Expr) -> Expr:
    """Zeros in place of a value that was never written: no model may read them."""
    kind = tensor_type_of(value)
    return broadcast_to(constant(0, str(kind.dtype)), kind.shape)


def _folded(value: Expr) -> Expr:
    return Finisher(fold_call).finish(value, "", {})
