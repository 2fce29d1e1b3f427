"""Boosted trees as arrays: what xgboost has learned, predicted by NumPy alone.

    forest = Forest.of_dump(booster.get_dump(dump_format="json"))
    forest.predict(features)                    # one number a row
    Forest.from_json(forest.to_json())          # to keep a model without the library that made it

All rows go through a tree at once, a level a step, so that a thousand predictions take about as long as ten.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Forest:
    """Trees in one table of nodes, the roots at `roots`.

    At a node, a row whose feature is below the threshold goes to `yes`, else to `no`; a leaf leads to itself and has
    its `value`. `depth` is that of the deepest tree.
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: Floats
    yes: NDArray[np.int32]
    no: NDArray[np.int32]
    value: Floats
    depth: int

    @classmethod
    def of_dump(cls, trees: Sequence[str]) -> Forest:
        """The trees of xgboost's JSON dump, features named f0, f1 …"""
        rows: list[tuple[int, float, int, int, float]] = []
        roots, deepest = [], 0
        for text in trees:
            roots.append(len(rows))
            deepest = max(deepest, _add(json.loads(text), rows))
        feature, threshold, yes, no, value = zip(*rows) if rows else ((),) * 5
        kinds, real = [_whole(column) for column in (roots, feature, yes, no)], np.float32
        return cls(kinds[0], kinds[1], np.array(threshold, real), kinds[2], kinds[3], np.array(value, real), deepest)

    def predict(self, features: Floats) -> Floats:
        """The sum of the trees' values for each row of `features`."""
        if not len(self.roots):
            return np.zeros(len(features), np.float32)
        rows = np.arange(len(features))[:, None]
        node = np.broadcast_to(self.roots, (len(features), len(self.roots)))
        for _ in range(self.depth):
            low = features[rows, self.feature[node]] < self.threshold[node]
            node = np.where(low, self.yes[node], self.no[node])
        return self.value[node].sum(axis=1)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value if isinstance(value, int) else value.tolist() for name, value in fields.items()}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Forest:
        """The inverse of `to_json`."""
        roots, feature, yes, no = (_whole(fields[name]) for name in ("roots", "feature", "yes", "no"))
        threshold, value = (np.array(fields[name], np.float32) for name in ("threshold", "value"))
        return cls(roots, feature, threshold, yes, no, value, int(fields["depth"]))


def _whole(values: Any) -> NDArray[np.int32]:
    return np.array(values, np.int32)


def _add(tree: Mapping[str, Any], rows: list[tuple[int, float, int, int, float]]) -> int:
    """Add the nodes of a tree, its root first; its depth."""
    position = len(rows)
    if "leaf" in tree:
        rows.append((0, 0.0, position, position, float(tree["leaf"])))
        return 0
    rows.append((0, 0.0, 0, 0, 0.0))
    kids = {kid["nodeid"]: kid for kid in tree["children"]}
    yes = len(rows)
    left = _add(kids[tree["yes"]], rows)
    no = len(rows)
    right = _add(kids[tree["no"]], rows)
    rows[position] = (int(str(tree["split"]).removeprefix("f")), float(tree["split_condition"]), yes, no, 0.0)
    return 1 + max(left, right)
