"""What the compiler's texts look like: a graph before and after fusion, and a kernel after every lowering pass."""

from __future__ import annotations

import pytest

from tests.golden import CheckGolden, compare_or_accept
from tests.onnx_models import convolution
from tilewright import te
from tilewright.compile import import_model, optimize
from tilewright.target import Target

TARGET = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -l1d=32768 -l2=262144 -l3=8388608 -cores=4")


def test_a_graph_as_imported(check_golden: CheckGolden) -> None:
    check_golden("convolution_relay.txt", str(import_model(convolution(), None)))


def test_a_graph_of_fused_functions(check_golden: CheckGolden) -> None:
    check_golden("convolution_fused.txt", str(optimize(import_model(convolution(), None), TARGET)))


def test_a_kernel_after_every_pass(check_golden: CheckGolden) -> None:
    """A matrix-vector product whose rows are shared out in blocks of 8, with a tail where 8 does not divide them."""
    matrix, vector = te.placeholder((20, 32), name="matrix"), te.placeholder((32,), name="vector")
    k = te.reduce_axis((0, 32), name="k")
    out = te.compute((20,), lambda i: te.sum(matrix[i, k] * vector[k], axis=k), name="out")
    s = te.create_schedule(out)
    block, lane = s[out].split(out.op.axis[0], factor=8)
    s[out].reorder(block, k, lane)
    s[out].vectorize(lane)
    s[out].parallel(block)
    texts, previous = [], ""
    for name, func in te.lower_stages(s, [matrix, vector, out], "product"):
        text = str(func)
        texts.append(f"# {name}\n{text}\n" if text != previous else f"# {name}: unchanged\n")
        previous = text
    check_golden("product_stages.txt", "\n".join(texts))


def test_a_difference_is_shown_and_accepted(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("tests.golden.FOLDER", tmp_path)
    with pytest.raises(AssertionError, match=r"(?s)run with --accept.*\+one"):
        compare_or_accept("a.txt", "one\ntwo", accept=False)
    compare_or_accept("a.txt", "one\ntwo", accept=True)
    compare_or_accept("a.txt", "one\ntwo\n", accept=False)
    with pytest.raises(AssertionError, match=r"(?s)-two\n\+three"):
        compare_or_accept("a.txt", "one\nthree\n", accept=False)
