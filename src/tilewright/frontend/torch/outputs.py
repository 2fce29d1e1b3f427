"""Outputs of a graph as eager mode lays them out: their strides, and which of them share memory with what.

AOTAutograd's graph has a fake tensor as the value of each node: its strides, offset and storage are those that eager
mode would return the result. An output in another order than C order is computed in the order of its memory and viewed
by its strides. One that is a view of an input or of another node is made by PyTorch: from the input, or from the
storage's first node, which the module returns instead of the view.

    outputs = Outputs(given, placeholders, values)
    outputs.results                  # what the module is to return
    outputs.tensors(arrays, args)    # the outputs, of the module's results and the graph's inputs

AOTAutograd views inputs again by the sizes, strides and offset of such outputs: one with the right numbers in another
order of memory becomes one with wrong numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.frontend.builders.complex_numbers import Complex, to_last_axis
from tilewright.frontend.idioms import transpose
from tilewright.frontend.torch.layouts import Layout, SizesOfInputs, layout_of, plain
from tilewright.frontend.torch.tensors import tensor_of
from tilewright.relay.ir.expr import Expr


class Outputs:
    """The outputs `given` of a `torch.fx.Graph` with these `placeholders`, whose nodes became `values`.

    `on_gpu` is True where the module runs on a GPU: results come on it, and are moved where the graph has them on
    another device. Raises `UnsupportedError` for an output that is a number which a run computes, and for a view of an
    input that depends on something else than inputs.
    """

    def __init__(
        self, given: Sequence[Any], placeholders: Sequence[Any], values: Mapping[Any, Any], on_gpu: bool = False
    ) -> None:
        self._on_gpu = on_gpu
        self.results: list[Expr] = []
        self._finishers: list[Callable[[Any, Sequence[Any]], Any]] = []
        self._indices: dict[Any, int] = {}  # of the results of nodes
        self._values, self._sizes = values, SizesOfInputs(placeholders)
        self._inputs = {node: position for position, node in enumerate(placeholders)}
        self._bases = _bases(given)
        self._sharing = Counter(_memory(node) for node in dict.fromkeys(n for n in given if hasattr(n, "op")))
        self._outputs = [self._planned(item) for item in given]
        self._replays = any(kind == "view" for kind, _ in self._outputs)
        del self._values

    def tensors(self, arrays: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """The graph's outputs, of the results of its module and of its inputs.

        Raises what PyTorch raises for a view that an input does not allow."""
        made = [finish(array, args) for finish, array in zip(self._finishers, arrays)]
        known: dict[Any, Any] = {}
        if self._replays:
            known = {node: made[index] for node, index in self._indices.items()}
            known |= {node: args[position] for node, position in self._inputs.items()}
        found = []
        for kind, value in self._outputs:
            if kind == "result":
                found.append(made[value])
            elif kind == "strided":
                found.append(made[value[0]].as_strided(*value[1:]))
            elif kind == "input":
                found.append(args[value])
            elif kind == "view":
                found.append(replay(value, known))
            else:
                found.append(value(args)[0] if kind == "size" else value)
        return found

    def _planned(self, item: Any) -> tuple[str, Any]:
        """The construction of an output: ("result", its number), ("strided", number of the result, size, stride and
        offset), ("input", its index), ("view", the node), ("size", a function of the inputs) or ("value", the value).
        """
        if not hasattr(item, "op"):
            return "value", item
        if item in self._inputs:
            return "input", self._inputs[item]
        base = self._bases.get(_memory(item) or 0)
        if base is not None and base is not item:
            other = _unknown(item, {base, *self._inputs})
            if base in self._inputs:
                if other is None:
                    return "view", item
                raise UnsupportedError(f"the output {item} is a view that depends on {other}, which is no input")
            if other is None and isinstance(self._values.get(base), Expr | Complex) and not self._stands_alone(item):
                index = self._result(base)
                return ("strided", (index, *fixed)) if (fixed := _fixed_view(item, base)) else ("view", item)
        if _is_empty(item) and self._costs_nothing(item):  # its strides are not those that its value tells
            return "view", item
        value = self._values[item]
        if isinstance(value, Expr | Complex):
            return "result", self._result(item)
        if value is None or isinstance(value, bool | int | float):
            return "value", value
        if type(item.meta.get("val")).__name__ == "SymInt":
            return "size", self._sizes.function([item.meta["val"]], f"the output {item}")
        raise UnsupportedError(f"the output {item} is a number that a run computes, which is not supported")

    def _stands_alone(self, node: Any) -> bool:
        """True for the only output of its storage where it is all of it: it needs no tensor that it is a view of."""
        value, base = node.meta["val"], self._bases[_memory(node) or 0].meta["val"]
        return (
            self._sharing[_memory(node)] == 1
            and value.storage_offset() == 0
            and (value.dtype, value.is_conj(), value.is_neg()) == (base.dtype, False, False)
            and plain(value.numel()) == plain(base.numel())
            and layout_of(value).is_dense
        )

    def _costs_nothing(self, node: Any) -> bool:
        """True where PyTorch makes a tensor without elements of others and of views of inputs."""
        wanted, seen = [node], set(self._inputs)
        while wanted:
            one = wanted.pop()
            if one in seen:
                continue
            seen.add(one)
            if one.op != "call_function" or (
                not _is_empty(one) and self._bases.get(_memory(one) or 0) not in self._inputs
            ):
                return False
            wanted += one.all_input_nodes
        return True

    def _result(self, node: Any) -> int:
        """The number of the result that is the value of `node`, in the order of its memory."""
        if node not in self._indices:
            value = self._values[node]
            if not hasattr(node.meta["val"], "untyped_storage"):  # a number that a run computes
                self._indices[node] = len(self.results)
                self.results.append(value)
                self._finishers.append(lambda array, _: tensor_of(array).item())
                return self._indices[node]
            layout, parts = layout_of(node.meta["val"]), isinstance(value, Complex)
            whole = to_last_axis(value) if isinstance(value, Complex) else value
            order = layout.order
            if order is not None:
                whole = transpose(whole, (*order, len(order)) if parts else order)
            self._indices[node] = len(self.results)
            self.results.append(whole)
            finish, device = self._finisher(layout, parts), node.meta["val"].device
            self._finishers.append((lambda array, args: finish(array, args).to(device)) if self._on_gpu else finish)
        return self._indices[node]

    def _finisher(self, layout: Layout, parts: bool) -> Callable[[Any, Sequence[Any]], Any]:
        """A function of an array and the graph's inputs that returns a tensor on its memory, laid out as `layout`."""
        # torch is optional
        import torch

        if not layout.is_needed:
            return (
                (lambda array, _: torch.view_as_complex(tensor_of(array)))
                if parts
                else (lambda array, _: tensor_of(array))
            )
        if layout.order is not None and not parts and layout.is_transposed:
            inverse = [layout.order.index(axis) for axis in range(len(layout.order))]
            if self._on_gpu:
                return lambda array, _: tensor_of(array).permute(inverse)
            return lambda array, _: tensor_of(array.transpose(inverse))  # half the time of asking PyTorch for strides
        where = layout.where(self._sizes)

        def finish(array: Any, args: Sequence[Any]) -> Any:
            tensor = torch.view_as_complex(tensor_of(array)) if parts else tensor_of(array)
            size, stride, dense = where(args)
            if dense:
                return tensor.as_strided(size, stride)
            if layout.order is not None:
                tensor = tensor.permute([layout.order.index(axis) for axis in range(len(size))])
            return torch.empty_strided(size, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)

        return finish


def replay(node: Any, known: dict[Any, Any]) -> Any:
    """The value of `node`, of those of nodes that are `known`; what is found on the way is entered there."""
    if node not in known:
        from torch.fx import map_arg

        args, kwargs = map_arg((node.args, node.kwargs), lambda one: replay(one, known))
        known[node] = node.target(*args, **kwargs)
    return known[node]


def _bases(given: Sequence[Any]) -> dict[int, Any]:
    """The first node of each storage."""
    graph = next((item.graph for item in given if hasattr(item, "op")), None)
    bases: dict[int, Any] = {}
    for node in graph.nodes if graph is not None else ():
        if (memory := _memory(node)) is not None:
            bases.setdefault(memory, node)
    return bases


def _fixed_view(node: Any, base: Any) -> tuple[Any, ...] | None:
    """Size, stride and offset of a view of `base`, where they are all that is to be known of it; else None."""
    value, whole = node.meta["val"], base.meta["val"]
    numbers = (*value.shape, *value.stride(), value.storage_offset())
    same = value.dtype == whole.dtype and not value.is_conj() and not value.is_neg()
    if not same or not all(isinstance(number, int) for number in numbers) or not layout_of(whole).is_exact:
        return None
    return tuple(value.shape), tuple(value.stride()), value.storage_offset()


def _is_empty(node: Any) -> bool:
    """True for a tensor of which it is known that it has no elements."""
    return any(isinstance(extent, int) and extent == 0 for extent in getattr(node.meta.get("val"), "shape", ()))


def _memory(node: Any) -> int | None:
    """The identity of a tensor's memory; None for a value without memory."""
    value: Any = node.meta.get("val") if hasattr(node, "meta") else None
    return int(value.untyped_storage()._cdata) if hasattr(value, "untyped_storage") else None


def _unknown(node: Any, known: set[Any]) -> Any:
    """A node that `node` depends on and that is not one of the `known`, nor a view or number of these; None if none."""
    wanted, seen = [node], set(known)
    while wanted:
        one = wanted.pop()
        if one in seen:
            continue
        seen.add(one)
        if one.op != "call_function" or _memory(one) not in (None, _memory(node)):
            return one
        wanted += one.all_input_nodes
    return None
