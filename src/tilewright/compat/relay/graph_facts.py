"""`relay.analysis`: parts of modules taken out, and the values that flow into and out of functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tilewright import relay
from tilewright.compat.ir.module import IRModule, as_module
from tilewright.compat.ir.passes import CONSTRUCTORS
from tilewright.compat.ir.structure import structural_hash
from tilewright.compat.runtime.array import NDArray, array, to_numpy
from tilewright.errors import InputError
from tilewright.relay.interpreter.interpreter import evaluate
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import calls, children, free_vars, post_order

#: The level of optimization at which functions are fused before they are taken out.
_FUSE_LEVEL = 3


def extract_fused_functions(mod: Any) -> dict[int, relay.Function]:
    """The functions that the operators of `mod` fuse into, each once, by their structural hash."""
    fused = as_module(mod)
    for one in ("InferType", "SimplifyInference", "FuseOps", "InferType"):
        fused = (CONSTRUCTORS[one](_FUSE_LEVEL) if one == "FuseOps" else CONSTRUCTORS[one]())(fused)
    found: dict[int, relay.Function] = {}
    for func in fused.functions.values():
        for node in post_order(func) if isinstance(func, relay.Function) else ():
            callee = node.op if isinstance(node, relay.Call) else None
            if isinstance(callee, relay.Function) and callee.attrs.get("Primitive"):
                found.setdefault(structural_hash(callee, True), callee)
    return found


def extract_intermdeiate_expr(mod: Any, expr_id: int) -> IRModule:
    """A module of expression number `expr_id` of the function `main`, counting calls, tuples and fields in the order
    of evaluation. Raises `InputError` where there is none."""
    kinds = relay.Call | relay.Tuple | relay.TupleGetItem
    inner = [node for node in post_order(mod["main"].body) if isinstance(node, kinds)]
    if not 0 <= expr_id < len(inner):
        raise InputError(f"extract_intermdeiate_expr: {expr_id} is not the number of one of {len(inner)} expressions")
    return IRModule.from_expr(relay.Function(free_vars(inner[expr_id]), inner[expr_id]))


#: What begins and ends a region of rounded floats.
_BEGINS, _ENDS = "qnn.dequantize", "qnn.quantize"


def list_fake_quantized_op_freqs(mod: Any) -> dict[str, int]:
    """The number of calls of each operator between `qnn.dequantize` and `qnn.quantize`."""
    all_calls = [call for func in as_module(mod).functions.values() for call in calls(func)]
    ends = [call for call in all_calls if getattr(call.op, "name", "") == _ENDS]
    return dict(Counter(name for call in ends for name in _between(call.args[0])))


def _between(value: relay.Expr) -> list[str]:
    """The operators that make `value` of dequantized values and constants; none where other values come in."""
    names: list[str] = []
    seen: set[relay.Expr] = set()
    pending = [value]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, relay.Call):
            if not isinstance(node.op, Op):
                return []
            if node.op.name == _BEGINS:
                continue
            names.append(node.op.name)
        elif not isinstance(node, relay.Tuple | relay.TupleGetItem | relay.Constant):
            return []
        pending += children(node)
    return names


def get_calibration_data(mod: Any, data: Mapping[str, Any]) -> dict[relay.GlobalVar, dict[str, list[NDArray]]]:
    """The inputs and outputs of each function that `main` calls, for the values `data` of the parameters of `main`.

    For each variable of a function: {"inputs": arrays, "outputs": arrays}. Operators run by their references.
    """
    whole = as_module(mod)
    main = whole["main"]
    called = [(call.op, call) for call in calls(main) if isinstance(call.op, relay.GlobalVar)]
    missing = [param.name for param in main.params if param.name not in data]
    if missing:
        raise InputError(f"get_calibration_data: there is no value for {', '.join(missing)}")
    watched = relay.Tuple([relay.Tuple([relay.Tuple(call.args), call]) for _, call in called])
    changed = IRModule.of(whole.with_functions(whole.functions))
    changed["main"] = relay.Function(main.params, watched)
    values = evaluate(changed, [to_numpy(data[param.name]) for param in main.params])
    return {
        name: {"inputs": _arrays(inputs), "outputs": _arrays(outputs)}
        for (name, _), (inputs, outputs) in zip(called, values, strict=True)
    }


def _arrays(value: Any) -> list[NDArray]:
    """The arrays of nested tuples in a row."""
    return [one for part in value for one in _arrays(part)] if isinstance(value, tuple) else [array(value)]
