"""Extraction: the kernels that have a search space, with the choice the compiler makes and the calls of each."""

from __future__ import annotations

import pickle

import numpy as np

from tests.autotvm.tasks import conv_task
from tilewright import relay
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.autotvm.task.task import INPUT, OUTPUT, WEIGHT
from tilewright.tir.expr import SizeVar


def weight(seed: int) -> relay.Constant:
    return relay.const(np.random.default_rng(seed).standard_normal((32, 32, 1, 1)).astype("float32"))


def test_the_task_of_a_convolution_is_as_the_compiler_makes_it() -> None:
    task = conv_task()
    assert task.key.template.startswith("conv2d")
    assert [argument.role for argument in task.arguments] == [INPUT, WEIGHT, OUTPUT]
    assert task.default is not None and len(task.points) > 1
    assert task.flops > 2 * 32 * 32 * 14 * 14


def test_kernels_that_are_alike_are_one_task_with_all_their_calls() -> None:
    x = relay.var("x", shape=(1, 32, 14, 14))
    y = x
    for seed in range(3):
        y = relay.nn.relu(relay.nn.conv2d(y, weight(seed)))
    tasks = extract_from_program(relay.Function([x], y))
    assert sum(task.calls for task in tasks) == 3
    assert len({task.key for task in tasks}) == len(tasks) < 3


def test_what_has_no_template_is_no_task() -> None:
    x = relay.var("x", shape=(8, 8))
    assert extract_from_program(relay.Function([x], relay.exp(x))) == []


def test_a_module_with_control_flow_has_the_tasks_of_its_segments() -> None:
    x, flag = relay.var("x", shape=(1, 32, 14, 14)), relay.var("flag", shape=(), dtype="bool")
    branch = relay.If(flag, relay.nn.relu(relay.nn.conv2d(x, weight(0))), x)
    (task,) = extract_from_program(relay.Function([x, flag], branch))
    assert task.calls == 1


def test_open_sizes_are_left_to_the_cost_model() -> None:
    rows = SizeVar("n", "int32", 4)
    x, w = relay.var("x", shape=(rows, 64)), relay.const(np.ones((32, 64), "float32"))
    assert extract_from_program(relay.Function([x], relay.nn.dense(x, w))) == []


def test_a_task_lowers_in_another_process_as_it_does_here() -> None:
    task = conv_task()
    assert len(task.points) > 1
    there = pickle.loads(pickle.dumps(task))
    for point in (0, 1):
        config = dict(task.points.config(point))
        assert str(there.lower(config)) == str(task.lower(config))
    assert str(there.lower_reference()) == str(task.lower_reference())
