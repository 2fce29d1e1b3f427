"""storage_rewrite: fewer bytes, the same values, barriers where one position holds two buffers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.source.programs import axes, require_target
from tilewright import te
from tilewright.backend import build
from tilewright.tir import call_extern, if_then_else
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, SizeVar, Var
from tilewright.tir.op import const, less
from tilewright.tir.stmt import Allocate, BufferStore, Evaluate, For, ForKind, IfThenElse, PrimFunc, While, seq
from tilewright.tir.transform.lower_parallel import lower_parallel
from tilewright.tir.transform.statements import walk
from tilewright.tir.transform.storage_rewrite import storage_rewrite

N = 2048  # floats: 8 KiB
A, B = Buffer("A", [N]), Buffer("B", [N])
I = Var("i")


def temporaries(count, dtype="float32", scope="global"):
    return [Buffer(f"T{n}", [N], dtype, scope) for n in range(count)]


def over(target, value, index=I, kind=ForKind.SERIAL, extent=N):
    """target[index] = value for all i."""
    return For(I, const(0), const(extent), kind, BufferStore(target, value, (index,)))


def at(buffer, index=I):
    return BufferLoad(buffer, (index,))


def func_of(buffers, *stmts):
    body = seq(*stmts)
    for buffer in reversed(buffers):
        body = Allocate(buffer, body)
    return PrimFunc("f", [A, B], body)


def allocated(func):
    return [s.buffer for s in walk(func.body) if isinstance(s, Allocate)]


def check(interpret, func, count):
    """`count` allocations are left, and the result is that of `func`."""
    made = storage_rewrite(func)
    assert len(allocated(made)) == count
    a = np.arange(N, dtype="float32")
    expected, result = np.zeros(N, "float32"), np.zeros(N, "float32")
    interpret(func, a.copy(), expected)
    interpret(made, a.copy(), result)
    np.testing.assert_array_equal(result, expected)
    return made


def flipped(buffer):
    return at(buffer, N - 1 - I)


def test_disjoint_lives_share_a_position(interpret):
    t = temporaries(4)
    func = func_of(t, over(t[0], flipped(A)), over(t[1], flipped(t[0])), over(t[2], flipped(t[1])),
                   over(t[3], flipped(t[2])), over(B, flipped(t[3])))  # fmt: skip
    check(interpret, func, 2)


def test_an_element_that_depends_on_the_same_one_is_made_in_its_position(interpret):
    t = temporaries(3)
    chain = [over(t[0], at(A) + 1.0), over(t[1], at(t[0]) * at(t[0])), over(t[2], at(t[1]) - 3.0), over(B, at(t[2]))]
    check(interpret, func_of(t, *chain), 1)
    j = Var("j")
    tiled = BufferStore(t[1], BufferLoad(t[0], (I * 32 + j,)), (I * 32 + j,))
    nest = For(I, const(0), const(N // 32), ForKind.SERIAL, For(j, const(0), const(32), ForKind.VECTORIZED, tiled))
    check(interpret, func_of(t[:2], chain[0], nest, over(B, at(t[1]))), 1)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "step",
    [
        lambda t, u: over(u, flipped(t)),
        lambda t, u: over(u, at(t) + at(t, const(0))),
        lambda t, u: over(u, at(t, I // 2), I // 2),  # each element twice
        lambda t, u: seq(over(u, at(t)), over(u, at(t) + at(u))),
        lambda t, u: IfThenElse(less(at(t, const(3)), 9.0), over(u, at(t))),
        lambda t, u: For(I, const(0), const(N), ForKind.SERIAL,
                         seq(BufferStore(u, at(t), (I,)), BufferStore(B, at(t, const(7)), (I,)))),
        lambda t, u: seq(over(u, at(t)), over(t, at(u))),
    ],
)  # fmt: skip
def test_not_in_place(step, interpret):
    t, u = temporaries(2)
    check(interpret, func_of([t, u], over(t, at(A) + 1.0), step(t, u), over(B, at(u) + at(t))), 2)
    check(interpret, func_of([t, u], over(t, at(A) + 1.0), step(t, u), over(B, at(u))), 2)


def test_what_runs_again_or_takes_addresses_is_not_in_place():
    t, u = temporaries(2)
    again = While(less(at(B, const(0)), 9.0), BufferStore(u, at(t, const(0)) + at(B, const(0)), (const(0),)))
    assert len(allocated(storage_rewrite(func_of([t, u], over(t, at(A)), again, over(B, at(u)))))) == 2
    call = Evaluate(call_extern("int32", "copy", u.access_ptr("w"), t.access_ptr("r")))
    assert len(allocated(storage_rewrite(func_of([t, u], over(t, at(A)), call, over(B, at(u)))))) == 2


def test_a_larger_buffer_serves_a_smaller_one(interpret):
    small, middle, large = Buffer("S", [N // 2]), Buffer("M", [N]), Buffer("L", [N])
    half = const(N // 2)
    func = func_of(
        [small, middle, large],
        over(small, at(A), extent=N // 2),
        over(middle, if_then_else(less(I, half), at(small), const(0.0))),
        over(large, flipped(middle)),
        over(B, at(large)),
    )
    made = check(interpret, func, 2)
    assert sorted(b.constant_size() for b in allocated(made)) == [N, N]


def test_types_scopes_small_buffers_and_other_sizes_stay_apart():
    n = SizeVar("n")
    cases = [
        [Buffer("T", [N]), Buffer("U", [N], "int32")],
        [Buffer("T", [N]), Buffer("U", [N], scope="local")],
        [Buffer("T", [16]), Buffer("U", [16])],
        [Buffer("T", [n]), Buffer("U", [n + 1])],
    ]
    for t, u in cases:
        one = const(1).astype(str(u.dtype))
        func = func_of([t, u], over(t, at(A), extent=4), over(B, at(t), extent=4), over(u, one, extent=4))
        assert len(allocated(storage_rewrite(func))) == 2
    t, u = Buffer("T", [n]), Buffer("U", [n])
    assert len(allocated(storage_rewrite(func_of([t, u], over(t, at(A)), over(B, at(t)), over(u, at(A)))))) == 1


def test_workers_meet_where_a_position_changes_hands(interpret):
    t, u = temporaries(2)
    kind = ForKind.PARALLEL
    parts = [over(t, at(A), kind=kind), over(A, flipped(t), kind=kind), over(u, at(B), kind=kind),
             over(B, flipped(u), kind=kind)]  # fmt: skip

    def barriers(func):
        calls = [s.value.op for s in walk(lower_parallel(func).body) if isinstance(s, Evaluate)]
        return calls.count("barrier")

    func = func_of([t, u], *parts)
    merged = storage_rewrite(func)
    assert len(allocated(merged)) == 1 and (barriers(func), barriers(merged)) == (2, 3)
    for backwards in (False, True):
        a, b = np.arange(N, dtype="float32"), np.arange(N, dtype="float32") * 2
        interpret(lower_parallel(merged), a, b, workers=3, backwards=backwards)
        np.testing.assert_array_equal(a, np.arange(N)[::-1])
        np.testing.assert_array_equal(b, np.arange(N)[::-1] * 2)


def chain(length, stages):
    """Stages that each reverse the one before, at the root."""
    a = te.placeholder((length,), name="a")
    made = [a]
    for n in range(stages):
        last = made[-1]
        made.append(te.compute((length,), lambda i, last=last: last[length - 1 - i] + 1.0, name=f"s{n}"))
    return made


def test_a_function_of_many_stages_needs_the_workspace_of_two():
    made = chain(N, 6)
    func = te.lower(te.create_schedule(made[-1]), [made[0], made[-1]])
    assert func.attrs["workspace_bytes"] == 2 * 4 * N
    x, y = np.arange(N, dtype="float32"), np.zeros(N, "float32")
    build(func)["main"](x, y)
    np.testing.assert_array_equal(y, x + 6)


@pytest.mark.parametrize("target", ["opencl", "cuda -emulate=1"])
def test_kernels_of_one_function_share_temporaries(target):
    made = chain(N, 6)
    s = te.create_schedule(made[-1])
    for tensor in made[1:]:
        outer, inner = s[tensor].split(tensor.op.axis[0], factor=64)
        for loop, thread in zip((outer, inner), axes("blockIdx.x", "threadIdx.x")):
            s[tensor].bind(loop, thread)
    module = build(te.lower(s, [made[0], made[-1]], name="f"), require_target(target))
    assert len(module.functions["f"].launches) == 6 and len(module.functions["f"].temporaries) == 2
    x, y = np.arange(N, dtype="float32"), np.zeros(N, "float32")
    module["f"](x, y)
    np.testing.assert_array_equal(y, x + 6)


@pytest.mark.parametrize("target", ["opencl", "cuda -emulate=1"])
def test_shared_memory_that_changes_hands_is_guarded_by_a_barrier(target):
    made = chain(64, 5)
    s = te.create_schedule(made[-1])
    outer, inner = s[made[-1]].split(made[-1].op.axis[0], factor=64)
    block, thread = axes("blockIdx.x", "threadIdx.x")
    s[made[-1]].bind(outer, block)
    s[made[-1]].bind(inner, thread)
    for tensor in made[1:-1]:
        s[tensor].set_scope("shared")
        s[tensor].compute_at(s[made[-1]], outer)
        s[tensor].bind(tensor.op.axis[0], thread)
    func = te.lower(s, [made[0], made[-1]], name="f")
    syncs = [s for s in walk(func.body) if isinstance(s, Evaluate) and isinstance(s.value, Call)]
    assert len(allocated(func)) == 2 and len(syncs) == 4
    x, y = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    build(func, require_target(target))["f"](x, y)
    np.testing.assert_array_equal(y, x[::-1] + 5)
