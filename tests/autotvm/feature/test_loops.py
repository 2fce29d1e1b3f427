"""Features of loops: what they touch, what reuse they have, and that they tell configurations apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.autotvm.tasks import conv_task
from tilewright import te
from tilewright.autotvm.feature.corners import Corners, Loop, touched
from tilewright.autotvm.feature.loops import LOOP_FEATURES, TREE_FEATURES, loop_features
from tilewright.autotvm.feature.nest import Statement, read_nest
from tilewright.autotvm.feature.samples import ROW_FEATURES, Features, concatenate, knob_samples
from tilewright.autotvm.feature.statement import STATEMENT_FEATURES, statement_features, traffic
from tilewright.machine import Cache, machine_of
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Var
from tilewright.tir.stmt import ForKind, PrimFunc

MACHINE = machine_of("skylake-avx512")


def loops(*extents: int) -> list[Loop]:
    return [Loop(Var(f"i{number}"), extent, ForKind.SERIAL) for number, extent in enumerate(extents)]


def test_what_loops_touch_is_known_at_every_depth() -> None:
    y, x = nest = loops(8, 4)
    corners, image = Corners(nest), Buffer("image", (16, 32))
    found = touched(corners, nest, image, [(y.var * 2, x.var)], True, False, 64)
    assert found.elements.tolist() == [32, 4, 1]
    assert found.nbytes.tolist() == [128, 16, 4]
    assert found.lines.tolist() == [8, 1, 1]
    assert found.strides.tolist() == [64, 1] and found.moves.tolist() == [True, True]


def test_a_window_overlaps_itself() -> None:
    x, k = nest = loops(10, 3)
    found = touched(Corners(nest), nest, Buffer("row", (12,)), [(x.var + k.var,)], True, False, 64)
    assert found.elements.tolist() == [12, 3, 1]


def test_fused_loops_touch_what_their_parts_do() -> None:
    f, c = nest = loops(6, 16)
    buffer = Buffer("blocks", (2, 3, 16))
    found = touched(Corners(nest), nest, buffer, [(f.var // 3, f.var % 3, c.var)], True, False, 64)
    assert found.elements.tolist() == [96, 16, 1] and found.lines.tolist() == [6, 1, 1]
    assert found.strides.tolist() == [16, 1]


def test_several_positions_of_a_buffer_count_together() -> None:
    (x,) = nest = loops(4)
    found = touched(Corners(nest), nest, Buffer("row", (64,)), [(x.var,), (x.var + 32,)], True, False, 64)
    assert found.positions == 2 and found.elements.tolist() == [8, 2]


def product(n: int = 32, tile: int = 8) -> PrimFunc:
    a, b = te.placeholder((n, n), "float32", "a"), te.placeholder((n, n), "float32", "b")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    s = te.create_schedule(c.op)
    i, j = s[c].op.axis
    outer, inner = s[c].split(j, tile)
    s[c].reorder(i, outer, s[c].op.reduce_axis[0], inner)
    s[c].vectorize(inner)
    return next(te.lower_stages(s, [a, b, c], "product"))[1]


def update(func: PrimFunc) -> tuple[Statement, dict[str, float], list[object]]:
    """The statement that adds, and its features by name."""
    nest = read_nest(func)
    position = max(range(len(nest.statements)), key=lambda number: nest.statements[number].work)
    row = statement_features(nest.statements[position], nest.around[position], MACHINE)
    return nest.statements[position], dict(zip(STATEMENT_FEATURES, row.tolist())), list(nest.around[position])


def test_the_statement_of_a_product() -> None:
    statement, features, _ = update(product())
    assert statement.iterations == 32**3
    assert statement.operations == (1.0, 1.0, 0.0, 0.0) and statement.stays == [False, False, True, False]
    assert features["lanes"] == pytest.approx(np.log2(9)) and features["reduction"] == pytest.approx(np.log2(33))
    assert features["inner_extent"] == pytest.approx(np.log2(33)) and features["inner_reduces"] == 1.0
    # of each step: a vector of b, and one element of a
    assert features["body_loads"] == 2.0 and features["body_vectors"] == 1.0
    by_name = {one.buffer.name: one for one in statement.touched}
    assert by_name["a"].moves.tolist() == [True, False, True, False]
    assert by_name["b"].nbytes[0] == 32 * 32 * 4 and by_name["b"].strides.tolist() == [0, 8, 32, 1]


def test_smaller_caches_are_gone_beyond_more_often() -> None:
    nest = read_nest(product(128))
    position = max(range(len(nest.statements)), key=lambda number: nest.statements[number].work)
    statement = nest.statements[position]
    inner = np.array([*(node.footprint for node in nest.around[position][1:]), 12.0])
    tiny = replace(MACHINE, l1=Cache(1 << 10, 8), l2=Cache(1 << 15, 8), l3=Cache(1 << 30, 8))
    lines = traffic(statement, inner, tiny).sum(axis=0)
    assert lines[0] > lines[1] > lines[2]
    # everything fits into the third: each line of three matrices once
    assert lines[2] == 3 * 128 * 128 * 4 / 64


def test_a_row_and_a_tree_for_every_function() -> None:
    found = loop_features(product(), MACHINE)
    assert found.row.shape == (len(LOOP_FEATURES),) and np.isfinite(found.row).all()
    assert found.tree.features.shape[1] == len(TREE_FEATURES) and np.isfinite(found.tree.features).all()
    assert (found.tree.parents[1:] < np.arange(1, len(found.tree.parents))).all() and found.tree.parents[0] == -1


def test_tiles_make_a_difference() -> None:
    rows = [loop_features(product(tile=tile), MACHINE).row for tile in (4, 8, 16)]
    assert not np.array_equal(rows[0], rows[1]) and not np.array_equal(rows[1], rows[2])


def test_the_features_of_a_task() -> None:
    task = conv_task()
    few = list(range(min(4, len(task.points))))
    samples = Features(task).of(few)
    assert samples.rows.shape == (len(few), len(ROW_FEATURES)) and np.isfinite(samples.rows).all()
    assert len({row.tobytes() for row in samples.rows}) == len(few)
    assert samples.prior[0] == pytest.approx(-np.log(task.points.expected(0)), rel=1e-5)
    both = concatenate([samples, samples.take([1, 0])])
    assert both.groups.tolist() == [0] * len(few) + [1, 1] and both.rows[-1].tolist() == samples.rows[0].tolist()
    assert knob_samples(task.points, few).trees == ()
