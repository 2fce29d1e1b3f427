"""Packed calls: compiled code calls Python functions, with arrays that share its memory."""

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.backend.build import build
from tilewright.errors import InputError
from tilewright.runtime.packed import get_func, register_func
from tilewright.tir.transform.lower_packed_call import lower_packed_call
from tilewright.tir.verify import verify

register_func("test.cumulative", lambda x, y, scale, add: np.cumsum(x * scale + add, axis=0, out=y), override=True)


@register_func("test.fails", override=True)
def _fails(x, y):
    raise ValueError(f"no luck with {x.shape}")


def _program(call, parallel=False):
    n = te.size_var("n")
    A = te.placeholder((n, 3), name="A")
    B = te.compute((n, 3), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.extern((n, 3), [B], call, name="C")
    D = te.compute((n, 3), lambda i, j: C[i, j] * 2.0, name="D")
    s = te.create_schedule(D)
    if parallel:
        for tensor in (B, D):
            s[tensor].parallel(tensor.op.axis[0])
    return te.lower(s, [A, D])


@pytest.mark.parametrize("parallel", [False, True])
def test_a_python_function_in_the_middle_of_a_graph(parallel):
    func = _program(lambda ins, outs: tir.call_packed("test.cumulative", ins[0], outs[0], 0.5, 3), parallel)
    verify(func)
    module = build(func, threads=2)
    for size in (1, 7, 1000):
        a = np.random.default_rng(0).standard_normal((size, 3)).astype("float32")
        d = np.zeros_like(a)
        module["main"](a, d)
        np.testing.assert_allclose(d, np.cumsum((a + 1) * 0.5 + 3, axis=0) * 2, rtol=1e-4)


def test_before_and_after():
    c = tir.Buffer("c", [8])
    func = tir.PrimFunc("f", [c], tir.Evaluate(tir.call_packed("name", c, 2)))
    after = lower_packed_call(func)
    verify(after)
    text = str(after)
    assert "addresses[0] = address_of(c[0])" in text and "words[0] = int64(4)" in text
    assert "call_packed(" not in text.replace("tilewright_call_packed", "")


def test_a_failure_is_raised_when_the_compiled_function_returns():
    module = build(_program(lambda ins, outs: tir.call_packed("test.fails", ins[0], outs[0]), True), threads=2)
    a = np.zeros((4, 3), "float32")
    with pytest.raises(ValueError, match=r"no luck with \(4, 3\)"):
        module["main"](a, np.zeros_like(a))


def test_names_that_are_missing_or_taken():
    module = build(_program(lambda ins, outs: tir.call_packed("test.nobody", ins[0], outs[0])), threads=1)
    a = np.zeros((4, 3), "float32")
    with pytest.raises(InputError, match=r"calls the function 'test\.nobody', which is not registered"):
        module["main"](a, np.zeros_like(a))
    with pytest.raises(InputError, match=r"a function 'test\.fails' is registered already"):
        register_func("test.fails", print)
    assert get_func("test.fails") is _fails
