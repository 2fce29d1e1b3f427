"""Networks of neither images nor text: recommendations and clouds of points."""

from __future__ import annotations

import onnx

from zoo.graph import Graph


def dlrm() -> onnx.ModelProto:
    """DLRM on 64 users: embeddings of 26 categories, their pairwise products, linear layers (Naumov, 2019)."""
    g = Graph("dlrm")
    x = g.input(64, 13)
    for units in (512, 256, 64):
        x = g.linear(x, units, act="relu")
    rows = g.embed(g.input(64, 26, integers=True), 2048, 64)
    both = g.concat([g.reshape(x, 64, 1, 64), rows], 1)
    pairs = g.matmul(both, g.transpose(both, 0, 2, 1))
    x = g.concat([x, g.reshape(pairs, 64, 27 * 27)])
    for units in (512, 256):
        x = g.linear(x, units, act="relu")
    return g.model(g.linear(x, 1, act="sigmoid"))


def pointnet() -> onnx.ModelProto:
    """PointNet without its transformations: 1-wide convolutions of 1024 points, their maximum (Qi and others, 2017)."""
    g = Graph("pointnet")
    x = g.input(1, 3, 1024)
    for filters in (64, 64, 64, 128, 1024):
        x = g.conv(x, filters, act="relu")
    x = g.node("ReduceMax", [x], (1, 1024), axes=[2], keepdims=0)
    return g.model(g.linear(g.linear(g.linear(x, 512, act="relu"), 256, act="relu"), 40))


NETWORKS = (dlrm, pointnet)
