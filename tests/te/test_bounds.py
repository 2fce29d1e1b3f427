"""Bound inference: regions are exact where accesses are affine, and placement is checked."""

import pytest

from tilewright import te, tir
from tilewright.errors import ScheduleError
from tilewright.te.bounds import infer_bounds


def extents_of(s, tensor):
    """Extents of the region that the stage of `tensor` computes."""
    normal = s.normalize()
    bounds = infer_bounds(normal).stages[normal[tensor]]
    return [bounds.extents[iv].value for iv in normal[tensor].op.axis]


def conv(height=16, stride=1, kernel=3):
    A = te.placeholder((height, height), name="A")
    P = te.compute(A.shape, lambda y, x: A[y, x] * 2.0, name="P")
    ky, kx = te.reduce_axis((0, kernel), "ky"), te.reduce_axis((0, kernel), "kx")
    size = (height - kernel) // stride + 1
    C = te.compute((size, size), lambda y, x: te.sum(P[y * stride + ky, x * stride + kx], axis=[ky, kx]), name="C")
    return A, P, C


@pytest.mark.parametrize(("stride", "kernel", "wants"), [(1, 3, [3, 16]), (2, 3, [3, 15]), (1, 1, [1, 16])])
def test_a_row_of_a_convolution_needs_kernel_rows(stride, kernel, wants):
    _A, P, C = conv(stride=stride, kernel=kernel)
    s = te.create_schedule(C)
    s[P].compute_at(s[C], C.op.axis[0])
    assert extents_of(s, P) == wants


def test_a_tile_needs_its_halo():
    _A, P, C = conv(height=18)
    s = te.create_schedule(C)
    _, x_outer, *_ = s[C].tile(*C.op.axis, 4, 8)
    s[P].compute_at(s[C], x_outer)
    assert extents_of(s, P) == [6, 10]


def test_inside_the_reduction_one_element_is_needed():
    _A, P, C = conv()
    s = te.create_schedule(C)
    s[P].compute_at(s[C], C.op.reduce_axis[1])
    assert extents_of(s, P) == [1, 1]


def test_several_reads_and_readers_are_covered():
    A = te.placeholder((32,), name="A")
    P = te.compute((32,), lambda i: A[i] + 1.0, name="P")
    Q = te.compute((28,), lambda i: P[i] + P[i + 3], name="Q")
    R = te.compute((28,), lambda i: Q[i] * P[i + 4], name="R")
    s = te.create_schedule(R)
    outer, _ = s[R].split(R.op.axis[0], factor=4)
    s[Q].compute_at(s[R], outer)
    s[P].compute_at(s[R], outer)
    assert extents_of(s, Q) == [4] and extents_of(s, P) == [8]


def test_a_fused_parallel_axis_keeps_blocks_exact():
    A = te.placeholder((4, 8, 16), name="A")
    P = te.compute(A.shape, lambda n, c, x: A[n, c, x] + 1.0, name="P")
    C = te.compute(A.shape, lambda n, c, x: P[n, c, x] * 2.0, name="C")
    s = te.create_schedule(C)
    n, c, _x = C.op.axis
    c_outer, _ = s[C].split(c, factor=4)
    fused = s[C].fuse(n, c_outer)
    s[P].compute_at(s[C], fused)
    assert extents_of(s, P) == [1, 4, 16]


def test_blocked_reads_through_division_are_exact():
    A = te.placeholder((64,), name="A")
    P = te.compute((16, 4), lambda o, i: A[o * 4 + i], name="P")
    C = te.compute((64,), lambda i: P[i // 4, i % 4], name="C")
    s = te.create_schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=8)
    s[P].compute_at(s[C], outer)
    assert extents_of(s, P) == [2, 4]


def test_a_data_dependent_index_needs_everything():
    A, index = te.placeholder((10,), name="A"), te.placeholder((6,), "int32", name="index")
    P = te.compute((10,), lambda i: A[i] + 1.0, name="P")
    C = te.compute((6,), lambda i: P[index[i]], name="C")
    s = te.create_schedule(C)
    s[P].compute_at(s[C], C.op.axis[0])
    assert extents_of(s, P) == [10]


def test_regions_are_cut_to_the_tensor():
    A = te.placeholder((5,), name="A")
    P = te.compute((5,), lambda i: A[i] + 1.0, name="P")
    C = te.compute((9,), lambda i: tir.if_then_else(tir.all(i >= 2, i < 7), P[i - 2], 0.0), name="C")
    s = te.create_schedule(C)
    outer, _ = s[C].split(C.op.axis[0], nparts=1)
    s[P].compute_at(s[C], outer)
    assert extents_of(s, P) == [5]


def test_bounds_of_symbolic_sizes_are_symbolic():
    n = te.size_var("n")
    A = te.placeholder((n, n), name="A")
    P = te.compute((n, n), lambda i, j: A[i, j] + 1.0, name="P")
    C = te.compute((n, n), lambda i, j: P[i, j] * 2.0, name="C")
    s = te.create_schedule(C)
    s[P].compute_at(s[C], C.op.axis[0])
    normal = s.normalize()
    bounds = infer_bounds(normal).stages[normal[P]]
    assert bounds.extents[P.op.axis[0]].value == 1 and bounds.extents[P.op.axis[1]] is n


def test_a_reader_outside_the_loop_is_an_error():
    A, P, C = conv()
    D = te.compute(P.shape, lambda y, x: P[y, x] + 1.0, name="D")
    s = te.create_schedule([C.op, D.op])
    s[P].compute_at(s[C], C.op.axis[0])
    with pytest.raises(ScheduleError, match="its reader D is not computed inside loop y of C"):
        te.schedule_to_tir(s, [A, C, D])


def test_an_unread_or_inlined_position_is_an_error():
    A, _P, C = conv()
    D = te.compute(C.shape, lambda y, x: C[y, x] + 1.0, name="D")
    E = te.compute(D.shape, lambda y, x: D[y, x] + 1.0, name="E")
    s = te.create_schedule(E)
    s[C].compute_at(s[D], D.op.axis[0])
    s[D].compute_inline()
    with pytest.raises(ScheduleError, match="D is inlined and has no loops"):
        te.schedule_to_tir(s, [A, E])


def test_stages_inside_each_other_are_an_error():
    A, P, C = conv()
    D = te.compute(C.shape, lambda y, x: C[y, x] + 1.0, name="D")
    s = te.create_schedule(D)
    s[P].compute_at(s[C], C.op.axis[0])
    s[C].compute_at(s[P], P.op.axis[0])
    with pytest.raises(ScheduleError, match="inside each other"):
        te.schedule_to_tir(s, [A, D])


def test_shared_memory_holds_what_all_threads_read():
    A = te.placeholder((64,), name="A")
    C = te.compute((64,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C)
    AS = s.cache_read(A, "shared", [C])
    AL = s.cache_read(AS, "local", [C])
    outer, inner = s[C].split(C.op.axis[0], factor=16)
    s[C].bind(outer, te.thread_axis("blockIdx.x"))
    s[C].bind(inner, te.thread_axis("threadIdx.x"))
    s[AS].compute_at(s[C], inner)
    s[AL].compute_at(s[C], inner)
    assert extents_of(s, AS) == [16] and extents_of(s, AL) == [1]


def test_pixels_of_an_image_fused_to_one_loop_are_exact():
    A = te.placeholder((56 * 10,), name="A")
    P = te.compute((560,), lambda p: A[p] * 2.0, name="P")
    C = te.compute((10, 56), lambda y, x: P[y * 56 + x] + 1.0, name="C")
    s = te.create_schedule(C)
    tiles, _ = s[C].split(s[C].fuse(*C.op.axis), factor=32)
    s[P].compute_at(s[C], tiles)
    assert extents_of(s, P) == [32]


def test_pixels_of_an_image_of_symbolic_sizes_fused_to_one_loop_are_exact():
    h, w = te.size_var("h"), te.size_var("w")
    A = te.placeholder((h * w,), name="A")
    P = te.compute((h * w,), lambda p: A[p] * 2.0, name="P")
    C = te.compute((1, h, w), lambda b, y, x: P[y * w + x] + 1.0, name="C")
    s = te.create_schedule(C)
    batch, row, column = C.op.axis
    tiles, _ = s[C].split(s[C].fuse(row, column), factor=32)
    s[P].compute_at(s[C], s[C].fuse(batch, tiles))
    assert extents_of(s, P) == [32]
