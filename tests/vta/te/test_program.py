"""Schedules of users on VTA: scopes, copies, the matrix unit, the vector unit and virtual threads, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te, tir, topi
from tilewright.errors import ScheduleError, UnsupportedError
from tilewright.vta import Config, Isa
from tilewright.vta.te import Machine, ScheduledProgram, compile_schedule

MACHINE = Machine(Isa())
ACC, INP, WGT = (MACHINE.scopes[name] for name in ("ACC", "INP", "WGT"))
RNG = np.random.default_rng(0)


def copy_of(tensor, name):
    return te.compute(tensor.shape, lambda *i: tensor(*i), name)


def ran(schedule, args, arrays, machine=MACHINE):
    """The results of the program on the arrays, the last one being the output, on the drivers that must agree."""
    program = compile_schedule(machine, schedule, args)
    results = []
    for driver in ("native", "checked"):
        given = [a.copy() for a in arrays]
        program.run(given, driver)
        results.append(given[-1])
    np.testing.assert_array_equal(*results)
    return results[0]


def vector(compute, *shapes, sizes=(4, 6)):
    """A stage of the vector unit on loaded tensors of `shapes`, stored as int8."""
    inputs = [te.placeholder(s, name=f"x{n}", dtype="int32") for n, s in enumerate(shapes)]
    loaded = [copy_of(x, f"{x.name}_buf") for x in inputs]
    made = te.compute((*sizes, 1, 16), lambda *i: compute(i, *loaded), "made")
    out = te.compute((*sizes, 1, 16), lambda *i: made(*i).astype("int8"), "out")
    s = te.create_schedule(out.op)
    for tensor in (*loaded, made):
        s[tensor].set_scope(ACC)
    for tensor in (*loaded, out):
        s[tensor].pragma(s[tensor].op.axis[0], "dma_copy")
    s[made].pragma(s[made].op.axis[0], "alu")
    return s, [*inputs, out]


FULL, BIAS = (4, 6, 1, 16), (4, 1, 1, 16)
ALU = {
    "sum": (lambda i, a, b: a(*i) + b(*i), lambda a, b: a + b, (FULL, FULL)),
    "sum with a row": (lambda i, a, b: a(*i) + b(i[0], 0, *i[2:]), lambda a, b: a + b, (FULL, BIAS)),
    "row first": (lambda i, a, b: b(i[0], 0, *i[2:]) + a(*i), lambda a, b: a + b, (FULL, BIAS)),
    "product": (lambda i, a, b: a(*i) * b(*i), lambda a, b: a * b, (FULL, FULL)),
    "itself": (lambda i, a: a(*i) * a(*i), lambda a: a * a, (FULL,)),
    "left shift": (lambda i, a: a(*i) << 3, lambda a: a << 3, (FULL,)),
    "right shift": (lambda i, a: a(*i) >> 2, lambda a: a >> 2, (FULL,)),
    "difference": (lambda i, a: a(*i) - 5, lambda a: a - 5, (FULL,)),
    "bounds": (lambda i, a: tir.maximum(tir.minimum(a(*i), 7), -3), lambda a: np.clip(a, -3, 7), (FULL,)),
    "several": (
        lambda i, a, b: tir.maximum((a(*i) + b(i[0], 0, *i[2:])) >> 1, 0),
        lambda a, b: np.maximum((a + b) >> 1, 0),
        (FULL, BIAS),
    ),
    "moved": (lambda i, a: a(i[0], 0, *i[2:]), lambda a: a[:, :1], (FULL,)),
}


@pytest.mark.parametrize("name", ALU)
def test_the_vector_unit(name):
    compute, reference, shapes = ALU[name]
    s, args = vector(compute, *shapes)
    arrays = [RNG.integers(-9, 9, shape).astype("int32") for shape in shapes]
    found = ran(s, args, [*arrays, np.zeros(FULL, "int8")])
    np.testing.assert_array_equal(found, np.broadcast_to(reference(*arrays), FULL).astype("int8"))


def test_a_reduction_of_the_vector_unit():
    x = te.placeholder((6, 4, 1, 16), name="x", dtype="int32")
    loaded, k = copy_of(x, "loaded"), te.reduce_axis((0, 6), "k")
    total = te.compute((4, 1, 16), lambda i, b, c: te.sum(loaded[k, i, b, c], axis=k), "total")
    out = te.compute((4, 1, 16), lambda *i: total(*i).astype("int8"), "out")
    s = te.create_schedule(out.op)
    for tensor in (loaded, total):
        s[tensor].set_scope(ACC)
    for tensor in (loaded, out):
        s[tensor].pragma(s[tensor].op.axis[0], "dma_copy")
    s[total].pragma(s[total].op.axis[0], "alu")
    values = RNG.integers(-9, 9, (6, 4, 1, 16)).astype("int32")
    found = ran(s, [x, out], [values, np.zeros((4, 1, 16), "int8")])
    np.testing.assert_array_equal(found, values.sum(axis=0).astype("int8"))


@pytest.mark.parametrize("before, after", [((2, 0), (0, 0)), ((0, 2), (0, 0)), ((0, 0), (2, 3)), ((1, 1), (1, 1))])
def test_a_load_with_padding(before, after):
    x = te.placeholder((3, 5, 1, 16), name="x", dtype="int32")
    padded = topi.nn.pad(x, [*before, 0, 0], [*after, 0, 0])
    made = te.compute(padded.shape, lambda *i: padded(*i) + 1, "made")
    out = te.compute(padded.shape, lambda *i: made(*i).astype("int8"), "out")
    s = te.create_schedule(out.op)
    for tensor in (padded, made):
        s[tensor].set_scope(ACC)
    for tensor in (padded, out):
        s[tensor].pragma(s[tensor].op.axis[0], "dma_copy")
    s[made].pragma(s[made].op.axis[0], "alu")
    values = RNG.integers(-9, 9, (3, 5, 1, 16)).astype("int32")
    expected = np.pad(values, (*zip(before, after), (0, 0), (0, 0))) + 1
    found = ran(s, [x, out], [values, np.zeros(expected.shape, "int8")])
    np.testing.assert_array_equal(found, expected.astype("int8"))


def product(config, rows=4, inner=6, columns=4, threads=1, k_factor=2):
    """(x wᵀ >> 6) cut to int8, by steps of `k_factor` tiles."""
    machine = Machine(Isa(config))
    batch, block = config.batch, config.block
    x = te.placeholder((rows, inner, batch, block), name="x", dtype="int8")
    w = te.placeholder((columns, inner, block, block), name="w", dtype="int8")
    x_buf, w_buf = copy_of(x, "x_buf"), copy_of(w, "w_buf")
    ko, ki = te.reduce_axis((0, inner), "ko"), te.reduce_axis((0, block), "ki")
    total = te.compute(
        (rows, columns, batch, block),
        lambda i, j, b, c: te.sum(
            x_buf[i, ko, b, ki].astype("int32") * w_buf[j, ko, c, ki].astype("int32"), axis=[ko, ki]
        ),
        "total",
    )
    shifted = te.compute(total.shape, lambda *i: total(*i) >> 6, "shifted")
    low = te.compute(total.shape, lambda *i: tir.maximum(shifted(*i), 0), "low")
    high = te.compute(total.shape, lambda *i: tir.minimum(low(*i), 127), "high")
    out = te.compute(total.shape, lambda *i: high(*i).astype("int8"), "out")
    s = te.create_schedule(out.op)
    scopes = machine.scopes
    for tensor, scope in ((x_buf, "INP"), (w_buf, "WGT"), *((t, "ACC") for t in (total, shifted, low, high))):
        s[tensor].set_scope(scopes[scope])
    i, j, _, _ = s[out].op.axis
    if threads > 1:
        thread, _ = s[out].split(i, nparts=threads)
        s[out].bind(thread, te.thread_axis("cthread"))
        for tensor in (total, shifted, low, high):
            s[tensor].compute_at(s[out], thread)
    s[out].pragma(j, "dma_copy")
    outer, inner_k = s[total].split(ko, factor=k_factor)
    i, j, b, c = s[total].op.axis
    s[total].reorder(outer, inner_k, i, j, b, c, ki)
    for tensor in (x_buf, w_buf):
        s[tensor].compute_at(s[total], outer)
        s[tensor].pragma(s[tensor].op.axis[0], "dma_copy")
    s[total].tensorize(b, machine.gemm)
    for tensor in (shifted, low, high):
        s[tensor].pragma(s[tensor].op.axis[0], "alu")
    return machine, s, [x, w, out]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "config",
    [
        Config(),
        Config(
            log_batch=1,
            log_block=3,
            log_uop_buff_size=13,
            log_inp_buff_size=13,
            log_wgt_buff_size=13,
            log_acc_buff_size=15,
        ),
    ],
    ids=lambda c: c.name,
)
def test_the_matrix_unit(config, threads):
    machine, s, args = product(config, threads=threads)
    shapes = [tuple(int(n) for n in tensor.shape) for tensor in args]
    x, w = (RNG.integers(-128, 128, shape).astype("int8") for shape in shapes[:2])
    found = ran(s, args, [x, w, np.zeros(shapes[2], "int8")], machine)
    sums = np.einsum("ikbx,jkcx->ijbc", x.astype(int), w.astype(int))
    np.testing.assert_array_equal(found, np.clip(sums >> 6, 0, 127))


def test_virtual_threads_hide_latency():
    cycles = []
    for threads in (1, 2):
        machine, s, args = product(Config(), rows=128, inner=16, columns=8, threads=threads, k_factor=1)
        program = compile_schedule(machine, s, args)
        arrays = [np.zeros(argument.shape, "int8") for argument in program.arguments]
        cycles.append(program.run(arrays, "cycle")["cycles"])
    assert cycles[1] < 0.9 * cycles[0]


def test_loops_of_products_are_one_instruction():
    machine, s, args = product(Config())
    text = compile_schedule(machine, s, args).listing()
    assert sum("GEMM" in line and "reset" not in line for line in text.splitlines()) == 3  # one a step of two tiles


def test_a_program_is_saved_and_loaded(tmp_path):
    machine, s, args = product(Config())
    program = compile_schedule(machine, s, args)
    program.save(tmp_path / "product.vta")
    again = ScheduledProgram.load(tmp_path / "product.vta")
    arrays = [RNG.integers(-128, 128, a.shape).astype("int8") for a in program.arguments]
    other = [a.copy() for a in arrays]
    program.run(arrays)
    again.run(other)
    np.testing.assert_array_equal(arrays[2], other[2])
    assert ScheduledProgram.is_saved(tmp_path / "product.vta") and again.listing() == program.listing()


def test_what_no_unit_does_is_refused():
    with pytest.raises(UnsupportedError, match="no operation for"):
        compile_schedule(MACHINE, *vector(lambda i, a: a(*i) // 3, FULL))
    with pytest.raises(UnsupportedError, match="more than 16 bits"):
        compile_schedule(MACHINE, *vector(lambda i, a: a(*i) + 70000, FULL))
    with pytest.raises(UnsupportedError, match=r"need .* tiles of ACC, which has 2048"):
        compile_schedule(MACHINE, *vector(lambda i, a: a(*i) + 1, (64, 64, 1, 16), sizes=(64, 64)))
    x = te.placeholder(FULL, name="x", dtype="int32")
    plain = te.compute(FULL, lambda *i: x(*i) + 1, "plain")
    with pytest.raises(UnsupportedError, match="computed by no unit of VTA"):
        compile_schedule(MACHINE, te.create_schedule(plain.op), [x, plain])
    loaded = copy_of(x, "loaded")
    s = te.create_schedule(loaded.op)
    s[loaded].pragma(s[loaded].op.axis[0], "dma_copy")
    with pytest.raises(ScheduleError, match="no unit copies"):
        compile_schedule(MACHINE, s, [x, loaded])
