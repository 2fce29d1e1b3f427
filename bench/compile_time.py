"""Seconds that compiling graphs of many nodes takes, and what it takes for each of them: it should not grow.

    python bench/compile_time.py [--nodes 1000,5000,20000] [NAME ...]

The graphs are chains and wide graphs of small tensors, so that what is measured is the compiler. The disk cache is
off. Beside the seconds stand the kernels that the model calls and the distinct ones that were compiled.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from tilewright import relay, te
from tilewright.driver.build import extract_tasks
from tilewright.driver.model.build import build_model
from tilewright.driver.optimize import optimize
from tilewright.relay.ir.expr import Expr, Function, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.memory.plan_memory import plan_memory
from tilewright.target import Target

SHAPE = (4, 16)


def _input(name: str = "x") -> Var:
    return relay.var(name, shape=SHAPE)


def chain(nodes: int) -> Function:
    """Elementwise operators in a row."""
    x = _input()
    value: Expr = x
    for number in range(nodes):
        value = relay.sigmoid(value) if number % 2 else relay.negative(value)
    return Function([x], value)


def residual(nodes: int) -> Function:
    """Products with a matrix, each followed by ReLU and the sum with what went in."""
    x, weight = _input(), relay.const(np.eye(16, dtype="float32"))
    value: Expr = x
    for _ in range(nodes // 3):
        value = relay.add(relay.nn.relu(relay.nn.dense(value, weight)), value)
    return Function([x], value)


def sum_of_inputs(nodes: int) -> Function:
    """The sum of as many inputs."""
    inputs = [_input(f"x{number}") for number in range(nodes)]
    value: Expr = inputs[0]
    for one in inputs[1:]:
        value = relay.add(value, one)
    return Function(inputs, value)


def concatenated_inputs(nodes: int) -> Function:
    """As many inputs joined."""
    inputs = [_input(f"x{number}") for number in range(nodes)]
    return Function(inputs, relay.concatenate(inputs, axis=0))


def concatenated_products(nodes: int) -> Function:
    """As many products of one input with vectors, joined along the last axis."""
    x, factors = _input(), np.random.default_rng(0).random((nodes // 2, 16)).astype("float32")
    return Function([x], relay.concatenate([relay.multiply(x, relay.const(row)) for row in factors], axis=1))


GRAPHS: dict[str, Callable[[int], Function]] = {
    "chain": chain,
    "residual": residual,
    "sum of inputs": sum_of_inputs,
    "concatenated inputs": concatenated_inputs,
    "concatenated products": concatenated_products,
}


def measure_graph(name: str, nodes: int) -> None:
    """A row of the table: one graph compiled for one thread, in this process and its helpers."""
    mod, target = IRModule.from_expr(GRAPHS[name](nodes)), Target("cpu")
    start = time.perf_counter()
    build_model(mod, target, threads=1)
    seconds = time.perf_counter() - start
    order = plan_memory(optimize(mod, target)).order
    tasks, _ = extract_tasks(order)
    print(
        f"| {name} | {nodes} | {seconds:.2f} | {seconds / nodes * 1e3:.2f} | {len(order)} | {len(tasks)} |", flush=True
    )


def measure_expression(terms: int) -> None:
    """A row of the table: one tensor expression of as many terms, lowered."""
    data = te.placeholder((16,), name="data")

    def element(i: Expr) -> Expr:
        value = data[i]
        for number in range(terms):
            value = value * data[(i + number) % 16] + float(number)
        return value

    result = te.compute((16,), element)
    start = time.perf_counter()
    te.lower(te.create_schedule(result.op), [data, result])
    seconds = time.perf_counter() - start
    print(f"| expression (lowered) | {terms} | {seconds:.2f} | {seconds / terms * 1e3:.2f} | | |", flush=True)


def main() -> None:
    """Measure the graphs that are named, or all, in the requested sizes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", default="1000,5000,20000")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    print("| graph | nodes | seconds | ms a node | kernels | distinct |")
    print("|---|---|---|---|---|---|")
    for name in options.names or [*GRAPHS, "expression"]:
        for nodes in map(int, options.nodes.split(",")):
            if name == "expression":
                measure_expression(nodes)
            else:
                measure_graph(name, nodes)


if __name__ == "__main__":
    main()
