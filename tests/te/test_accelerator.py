"""`te.lower` for a declared accelerator, and its C text, compiled together with a model of the machine in C."""

from __future__ import annotations

import copy
import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.errors import ScheduleError, TargetError, UnsupportedError
from tilewright.target import Target

N, TILE = 16, 4

HEADER = """
#include <stdint.h>
static int tokens[4][4], most, lost;
static void push_token(int from, int to) { tokens[from][to]++; if (tokens[from][to] > most) most = tokens[from][to]; }
static void pop_token(int from, int to) { if (tokens[from][to]-- < 1) lost++; }
static void move_rows(float* to, const float* from, int n, int m, int to_stride, int from_stride) {
  for (int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) to[i * to_stride + j] = from[i * from_stride + j];
}
static void tile_product(float* c, const float* a, const float* b) {
  for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) for (int k = 0; k < 4; ++k)
    c[i * 4 + j] += a[i * 4 + k] * b[k * 4 + j];
}
static void tile_zero(float* c) { for (int i = 0; i < 16; ++i) c[i] = 0; }
int left(void) { return lost * 100 + tokens[1][2] + tokens[2][1] + tokens[2][3] + tokens[3][2]; }
int deepest(void) { return most; }
"""


def move(source, target, before, after, padding):
    """Copies of two dimensions; the unit is told by where the target is."""
    unit = 3 if target.buffer.scope == "global" else 1
    call = tir.call_extern("int32", "move_rows", target.access_ptr("w"), source.access_ptr("r"), *source.shape,
                           target.strides[0], source.strides[0])  # fmt: skip
    return tir.AttrStmt("coproc_scope", None, tir.const(unit), tir.Evaluate(call))


MACHINE = te.Accelerator(
    name="tiles",
    copy=move,
    functions={"dep_push": "push_token", "dep_pop": "pop_token"},
    memory={"tiles.input": "static ", "tiles.sum": "static "},
    header=HEADER,
)


def tile_product():
    a, b = te.placeholder((TILE, TILE), name="a"), te.placeholder((TILE, TILE), name="b")
    k = te.reduce_axis((0, TILE), name="k")
    c = te.compute((TILE, TILE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    buffers = {t: te.decl_buffer(t.shape, t.dtype, t.name, strides=[te.var(f"{t.name}_s"), 1]) for t in (a, b, c)}

    def instruction(name, *args):
        return tir.AttrStmt("coproc_scope", None, tir.const(2), tir.Evaluate(tir.call_extern("int32", name, *args)))

    def body(ins, outs):
        c, a, b = outs[0], *ins
        update = instruction("tile_product", c.access_ptr("rw"), a.access_ptr("r"), b.access_ptr("r"))
        return update, instruction("tile_zero", c.access_ptr("w")), update

    return te.decl_tensor_intrin(c.op, body, "tile_product", binds=buffers)


def schedule(threads=2):
    """C = A B by tiles of 4 x 4: copies by pragma, products by the intrinsic, virtual threads over columns."""
    a, b = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
    k = te.reduce_axis((0, N), name="k")
    c = te.compute((N, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c)
    total = s.cache_write(c, "tiles.sum")
    parts = [s.cache_read(x, "tiles.input", [total]) for x in (a, b)]
    i_outer, j_outer, i_inner, _ = s[c].tile(*s[c].op.axis, TILE, TILE)
    j_thread, j_outer = s[c].split(j_outer, nparts=threads)
    s[c].reorder(i_outer, j_thread, j_outer, i_inner)
    s[c].bind(j_thread, te.thread_axis("vthread"))
    s[c].pragma(i_inner, "dma_copy")
    s[total].compute_at(s[c], j_outer)
    k_outer, k_inner = s[total].split(s[total].op.reduce_axis[0], factor=TILE)
    s[total].reorder(k_outer, *s[total].op.axis, k_inner)
    s[total].tensorize(s[total].op.axis[0], tile_product())
    for part in parts:
        s[part].compute_at(s[total], k_outer)
        s[part].pragma(s[part].op.axis[0], "dma_copy")
    return s, [a, b, c]


def compiled(text, folder):
    compiler = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    source, made = folder / "kernel.c", folder / "kernel.so"
    source.write_text(text + "\nvoid tilewright_barrier(const tilewright_context* ctx) { (void)ctx; }\n")
    subprocess.run([compiler, "-std=c99", "-shared", "-fPIC", "-o", made, source], check=True)
    return ctypes.CDLL(str(made))


@pytest.mark.parametrize("threads", [1, 2])
def test_the_text_runs_on_a_model_of_the_machine(threads, tmp_path):
    func = te.lower(*schedule(threads), name="product", target=MACHINE)
    library = compiled(MACHINE.emit_c(func).text, tmp_path)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((N, N)).astype("float32") for _ in range(2))
    c, context = np.zeros((N, N), "float32"), (ctypes.c_int64 * 2)(1 << 32, 0)
    assert library.product(*[x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, c)], context) == 0
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    assert library.left() == 0 and library.deepest() >= 1  # in program order no pop waits, and all tokens are taken


def test_one_call_inserts_copies_and_tokens():
    text = str(te.lower(*schedule(), target=MACHINE))
    assert "move_rows" in text and "tile_product" in text
    assert "dep_push(1, 2)" in text and "dep_pop(2, 1)" in text and "dma_copy" not in text


def test_a_dependence_without_a_queue_is_refused():
    lonely = te.Accelerator(name="lonely", copy=move, links=frozenset({(1, 2)}))
    with pytest.raises(ScheduleError, match="no queue of tokens joins them"):
        te.lower(*schedule(), target=lonely)


def test_what_the_declaration_does_not_spell_is_named():
    func = te.lower(*schedule(), target=MACHINE)
    with pytest.raises(UnsupportedError, match="the accelerator declares no C function for dep_p"):
        te.Accelerator(name="mute", copy=move).emit_c(func)
    with pytest.raises(UnsupportedError, match=r"no storage scope 'tiles\.\w+'"):
        te.Accelerator(name="bare", copy=move, functions=MACHINE.functions).emit_c(func)


def test_an_accelerator_is_a_target():
    """One that is declared, not spelled: equal by its declaration, and of no processor."""
    assert isinstance(MACHINE, Target) and MACHINE.kind == "accelerator" and not MACHINE.is_host
    again = copy.deepcopy(te.Accelerator(name="plain", copy=move))
    assert again == te.Accelerator(name="plain", copy=move) != te.Accelerator(name="other", copy=move)
    with pytest.raises(TargetError, match="accelerator lonely is no processor"):
        _ = te.Accelerator(name="lonely", copy=move).vector_bits
