"""The text form."""

import numpy as np

from tests.relay.helpers import module
from tilewright import relay
from tilewright.relay.ir.excerpt import excerpt
from tilewright.relay.transform import fuse_ops


def test_module_reads_like_classic_relay() -> None:
    x, w = relay.var("x", shape=(1, 4)), relay.var("w", shape=(3, 4))
    mod = module(relay.nn.relu(relay.add(relay.nn.softmax(x, axis=-1), relay.reshape(w, (3, 4)))))
    assert repr(mod) == (
        "def @main(%x: Tensor[(1, 4), float32], %w: Tensor[(3, 4), float32]) -> Tensor[(3, 4), float32] {\n"
        "  %0 = nn.softmax(%x, axis=-1);\n"
        "  %1 = reshape(%w, newshape=[3, 4]);\n"
        "  %2 = add(%0, %1);\n"
        "  nn.relu(%2)\n"
        "}\n"
    )


def test_constants_tuples_types_and_spans() -> None:
    x = relay.var("x", shape=(2, 2))
    call = relay.Call(relay.multiply(x, 2.5).op, [x, relay.const(2.5)], span="Mul_3")
    mod = module(relay.Tuple([call, relay.split(x, 2)[1], relay.const(np.zeros((2, 3), "int8")), relay.const(True)]))
    text = relay.to_text(mod, types=True, spans=True)
    assert "%0 = multiply(%x, 2.5f); /* ty=Tensor[(2, 2), float32] span=Mul_3 */" in text
    assert "  (%0, %1.1, const<int8[2, 3]>, True)\n" in text


def test_variables_of_one_name_are_told_apart() -> None:
    assert repr(relay.add(relay.var("x", shape=(1,)), relay.var("x", shape=(1,)))) == "add(%x, %x_1)"


def test_fused_functions_are_written_in_place() -> None:
    x = relay.var("x", shape=(4,))
    text = repr(fuse_ops(module(relay.exp(relay.sqrt(x)))))
    assert "fn (%p0: Tensor[(4,), float32], Primitive=1) -> Tensor[(4,), float32] {" in text
    assert "    exp(%0)\n  }(%x)\n" in text


def test_let_and_if_open_blocks() -> None:
    x, y = relay.var("x", shape=()), relay.var("y")
    body = relay.Let(y, relay.exp(x), relay.If(relay.less(y, x), relay.add(y, y), x))
    assert repr(body) == ("let %y = exp(%x);\n%0 = less(%y, %x);\nif (%0) {\n  add(%y, %y)\n} else {\n  %x\n}")


def test_printing_a_deep_graph_does_not_recurse() -> None:
    node: relay.Expr = relay.var("x", shape=(1,))
    for _ in range(3000):
        node = relay.nn.relu(node)
    assert repr(node).count("nn.relu") == 3000


def test_what_two_branches_share_stands_before_them() -> None:
    x, c = relay.var("x", shape=(2,)), relay.var("c", shape=(), dtype="bool")
    shared = relay.exp(x)
    text = repr(relay.If(c, relay.sqrt(shared), relay.Tuple([shared, shared])))
    assert text == "%0 = exp(%x);\nif (%c) {\n  sqrt(%0)\n} else {\n  (%0, %0)\n}"


def test_a_binding_that_is_an_operand_has_braces_and_a_shared_tuple_a_number() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y")
    let = relay.Let(y, relay.exp(x), relay.add(y, y))
    pair = relay.Tuple([let, x])
    text = repr(relay.Tuple([pair, relay.TupleGetItem(pair, 0)]))
    assert text == "%0 = {\n  let %y = exp(%x);\n  add(%y, %y)\n};\n%1 = (%0, %x);\n(%1, %1.0)"


def test_a_whole_program_has_its_constants_behind_it() -> None:
    x = relay.var("x", shape=(2,))
    mod = relay.IRModule.from_expr(relay.add(x, relay.const(np.ones(2, "float32"))))
    text = mod.astext()
    assert text.startswith(
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2,), float32]) {\n  add(%x, meta[relay.Constant][0])'
    )
    assert "\n#[metadata]\n{" in text and "#[metadata]" not in mod.astext(show_meta_data=False)
    assert "free_var %x: Tensor[(2,), float32];\nexp(%x)" in relay.astext(relay.exp(x))


def test_excerpts_show_the_position_in_long_functions() -> None:
    x = relay.var("x", shape=(2,))
    nodes: list[relay.Expr] = [x]
    for _ in range(20):
        nodes.append(relay.exp(nodes[-1]))
    mod = relay.IRModule.from_expr(nodes[-1])
    lines = excerpt(mod, nodes[10], next(iter(mod))).split("\n")
    assert lines[0] == "in @main:" and lines[1].startswith("   1 | def @main")
    assert lines[2] == "     | …" and lines[-2] == "  11 |   %9 = exp(%8);" and lines[-1] == "     |        ^^^^^^^"
    assert excerpt(mod, relay.var("elsewhere"), next(iter(mod))) == ""


def test_a_program_leaves_out_attributes_that_have_their_defaults() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    body = relay.nn.relu(relay.nn.max_pool2d(x, pool_size=(2, 2), strides=(2, 2)))
    text = relay.astext(body)
    assert "nn.max_pool2d(%x, pool_size=[2, 2], strides=[2, 2])" in text and "padding=[" in relay.to_text(body)
    assert relay.structural_equal(relay.fromtext(text), body)


def test_an_operator_alone_is_a_program() -> None:
    add = relay.fromtext("add")
    assert (
        relay.astext(add).splitlines() == ['#[version = "0.0.5"]', "add"] and relay.fromtext(relay.astext(add)) is add
    )
