"""Training steps within memory limits: the bits of those without, plans within the limit, errors."""

import re

import numpy as np
import pytest

import tilewright
from tilewright import relay
from tilewright.errors import InputError, UnsupportedError
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.fuse.fuse_ops import fuse_ops
from tilewright.relay.transform.memory.in_place import UPDATES, update_in_place, written_over
from tilewright.relay.transform.memory.plan_memory import plan_memory
from tilewright.relay.transform.memory.rematerialize import MEMORY_LIMIT, rematerialize
from tilewright.training import SGD, Adam, Trainer, training_step

LAYERS, BATCH, WIDTH = 8, 256, 16


def deep(optimizer, memory_limit=None):
    """A step of dense layers with tanh and a residual, whose activations are larger than its weights."""
    x = relay.var("x", shape=(BATCH, WIDTH))
    weights = [relay.var(f"w{i}", shape=(WIDTH, WIDTH)) for i in range(LAYERS)]
    value = x
    for weight in weights:
        value = relay.tanh(relay.nn.dense(value, weight)) + value
    return training_step(relay.mean(value * value), weights, optimizer, memory_limit=memory_limit)


def fused(step):
    return fuse_ops(step.module)


def limited(mod, limit):
    return mod.with_function("main", mod["main"].with_attr(MEMORY_LIMIT, limit))


def trained(step, model):
    rng = np.random.default_rng(3)
    values = {p.name: rng.standard_normal((WIDTH, WIDTH)).astype("float32") / 8 for p in step.parameters}
    trainer, losses = Trainer(step, model, values), []
    for _ in range(3):
        losses.append(trainer(x=rng.standard_normal((BATCH, WIDTH)).astype("float32"))[0].tobytes())
    return losses, {name: value.tobytes() for name, value in (trainer.parameters | trainer.state).items()}


def test_half_the_memory_has_the_same_bits():
    step = deep(Adam(1e-2))
    whole = tilewright.compile(step.module, cache=False)
    limit = whole.manifest.plans[0].arena_bytes // 2
    again = deep(Adam(1e-2), limit)
    small = tilewright.compile(again.module, cache=False)
    assert small.manifest.plans[0].arena_bytes <= limit
    assert len(small.manifest.plans[0].kernels) > len(whole.manifest.plans[0].kernels)
    assert trained(step, whole) == trained(again, small)


def test_limit_that_fits_changes_nothing():
    mod = limited(fused(deep(SGD(0.1))), 1 << 30)
    assert rematerialize(mod, plan_memory) is mod
    assert rematerialize(fused(deep(SGD(0.1))), plan_memory)["main"].attrs.get(MEMORY_LIMIT) is None


@pytest.mark.parametrize("part", [0.9, 0.6, 0.4])
def test_plans_are_within_limits(part):
    mod = fused(deep(SGD(0.1)))
    whole = plan_memory(mod)
    limit = int(part * whole.arena_bytes)
    plan = plan_memory(rematerialize(limited(mod, limit), plan_memory))
    assert plan.arena_bytes <= limit
    assert {call.op for call in plan.order} == {call.op for call in whole.order}  # kernels of before
    assert len(plan.order) < 2 * len(whole.order)


def test_gradients_of_weights_come_early():
    """A kernel that frees as much as it takes is moved ahead, before anything is computed twice."""
    mod = fused(deep(SGD(0.1)))
    whole = plan_memory(mod)
    plan = plan_memory(rematerialize(limited(mod, whole.arena_bytes - 64), plan_memory))
    assert plan.arena_bytes < whole.arena_bytes and len(plan.order) == len(whole.order)


def test_weights_are_read_before_they_are_written_over():
    main = deep(Adam(1e-2)).module["main"]
    pairs = tuple((i, i) for i in range(1, len(main.params)))  # after the input, and the loss
    mod = update_in_place(fuse_ops(IRModule.from_expr(main.with_attr(UPDATES, pairs))))
    whole = plan_memory(mod)
    plan = plan_memory(rematerialize(limited(mod, whole.arena_bytes // 2), plan_memory))
    assert plan.arena_bytes <= whole.arena_bytes // 2
    gone = set()
    for call in plan.order:
        assert gone.isdisjoint(call.args)
        at = written_over(call)
        gone |= set() if at is None else {call.args[at]}
    assert len(gone) >= LAYERS


def test_smallest_limit_is_named_and_can_be_had():
    mod = fused(deep(SGD(0.1)))
    with pytest.raises(UnsupportedError, match="the memory limit is 1000: set it to") as refused:
        rematerialize(limited(mod, 1000), plan_memory)
    smallest = int(re.search(r"set it to (\d+)", str(refused.value))[1])
    assert plan_memory(rematerialize(limited(mod, smallest), plan_memory)).arena_bytes <= smallest


def test_unknown_sizes_are_refused():
    x, w = relay.var("x", shape=(relay.Any(), 4)), relay.var("w", shape=(4, 4))
    mod = limited(fuse_ops(IRModule.from_expr(relay.Function([x, w], relay.nn.dense(relay.nn.dense(x, w), w)))), 64)
    with pytest.raises(UnsupportedError, match="a memory limit needs sizes that are known"):
        rematerialize(mod, plan_memory)


def test_limit_is_positive():
    with pytest.raises(InputError, match="the memory limit is a number of bytes, and 0 is none"):
        deep(SGD(0.1), 0)


def test_the_virtual_machine_keeps_no_limit():
    with pytest.raises(UnsupportedError, match=r"a memory limit is kept in straight graphs.*leave it out"):
        tilewright.compile(deep(SGD(0.1), 1 << 30).module, executor="vm", cache=False)
