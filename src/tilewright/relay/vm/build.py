"""A module with control flow to a `VirtualMachine`: bytecode, and its segments through the whole compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.relay.assemble import common_manifest, weights_manifest
from tilewright.relay.build import build_segments
from tilewright.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from tilewright.relay.module import IRModule
from tilewright.relay.type import TensorType
from tilewright.relay.visitor import post_order
from tilewright.relay.vm.program import ProgramBuilder
from tilewright.relay.vm.segments import is_tensor_operator
from tilewright.runtime.vm.executable import VirtualMachine
from tilewright.support import trace
from tilewright.target import Target

Optimize = Callable[[IRModule, Target], IRModule]


def build_virtual_machine(
    mod: IRModule, target: Target, optimize: Optimize, threads: int | None = None, jobs: int | None = None
) -> VirtualMachine:
    """Compile a module whose types are known; `optimize` are the graph passes that each segment goes through."""
    with trace.span("bytecode"):
        builder = ProgramBuilder(mod)
        program = builder.build()
    segments = [(f"segment{i}", optimize(IRModule.from_expr(body), target)) for i, body in enumerate(builder.segments)]
    loaded = [constant for constant in builder.constants if constant.data.dtype != object]
    built = build_segments(segments, target, jobs, loaded)
    manifest = common_manifest(mod["main"], target) | {
        "executor": VirtualMachine.executor,
        "segments": built.segments,
        "program": program,
        "packed": builder.packed,
        "constants": [_constant(constant, built.constants) for constant in builder.constants],
        "weights": weights_manifest(built.constants),
    }
    with trace.span("link"):
        return VirtualMachine(built.code, manifest, [c.data for c in built.constants], threads)


def _constant(constant: Constant, offsets: Mapping[Constant, int]) -> dict[str, Any]:
    """The manifest's entry of a constant that instructions load: among the weights, or text in place."""
    shape = list(constant.data.shape)
    if constant.data.dtype == object:
        return {"shape": shape, "value": [str(item) for item in constant.data.reshape(-1)]}
    return {"shape": shape, "dtype": str(constant.tensor_type.dtype), "offset": offsets[constant]}


def is_straight(mod: IRModule) -> bool:
    """True if `main` is a straight graph of tensor operators, which one native call can run: no machine is needed."""
    main = mod["main"]
    params = [param.checked_type for param in main.params]
    if not all(isinstance(type_, TensorType) and not type_.has_any for type_ in params):
        return False
    for node in post_order(main.body):
        if isinstance(node, Call) and isinstance(node.op, Function) and node.op.is_primitive:
            continue
        if isinstance(node, Call) and not is_tensor_operator(node):
            return False
        if not isinstance(node, Call | Var | Constant | Tuple | TupleGetItem):
            return False
    return True
