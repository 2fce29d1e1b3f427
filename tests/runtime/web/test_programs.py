"""Models with branches and loops for the web: in wasmtime, Node and Chromium as in onnxruntime; what is refused."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest

import tilewright as tw
from tests.driver.vm.test_source import BRANCH_IN_LOOP, NESTED, SCAN, by_onnxruntime, decoder, of
from tests.frontend.onnx.test_models import real_model
from tests.relay.programs import Programs
from tests.runtime.web.helpers import compiled
from tilewright import relay
from tilewright.errors import EnvironmentError_, InputError, UnsupportedError
from tilewright.relay.ir.type import TensorType
from tilewright.runtime.web.model import WebModel
from tilewright.runtime.web.process import program_of

pytest.importorskip("wasmtime", reason="needs the package wasmtime")

BRANCH = """g (float[3, 40] x, bool c, float[1] y) => (float[3, 40] z)
{ z = If(c) <then_branch = t () => (float[3, 40] a) { p = Softmax(x) a = Mul(p, y) },
  else_branch = e () => (float[3, 40] b)
    { q = Transpose <perm = [1, 0]>(x) r = Sin(q) b = Transpose <perm = [1, 0]>(r) }> }"""


def drawn(model: onnx.ModelProto, count: int) -> dict[str, Any]:
    """Inputs of a model, whose integers are all `count`, and whose booleans tell whether that is odd."""
    made: dict[str, Any] = {}
    for entry in model.graph.input:
        kind = onnx.helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type)
        shape = [dim.dim_value for dim in entry.type.tensor_type.shape.dim]
        if kind == np.float32:
            made[entry.name] = np.random.default_rng(count).standard_normal(shape, dtype=np.float32)
        else:
            made[entry.name] = np.full(shape, count % 2 if kind == np.bool_ else count, kind)
    return made


def agree(exe: WebModel, model: onnx.ModelProto, count: int) -> list[Any]:
    """The outputs, which are those of onnxruntime."""
    inputs = drawn(model, count)
    found = exe.run(inputs)
    for got, wanted in zip(found, by_onnxruntime(model, inputs), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    return found


@pytest.mark.parametrize("target", ["wasm", "wasm -mattr=-simd128"])
@pytest.mark.parametrize("text", [BRANCH, SCAN, BRANCH_IN_LOOP, NESTED], ids=["branch", "scan", "both", "nested"])
@pytest.mark.sample(2)
def test_branches_and_loops_in_wasmtime(text: str, target: str) -> None:
    exe = compiled(of(text), target)
    for count in (0, 1, 7):
        agree(exe, of(text), count)


def test_a_decoder_with_a_cache_of_keys_and_values() -> None:
    model = decoder()
    agree(compiled(model), model, 3)


@pytest.mark.parametrize("engine", ["node", "chromium"])
@pytest.mark.parametrize("text", [SCAN, BRANCH_IN_LOOP], ids=["scan", "branch in a loop"])
def test_engines_find_the_same_bits_with_any_threads(text: str, engine: str) -> None:
    try:
        program_of(engine)
    except EnvironmentError_ as error:
        pytest.skip(str(error))
    exe = compiled(of(text))
    exe.use(engine)
    one = agree(exe, of(text), 6)
    exe.use(engine, threads=2)
    for _ in range(20):
        for got, wanted in zip(exe.run(drawn(of(text), 6)), one, strict=True):
            np.testing.assert_array_equal(got, wanted)
    exe.close()


@pytest.mark.parametrize("engine", ["wasmtime", "node"])
def test_a_trained_model_and_the_branch_that_it_cannot_run(engine: str) -> None:
    path = real_model("silero_vad")
    if engine == "node":
        try:
            program_of(engine)
        except EnvironmentError_ as error:
            pytest.skip(str(error))
    exe = compiled(path, input_shapes={"input": (1, 512), "state": (2, 1, 128)})
    exe.use(engine)
    inputs = {s.name: np.zeros(s.static_shape, s.numpy) for s in exe.inputs}
    inputs["input"] = np.random.default_rng(2).standard_normal((1, 512), dtype=np.float32)
    inputs["sr"] = np.array(16000)
    wanted = by_onnxruntime(onnx.load(path), inputs)
    for got, value in zip(exe.run(inputs), wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match="lead into a branch of the model that cannot run on them: node 'If_0/"):
        exe.run({**inputs, "sr": np.array(8000)})
    exe.run(inputs)
    exe.close()


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 60), marks=pytest.mark.long)], ids=["few", "many"])
def test_random_programs_compute_what_the_machine_does(seeds: range) -> None:
    inputs = [np.array(3, "int32"), np.arange(3, dtype="float32"), np.zeros((2, 4, 5), "float32")]
    compared = 0
    for seed in seeds:
        mod = Programs(Random(seed)).module()
        main = mod["main"]
        fixed = relay.var("fixed", TensorType((2, 4, 5)))
        mod = mod.with_function("main", relay.Function([*main.params[:2], fixed], main.body))
        try:
            found = compiled(mod, executor="vm")(*inputs)
        except UnsupportedError as error:
            assert "cannot become C or WebAssembly: " in str(error)
            continue
        wanted = tw.compile(mod, executor="vm", cache=False)(*inputs)
        compared += 1
        pairs = zip(found, wanted, strict=True) if isinstance(wanted, list) else [(found, wanted)]
        for got, value in pairs:
            np.testing.assert_allclose(got, value, rtol=1e-5, err_msg=f"seed {seed}\n{mod}")
    assert compared > len(seeds) // 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("g (float[N] x, bool c) => (float[M] y) { y = If(c) <then_branch = t () => (float[M] a) { a = Neg(x) }, "
         "else_branch = e () => (float[M] b) { b = Abs(x) }> }",
         r"the sizes of x: float32\[N\] are symbolic; fix them"),
        ("g (float[4] x) => (int64[1, M] y) { [find] y = NonZero(x) }",
         "the operator onnx.NonZero of the node 'find' runs on the host, in Python"),
    ],
    ids=["symbolic dimensions", "host operator"],
)  # fmt: skip
def test_what_no_module_is_made_of_is_refused(text: str, words: str) -> None:
    with pytest.raises(
        UnsupportedError, match=f"cannot become C or WebAssembly: .*{words}.* all sizes within branches"
    ):
        compiled(of(text))


def test_kernels_within_branches_are_not_timed(tmp_path: Path) -> None:
    exe = compiled(of(BRANCH))
    assert len(exe.time(drawn(of(BRANCH), 1), repeat=3)) == 3
    with pytest.raises(UnsupportedError, match="no list of kernels to time in WebAssembly"):
        exe.profile(drawn(of(BRANCH), 1))
    exe.export_web(tmp_path, "net")
    assert "x: Float32Array | Tensor<Float32Array>;" in (tmp_path / "net.d.mts").read_text()
