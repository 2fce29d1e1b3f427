"""Run-time checks of PyTorch in the compiled graph: one more result, true where PyTorch would refuse.

    index, 50257 rows   ->   max(cast(index, uint64)) >= 50257
    _assert_async(x)    ->   not x

A kernel reads the nearest element where an index is out of range and writes none. `torch.compile` looks at the result
after the run and has PyTorch run the graph where it is true, which raises what it raises in eager mode. Many indices
that are most of what a graph works on are left out, for looking at them would be a good part of its time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

from tilewright.frontend.idioms import cast, constant, like, product, rank_of, shape_of
from tilewright.frontend.torch.build import element_type, extent_of
from tilewright.frontend.torch.node import TorchNode
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.op.host import shape_of as shape_of_run

#: The name of an index, the index, the extent that it counts on, and whether -1 is the last position.
Bound = tuple[str, Expr, Any, bool]


def _on_axis(call: TorchNode) -> Iterator[Bound]:
    data = call["self"]
    yield (
        "index",
        call["index"],
        shape_of(data)[call.axis(call["dim"])] if rank_of(data) else 1,
        "index_fill" in call.target,
    )


def _of_rows(call: TorchNode) -> Iterator[Bound]:
    yield "indices", call["indices"], shape_of(call["weight"])[0], False


def _of_elements(call: TorchNode) -> Iterator[Bound]:
    yield "index", call["index"], product(shape_of(call["self"])), True


def _of_axes(call: TorchNode) -> Iterator[Bound]:
    for axis, index in enumerate(call["indices"]):
        if index is not None and not element_type(index).is_bool:
            yield f"indices {axis}", index, shape_of(call["self"])[axis], True


def _of_classes(call: TorchNode) -> Iterator[Bound]:
    target, data = call["target"], call["self"]
    ignored = op.equal(target, like(call["ignore_index"], target))
    yield "target", op.where(ignored, 0, target), shape_of(data)[1 if rank_of(data) > 1 else 0], False


_BOUNDS: dict[str, Callable[[TorchNode], Iterator[Bound]]] = {
    **{f"aten.{name}": _on_axis for name in (
        "index_select", "gather", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill",
        "index_reduce",
    )},
    **{f"aten.{name}": _of_rows for name in ("embedding", "_embedding_bag", "_embedding_bag_forward_only")},
    **{f"aten.{name}": _of_elements for name in ("take", "put")},
    **{f"aten.{name}": _of_axes for name in ("index", "index_put", "_index_put_impl")},
    **{f"aten.{name}": _of_classes for name in ("nll_loss_forward", "nll_loss2d_forward")},
}  # fmt: skip

#: Operators whose (last) result holds positions on an axis of their operand.
_POSITIONS = ("sort", "topk", "argsort", "argmax", "argmin", "max", "min", "kthvalue", "median", "mode")
#: Operators that pick or move elements of their first operand.
_KEEPING = (
    "view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "expand", "permute", "transpose", "t", "slice", "select",
    "clone", "detach", "alias", "_to_copy", "flip", "repeat",
)  # fmt: skip


#: Indices that are always looked at, and how small a part of all elements that a graph computes others must be.
_CHEAP, _SHARE = 1 << 14, 64


class Checks:
    """Gathers what must not be while the nodes of a graph are converted."""

    def __init__(self, graph: Any) -> None:
        self._bad: list[Expr] = []
        self._most = (
            sum(_elements(node.meta.get("val")) for node in graph.nodes if node.op == "call_function") // _SHARE
        )

    def indices(self, call: TorchNode, node: Any) -> None:
        """Note the bounds of what `call`, the graph's `node`, reads or writes at, where they are not known to hold."""
        for name, index, extent, from_back in _BOUNDS.get(call.target.rpartition(".")[0], lambda _: iter(()))(call):
            given = _operand(node, *name.split())
            if 0 in shape_of(index) or _within(_limit(given), extent, call):
                continue
            if _elements(given.meta.get("val")) > max(self._most, _CHEAP):
                continue
            least = extent if from_back else 0
            known = isinstance(index, Constant) and isinstance(extent, int)
            if known and not ((index.data < -least) | (index.data >= extent)).any():
                continue
            self._bad.append(_farthest(index, from_back) >= cast(_size(call, name, extent), "uint64"))

    def assertion(self, target: str, operand: Any) -> None:
        """Note what an operator that only raises looks at, if it is a tensor: numbers are sizes that are known."""
        if not isinstance(operand, Expr):
            return
        if "assert_async" in target:
            self._bad.append(op.equal(op.reshape(operand, newshape=()), 0))

    def flag(self) -> Expr | None:
        """True where PyTorch refuses; None where nothing is to be looked at."""
        return reduce(op.logical_or, self._bad) if self._bad else None


def _farthest(index: Expr, from_back: bool) -> Expr:
    """The largest index as a scalar of uint64, in which negative ones are beyond every extent; with `from_back` -1
    counts as 0, -2 as 1 and so on."""
    whole = cast(index, "int64")
    if from_back:
        whole = op.bitwise_xor(whole, op.right_shift(whole, 63))
    whole, axes = cast(whole, "uint64"), tuple(range(rank_of(whole)))
    return op.max(whole, axis=axes) if axes else whole


def _size(call: TorchNode, name: str, extent: Any) -> Expr:
    """An extent as a scalar of int64, also where a run finds it."""
    if not isinstance(extent, AnyDim):
        return extent_of(extent)
    data = call["weight" if name == "indices" else "self"]
    sizes = shape_of_run(data, "int64")
    axis = int(name.split()[1]) if " " in name else 0 if name == "indices" else call.axis(call["dim"])
    return op.take(sizes, constant(axis, "int64"), axis=0, mode="clip")


def _operand(node: Any, name: str, position: str = "") -> Any:
    """The argument of a node of a graph by its name, or one of a list of them."""
    names = [declared.name for declared in node.target._schema.arguments]
    given: Any = {**dict(zip(names, node.args)), **node.kwargs}.get(name)
    return given[int(position)] if position else given


def _elements(value: Any) -> int:
    """The number of elements of a (fake) tensor, or of several together; of symbolic dimensions in the example."""
    if isinstance(value, tuple | list):
        return sum(map(_elements, value))
    if not hasattr(value, "numel"):
        return 0
    count = value.numel()
    found = count if isinstance(count, int) else count.node.hint
    return int(found) if found is not None else 0


def _limit(node: Any) -> Any:
    """A number that all elements of a node's result are known to be below and not negative; None where none is."""
    while getattr(node, "op", "") == "call_function":
        source: Any = node.args[0] if node.args else None
        if node.target is operator.getitem and node.args[1] == 1 and str(source.target).split(".")[1] in _POSITIONS:
            node = source
        name = str(node.target).removeprefix("aten.").partition(".")[0]
        if name in _POSITIONS and not hasattr(node.meta["val"], "is_floating_point"):
            return _extent(node)
        if name in ("argmax", "argmin", "argsort"):
            return _extent(node)
        if name in ("randint", "randperm"):
            return None if (_operand(node, "low") or 0) < 0 else _operand(node, "high" if name == "randint" else "n")
        if name == "remainder" and isinstance(node.args[1], int):
            return max(node.args[1], 0)
        if name not in _KEEPING:
            return None
        node = source
    return None


def _extent(node: Any) -> Any:
    """The extent of the axis that an operator such as `sort` works along."""
    value, axis = node.args[0].meta["val"], _operand(node, "dim")
    if axis is None:
        axis = -1
        if str(node.target) in ("aten.argmax.default", "aten.argmin.default"):
            return value.numel()
    return value.shape[axis] if value.dim() else 1


def _within(limit: Any, extent: Any, call: TorchNode) -> bool:
    """True where numbers below `limit` are positions on an axis of `extent`."""
    if limit is None or hasattr(limit, "op"):
        return False
    found = call.sizes.dim(limit, call.label)
    known = isinstance(found, int) and isinstance(extent, int)
    return found <= extent if known else not isinstance(found, AnyDim) and str(found) == str(extent)
