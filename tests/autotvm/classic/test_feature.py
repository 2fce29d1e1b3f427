"""Features by the classic interface, against what a product of matrices does."""

from __future__ import annotations

import numpy as np

from tests.autotvm.template.test_template import product
from tilewright.autotvm.classic import feature


def test_the_loops_of_a_product_are_told_by_hand() -> None:
    schedule, tensors = product(16)
    rows = feature.get_itervar_feature(schedule, tensors)
    assert [row[1][1:5] for row in rows] == [[16, 1, 16, 4096], [16, 2, 256, 256], [16, 3, 4096, 16]]
    parts = [{part[0]: part[1:5] for part in row[3:]} for row in rows]
    assert parts[0] == {"a_0": [16, -1, 256, 16], "b_0": [0, -1, 256, 16]} | {
        f"c_{number}": [16, -1, 256, 16] for number in range(3)
    }
    assert parts[2] == {"a_0": [1, -1, 16, 1], "b_0": [16, -1, 16, 1], "c_0": [0, -1, 1, 16], "c_1": [0, -1, 1, 16]}
    assert all(row[1][5:] == [0] * 9 + [1, 0] and row[2][1:] == [1.0, 1.0, 0.0] for row in rows)


def test_annotations_have_positions_and_numbers_names() -> None:
    schedule, tensors = product(16)
    c = tensors[2]
    y, x = schedule[c].op.axis
    schedule[c].parallel(y)
    schedule[c].vectorize(x)
    rows = feature.get_itervar_feature(schedule, tensors, take_log=True)
    marks = [row[1][5:].index(1) for row in rows]
    assert marks[0] == 8 and 7 in marks
    flat = feature.get_itervar_feature_flatten(schedule, tensors)
    np.testing.assert_array_equal(flat, feature.flatten_itervar_feature(rows))
    assert len(feature.get_flatten_name(rows)) == len(flat)


def test_curves_have_as_many_samples_as_are_asked_for() -> None:
    schedule, tensors = product(16)
    curves = feature.get_buffer_curve_sample_flatten(schedule, tensors, sample_n=30)
    assert curves.shape == (30 * 3 * 4 * 2,) and np.isfinite(curves).all()
