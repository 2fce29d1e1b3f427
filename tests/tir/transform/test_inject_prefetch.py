"""inject_prefetch: the lines of the next iterations' part are asked for, and nothing else changes."""

import numpy as np

from tilewright import te, tir
from tilewright.backend.build import build
from tilewright.tir.expr import BufferLoad, Call
from tilewright.tir.matrix_tiles import tile_load, tile_zero
from tilewright.tir.stmt import AttrStmt
from tilewright.tir.transform.inject_prefetch import inject_prefetch
from tilewright.tir.verify import verify
from tilewright.tir.visitor import collect


def _rows(inner):
    """c[i, …] = a[i, …], the body of the outer loop under the attribute."""
    a, c = tir.Buffer("a", [8, 32]), tir.Buffer("c", [8, 32])
    i = tir.Var("i")
    body = AttrStmt("prefetch", a, 2, inner(a, c, i))
    return tir.PrimFunc("f", [a, c], tir.For(i, tir.const(0), tir.const(8), tir.ForKind.SERIAL, body))


def _copy(a, c, i):
    j = tir.Var("j")
    return tir.For(j, tir.const(0), tir.const(32), tir.ForKind.SERIAL, tir.BufferStore(c, a[i, j], (i, j)))


def test_before_and_after():
    func = inject_prefetch(_rows(_copy))
    verify(func)
    assert str(func).splitlines()[1:] == [
        "    for i in range(8):",
        "        for line in range(2):",
        "            prefetch(a[i + 2, line * 16])",
        "        for j in range(32):",
        "            c[i, j] = a[i, j]",
    ]


def test_a_part_that_is_not_known_is_not_asked_for():
    index = tir.Buffer("index", [32], "int32")

    def gather(a, c, i):
        j = tir.Var("j")
        load = BufferLoad(a, (i, index[j]))
        return tir.For(j, tir.const(0), tir.const(32), tir.ForKind.SERIAL, tir.BufferStore(c, load, (i, j)))

    func = inject_prefetch(_rows(gather))
    assert not [x for x in collect(func, Call) if x.op == "prefetch"]
    assert not collect(func, AttrStmt)


def test_the_schedule_primitive_prefetches_and_the_result_stays():
    A = te.placeholder((64, 40), name="A")
    C = (
        te.compute((64,), lambda i: te.sum(A[i, k] * 2.0, axis=k), name="C")
        if (k := te.reduce_axis((0, 40), "k"))
        else None
    )
    s = te.create_schedule(C)
    s[C].prefetch(A, C.op.axis[0], 4)
    func = te.lower(s, [A, C])
    calls = [x for x in collect(func, Call) if x.op == "prefetch"]
    assert len(calls) == 1 and "160" in repr(calls[0])
    a = np.random.default_rng(0).standard_normal((64, 40)).astype("float32")
    c = np.zeros(64, "float32")
    build(func, threads=1)["main"](a, c)
    np.testing.assert_allclose(c, (a * 2).sum(1), rtol=1e-4, atol=1e-4)


def _passes(width):
    """c[t, k] = w[p, k, 0], the whole part `p` in each of two passes `t`, the attribute within `k`."""
    w, c = tir.Buffer("w", [8, 32, width]), tir.Buffer("c", [2, 32])
    p, t, k = (tir.Var(name) for name in "ptk")
    j = tir.Var("j")
    add = tir.BufferStore(c, c[t, k] + w[p, k, j], (t, k))
    body = AttrStmt("prefetch_spread", w, 1, tir.For(j, tir.const(0), tir.const(width), tir.ForKind.SERIAL, add))
    for var, extent in ((k, 32), (t, 2), (p, 8)):
        body = tir.For(var, tir.const(0), tir.const(extent), tir.ForKind.SERIAL, body)
    return tir.PrimFunc("f", [w, c], body)


def test_the_next_part_is_spread_over_the_passes_of_this_one():
    func = inject_prefetch(_passes(16))
    verify(func)
    assert str(func).splitlines()[1:5] == [
        "    for p in range(8):",
        "        for t in range(2):",
        "            for k in range(32):",
        "                prefetch(w[p + 1, 0, t * 256 + k * 8], 0, 2)",
    ]


def test_passes_of_unknown_number_bring_the_next_part_in_the_first_one():
    """c[t, k] = w[p, k, 0] for n passes: were each to ask for all of it, the others would ask for what is there."""
    n, w = tir.Var("n"), tir.Buffer("w", [8, 32, 16])
    c = tir.Buffer("c", [n, 32])
    p, t, k, j = (tir.Var(name) for name in "ptkj")
    add = tir.BufferStore(c, c[t, k] + w[p, k, j], (t, k))
    body = AttrStmt("prefetch_spread", w, 1, tir.For(j, tir.const(0), tir.const(16), tir.ForKind.SERIAL, add))
    for var, extent in ((k, tir.const(32)), (t, n), (p, tir.const(8))):
        body = tir.For(var, tir.const(0), extent, tir.ForKind.SERIAL, body)
    lines = [line.strip() for line in str(inject_prefetch(tir.PrimFunc("f", [n, w, c], body))).splitlines()]
    assert lines[4:6] == ["if t <= 0:", "prefetch(w[p + 1, 0, k * 16], 0, 2)"]


def test_a_share_of_several_lines_takes_several_prefetches():
    """32 rows of 64 floats by 64 iterations: two lines each."""
    lines = [line.strip() for line in str(inject_prefetch(_passes(64))).splitlines() if "prefetch" in line]
    assert lines == [
        "prefetch(w[p + 1, 0, t * 1024 + k * 32], 0, 2)",
        "prefetch(w[p + 1, 0, t * 1024 + k * 32 + 16], 0, 2)",
    ]


def test_a_share_of_more_lines_than_a_core_waits_for_is_asked_for_further_in():
    """32 rows of 640 floats by 64 iterations are 20 lines each, or an element in each of the loop inside."""
    func = inject_prefetch(_passes(640), at_once=12)
    verify(func)
    assert str(func).splitlines()[3:6] == [
        "            for k in range(32):",
        "                for j in range(640):",
        "                    prefetch(w[p + 1, 0, t * 20480 + k * 640 + j], 0, 2)",
    ]
    lines = [line for line in str(inject_prefetch(_passes(640), at_once=20)).splitlines() if "prefetch" in line]
    assert len(lines) == 20 and all(line.startswith(16 * " " + "prefetch") for line in lines)


def test_a_part_of_two_stretches_takes_a_prefetch_for_each():
    """c[k] = w[0, p, k] + w[1, p, k]: 32 floats of each of two planes by 32 iterations."""
    w, c = tir.Buffer("w", [2, 8, 32]), tir.Buffer("c", [32])
    p, k = tir.Var("p"), tir.Var("k")
    body = AttrStmt("prefetch_spread", w, 1, tir.BufferStore(c, w[0, p, k] + w[1, p, k], (k,)))
    for var, extent in ((k, 32), (p, 8)):
        body = tir.For(var, tir.const(0), tir.const(extent), tir.ForKind.SERIAL, body)
    func = inject_prefetch(tir.PrimFunc("f", [w, c], body))
    lines = [line.strip() for line in str(func).splitlines() if "prefetch" in line]
    assert lines == ["prefetch(w[0, p + 1, k], 0, 2)", "prefetch(w[1, p + 1, k], 0, 2)"]


def test_nothing_is_spread_over_many_stretches():
    w, c = tir.Buffer("w", [5, 8, 32]), tir.Buffer("c", [32])
    p, k = tir.Var("p"), tir.Var("k")
    total = w[0, p, k] + w[1, p, k] + w[2, p, k] + w[3, p, k] + w[4, p, k]
    body = AttrStmt("prefetch_spread", w, 1, tir.BufferStore(c, total, (k,)))
    for var, extent in ((k, 32), (p, 8)):
        body = tir.For(var, tir.const(0), tir.const(extent), tir.ForKind.SERIAL, body)
    func = inject_prefetch(tir.PrimFunc("f", [w, c], body))
    assert not [x for x in collect(func, Call) if x.op == "prefetch"]


def test_nothing_is_spread_where_no_loop_moves_on():
    part = tir.Buffer("part", [4]), tir.Buffer("c", [4])
    k = tir.Var("k")
    body = AttrStmt("prefetch_spread", part[0], 1, tir.BufferStore(part[1], part[0][k], (k,)))
    func = tir.PrimFunc("f", list(part), tir.For(k, tir.const(0), tir.const(4), tir.ForKind.SERIAL, body))
    assert not [x for x in collect(inject_prefetch(func), Call) if x.op == "prefetch"]


def test_a_vector_that_crosses_rows_reads_them_all():
    """Vectors of 64 bytes are 16 rows of four: of 32 rows for each of 64 iterations two lines are the next part's."""
    w, c = tir.Buffer("w", [8, 32, 32, 4], "uint8"), tir.Buffer("c", [64], "uint8")
    p, k, v = (tir.Var(name) for name in "pkv")
    index = tir.Ramp(tir.const(0), tir.const(1), 64)
    load = BufferLoad(w, (p, k, v * 16, index))
    add = tir.For(v, tir.const(0), tir.const(2), tir.ForKind.SERIAL, tir.BufferStore(c, load, (index,)))
    body = AttrStmt("prefetch_spread", w, 1, add)
    for var, extent in ((k, 32), (p, 8)):
        body = tir.For(var, tir.const(0), tir.const(extent), tir.ForKind.SERIAL, body)
    func = inject_prefetch(tir.PrimFunc("f", [w, c], body))
    lines = [line.strip() for line in str(func).splitlines() if "prefetch" in line]
    assert lines == ["prefetch(w[p + 1, 0, 0, k * 128], 0, 2)", "prefetch(w[p + 1, 0, 0, k * 128 + 64], 0, 2)"]


def test_the_rows_of_a_matrix_register_are_all_read():
    """A register of 16 rows by 64 bytes: of 4 of them for each part the loop inside asks for the lines of the next."""
    w, k, p = tir.Buffer("w", [8, 64, 16, 4], "int8"), tir.Var("k"), tir.Var("p")
    rows = [BufferLoad(w, (p, k * 16 + row, tir.const(0), tir.const(0))) for row in (0, 1)]
    steps = tir.For(k, tir.const(0), tir.const(4), tir.ForKind.SERIAL, tile_load(6, 16, *rows))
    body = AttrStmt("prefetch_spread", w, 1, tir.seq(tile_zero(0, 16), steps, tile_zero(1, 16)))
    func = tir.PrimFunc("f", [w], tir.For(p, tir.const(0), tir.const(8), tir.ForKind.SERIAL, body))
    lines = [line.strip() for line in str(inject_prefetch(func, at_once=16)).splitlines() if "prefetch" in line]
    assert len(lines) == 16  # 64 rows of 64 bytes
    assert lines[1] == "prefetch(w[p + 1, 0, 0, k * 1024 + 64], 0, 2)"
