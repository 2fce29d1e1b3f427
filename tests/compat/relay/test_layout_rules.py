"""Layouts by rules of a classic program: registered ones, those of a block, and what `relay.build` makes of them."""

from typing import Any

import numpy as np
import pytest

import tilewright.compat

tilewright.compat.install()

import tvm  # noqa: E402
from tvm import relay  # noqa: E402
from tvm.contrib import graph_executor  # noqa: E402
from tvm.relay.op import register_alter_op_layout, register_convert_op_layout  # noqa: E402
from tvm.relay.testing.temp_op_attr import TempOpAttr  # noqa: E402

from tilewright.compat.ir import layout_rules  # noqa: E402

DATA = np.random.default_rng(0).standard_normal((1, 5, 5, 8)).astype("float32")
KERNEL = np.random.default_rng(1).standard_normal((3, 3, 8, 8)).astype("float32")
BIAS = np.random.default_rng(2).standard_normal((8,)).astype("float32")


def network() -> Any:
    x, w = relay.var("x", shape=DATA.shape), relay.var("w", shape=KERNEL.shape)
    y = relay.nn.conv2d(x, w, padding=(1, 1), kernel_size=(3, 3), channels=8, data_layout="NHWC", kernel_layout="HWIO")
    y = relay.nn.relu(relay.nn.bias_add(y, relay.var("b", shape=BIAS.shape), axis=3))
    y = relay.nn.max_pool2d(y, pool_size=(2, 2), layout="NHWC", out_layout="NHWC")
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(y), y))


def run(mod: Any) -> np.ndarray:
    module = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    module.run(x=DATA, w=KERNEL, b=BIAS)
    return module.get_output(0).numpy()


def layouts(mod: Any) -> list[str]:
    found: list[str] = []

    def visit(node: Any) -> None:
        if isinstance(node, relay.Call) and node.op.name in ("nn.conv2d", "nn.max_pool2d"):
            found.append(node.attrs["data_layout" if node.op.name == "nn.conv2d" else "layout"])

    relay.analysis.post_order_visit(mod["main"], visit)
    return found


def in_blocks(attrs: Any, inputs: Any, tinfos: Any, out_type: Any) -> Any:
    assert tvm.topi.utils.get_const_tuple(tinfos[0].shape)[0] == 1 and tinfos[0].dtype == "float32"
    return relay.nn.conv2d(*inputs, **{**dict(attrs), "data_layout": "NCHW4c", "kernel_layout": "OIHW4i"})


def test_convert_layout_shows_its_transformations() -> None:
    after = relay.transform.ConvertLayout({"nn.conv2d": ["NCHW", "default"]})(network())
    assert layouts(after) == ["NCHW", "NCHW"]
    text = after.astext()
    assert text.count('dst_layout="NCHW"') == 2 and text.count('dst_layout="OIHW"') == 1
    np.testing.assert_allclose(run(after), run(network()), rtol=1e-4, atol=1e-5)
    pooled = relay.transform.ConvertLayout({"nn.conv2d": ["NCHW", "OIHW"], "nn.max_pool2d": ["NHWC"]})(network())
    assert layouts(pooled) == ["NCHW", "NHWC"]
    np.testing.assert_allclose(run(pooled), run(network()), rtol=1e-4, atol=1e-5)


def test_rules_of_a_block_hold_for_the_pass_and_for_building() -> None:
    expected = run(network())
    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", in_blocks):
        with tvm.transform.PassContext(opt_level=3):
            after = relay.transform.AlterOpLayout()(relay.transform.CanonicalizeOps()(network()))
        assert layouts(after) == ["NCHW4c", "NCHW4c"]
        np.testing.assert_allclose(run(network()), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(after), expected, rtol=1e-4, atol=1e-5)


def test_registered_rules_and_their_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_rules, "_ALTERED", {})
    monkeypatch.setattr(layout_rules, "_CONVERTED", {})

    @register_alter_op_layout("nn.conv2d", level=11)
    def alter(attrs: Any, inputs: Any, tinfos: Any, out_type: Any) -> Any:
        return in_blocks(attrs, inputs, tinfos, out_type)

    @register_alter_op_layout("nn.conv2d")
    def ignored(*_: Any) -> Any:
        raise AssertionError("a rule of a lower level is asked")

    assert layouts(relay.transform.AlterOpLayout()(network())) == ["NCHW4c", "NHWC"]

    @register_convert_op_layout("nn.conv2d")
    def convert(attrs: Any, inputs: Any, tinfos: Any, desired_layouts: Any) -> Any:
        assert list(desired_layouts) == ["mine"]
        return relay.nn.conv2d(*inputs, **{**dict(attrs), "data_layout": "NCHW", "kernel_layout": "OHWI"})

    after = relay.transform.ConvertLayout({"nn.conv2d": ["mine"]})(network())
    assert layouts(after) == ["NCHW", "NCHW"] and 'kernel_layout="OHWI"' in after.astext()
    np.testing.assert_allclose(run(after), run(network()), rtol=1e-4, atol=1e-5)


def test_kernels_of_blocked_convolutions_and_calls_with_their_spans() -> None:
    x, w = relay.var("x", shape=(1, 2, 6, 6, 4)), relay.var("w", shape=(2, 2, 3, 3, 4, 4))
    made = relay.nn.contrib_conv2d_nchwc(x, w, channels=8, kernel_size=(3, 3), data_layout="NCHW4c")
    assert made.attrs.kernel_layout == "OIHW4i4o" and made.type_args == ()
    assert relay.Tuple([x, w])[1] is w
    again = relay.Call(made.op, made.args, made.attrs, made.type_args, made.span)
    assert tvm.ir.structural_equal(made, again)
