"""Schedules and tensors as JSON: what they compute after reading, and texts that name other classes."""

from __future__ import annotations

import base64
import json
import os
import pickle

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("classic")


def test_a_schedule_computes_the_same_after_reading() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((32, 16), name="a")
    k = te.reduce_axis((0, 16), "k")
    b = te.compute((32,), lambda i: te.sum(a[i, k] * 2.0, axis=k), name="b")
    schedule = te.create_schedule(b.op)
    schedule[b].vectorize(schedule[b].split(b.op.axis[0], 8)[1])
    read = tvm.ir.load_json(tvm.ir.save_json(schedule))
    assert isinstance(read, te.schedule.Schedule) and str(read.outputs[0].body) == str(b.op.body)
    (made,) = read.outputs
    values = np.random.default_rng(0).random((32, 16), np.float32)
    arrays = tvm.nd.array(values), tvm.nd.array(np.zeros(32, "float32"))
    tvm.build(read, [made.input_tensors[0], made.output(0)], "llvm")(*arrays)
    np.testing.assert_allclose(arrays[1].numpy(), 2 * values.sum(1), rtol=1e-5)
    for node in (a, b, b.op):
        assert str(tvm.ir.load_json(tvm.ir.save_json(node))) == str(node)


@pytest.mark.parametrize("value", [os.system, pickle.loads, np.zeros(2), type])
def test_other_classes_are_refused(value: object) -> None:
    import tvm

    text = json.dumps({"tilewright": "te", "pickle": base64.b64encode(pickle.dumps(value)).decode()})
    with pytest.raises(tvm.TVMError, match="is not made of"):
        tvm.ir.load_json(text)
    with pytest.raises(tvm.TVMError, match="holds no schedule or tensor"):
        tvm.ir.load_json('{"tilewright": "te", "pickle": "AAAA"}')
