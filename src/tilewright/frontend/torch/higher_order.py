"""Operators whose operands are graphs: those that PyTorch itself writes out in plain operators are replaced by these.

    out, _, _ = flex_attention(q, k, v, score_mod, …)    ->    q @ k.T, the scores changed, softmax, @ v
    carried, rows = scan(step, [x], [xs])                ->    step after step, the rows stacked
    map_impl(function, [xs], [y])                        ->    vmap of the function

`cond` and `while_loop` stay as they are (`control.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tilewright.errors import UnsupportedError

#: Steps of a scan that are written out at most.
_MOST_STEPS = 256


def written_out(graph: Any, table: dict[Any, Any]) -> Any:
    """`graph`, a `torch.fx.Graph`, without such operators; itself where it has none.

    `table` are the decompositions of what they are written out in. Raises `UnsupportedError` for a scan of more steps
    than are written out.
    """
    rules = _rules()
    if not any(node.target in rules for node in graph.nodes if node.op == "call_function"):
        return graph
    # torch is optional
    import torch

    made = torch.fx.Graph(graph.owning_module)
    known: dict[Any, Any] = {}
    for node in graph.nodes:
        if node.op == "call_function" and node.target in rules:
            known[node] = _trace(node, rules[node.target], table, made, known)
        elif node.target is operator.getitem and isinstance(known[node.args[0]], list):
            known[node] = known[node.args[0]][node.args[1]]
        else:
            known[node] = made.node_copy(node, lambda one: known[one])
    made.owning_module = graph.owning_module
    return made


def _rules() -> dict[Any, Callable[..., Any]]:
    import torch
    from torch._higher_order_ops.flex_attention import flex_attention, math_attention
    from torch._higher_order_ops.map import map_impl
    from torch._higher_order_ops.scan import scan_op

    def scanned(step: Any, carried: Any, rows: Any, more: Any = ()) -> Any:
        count = rows[0].shape[0]
        if not isinstance(count, int) or not 0 < count <= _MOST_STEPS:
            raise UnsupportedError(f"scan over {count} steps, which is not from 1 to {_MOST_STEPS}, is not supported")
        found, columns = list(carried), []
        for index in range(count):
            results = step(*found, *(one[index] for one in rows), *more)
            found, made = list(results[: len(found)]), results[len(found) :]
            columns.append(made)
        return [*found, *(torch.stack(column) for column in zip(*columns))]

    def mapped(function: Any, rows: Any, more: Any = ()) -> Any:
        return torch.vmap(function, in_dims=(*[0] * len(rows), *[None] * len(more)))(*rows, *more)

    return {flex_attention: math_attention, scan_op: scanned, map_impl: mapped}


def _trace(node: Any, rule: Callable[..., Any], table: dict[Any, Any], made: Any, known: dict[Any, Any]) -> list[Any]:
    """The nodes of the results of `rule` on the operands of `node`, entered into the graph `made`."""
    import torch
    from torch._guards import detect_fake_mode
    from torch.fx.experimental.proxy_tensor import make_fx

    owner, flatten = node.graph.owning_module, torch.utils._pytree
    operands, spec = flatten.tree_flatten((node.args, node.kwargs))
    nodes = [one for one in operands if hasattr(one, "op")]
    tensors = [one for one in nodes if one.op != "get_attr" or _held(owner, one) is not None]
    values = [one.meta["val"] if "val" in one.meta else _held(owner, one) for one in tensors]
    mode = detect_fake_mode(values)

    def run(*given: Any) -> list[Any]:
        stand_ins = iter(given)
        filled = [
            next(stand_ins) if one in tensors else getattr(owner, one.target) if hasattr(one, "op") else one
            for one in operands
        ]
        args, kwargs = flatten.tree_unflatten(filled, spec)
        return list(rule(*args, **kwargs))

    with mode:
        part = make_fx(run, decomposition_table=table, _allow_non_fake_inputs=True)(*values)
    inner: dict[Any, Any] = {}
    holders = iter(tensors)
    for one in part.graph.nodes:
        if one.op == "placeholder":
            inner[one] = known[next(holders)]
        elif one.op == "get_attr":
            name = f"{node.name}_{one.target}"
            setattr(owner, name, getattr(part, one.target))
            inner[one] = made.get_attr(name)
            inner[one].meta = dict(one.meta)
        elif one.op == "call_function":
            inner[one] = made.node_copy(one, lambda before: inner[before])
    (results,) = next(one for one in part.graph.nodes if one.op == "output").args
    return [inner.get(one, one) for one in results]


def _held(owner: Any, node: Any) -> Any:
    """The tensor that a node of the kind `get_attr` stands for; None for a graph, and for what is no such node."""
    import torch

    value = getattr(owner, node.target, None) if getattr(node, "op", None) == "get_attr" else None
    return value if isinstance(value, torch.Tensor) else None
