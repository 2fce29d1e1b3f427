"""TreeGRU: a gated recurrent network that goes up a tree of loops, and its derivatives, in NumPy.

    batch = pack(trees)
    score, memory = forward(weights, batch)              # one number a tree
    gradients = backward(weights, batch, memory, dscore)

The state of a node comes from its own features and the sum of its children's states, the nodes of one height at a time
for all trees together; the score is computed from the root's state ("Learning to Optimize Tensor Programs", NeurIPS
2018, section 3.1). Heights keep a child before its parent, so that the way back is the same list reversed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.autotvm.feature.loops import LoopTree

Floats = NDArray[np.floating[Any]]
Whole = NDArray[np.int64]
Weights = dict[str, Floats]

#: The gates of a cell: how much of the children stays, how much of it makes the new state, and that.
_GATES = ("keep", "reset", "new")


@dataclass(frozen=True)
class Level:
    """The nodes of one height; those of them that have a parent (`inner`, in the order of their parents), the positions
    in
    that list where another parent begins, and these parents."""

    nodes: Whole
    inner: Whole
    begins: Whole
    parents: Whole


@dataclass(frozen=True)
class Batch:
    """Trees as one table: `features` of all nodes, roots in the order of the trees, levels from the leaves up."""

    features: Floats
    roots: Whole
    levels: tuple[Level, ...]


def pack(trees: Sequence[LoopTree]) -> Batch:
    """Trees as a batch."""
    starts = np.cumsum([0, *(len(tree.parents) for tree in trees)])
    shift = np.repeat(starts[:-1], np.diff(starts))
    parents = np.concatenate([tree.parents for tree in trees]).astype(np.int64)
    inner = parents >= 0
    parents = np.where(inner, parents + shift, -1)
    height, before = np.zeros(len(parents), np.int64), None
    while before is None or (height != before).any():
        before = height.copy()
        np.maximum.at(height, parents[inner], before[inner] + 1)
    order = np.argsort(height, kind="stable")
    levels = tuple(_level(nodes, parents) for nodes in np.split(order, np.cumsum(np.bincount(height))[:-1]))
    return Batch(np.concatenate([tree.features for tree in trees]), starts[:-1], levels)


def _level(nodes: Whole, parents: Whole) -> Level:
    inner = nodes[parents[nodes] >= 0]
    inner = inner[np.argsort(parents[inner], kind="stable")]
    above, begins = np.unique(parents[inner], return_index=True)
    return Level(nodes, inner, begins, above)


def initial_weights(inputs: int, hidden: int, generator: np.random.Generator) -> Weights:
    """Weights to begin training with: of each gate for features and children's states, and of the score."""
    found: Weights = {}
    for gate in _GATES:
        found[f"{gate}_in"] = generator.standard_normal((inputs, hidden)) / np.sqrt(inputs)
        found[f"{gate}_up"] = generator.standard_normal((hidden, hidden)) / np.sqrt(hidden)
        found[f"{gate}_bias"] = np.zeros(hidden)
    found["score"] = generator.standard_normal(hidden) * 0.1
    return {name: value.astype(np.float32) for name, value in found.items()}


def forward(weights: Mapping[str, Floats], batch: Batch) -> tuple[Floats, dict[str, Floats]]:
    """The score of each tree, and what the way back needs."""
    shape = len(batch.features), len(weights["score"])
    names = ("children", "state", *_GATES)
    memory = {name: np.zeros(shape, weights["score"].dtype) for name in names}
    inputs = {gate: batch.features @ weights[f"{gate}_in"] + weights[f"{gate}_bias"] for gate in _GATES}
    for level in batch.levels:
        nodes = level.nodes
        below = memory["children"][nodes]
        keep, reset = (_sigmoid(inputs[gate][nodes] + below @ weights[f"{gate}_up"]) for gate in ("keep", "reset"))
        new = np.tanh(inputs["new"][nodes] + (reset * below) @ weights["new_up"])
        state = (1 - keep) * new + keep * below
        for name, value in (("keep", keep), ("reset", reset), ("new", new), ("state", state)):
            memory[name][nodes] = value
        if len(level.inner):
            sums = np.add.reduceat(memory["state"][level.inner], level.begins)
            memory["children"][level.parents] += sums
    return memory["state"][batch.roots] @ weights["score"], memory


def backward(weights: Mapping[str, Floats], batch: Batch, memory: Mapping[str, Floats], dscore: Floats) -> Weights:
    """The derivative of a sum of scores, each times its `dscore`, by every weight."""
    gradients = {name: np.zeros_like(value) for name, value in weights.items()}
    gradients["score"] = memory["state"][batch.roots].T @ dscore
    dstate, dchildren = np.zeros_like(memory["state"]), np.zeros_like(memory["state"])
    dstate[batch.roots] = dscore[:, None] * weights["score"]
    dgates: Weights = {gate: np.zeros_like(memory["state"]) for gate in _GATES}
    for level in reversed(batch.levels):
        nodes = level.nodes
        dstate[level.inner] += np.repeat(dchildren[level.parents], np.diff([*level.begins, len(level.inner)]), axis=0)
        keep, reset, new, below = (memory[name][nodes] for name in ("keep", "reset", "new", "children"))
        up = dstate[nodes]
        dnew = up * (1 - keep) * (1 - new**2)
        dkeep = up * (below - new) * keep * (1 - keep)
        through = dnew @ weights["new_up"].T
        dreset = through * below * reset * (1 - reset)
        dchildren[nodes] = up * keep + through * reset + dkeep @ weights["keep_up"].T + dreset @ weights["reset_up"].T
        gradients["new_up"] += (reset * below).T @ dnew
        gradients["keep_up"] += below.T @ dkeep
        gradients["reset_up"] += below.T @ dreset
        for gate, change in zip(_GATES, (dkeep, dreset, dnew)):
            dgates[gate][nodes] = change
    for gate, every in dgates.items():
        gradients[f"{gate}_in"] = batch.features.T @ every
        gradients[f"{gate}_bias"] = np.asarray(every.sum(axis=0))
    return gradients


def _sigmoid(x: Floats) -> Floats:
    return 0.5 * (1.0 + np.tanh(0.5 * x))
