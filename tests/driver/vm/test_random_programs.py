"""Random programs on the virtual machine give what the interpreter gives."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tilewright as tw
from tests.relay.programs import Programs
from tilewright import relay
from tilewright.relay.ir.values import flatten
from tilewright.runtime.vm import hot


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 150), marks=pytest.mark.long)], ids=["few", "many"])
def test_the_virtual_machine_agrees_with_the_interpreter(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "OFTEN", 2)
    compared = 0
    for seed in seeds:
        mod = Programs(Random(seed)).module()
        inputs = [np.int32(3), np.arange(3, dtype="float32"), np.zeros((2, 4, 5), "float32")]
        with np.errstate(all="ignore"):
            expected = flatten(relay.evaluate(mod, inputs, False))
        if not all(isinstance(value, np.ndarray) for value in expected):
            continue
        model = tw.compile(mod)
        compared += 1
        for _ in range(3):  # interpreted at first, in native code then
            got = model(*inputs)
            for want, have in zip(expected, got if isinstance(got, list | tuple) else [got], strict=True):
                assert_allclose(np.asarray(have), want, rtol=1e-5, err_msg=f"seed {seed}\n{mod}")
    assert compared > len(seeds) // 2
