"""Networks compiled for VTA: the same bits as the integers on the CPU, by each kind of driver, saved and loaded."""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.backend.vta.offload import programs
from tilewright.errors import TargetError, UnsupportedError, UserError
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Expr, Function
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.quantize.quantize_to_shifts import quantize_to_shifts
from tilewright.target import Target
from tilewright.vta import Session

RNG = np.random.default_rng(11)
TINY = "vta -log_block=3 -log_uop_buff_size=11 -log_inp_buff_size=11 -log_wgt_buff_size=12 -log_acc_buff_size=13"
Build = Callable[[Expr], Expr]


def weight(*shape: int) -> Expr:
    return relay.const((RNG.standard_normal(shape) * 0.2).astype("float32"))


def conv(x: Expr, *shape: int, **how: object) -> Expr:
    biased = relay.nn.bias_add(relay.nn.conv2d(x, weight(*shape), **how), weight(shape[0]))  # type: ignore[arg-type]
    return relay.nn.relu(biased)


def residual(x: Expr) -> Expr:
    a = relay.nn.max_pool2d(conv(x, 16, 3, 7, 7, strides=(2, 2), padding=(3, 3)), (3, 3), (2, 2), padding=(1, 1))
    b = relay.nn.conv2d(conv(a, 24, 16, 3, 3, padding=(1, 1), strides=(2, 2)), weight(24, 24, 3, 3), padding=(1, 1))
    c = relay.nn.relu(relay.add(b, relay.nn.conv2d(a, weight(24, 16, 1, 1), strides=(2, 2))))
    return relay.nn.dense(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(c)), weight(10, 24))


def inverted(x: Expr) -> Expr:
    """Depthwise and 1×1 convolutions, bounded at 6, as in MobileNet."""
    a = relay.clip(relay.nn.conv2d(x, weight(20, 3, 3, 3), strides=(2, 2), padding=(1, 1)), 0.0, 6.0)
    b = relay.nn.conv2d(a, weight(20, 1, 3, 3), padding=(1, 1), groups=20)
    b = relay.nn.conv2d(relay.clip(b, 0.0, 6.0), weight(20, 20, 1, 1))
    return relay.add(a, b)


def grouped(x: Expr) -> Expr:
    a = conv(x, 12, 3, 1, 1)
    return conv(a, 24, 4, 3, 3, groups=3, dilation=(2, 2), padding=(2, 1))


def words(x: Expr) -> Expr:
    """Spotting of key words: high, narrow kernels, pooling between, a softmax on the host."""
    a = conv(x, 16, 3, 10, 4, strides=(2, 2), padding=(4, 1))
    b = conv(conv(a, 16, 1, 3, 3, groups=16, padding=(1, 1)), 16, 16, 1, 1)
    flat = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(b))
    return relay.nn.softmax(relay.nn.bias_add(relay.nn.dense(flat, weight(12, 16)), weight(12)))


def split(x: Expr) -> Expr:
    """Two parts for the accelerator, with something between that it does not take, and a value that both ends need."""
    a = conv(x, 8, 3, 3, 3)
    return relay.add(conv(relay.tanh(a), 8, 8, 3, 3, padding=(1, 1)), a)


def widened(x: Expr) -> Expr:
    """Transposed convolutions, with strides, groups and an output padding, as of generators and masks."""
    a = conv(x, 16, 3, 3, 3, strides=(2, 2), padding=(1, 1))
    b = relay.nn.relu(relay.nn.conv2d_transpose(a, weight(16, 8, 4, 4), strides=(2, 2), padding=(1, 1)))
    return relay.nn.conv2d_transpose(
        b, weight(8, 3, 3, 3), strides=(2, 1), padding=(1, 1), groups=2, output_padding=(1, 0)
    )


NETWORKS: dict[str, Build] = {
    "residual": residual, "inverted": inverted, "grouped": grouped, "words": words, "split": split, "widened": widened,
}  # fmt: skip


def made(build: Build, images: int = 1) -> IRModule:
    x = relay.var("x", shape=(images, 3, 22, 20))
    return IRModule.from_expr(Function([x], build(x)))


def random_input(images: int = 1) -> np.ndarray:
    return RNG.standard_normal((images, 3, 22, 20)).astype("float32")


@functools.cache
def with_integers(name: str, images: int) -> tuple[IRModule, Callable[..., Any]]:
    """A network, and its integers compiled for the processor: once for all targets."""
    mod = made(NETWORKS[name], images)
    return mod, tw.compile(quantize_to_shifts(mod), cache=False)


@pytest.mark.parametrize("target", ["vta", "vta -threads=1", TINY, "vta -log_batch=1 -log_wgt_buff_size=17"])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.sample(4)
def test_a_network_gives_the_bits_of_its_integers(name: str, target: str) -> None:
    images = 3 if "batch" in target else 1
    mod, integers = with_integers(name, images)
    model = tw.compile(mod, target=target, cache=False)
    for _ in range(2):
        x = random_input(images)
        np.testing.assert_array_equal(np.asarray(model(x)), np.asarray(integers(x)))


def test_the_integers_are_those_of_the_reference() -> None:
    quantized = quantize_to_shifts(made(residual))
    x = random_input()
    found = np.asarray(tw.compile(quantized, cache=False)(x))
    np.testing.assert_array_equal(found, interpret(quantized, [x])[0])


def test_no_instruction_races() -> None:
    mod = made(residual)
    x = random_input()
    model = tw.compile(mod, target=f"{TINY} -driver=checked", cache=False)
    expected = np.asarray(tw.compile(mod, target=TINY, cache=False)(x))
    np.testing.assert_array_equal(np.asarray(model(x)), expected)


def test_transposed_convolutions_are_on_the_accelerator() -> None:
    found = programs(made(widened), Target("vta"), lambda f, inputs: interpret(f, inputs))
    layers = [layer["layer"] for _, compiled in found for layer in compiled.plan["layers"]]
    assert [layer.split("kernel=")[1][:6] for layer in layers] == ["(1, 1)", "(4, 4)", "(3, 3)"]  # by patches the first


def test_a_saved_model_runs_again(tmp_path: Path) -> None:
    model, x = tw.compile(made(words), target="vta", cache=False), random_input()
    model.save(tmp_path / "words.tw")
    np.testing.assert_array_equal(np.asarray(tw.load(tmp_path / "words.tw")(x)), np.asarray(model(x)))


def test_programs_are_kernels_of_the_plan() -> None:
    model, x = tw.compile(made(split), target="vta", cache=False), random_input()
    assert (model.manifest.device, model.executor) == ("vta", "graph")
    rows = model.profile({"x": x})
    assert [row.kernel for row in rows] == [kernel.name for kernel in model.manifest.kernels]
    programs_ = [row for row in rows if row.choice["template"] == "vta"]
    assert [row.kernel for row in programs_] == ["fused_vta_launch", "fused_vta_launch_2"]
    assert [row.source for row in programs_] == ["nn.conv2d", "nn.conv2d, add"]
    assert all(row.flops > 100_000 and row.choice["config"]["instructions"] > 100 for row in programs_)
    np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(model))(x)), np.asarray(model(x)))
    with pytest.raises(UnsupportedError, match="no library for C: it is compiled for a device, vta"):
        model.export_library("model.so")


def test_the_first_convolution_is_one_over_patches_and_the_head_is_there_too() -> None:
    ((_, compiled),) = programs(made(residual), Target("vta"), lambda f, inputs: interpret(f, inputs))
    names = [layer["layer"] for layer in compiled.plan["layers"]]
    assert "inputs=10, outputs=1, height=11, width=10, kernel=(1, 1)" in names[0]
    assert "height=1, width=1, kernel=(1, 1)" in names[-1] and len(names) == 8
    assert [known["patches"]["kernel"] for known in compiled.plan["inputs"]] == [[7, 7]]
    session = Session(compiled.plan, compiled.image)
    session.run([np.zeros((1, 3, 22, 20), np.int8)])
    assert session.counters["GEMM steps"] > 0


def test_a_configuration_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"LOG_BLOCK": 5, "LOG_WGT_BUFF_SIZE": 20, "LOG_ACC_BUFF_SIZE": 18}))
    target = Target(f"vta -config={path}")
    assert (
        str(target) == "vta -log_acc_buff_size=18 -log_block=5 -log_wgt_buff_size=20" and Target(str(target)) == target
    )
    mod, x = made(inverted), random_input()
    expected = np.asarray(tw.compile(mod, target="vta", cache=False)(x))
    np.testing.assert_array_equal(np.asarray(tw.compile(mod, target=target, cache=False)(x)), expected)


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("vta -config=/nowhere.json", "cannot read the configuration /nowhere.json"),
        ("vta -threads=3", "-threads= is 1 or 2"),
        ("vta -cores=2", "unknown option '-cores=2'; known: -config=, -threads=, -driver=, -host=, -runs="),
        ("vta -log_block=x", "is 'x', not a whole number"),
        ("vta block", "'block' is no option"),
    ],
)
def test_a_target_that_is_none_is_refused(spelling: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        Target(spelling)


@pytest.mark.parametrize("text", ["[1]", "{", '{"LOG_BLOCK": "four"}'])
def test_a_configuration_file_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(TargetError, match=r"config.json"):
        Target(f"vta -config={tmp_path / 'config.json'}")


def test_a_configuration_that_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match="LOG_BLOCK is 9"):
        tw.compile(made(words), target="vta -log_block=9", cache=False)
    with pytest.raises(UnsupportedError, match="networks run in int8, and 1x16_i16"):
        tw.compile(made(words), target="vta -log_inp_width=4", cache=False)


def test_a_model_without_work_for_the_accelerator_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="nothing of this model runs on VTA"):
        tw.compile(made(relay.tanh), target="vta", cache=False)
