"""auto_inline_*: which stages each class takes in."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.backend import build
from tilewright.te.attach import AttachType


def graph():
    """One stage of each class in a chain; (input, stages)."""
    a = te.placeholder((4, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    elemwise = te.compute((4, 6), lambda i, j: a[i, j] + 1.0, name="elemwise")
    row = te.compute((6,), lambda j: tir.const(2.0), name="row")
    broadcast = te.compute((4, 6), lambda i, j: elemwise[i, j] * row[j], name="broadcast")
    injective = te.compute((6, 4), lambda i, j: broadcast[j, i], name="injective")
    reduced = te.compute((6,), lambda i: te.sum(a[i // 2, k] * injective[i, i // 2], axis=k), name="reduced")
    copied = te.compute((6,), lambda i: reduced[i] + 0.0, name="copied")
    handed = te.compute((6,), lambda i: copied[i] * 2.0, name="handed")
    result = te.extern(
        (6,), [handed], lambda ins, outs: tir.Evaluate(
            tir.call_extern("handle", "memcpy", outs[0].access_ptr("w"), ins[0].access_ptr("r"), tir.const(24, "int64"))
        ), name="result"
    )  # fmt: skip
    return a, result


CLASSES = [
    (te.auto_inline_elemwise, {"elemwise", "row", "copied"}),
    (te.auto_inline_broadcast, {"elemwise", "row", "broadcast", "copied"}),
    (te.auto_inline_injective, {"elemwise", "row", "broadcast", "injective", "copied"}),
]


@pytest.mark.parametrize(("inline", "expected"), CLASSES)
def test_takes_in_the_stages_of_its_class(inline, expected):
    a, result = graph()
    s = te.create_schedule(result)
    inline(s)
    assert {stage.name for stage in s.stages if stage.attach_type == AttachType.INLINE} == expected
    x, y = np.random.default_rng(0).random((4, 6)).astype("float32"), np.zeros(6, "float32")
    build(te.lower(s, [a, result]))["main"](x, y)
    i = np.arange(6)
    np.testing.assert_allclose(y, 2 * (x.sum(1)[i // 2] * (x[i // 2, i] + 1) * 2), rtol=1e-5)


def test_leaves_what_is_scheduled_and_what_scans_hold():
    x = te.placeholder((5, 3), name="X")
    state = te.placeholder((5, 3), name="state")
    first = te.compute((1, 3), lambda _, i: x[0, i], name="first")
    update = te.compute((5, 3), lambda t, i: state[t - 1, i] + x[t, i], name="update")
    scanned = te.scan(first, update, state, inputs=[x], name="scanned")
    split = te.compute((5, 3), lambda i, j: scanned[i, j] + 1.0, name="split")
    output = te.compute((5, 3), lambda i, j: split[i, j] + 1.0, name="output")
    s = te.create_schedule(output)
    s[split].split(split.op.axis[0], factor=2)
    te.auto_inline_injective(s)
    assert all(stage.attach_type == AttachType.ROOT for stage in s.stages)
