"""Hybrid functions: Python loops become part of a graph, and compute what Python computes."""

import numpy as np
import pytest

from tilewright import te
from tilewright.backend.build import build
from tilewright.errors import ScheduleError

WINDOW = 3


@te.hybrid.script
def outer(a, b):
    """The language's names are defined by the decorator."""
    c = output_tensor((a.shape[0], b.shape[0]), a.dtype)  # noqa: F821
    for i in range(a.shape[0]):
        for j in parallel(b.shape[0]):  # noqa: F821
            c[i, j] = a[i] * b[j] if i < j else a[i] - b[j]
    return c


@te.hybrid.script
def smooth(a, scale):
    n = a.shape[0]
    mean = output_tensor((n,), "float32")  # noqa: F821
    largest = output_tensor((1,), "float32")  # noqa: F821
    window = allocate((WINDOW,), "float32", "local")  # noqa: F821
    best = float32(-1e30)  # noqa: F821
    for i in range(n):
        total = float32(0)  # noqa: F821
        for k in const_range(WINDOW):  # noqa: F821
            at = i + k - 1
            if at >= 0 and at < n:
                window[k] = a[at]
            else:
                window[k] = 0.0
            total += window[k]
        mean[i] = exp(total / WINDOW) * scale  # noqa: F821
        best = max(best, mean[i])
    largest[0] = best
    return mean, largest


@te.hybrid.script
def collatz(a):
    steps = output_tensor(a.shape, "int32")  # noqa: F821
    for i in range(a.shape[0]):
        x = a[i]
        steps[i] = 0
        while x != 1:
            if x % 2 == 0:
                x = x // 2
            else:
                x = 3 * x + 1
            steps[i] += 1
    return steps


def _run(output, inputs, values):
    outputs = output if isinstance(output, list) else [output]
    s = te.create_schedule(outputs)
    results = [np.zeros([int(d.value) for d in t.shape], t.dtype.numpy) for t in outputs]
    build(te.lower(s, [*inputs, *outputs]), threads=2)["main"](*values, *results)
    return results


def test_loops_over_two_tensors():
    A, B = te.placeholder((5,), name="A"), te.placeholder((7,), name="B")
    a, b = np.arange(5, dtype="float32"), np.arange(7, dtype="float32") + 0.5
    (found,) = _run(outer(A, B), [A, B], [a, b])
    np.testing.assert_array_equal(found, outer(a, b))
    np.testing.assert_array_equal(found, np.where(np.arange(5)[:, None] < np.arange(7), np.outer(a, b), a[:, None] - b))


def test_scalars_branches_buffers_and_several_outputs_between_computes():
    A = te.placeholder((9,), name="A")
    doubled = te.compute((9,), lambda i: A[i] * 2.0, name="doubled")
    outputs = smooth(doubled, 0.5)
    a = np.random.default_rng(0).uniform(-1, 1, 9).astype("float32")
    mean, largest = _run(outputs, [A], [a])
    padded = np.pad(a * 2, 1)
    want = np.exp((padded[:-2] + padded[1:-1] + padded[2:]) / 3) * 0.5
    np.testing.assert_allclose(mean, want, rtol=1e-5)
    assert largest[0] == mean.max()


def test_a_while_loop_runs_as_in_python():
    A = te.placeholder((4,), "int32", name="A")
    a = np.array([1, 7, 27, 6], "int32")
    (found,) = _run(collatz(A), [A], [a])
    np.testing.assert_array_equal(found, [0, 16, 111, 8])


def test_one_function_for_any_size():
    n = te.size_var("n")
    A = te.placeholder((n,), "int32", name="A")
    C = collatz(A)
    function = build(te.lower(te.create_schedule(C), [A, C]), threads=1)["main"]
    for size in (1, 5):
        result = np.zeros(size, "int32")
        function(np.full(size, 3, "int32"), result)
        np.testing.assert_array_equal(result, np.full(size, 7))


@te.hybrid.script
def _no_return(a):
    pass


@te.hybrid.script
def _list(a):
    b = [a]
    return b


@te.hybrid.script
def _writes_input(a):
    c = output_tensor((1,), "float32")  # noqa: F821
    a[0] = 1.0
    return c


@te.hybrid.script
def _unknown(a):
    c = output_tensor((1,), "float32")  # noqa: F821
    c[0] = gamma(a[0])  # noqa: F821
    return c


@te.hybrid.script
def _over_items(a):
    for x in a:
        x += 1
    return a


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_no_return, "returns its output_tensor"),
        (_list, r"line \d+: a hybrid function has no List: \[a\]"),
        (_writes_input, r"an input cannot be assigned to: a\[0\] = 1.0"),
        (_unknown, r"the functions are exp, .*: gamma\(a\[0\]\)"),
        (_over_items, "a loop runs over one of range"),
    ],
)
def test_what_the_language_does_not_have_is_named_with_its_line(function, message):
    with pytest.raises(ScheduleError, match=message):
        function(te.placeholder((4,), name="A"))
