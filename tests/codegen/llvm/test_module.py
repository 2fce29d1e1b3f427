"""The text of a whole module: a small kernel exactly, and the conventions by which it is called."""

from __future__ import annotations

import re

import numpy as np

from tilewright.backend import build
from tilewright.codegen import function_info
from tilewright.codegen.llvm import emit
from tilewright.codegen.llvm.builder import LOOPS
from tilewright.runtime.module import Param
from tilewright.target import Target
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Broadcast, BufferLoad, Ramp, Var
from tilewright.tir.stmt import Allocate, BufferStore, IfThenElse, PrimFunc, seq

GOLDEN = """\
target triple = "x86_64-unknown-linux-gnu"

define i32 @scale(ptr noalias %p0, ptr noalias %p1, float %p2, ptr noalias %ctx) #0 {
entry:
  %v5 = insertelement <8 x float> poison, float %p2, i64 0
  %v6 = shufflevector <8 x float> %v5, <8 x float> poison, <8 x i32> zeroinitializer
  br label %loop1
loop1:
  %i2 = phi i64 [ 0, %entry ], [ %i2.next, %loop1 ]
  %v0 = mul nsw i64 %i2, 16
  %v1 = getelementptr float, ptr %p0, i64 %v0
  %v2 = load <8 x float>, ptr %v1, align 4
  %v3 = getelementptr float, ptr %v1, i64 8
  %v4 = load <8 x float>, ptr %v3, align 4
  %v7 = fmul contract <8 x float> %v4, %v6
  %v8 = fadd contract <8 x float> %v2, %v7
  %v9 = mul nsw i64 %i2, 8
  %v10 = getelementptr float, ptr %p1, i64 %v9
  store <8 x float> %v8, ptr %v10, align 4
  %i2.next = add nuw nsw i64 %i2, 1
  %i2.more = icmp slt i64 %i2.next, 4
  br i1 %i2.more, label %loop1, label %after2, !llvm.loop !3
after2:
  ret i32 0
}

define i32 @scale__entry(ptr %args, ptr %ctx) #0 {
entry:
  %s0 = getelementptr i8, ptr %args, i64 0
  %a0 = load ptr, ptr %s0, align 8
  %s1 = getelementptr i8, ptr %args, i64 8
  %a1 = load ptr, ptr %s1, align 8
  %s2 = getelementptr i8, ptr %args, i64 16
  %a2 = load float, ptr %s2, align 8
  %code = call i32 @scale(ptr %a0, ptr %a1, float %a2, ptr %ctx)
  ret i32 %code
}

attributes #0 = { nounwind noinline "no-builtins" "prefer-vector-width"="256" "min-legal-vector-width"="256" }

!0 = !{}
!1 = !{!"llvm.loop.vectorize.enable", i1 false}
!2 = !{!"llvm.loop.unroll.disable"}
!3 = distinct !{!3, !1, !2}
"""


def test_a_small_kernel_is_emitted_as_recorded(loop):
    x, y, i, factor = Buffer("x", (64,)), Buffer("y", (32,)), Var("i"), Var("factor", "float32")
    low = BufferLoad(x, (Ramp(i * 16, op.const(1), 8),))
    high = BufferLoad(x, (Ramp(i * 16 + 8, op.const(1), 8),))
    body = BufferStore(y, low + high * Broadcast(factor, 8), (Ramp(i * 8, op.const(1), 8),))
    target = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3")
    assert emit([PrimFunc("scale", [x, y, factor], loop(i, 4, body))], target) == GOLDEN


def test_emission_is_deterministic(loop):
    def text():
        x, y, i = Buffer("x", (64,)), Buffer("y", (64,)), Var("i")
        value = op.sqrt(BufferLoad(x, (i,))) + op.floor(BufferLoad(x, (i * 3 % 64,)))
        return emit([PrimFunc("f", [x, y], loop(i, 64, BufferStore(y, value, (i,))))], Target.host())

    assert text() == text()


def test_scalar_parameters_of_every_type():
    types = ["bool", "int8", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
    out = Buffer("out", (len(types),), "float64")
    params = [Var(f"p{k}", t) for k, t in enumerate(types)]
    body = seq(*[BufferStore(out, op.cast("float64", p), (op.const(k),)) for k, p in enumerate(params)])
    values = [True, -3, 60000, -5, 2**32 - 1, -(2**40), 2**63, 1.5, -2.25]
    result = np.zeros(len(types))
    build(PrimFunc("f", [*params, out], body), threads=1)["f"](*values, result)
    np.testing.assert_array_equal(result, [float(v) for v in values])


def test_symbols_of_a_module(loop):
    x, i = Buffer("x", (4,)), Var("i")
    funcs = [PrimFunc(name, [x], loop(i, 4, BufferStore(x, op.const(k * 1.0), (i,)))) for k, name in enumerate("ab")]
    text = emit(funcs, Target.host())
    assert re.findall(r"^define i32 @(\w+)", text, re.M) == ["a", "a__entry", "b", "b__entry"]
    module, result = build(funcs, threads=1), np.zeros(4, "f4")
    module["b"](result)
    assert result.sum() == 4


def test_function_info_says_what_is_written_and_leaves_workspaces_out():
    x, y = Buffer("x", (6,)), Buffer("y", (6,))
    spaces = [Buffer("workspace", (128,), "uint8"), Buffer("worker_workspace", (0,), "uint8")]
    body = BufferStore(y, BufferLoad(x, (op.const(0),)), (op.const(0),))
    attrs = {"workspace_bytes": 128, "param_shapes": [(2, 3), (6,)]}
    info = function_info(PrimFunc("f", [x, y, *spaces], body, attrs))
    assert info.params == (Param("x", "float32", (2, 3), False, False), Param("y", "float32", (6,), False, True))
    assert (info.workspace_bytes, info.worker_workspace_bytes) == (128, 0)


def test_a_sum_in_a_register_needs_no_loop_passes_under_a_condition_either(loop):
    x, n, i = Buffer("x", (64,)), Var("n"), Var("i")

    def text(scope, index):
        total = Buffer("total", (4,), "float32", scope)
        added = BufferStore(total, BufferLoad(total, (index,)) + BufferLoad(x, (i,)), (index,))
        body = IfThenElse(n > 0, loop(i, 64, added))
        local = scope == "local"
        return emit([PrimFunc("f", [x, n] if local else [x, n, total], Allocate(total, body) if local else body)],
                    Target.host())  # fmt: skip

    assert not text("local", op.const(1)).startswith(LOOPS)
    assert text("local", n).startswith(LOOPS)
    assert text("global", op.const(1)).startswith(LOOPS)
