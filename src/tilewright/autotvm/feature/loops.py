"""Features of a whole function, read off its loops: one row for models of vectors, a tree for models of trees.

    found = loop_features(func, machine)
    found.row                       # LOOP_FEATURES, for boosted trees
    found.tree                      # LoopTree, for a recurrent network over the loops

The row has what each resource of the processor would take by the loops' traffic, then the statement that works most and
the one that comes after it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.autotvm.feature.nest import Nest, Node, Statement, read_nest
from tilewright.autotvm.feature.statement import STATEMENT_FEATURES, log, statement_features
from tilewright.machine import Machine
from tilewright.tir.stmt import ForKind, PrimFunc

#: Statements that have a position of their own in a row: those that work most.
_STATEMENTS = 2

_INDEX = {name: position for position, name in enumerate(STATEMENT_FEATURES)}
_LEVELS = ("l1", "l2", "l3")

_OF_FUNCTION = (
    "cycles", "arithmetic_share", "loads_share", *(f"{level}_share" for level in _LEVELS), "bound", "statements",
    "work_share", "allocated", "parallel_loops", "parallel_least", "parallel_waste", "footprint_of_l2",
)  # fmt: skip

#: The name of each feature of a row.
LOOP_FEATURES = (
    *_OF_FUNCTION,
    *(f"{name}_of_{which}" for which in range(_STATEMENTS) for name in STATEMENT_FEATURES),
)

_KINDS = tuple(ForKind)

#: The features of each node of a tree: of loops and, for statements, what they are and do.
_OF_LOOP = ("statement", "extent", *map(str, _KINDS), "footprint", *(f"of_{level}" for level in _LEVELS))
TREE_FEATURES = (*_OF_LOOP, *STATEMENT_FEATURES)


@dataclass(frozen=True)
class LoopTree:
    """Loops and statements as a tree in arrays: `parents` has the number of each node's parent, always a smaller one,
    -1 for the root; `features` one row of `TREE_FEATURES` for each node."""

    parents: NDArray[np.int32]
    features: NDArray[np.float32]


@dataclass(frozen=True)
class LoopFeatures:
    """The features of a function for cost models."""

    row: NDArray[np.float32]
    tree: LoopTree


def loop_features(func: PrimFunc, machine: Machine) -> LoopFeatures:
    """The features of a function as `schedule_to_tir` leaves it, on a processor."""
    nest = read_nest(func, machine.line)
    rows = [statement_features(s, around, machine) for s, around in zip(nest.statements, nest.around)]
    return LoopFeatures(_row(nest, rows, machine), _tree(nest, rows, machine))


def _row(nest: Nest, rows: Sequence[NDArray[np.float32]], machine: Machine) -> NDArray[np.float32]:
    order = sorted(range(len(rows)), key=lambda number: -nest.statements[number].work)
    of_function = _function_row(nest, rows, machine)
    chosen = [rows[number] for number in order[:_STATEMENTS]]
    chosen += [np.zeros(len(STATEMENT_FEATURES), np.float32)] * (_STATEMENTS - len(chosen))
    return np.concatenate([np.array(of_function, np.float32), *chosen])


def _function_row(nest: Nest, rows: Sequence[NDArray[np.float32]], machine: Machine) -> list[float]:
    spent = np.zeros(2 + len(_LEVELS))
    for statement, row in zip(nest.statements, rows):
        spent += _cycles(statement, row, machine)
    whole = max(float((spent**4).sum() ** 0.25), 1.0)
    works = [statement.work for statement in nest.statements] or [1.0]
    parallel = [
        node.loop.extent
        for node in nest.root.walk()
        if isinstance(node, Node) and node.loop is not None and node.loop.kind is ForKind.PARALLEL
    ]
    least = min(parallel, default=1)
    workers = max(1, machine.cores)
    return [
        math.log2(whole),
        *(spent / whole),
        float(np.argmax(spent)),
        float(len(rows)),
        max(works) / sum(works),
        log(nest.allocated),
        float(len(parallel)),
        log(least),
        math.ceil(least / workers) * workers / least,
        math.log2(max(nest.root.footprint, 1.0) / machine.l2.size),
    ]


def _cycles(statement: Statement, row: NDArray[np.float32], machine: Machine) -> NDArray[np.float64]:
    """Cycles that a statement takes of arithmetic, load ports, and what comes from beyond L1, L2 and L3."""
    lanes = min(float(machine.lanes()), 2.0 ** float(row[_INDEX["lanes"]]) - 1.0) or 1.0
    steps = statement.iterations / lanes
    add, multiply, other, function = statement.operations
    arithmetic = steps * (max(add, multiply) + other) / machine.fma_per_cycle + steps * function * machine.exp
    loads = steps * float(row[_INDEX["loads_a_multiply"]]) * max(1.0, multiply) / machine.vector_loads
    lines = 2.0 ** row[[_INDEX[f"lines_beyond_{level}"] for level in _LEVELS]].astype(np.float64) - 1.0
    rates = np.array([machine.read_l2.one, machine.read_l3.one, machine.read_memory.one])
    return np.array([arithmetic, loads, *(lines * machine.line / rates)])


def _tree(nest: Nest, rows: Sequence[NDArray[np.float32]], machine: Machine) -> LoopTree:
    parents, features = [-1], [_loop_row(nest.root, machine)]
    row_of = {id(statement): row for statement, row in zip(nest.statements, rows)}
    work = [(nest.root, 0)]
    while work:
        node, position = work.pop()
        for part in node.parts:
            parents.append(position)
            if isinstance(part, Node):
                work.append((part, len(features)))
                features.append(_loop_row(part, machine))
            else:
                features.append(np.concatenate([np.eye(1, len(_OF_LOOP), dtype=np.float32)[0], row_of[id(part)]]))
    return LoopTree(np.array(parents, np.int32), np.stack(features))


def _loop_row(node: Node, machine: Machine) -> NDArray[np.float32]:
    extent = 1 if node.loop is None else node.loop.extent
    kinds = [float(node.loop is not None and node.loop.kind is kind) for kind in _KINDS]
    shares = [math.log2(max(node.footprint, 1.0) / size.size) for size in (machine.l1, machine.l2, machine.l3)]
    own = [0.0, log(extent), *kinds, log(node.footprint), *shares]
    return np.array([*own, *([0.0] * len(STATEMENT_FEATURES))], np.float32)
