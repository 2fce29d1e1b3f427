"""The order of execution beside an accelerator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import relay
from tilewright.backend.vta.operators import LAUNCH, PACK, WAIT
from tilewright.relay.ir.expr import Call, Expr, Function, Tuple, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.visitor import calls, post_order
from tilewright.relay.transform.fuse.fuse_ops import fuse_ops
from tilewright.relay.transform.memory.execution_order import execution_order

TYPE = TensorType((64,), "int8")


def program(x: Expr, cycles: int, name: str, base: int = 64) -> Expr:
    plan = f'{{"base": {base}, "layers": [{{"name": "{name}", "cycles": {cycles}}}]}}'
    attrs = {"plan": plan, "driver": "native", "flops": 1, "ret_type": TYPE}
    block = Call(PACK, [x], attrs)
    return Call(WAIT, [Call(LAUNCH, [block, relay.const(np.zeros(4, np.uint8))], attrs), block], attrs)


def order(params: Sequence[Var], body: Expr) -> list[str]:
    main = fuse_ops(infer_type(IRModule.from_expr(Function(params, body))))["main"]
    found = []
    for node in execution_order(main.body):
        if isinstance(node, Call) and isinstance(node.op, Function):
            inner = calls(node.op.body)[-1].op
            assert isinstance(inner, Op)
            found.append(inner.name.removeprefix("vta."))
    return found


def variables(count: int) -> list[Var]:
    return [Var(f"x{i}", TYPE) for i in range(count)]


def test_work_that_needs_no_result_comes_between_launch_and_wait() -> None:
    (x,) = variables(1)
    body = relay.add(program(x, 1000, "a"), relay.cumsum(x))
    assert order([x], body) == ["pack", "launch", "cumsum", "wait", "add"]
    assert order([x], relay.add(relay.cumsum(x), program(x, 1000, "a"))) == [
        "pack", "launch", "cumsum", "wait", "add",
    ]  # fmt: skip


def test_the_next_launch_is_prepared_while_one_is_under_way() -> None:
    xs = variables(3)
    long = order(xs, Tuple([program(x, 100_000, "a") for x in xs]))
    assert long == ["pack", "launch", "pack", "launch", "wait", "pack", "launch", "wait", "wait"]
    assert long.count("launch") == 3 and long.index("wait") > long.index("launch")
    first_two = order(xs, Tuple([program(x, 1, "a") for x in xs]))
    assert first_two[:4] == ["pack", "launch", "pack", "launch"]  # idle again before the second operand is packed


def test_results_are_read_while_the_next_program_runs_whatever_blocks_cost() -> None:
    xs = variables(4)
    found = order(xs, Tuple([program(x, 90, "a", base=1 << 20) for x in xs]))
    assert found == ["pack", "launch", "pack", "launch", "wait"] + 2 * ["pack", "launch", "wait"] + ["wait"]


def test_a_graph_without_launches_is_in_post_order() -> None:
    (x,) = variables(1)
    main = fuse_ops(infer_type(IRModule.from_expr(Function([x], relay.cumsum(relay.cumsum(x))))))["main"]
    assert execution_order(main.body) == list(post_order(main.body))
