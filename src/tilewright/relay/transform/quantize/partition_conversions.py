"""A quantized `main` as three functions: conversions of the inputs to integers, the network, conversions of results.

Before: def @main(%x) { qnn.dequantize(qnn.conv2d(qnn.quantize(%x, …), w8, …), …) }
After:  def @quantize_inputs(%x) { (qnn.quantize(%x, …),) };   def @quantized_main(%x) { qnn.conv2d(%x, w8, …) };
        def @dequantize_outputs(%r) { qnn.dequantize(%r, …) };
        def @main(%x) { let %q = @quantize_inputs(%x); @dequantize_outputs(@quantized_main(%q.0)) }

An accelerator or a program that keeps its tensors in integers takes `quantized_main` alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, GlobalVar, Let, Tuple, TupleGetItem, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TupleType, tensor_types
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import children, consumers, post_order, rebuild, substitute
from tilewright.relay.op import qnn
from tilewright.relay.transform.simplify.make import is_call, make

#: Bits of a sum that stays exact.
_SUM_BITS = 30


def partition_conversions(mod: IRModule, integral: bool = False) -> IRModule:
    """The module in three parts; see the module's docstring.

    With `integral` sums of results that conversions stand between are added as integers, and `UnsupportedError` names
    an operator or a parameter of the network that is a float nevertheless.
    """
    mod = infer_type(mod)
    main = mod["main"]
    if integral:
        main = main.with_body(_integer_sums(main.body))
        mod = infer_type(mod.with_function("main", main))
        main = mod["main"]
    inputs, entry, body = _without_quantize(main)
    results, fields, ends = _without_dequantize(body)
    core = Function(entry, results)
    if integral:
        _check_integral(infer_type(mod.with_function("main", core))["main"])
    names = [GlobalVar(name) for name in ("quantize_inputs", "quantized_main", "dequantize_outputs")]
    whole = Let(
        bound := Var("quantized"),
        Call(names[0], list(main.params)),
        Call(names[2], [Call(names[1], [TupleGetItem(bound, i) for i in range(len(entry))])]),
    )
    own = [Var(param.name, type_of(param)) for param in main.params]
    given = substitute(Tuple(inputs), dict(zip(main.params, own, strict=True)))
    parts = (Function(own, given), core, Function([fields], ends))
    mod = mod.with_functions({**mod.functions, **dict(zip(names, parts, strict=True))})
    return infer_type(mod.with_function("main", main.with_body(whole)))


def _without_quantize(main: Function) -> tuple[list[Expr], list[Var], Expr]:
    """The values that the inputs become, the network's parameters for them, and its body."""
    users = consumers(post_order(main.body))
    inputs: list[Expr] = []
    entry: list[Var] = []
    replaced: dict[Expr, Expr] = {}
    for param in main.params:
        calls = users.get(param, [])
        converted = bool(calls) and all(is_call(call, "qnn.quantize") for call in calls)
        for value in calls if converted else [param]:
            fresh = Var(param.name, type_of(value))
            inputs.append(value)
            entry.append(fresh)
            replaced[value] = fresh
    return inputs, entry, substitute(main.body, replaced)


def _without_dequantize(body: Expr) -> tuple[Expr, Var, Expr]:
    """The network's body in integers, a variable for its result, and what becomes of that."""
    results = body.fields if isinstance(body, Tuple) else (body,)
    inside = [value.args[0] if is_call(value, "qnn.dequantize") else value for value in results]  # type: ignore[attr-defined]
    if isinstance(body, Tuple):
        made = Var("results", TupleType([type_of(value) for value in inside]))
        parts: Sequence[Expr] = [TupleGetItem(made, i) for i in range(len(inside))]
        return Tuple(inside), made, Tuple([_end(value, part) for value, part in zip(results, parts, strict=True)])
    made = Var("result", type_of(inside[0]))
    return inside[0], made, _end(body, made)


def _end(value: Expr, inside: Expr) -> Expr:
    """`value` of the network's result `inside`."""
    if not is_call(value, "qnn.dequantize"):
        return inside
    assert isinstance(value, Call)
    return Call(value.op, [inside, *value.args[1:]], value.attrs, value.span)


def _integer_sums(body: Expr) -> Expr:
    """`body` with sums of dequantized values as dequantized sums, where shifts make their scales equal."""
    made: dict[Expr, Expr] = {}
    for node in post_order(body):
        now = rebuild(node, tuple([made[child] for child in children(node)]))
        now.set_inferred_type(type_of(node))
        made[node] = _integer_sum(now) or now
    return made[body]


def _integer_sum(node: Expr) -> Expr | None:
    if not is_call(node, "add"):
        return None
    assert isinstance(node, Call)
    scales = [_scale(arg) for arg in node.args]
    if scales[0] is None or scales[1] is None:
        return None
    fine = min(scales[0], scales[1])
    shifts = [float(np.log2(scale / fine)) for scale in scales if scale is not None]
    parts = [_sums(arg) for arg in node.args]
    if any(not shift.is_integer() or bits + shift > _SUM_BITS for shift, (_, bits) in zip(shifts, parts, strict=True)):
        return None
    shifted = [
        make("left_shift", part, Constant(np.asarray(int(shift), "int32"))) if shift else part
        for shift, (part, _) in zip(shifts, parts, strict=True)
    ]
    return qnn.dequantize(make("add", *shifted), fine, 0)


def _scale(value: Expr) -> float | None:
    """The scale of the dequantized sums of a convolution or product, whose zero point is 0; None for other values."""
    if not is_call(value, "qnn.dequantize"):
        return None
    assert isinstance(value, Call)
    _, scale, zero = value.args
    plain = isinstance(scale, Constant) and scale.data.size == 1 and isinstance(zero, Constant) and not zero.data.any()
    assert isinstance(scale, Constant)
    return float(scale.data) if plain and is_call(value.args[0], "qnn.conv2d", "qnn.dense") else None


def _sums(value: Expr) -> tuple[Expr, float]:
    """The int32 sums that `value` dequantizes, and the bits that they take at most."""
    assert isinstance(value, Call)
    sums = value.args[0]
    assert isinstance(sums, Call)
    weight = tensor_type_of(sums.args[1])
    terms = int(np.prod([int(size) for size in weight.shape[1:]]))
    return sums, 14 + float(np.ceil(np.log2(max(terms, 1))))


def _check_integral(core: Function) -> None:
    """Raise `UnsupportedError` for a float within the network; scales of operators are attributes of theirs."""
    floats = [
        node
        for node in [*core.params, *post_order(core.body)]
        if isinstance(node, Call | Var) and any(type_.dtype.is_float for type_ in tensor_types(type_of(node)))
    ]
    if not floats:
        return
    node = next((one for one in floats if not is_call(one, "qnn.dequantize")), floats[0])
    name = f"the parameter {node.name}" if isinstance(node, Var) else str(getattr(node.op, "name", "a call"))
    raise UnsupportedError(
        f"quantize: {name} is a float within the network, which is not integral then; set partition_conversions to "
        '"enabled", or take the operator out of the model'
    )
