"""Relay text: what is printed is read back, what people write is read, and what is wrong is shown."""

from __future__ import annotations

import re
from random import Random

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.relay.helpers import shared_format, small_cnn
from tests.relay.programs import Programs
from tilewright import relay
from tilewright.errors import ParseError, TypeMismatchError
from tilewright.relay.ir.expr import Attrs
from tilewright.relay.ir.parser import fromtext, parse, parse_expr
from tilewright.relay.ir.printer import astext
from tilewright.relay.ir.structural import structural_equal
from tilewright.relay.ir.values import elements
from tilewright.relay.transform import fuse_ops, infer_type


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_random_programs_survive_the_text(random: Random) -> None:
    mod = Programs(random).module()
    text = astext(mod)
    again = parse(text)
    assert structural_equal(mod, again), text
    assert astext(again) == text
    assert structural_equal(infer_type(mod), infer_type(again))
    assert structural_equal(mod, infer_type(parse(astext(mod))))


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False))
def test_programs_that_were_read_back_compute_the_same(random: Random) -> None:
    mod = Programs(random).module()
    inputs = [np.int32(3), np.arange(3, dtype="float32"), np.zeros((2, 4, 5), "float32")]
    assert repr(relay.evaluate(mod, inputs, False)) == repr(relay.evaluate(parse(astext(mod)), inputs, False))


def test_networks_and_their_weights_survive_the_text() -> None:
    mod = small_cnn()
    assert structural_equal(mod, infer_type(parse(astext(mod))))
    fused = fuse_ops(mod)
    assert structural_equal(fused, infer_type(parse(astext(fused))))


def test_the_classic_sample() -> None:
    mod = fromtext(shared_format("relay.txt"))
    assert isinstance(mod, relay.IRModule)
    call = mod["main"].body
    assert isinstance(call, relay.Call) and isinstance(call.args[0], relay.Call)
    assert call.args[0].attrs.units is None
    assert astext(mod).startswith('#[version = "0.0.5"]\ndef @main(%x: Tensor[(1, 4), float32], %w: ')


@pytest.mark.parametrize(
    "value",
    [
        np.float32(0.1), np.float32("nan"), np.float32("-inf"), np.float32(-0.0), np.float64(1 / 3), np.float16(0.1),
        np.asarray(2.5, ml_dtypes.bfloat16), np.int8(-128), np.uint8(255), np.int16(-3),
        np.uint16(9), np.uint32(2**32 - 1),
        np.int64(-(2**63)), np.uint64(2**64 - 1), np.bool_(True), np.asarray(1, ml_dtypes.int4),
        np.asarray(0x7FC00001, "uint32").view("float32"), np.zeros((0, 2), "int8"),
    ],
)  # fmt: skip
def test_constants_keep_their_bits(value: object) -> None:
    constant = relay.Constant(np.asarray(value))
    again = parse_expr(astext(constant))
    assert isinstance(again, relay.Constant)
    assert again.data.dtype == constant.data.dtype and again.data.tobytes() == constant.data.tobytes()


def test_what_people_write() -> None:
    mod = parse(
        """
        // a line comment
        type Shape { Circle(float32), Square(float32, float32) }
        def @area(%s: Shape) -> float32 {
          match (%s) { Circle(%r) => %r * %r * 3f, Square(%a, %b) => { let %c = %a; %c * %b } }
        }
        def @main(%x: float32) {   /* infix operators bind as usual */
          %0 = if (%x < 0f) { -1f } else if (%x == 0f) { 0f } else { 1f };
          let %r = ref(%0);
          ref_write(%r, ref_read(%r) + 1f);
          (@area(Circle(%x)) - 2f * (%x + 1f) / 4f, @area(Square(2f, %x)), ref_read(%r), (1, True).1, ())
        }
        """
    )
    area, square, sign, truth, unit = relay.evaluate(mod, [np.float32(3)])
    assert (area, square, sign, bool(truth), unit) == (27 - 2 * 4 / 4, 6, 2, True, ())


def test_attributes_left_out_take_their_defaults() -> None:
    call = parse_expr("free_var %x: Tensor[(1, 4), float32]; nn.softmax(%x)")
    assert isinstance(call, relay.Call) and call.attrs.axis == -1


def test_attributes_of_every_kind_survive_the_text() -> None:
    attributes = 'a=[1, -2, [0.5f]], b="q\\"\\\\", c=None, d={k=True}, e=1e-05f, f=Tensor[(n, ?), int8], g=n + 1'
    func = parse_expr(f"fn (%x: int32, {attributes}) {{ %x }}")
    assert isinstance(func, relay.Function)
    attrs = dict(func.attrs)
    assert attrs["a"] == (1, -2, (0.5,)) and attrs["b"] == 'q"\\' and attrs["c"] is None and attrs["e"] == 1e-05
    assert attrs["d"] == Attrs(k=True)
    assert str(attrs["f"]) == "Tensor[(n, ?), int8]" and str(attrs["g"]) == "n + 1"
    assert structural_equal(func, parse_expr(astext(func)))


def test_dimensions_are_expressions_of_size_variables() -> None:
    func = parse_expr(
        "fn (%x: Tensor[(n, floordiv((n + 1) * 2, m), max(n, 3)), int8], %y: Tensor[(m,), bool]) { (%x, %y) }"
    )
    assert isinstance(func, relay.Function)
    x, y = [param.type_annotation for param in func.params]
    assert isinstance(x, relay.TensorType) and isinstance(y, relay.TensorType)
    assert str(x) == "Tensor[(n, (n * 2 + 2) // m, max(n, 3)), int8]"
    assert str(parse_expr(astext(func))) == str(func)


def test_type_variables_and_sizes_of_one_name_are_told_apart() -> None:
    a, b = relay.TypeVar("A"), relay.TypeVar("A")
    x, y = relay.var("x", a), relay.var("y", b)
    func = relay.Function([x], relay.Function([y], relay.Tuple([x, y]), None, [b]), None, [a])
    text = astext(func)
    assert "fn [A](%x: A) {" in text and "fn [A_1](%y: A_1)" in text
    assert structural_equal(func, parse_expr(text))


def test_a_module_on_top_of_another() -> None:
    base = parse("type Box { Box(int32) } def @open(%b: Box) -> int32 { match (%b) { Box(%x) => %x } }")
    mod = parse("def @main() { @open(Box(7)) }", base)
    assert relay.evaluate(mod) == 7


def test_nesting_may_be_deep() -> None:
    depth = 400
    text = "free_var %x: float32; " + "if (True) { " * depth + "%x" + " } else { 0f }" * depth
    expr = parse_expr(text)
    assert structural_equal(expr, parse_expr(astext(expr)))
    chain = "".join(f"let %a{i + 1} = %a{i} + 1f;\n" for i in range(2000))
    mod = parse(f"def @main(%a0: float32) {{ {chain} %a2000 }}")
    assert relay.evaluate(parse(astext(mod)), [np.float32(0)]) == 2000


ERRORS = [
    ("def @main(%x: int32) { %y }", 1, 24, "%y is not defined"),
    ("def @main(%long: int32) { %lang }", 1, 27, "did you mean '%long'"),
    ("def @main() { @man() }", 1, 15, "@man is not defined; did you mean '@main'?"),
    ("def @main(%x: int31) { %x }", 1, 15, "there is no type 'int31'"),
    ("def @main(%x: Tensor[(1,), int31]) { %x }", 1, 28, "unknown data type 'int31'"),
    (
        "def @main(%x: int32) {\n  nn.rellu(%x)\n}",
        2,
        3,
        "there is no Relay operator 'nn.rellu'; did you mean 'nn.relu'",
    ),
    ("def @main() { (1, }", 1, 19, "an expression is expected here, not '}'"),
    ("def @main() { 300u8 }", 1, 15, "300u8 does not fit its data type"),
    ("def @main() { 2147483648i32 }", 1, 15, "2147483648i32 does not fit its data type"),
    ("def @main() { 65505f16 }", 1, 15, "65505f16 does not fit its data type"),
    ("def @main() { 1.5i8 }", 1, 15, "1.5i8 is no integer"),
    ("def @main() {\n  let %y = $;\n  %y }", 2, 12, "a '$' means nothing here"),
    ("def @main() { 1 ", 1, 13, "this brace is never closed"),
    ("def @main() { 1 } def @main() { 2 }", 1, 23, "@main is defined twice"),
    ("type T { A, A }", 1, 13, "T has two constructors A"),
    ("def @f(%x: int32) { match (%x) { Kons(%a) => 1 } }", 1, 34, "Kons is not defined"),
    ("def @f() { meta[relay.Constant][0] }", 1, 33, "no such constant in its metadata"),
    ("def @f() { const<float32[3]> }", 1, 17, "the contents of this constant are not in the text"),
    ("def @f() { ref_write(1) }", 1, 21, "2 operands are needed here, not 1"),
    ("def @f() { let %x = 1 %x }", 1, 23, "';' is expected here, not 'x'"),
    ("def f() { 1 }", 1, 5, "the name of a function, as @main, is expected here"),
    ("def @f() { - %x }", 1, 14, "a number is expected behind the minus sign"),
]


@pytest.mark.parametrize("text, line, column, message", ERRORS, ids=[e[3][:30] for e in ERRORS])
def test_errors_say_where(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError, match=re.escape(message)) as error:
        parse(text)
    shown = str(error.value).split("\n")
    assert shown[0].startswith(f"line {line}, column {column}: ")
    assert shown[-1].index("^") - shown[-1].index("|") - 2 == column - 1
    assert shown[-2].endswith(text.split("\n")[line - 1].rstrip()) or text.split("\n")[line - 1] in shown[-2]


def test_another_version_is_refused() -> None:
    with pytest.raises(ParseError, match=r"version 0\.0\.4 of the text format is not known; this reads 0\.0\.5"):
        parse('#[version = "0.0.4"]\ndef @main() { 1 }')


def test_type_errors_underline_the_call_in_the_program() -> None:
    text = "def @main(%x: Tensor[(1, 4), float32], %w: Tensor[(3, 5), float32]) { nn.relu(nn.dense(%x + 1f, %w)) }"
    with pytest.raises(TypeMismatchError) as error:
        infer_type(parse(text))
    first, where, *lines = str(error.value).split("\n")
    assert first.startswith("nn.dense(Tensor[(1, 4), float32], Tensor[(3, 5), float32], ") and "takes 5" in first
    assert where == "in @main:"
    call, carets = lines[-2:]
    start = call.index("nn.dense(%0, %w")
    assert carets.index("^") == start and carets.count("^") == call.index(");") + 1 - start


def test_lists_written_by_hand() -> None:
    mod = parse(
        """
        type List[A] { Cons(A, List[A]), Nil }
        def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
          match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil }
        }
        def @main(%k: int32) { @map(fn (%x) { %x * %k }, Cons(1, Cons(2, Nil()))) }
        """
    )
    assert [int(x) for x in elements(relay.evaluate(mod, [np.int32(5)]))] == [5, 10]


def test_constructors_without_fields_as_values() -> None:
    """`Nil` is what the constructor makes; the constructor itself, a function of nothing, is spelled out."""
    text = """type List[A] { Cons(A, List[A]), Nil }
    def @main(%x: int32) -> int32 {
      let %empty = constructor(Nil);
      match (Cons(%x, %empty())) { Cons(%y, _) => %y, Nil => 0 }
    }"""
    mod = parse(text)
    assert structural_equal(mod, parse(astext(mod))) and "constructor(Nil)" in astext(mod)
    assert structural_equal(mod, relay.load_json(relay.save_json(mod)))
    assert relay.evaluate(mod, [np.int32(7)]) == 7
    with pytest.raises(ParseError, match="Nill is not defined; did you mean 'Nil'"):
        parse(text.replace("(Nil)", "(Nill)"))


def test_comparisons_bind_before_equality() -> None:
    assert structural_equal(parse_expr("True == 1 < 1 + 1 * 2"), parse_expr("True == (1 < (1 + (1 * 2)))"))
    assert structural_equal(parse_expr("1 < 2 != 3 >= 4"), parse_expr("(1 < 2) != (3 >= 4)"))


def test_comments_within_comments_and_signs_in_a_row() -> None:
    assert parse_expr("/* one /* two */ /* three */ */ 5 // /* four").data == 5
    assert [parse_expr(text).data for text in ("--10", "---10", "- -1.5f")] == [10, -10, 1.5]
    with pytest.raises(ParseError, match="this comment is never closed"):
        parse_expr("1 /* one /* two */")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("type A { One } type B { One }", "A has a constructor One, too"),
        ("type A { One } type A { Two }", "the data type A is defined twice"),
    ],
)
def test_names_of_data_types_are_unique(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse(text)


@pytest.mark.parametrize("text", ["type A { One }", "def @f(%x: int32) { %x }"])
def test_a_definition_is_no_expression(text: str) -> None:
    with pytest.raises(ParseError, match="begins no expression"):
        parse_expr(text)


def test_numbers_have_the_types_that_they_need() -> None:
    for text, dtype in (
        ("2147483647", "int32"),
        ("-2147483648", "int32"),
        ("-2147483649", "int64"),
        ("3f32", "float32"),
        ("3f16", "float16"),
    ):
        read = parse_expr(text)
        assert isinstance(read, relay.Constant) and str(read.data.dtype) == dtype
        assert read.data == float(text.split("f")[0])


def test_a_data_type_whose_constructors_are_elsewhere() -> None:
    mod = relay.parse("extern type T[A]\ndef @f[A](%x: T[A]) -> T[A] { %x }")
    (data,) = mod.type_definitions.values()
    assert (data.header.name, len(data.type_vars), data.constructors) == ("T", 1, ())
    assert [gvar.name for gvar in mod.functions] == ["f"]
