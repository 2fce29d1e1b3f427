"""LLVM IR that a program brings along is linked to the functions that call it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.backend import build
from tilewright.errors import InputError, UnsupportedError
from tilewright.tir.stmt import Evaluate

#: Adds `factor` to each of n floats at %x, into %y; the factor is a global variable.
IR = """
@factor = global float {factor}

define i32 @add_factor(ptr %y, ptr %x, i32 %n) {{
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %px = getelementptr float, ptr %x, i32 %i
  %py = getelementptr float, ptr %y, i32 %i
  %v = load float, ptr %px
  %f = load float, ptr @factor
  %s = fadd float %v, %f
  store float %s, ptr %py
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret i32 0
}}
"""


def scheduled(brought: str, name: str) -> tir.PrimFunc:
    """B = A + factor, eight elements at a time by a function from elsewhere."""
    a = te.placeholder((32,), name="A")
    b = te.compute((32,), lambda i: a[i] + 2.0, name="B")
    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i] + 2.0, name="y")

    def call(ins, outs):
        return Evaluate(tir.call_extern("int32", "add_factor", outs[0].access_ptr("w"), ins[0].access_ptr("r"), 8))

    intrin = te.decl_tensor_intrin(y.op, call)
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(s[b].op.axis[0], 8)
    s[b].tensorize(inner, intrin)
    s[b].pragma(outer, "import_llvm", brought)
    return te.lower(s, [a, b], name=name)


def test_functions_that_a_program_brings_are_called(tmp_path: Path) -> None:
    path = tmp_path / "add.ll"
    path.write_text(IR.format(factor="2.0"))
    first = build(scheduled(str(path), "first"))
    second = build(scheduled(IR.format(factor="5.0"), "second"))
    a = np.arange(32, dtype="float32")
    for name, module, factor in (("first", first, 2.0), ("second", second, 5.0)):
        out = np.zeros(32, "float32")
        module[name](a, out)
        np.testing.assert_array_equal(out, a + factor)
    both = build([scheduled(IR.format(factor="2.0"), "one"), scheduled(IR.format(factor="2.0"), "two")])
    out = np.zeros(32, "float32")
    both["two"](a, out)
    np.testing.assert_array_equal(out, a + 2)


def test_two_texts_may_define_a_function_alike() -> None:
    """As two runs of a compiler give it: other attributes, the same instructions. Another body is refused."""
    plain = "define i32 @add_factor(ptr %y, ptr %x, i32 %n) {BODY\n  ret i32 0\n}\nATTRIBUTES"
    more = "define i32 @unused() { ret i32 1 }\n" + plain.replace("%n) {", "%n) #0 {")
    texts = [plain.replace("ATTRIBUTES", ""), more.replace("ATTRIBUTES", "attributes #0 = { nounwind }")]
    body = "\n  %v = load <8 x float>, ptr %x, align 4\n  store <8 x float> %v, ptr %y, align 4"
    made = build([scheduled(text.replace("BODY", body), f"f{i}") for i, text in enumerate(texts)])
    for name in ("f0", "f1"):
        out = np.zeros(32, "float32")
        made[name](np.arange(32, dtype="float32"), out)
        np.testing.assert_array_equal(out, np.arange(32))
    with pytest.raises(InputError, match="imported functions do not match their calls"):
        build([scheduled(texts[i].replace("BODY", body if i else ""), f"f{i}") for i in range(2)])


def test_what_is_brought_must_be_llvm_ir(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the imported text is no LLVM IR"):
        build(scheduled("int f() { return 1; }\n", "f"))
    with pytest.raises(InputError, match="cannot read"):
        build(scheduled(str(tmp_path / "missing.bc"), "f"))
    with pytest.raises(InputError, match="imported functions do not match their calls"):
        build([scheduled(IR.format(factor=factor), f"f{factor[0]}") for factor in ("2.0", "5.0")])
    with pytest.raises(UnsupportedError, match="import_llvm brings LLVM IR, which text in C cannot hold"):
        build(scheduled(IR.format(factor="2.0"), "f"), "c")
