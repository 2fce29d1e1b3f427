"""The operators that a program of VTA becomes in a graph: three, so that the processor works while VTA does.

    block = vta.pack(operands)              operands as tiles in the part of DRAM that is this run's own
    token = vta.launch(block, image)        the program begins; the block is the accelerator's from here on
    results = vta.wait(token, block)        waits until it has ended; results out of the block

`image` is what DRAM holds before any run: weights, micro-ops and instructions. Between a launch and its wait comes what
needs no result (`relay/transform/memory/execution_order.py`). A launch writes to its operand: where
it ends, the block holds the results. Nothing but its wait reads it after that, which the token orders.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr, Function
from tilewright.relay.ir.registry import Op, OpPattern, register
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.ir.visitor import calls
from tilewright.vta.network.block import pack_operands, unpack_results
from tilewright.vta.network.network import Compiled
from tilewright.vta.network.session import Session


def program_calls(compiled: Compiled, args: Sequence[Expr], result: Type, driver: str, flops: int, span: str) -> Expr:
    """The calls of a program on `args`, of the result type `result`."""
    attrs = {"plan": json.dumps(compiled.plan), "driver": driver}
    block = Call(PACK, list(args), attrs, span)
    token = Call(LAUNCH, [block, Constant(compiled.image)], {**attrs, "flops": flops}, span)
    return Call(WAIT, [token, block], {**attrs, "ret_type": result}, span)


def program_step(function: Function) -> tuple[Op, Attrs] | None:
    """The operator of a kernel that is a step of a program, and its attributes; None for a kernel of loops."""
    for call in calls(function.body):
        if call.op is PACK or call.op is LAUNCH or call.op is WAIT:
            return call.op, call.attrs
    return None


def _no_loops(*_: Any) -> NoReturn:
    raise UnsupportedError('a program of VTA has no loops: look at its stages "schedule" and "instructions"')


def _packed(attrs: Attrs, *operands: Any) -> Any:
    plan = json.loads(attrs["plan"])
    block = np.zeros(plan["base"], np.uint8)
    pack_operands(plan, [np.asarray(operand) for operand in operands], block)
    return block


def _launched(attrs: Attrs, block: Any, image: Any) -> Any:
    Session(json.loads(attrs["plan"]), np.asarray(image), attrs["driver"]).execute(block)
    return np.ones(1, np.int32)


def _awaited(attrs: Attrs, token: Any, block: Any) -> Any:
    results = unpack_results(json.loads(attrs["plan"]), np.asarray(block))
    return results[0] if len(results) == 1 else tuple(results)


def _block_type(attrs: Attrs) -> TensorType:
    return TensorType((json.loads(attrs["plan"])["base"],), "uint8")


def _cycles(attrs: Attrs) -> int:
    return sum(int(layer["cycles"]) for layer in json.loads(attrs["plan"])["layers"])


_COMMON: dict[str, Any] = {"pattern": OpPattern.OPAQUE, "compute": _no_loops, "attributes": None, "effects": True}

PACK = register(
    "vta.pack", num_inputs=-1, type_rule=lambda types, attrs: _block_type(attrs), reference=_packed, **_COMMON
)
LAUNCH = register(
    "vta.launch",
    num_inputs=2,
    type_rule=lambda types, attrs: TensorType((1,), "int32"),
    reference=_launched,
    flops=lambda attrs, types, result: int(attrs["flops"]),
    launches=_cycles,
    **_COMMON,
)
WAIT = register(
    "vta.wait",
    num_inputs=2,
    type_rule=lambda types, attrs: attrs["ret_type"],
    reference=_awaited,
    waits=True,
    **_COMMON,
)
