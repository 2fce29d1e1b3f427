"""inject_copy_intrin: loops that copy become one call, checked by running the call on the machine of the tests."""

import numpy as np
import pytest

from tests.tir.transform.dae_machine import Machine, dma
from tilewright import te, tir
from tilewright.errors import ScheduleError
from tilewright.tir import AttrStmt, Evaluate, For, to_text
from tilewright.tir.transform.coproc_sync import coproc_sync
from tilewright.tir.transform.inject_copy_intrin import inject_copy_intrin
from tilewright.tir.transform.inject_virtual_thread import inject_virtual_thread
from tilewright.tir.transform.statements import walk
from tilewright.tir.transform.unroll_loop import unroll_loop
from tilewright.tir.verify import verify

A = te.placeholder((6, 8), name="A")


def injected(tensor, change=lambda stage: None, inputs=(A,)):
    s = te.create_schedule(tensor)
    change(s[tensor])
    s[tensor].pragma(s[tensor].leaf_iter_vars[0], "dma_copy")
    func = inject_copy_intrin(te.schedule_to_tir(s, [*inputs, tensor]), "dma_copy", dma)
    verify(func)
    return func


def check(tensor, want, change=lambda stage: None):
    func = injected(tensor, change)
    assert not [s for s in walk(func.body) if isinstance(s, For)]
    a = np.arange(48, dtype="float32").reshape(6, 8)
    result = np.full([int(n.value) for n in tensor.shape], np.nan, "float32")
    for instruction in Machine(func, a, result).program:
        instruction.action()
    np.testing.assert_array_equal(result, want(a))


def test_a_block_is_copied_by_one_call():
    check(te.compute((4, 3), lambda i, j: A[i + 1, j + 4], name="B"), lambda a: a[1:5, 4:7])


def test_transposed_and_strided():
    check(te.compute((4, 3), lambda i, j: A[j * 2, i * 2 + 1], name="B"), lambda a: a[::2, 1::2].T)


def test_split_loops_are_copied_by_one_call():
    def split(stage):
        stage.split(stage.op.axis[1], factor=2)

    check(te.compute((4, 8), lambda i, j: A[i, j], name="B"), lambda a: a[:4], split)


@pytest.mark.parametrize("choose", [tir.if_then_else, tir.select])
def test_padding_is_part_of_the_copy(choose):
    def padded(i, j):
        inside = tir.all(i >= 1, i < 7, j >= 2, j - 2 < 8)
        return choose(inside, A[i - 1, j - 2], tir.const(7.0))

    check(te.compute((9, 11), padded, name="B"), lambda a: np.pad(a, ((1, 2), (2, 1)), constant_values=7))


def test_padding_of_a_part():
    """The padding of a tile depends on the loop around it: only the first has any."""
    padded = te.compute((1, 8), lambda _, i: tir.if_then_else(i >= 2, A[0, i - 2], 0.0), name="padded")
    out = te.compute((1, 8), lambda _, i: padded[0, i] * 2.0, name="out")
    s = te.create_schedule(out)
    outer, inner = s[out].split(out.op.axis[1], factor=4)
    s[padded].compute_at(s[out], outer)
    s[padded].set_scope("dae.input")
    s[padded].pragma(padded.op.axis[0], "dma_copy")
    s[out].pragma(inner, "coproc_scope", 2)
    func = inject_copy_intrin(te.schedule_to_tir(s, [A, out]), "dma_copy", dma)
    a, result = np.arange(48, dtype="float32").reshape(6, 8), np.zeros((1, 8), "float32")
    for instruction in Machine(coproc_sync(func), a, result).program:
        instruction.action()
    np.testing.assert_array_equal(result[0], 2 * np.pad(a[0, :6], (2, 0)))


def test_the_call_is_the_functions():
    func = injected(te.compute((4, 3), lambda i, j: A[i, j + 2], name="B"))
    (call,) = [s for s in walk(func.body) if isinstance(s, Evaluate)]
    assert "access_region('w', B[0, 0], 4, 3), access_region('r', A[0, 2], 4, 3)" in to_text(func)
    assert call.value.op == "call_extern"


def test_a_copy_is_repeated_whole_for_each_virtual_thread():
    block = te.compute((4, 8), lambda i, j: A[i, j], name="block")
    out = te.compute((4, 8), lambda i, j: block[i, j] + 1.0, name="out")
    s = te.create_schedule(out)
    thread, row = s[out].split(out.op.axis[0], nparts=2)
    s[out].bind(thread, te.thread_axis("vthread"))
    s[block].compute_at(s[out], row)
    s[block].set_scope("dae.input")
    s[block].pragma(block.op.axis[0], "dma_copy")
    func = unroll_loop(inject_virtual_thread(te.schedule_to_tir(s, [A, out])))
    func = inject_copy_intrin(func, "dma_copy", dma)
    assert sum(isinstance(s, AttrStmt) for s in walk(func.body)) == 2
    assert "access_region('w', block[1, 0, 0], 1, 1, 8)" in to_text(func)


@pytest.mark.parametrize(
    ("element", "why"),
    [
        (lambda i, j: A[i, j] + 1.0, "compute it in a stage of its own"),
        (lambda i, j: A[(i + j) // 2, j], "is no sum of multiples of its loops"),
        (lambda i, j: A[5 - i, j], "runs backwards"),
        (lambda i, j: tir.if_then_else(i < j, A[i, j], 0.0), "does not bound one loop"),
        (lambda i, j: tir.if_then_else(tir.ne(i, 2), A[i, j], 0.0), "does not bound one loop"),
        (lambda i, j: tir.if_then_else(i < 2, A[i, j], j.astype("float32")), "the padding .* varies within it"),
    ],
)
def test_what_is_no_copy_is_refused(element, why):
    with pytest.raises(ScheduleError, match=f"dma_copy: the loops that store to B are no plain copy .*{why}"):
        injected(te.compute((4, 4), element, name="B"))


def test_a_guard_is_refused():
    with pytest.raises(ScheduleError, match="inside its loops is no store but IfThenElse; choose factors that divide"):
        injected(
            te.compute((5, 4), lambda i, j: A[i, j], name="B"), lambda stage: stage.split(stage.op.axis[0], factor=2)
        )


def test_a_thread_is_refused():
    def bind(stage):
        stage.bind(stage.op.axis[1], te.thread_axis("threadIdx.x"))

    with pytest.raises(ScheduleError, match=r"its loop j is bound to threadIdx\.x"):
        injected(te.compute((4, 4), lambda i, j: A[i, j], name="B"), bind)


def test_a_reduction_is_refused():
    k = te.reduce_axis((0, 8), name="k")
    with pytest.raises(ScheduleError, match="its loops hold several statements"):
        injected(te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="B"))
