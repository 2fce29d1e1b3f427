"""The results of a module: `main` made of them, and those that are wanted, the module's own or those of nodes within.

choose_outputs(mod, ["probabilities", "features/relu_3"], "an ONNX model")
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from tilewright.errors import InputError, UnsupportedError
from tilewright.relay.ir.expr import Call, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType, TupleType
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import all_vars, children, post_order

#: Names that a message lists at most.
_MOST_NAMES = 20


def module_of(
    params: Sequence[Var], results: Sequence[Expr], names: Sequence[str], functions: Mapping[GlobalVar, Function] = {}
) -> IRModule:
    """A module whose `main` returns `results`, a tuple of several, called `names`, beside other `functions`."""
    body = results[0] if len(results) == 1 else Tuple(results)
    main = Function(params, body, attrs={"output_names": tuple(names)})
    return IRModule({**functions, GlobalVar("main"): main})


def choose_outputs(mod: IRModule, outputs: Sequence[str] | None, kind: str) -> IRModule:
    """`mod` with the results called `outputs`, in that order, and the inputs that they need; None keeps it.

    A name is that of a result, or of a node: `node:1` is its second result, and the end of a path (`relu` of
    `features/relu`) will do where it is the only one. `kind` is what messages call the model.
    Raises `InputError` for a name that is none, or stands for several.
    """
    if outputs is None:
        return mod
    main = mod["main"]
    if not outputs:
        raise InputError("outputs is empty; name at least one result")
    own = _own_results(main)
    found = [own[name] if name in own else _of_node(main, name, own, kind) for name in outputs]
    body = found[0] if len(found) == 1 else Tuple(found)
    read = set(all_vars(body))
    params = [param for param in main.params if param in read]
    return mod.with_function("main", Function(params, body, attrs={**main.attrs, "output_names": tuple(outputs)}))


def _own_results(main: Function) -> dict[str, Expr]:
    names: Sequence[str] = main.attrs.get("output_names") or ()
    if len(names) == 1:
        return {names[0]: main.body}
    fields = (
        main.body.fields if isinstance(main.body, Tuple) else [main.body[position] for position in range(len(names))]
    )
    return dict(zip(names, fields))


def _of_node(main: Function, name: str, own: dict[str, Expr], kind: str) -> Expr:
    """The result of the node called `name`: of the calls that it became the one that no other of them reads."""
    node, _, position = name.rpartition(":")
    spans: dict[str, list[Call]] = {}
    for call in post_order(main.body):
        if isinstance(call, Call) and call.span:
            spans.setdefault(str(call.span), []).append(call)
    for wanted, index in ((name, 0), (node, int(position) if position.isdigit() else -1)):
        matches = [wanted] if wanted in spans else [one for one in spans if one.endswith(f"/{wanted}")]
        if index < 0 or not wanted or not matches:
            continue
        if len(matches) > 1:
            raise InputError(f"outputs: {name!r} stands for {len(matches)} nodes: {_listed(matches)}; pass one in full")
        return _result(main, name, spans[matches[0]], index)
    close = difflib.get_close_matches(name, [*own, *spans], 3)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise InputError(
        f"{kind} has no result and no node {name!r}{hint} Its results are {_listed(list(own))}; its nodes are those "
        "that `tilewright inspect --stage relay` names"
    )


def _result(main: Function, name: str, calls: Sequence[Call], index: int) -> Expr:
    read = {kid for call in calls for kid in _through(call)}
    roots = [call for call in calls if call not in read]
    if len(roots) != 1 and not (len(roots) > index and all(isinstance(type_of(one), TensorType) for one in roots)):
        raise InputError(f"outputs: the node {name!r} has several results; name one, {name}:0 and so on")
    whole = roots[0] if len(roots) == 1 else roots[index]
    if not set(all_vars(whole)) <= set(main.params):
        raise UnsupportedError(f"outputs: the node {name!r} stands within a branch or loop, and has no single value")
    kind = type_of(whole)
    if isinstance(kind, TupleType):
        if index >= len(kind.fields):
            raise InputError(f"outputs: {name!r}: the node has {len(kind.fields)} results")
        return TupleGetItem(whole, index)
    return whole


def _through(call: Call) -> list[Expr]:
    """The operands of a call, the tuples among them opened."""
    found: list[Expr] = []
    for kid in children(call):
        found.append(kid)
        if isinstance(kid, Tuple | TupleGetItem):
            found.extend(children(kid))
    return found


def _listed(names: Sequence[str]) -> str:
    more = f" … ({len(names)} in all)" if len(names) > _MOST_NAMES else ""
    return ", ".join(map(repr, names[:_MOST_NAMES])) + more
