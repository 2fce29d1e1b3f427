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
from tests.runtime.web.helpers import compiled, in_node, needs_node
from tests.runtime.web.open_programs import open_program
from tilewright.errors import EnvironmentError_, InputError, UnsupportedError
from tilewright.runtime.vm.value import Data
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


def same(got: Any, wanted: Any) -> bool:
    """True where values are the same but for rounding; texts and nested values too."""
    if isinstance(wanted, Data):
        return isinstance(got, Data) and got.tag == wanted.tag and same(list(got.fields), list(wanted.fields))
    if wanted is None or isinstance(wanted, list | tuple):
        return type(got) is type(wanted) and (
            wanted is None or (len(got) == len(wanted) and all(map(same, got, wanted)))
        )
    got, wanted = np.asarray(got), np.asarray(wanted)
    if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
        return False
    return (
        bool((got == wanted).all()) if wanted.dtype == object else np.allclose(got, wanted, 1e-5, 1e-6, equal_nan=True)
    )


def started(model: Any, engine: str, **options: Any) -> WebModel:
    """A model in an engine; the test is skipped where there is none."""
    if engine != "wasmtime":
        try:
            program_of(engine)
        except EnvironmentError_ as error:
            pytest.skip(str(error))
    exe = compiled(model, **options)
    exe.use(engine)
    return exe


@pytest.mark.parametrize("engine", ["wasmtime", "node"])
@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 60), marks=pytest.mark.long)], ids=["few", "many"])
def test_random_programs_compute_what_the_machine_does(seeds: range, engine: str) -> None:
    for seed in seeds:
        mod = Programs(Random(seed)).module()
        inputs = [
            np.array(3, "int32"),
            np.arange(3, dtype="float32"),
            np.zeros((seed % 4, 4, 2 * (seed % 4) + 1), "float32"),
        ]
        exe = started(mod, engine, executor="vm")
        found, wanted = exe(*inputs), tw.compile(mod, executor="vm", cache=False)(*inputs)
        assert same(found, wanted), f"seed {seed}: {found}, not {wanted}\n{mod}"
        exe.close()


OPEN = """g (float[N] x, bool c) => (float[M] y)
{ y = If(c) <then_branch = t () => (float[M] a) { a = Neg(x) }, else_branch = e () => (float[M] b) { b = Abs(x) }> }"""
FOUND = """g (float[N, 8] x, int64 n) => (float[M, 8] z, float[K] s, int64[2, K] w)
{ e = Relu(x) w = NonZero(e) t = Transpose(w) p = GatherND(x, t) s = Sin(p)
  z = Loop(n, , x) <body = b (int64 i, bool c, float[P, 8] a) => (bool d, float[Q, 8] r)
    { d = Identity(c) f = Cos(a) r = Concat <axis = 0> (a, f) }> }"""
COLLECTED = """g (float[N] x, int64 n) => (float[K] last, float[T, K] all)
{ last, all = Loop(n, , x) <body = b (int64 i, bool c, float[P] a) => (bool d, float[P] r, float[P] q)
    { d = Identity(c) r = Sin(a) q = Cos(a) }> }"""
BOXES = """g (float[B, N, 4] boxes, float[B, C, N] scores, int64 most)
  => (int64[K, 3] kept, float[K, 4] picked, float[J] top)
{ share = Constant <value = float {0.4}>() least = Constant <value = float {0.1}>()
  kept = NonMaxSuppression(boxes, scores, most, share, least)
  two = Constant <value = int64[2] {0, 2}>() at = Gather <axis = 1> (kept, two) picked = GatherND(boxes, at)
  flat = Constant <value = int64[1] {-1}>() row = Reshape(scores, flat) k = Reshape(most, flat)
  top, i = TopK(row, k) }"""
TEXTS = """g (string[3] words, seq(float[L]) parts) => (string[M] loud, seq(float[L]) more, int64 count)
{ zero = Constant <value = int64 {0}>() loud = StringNormalizer <case_change_action = "UPPER"> (words)
  first = SequenceAt(parts, zero) more = SequenceInsert(parts, first) count = SequenceLength(more) }"""


def fed(text: str, size: int) -> dict[str, Any]:
    """Inputs of a size for the models above."""
    rng = np.random.default_rng(size)
    drawn = {
        "x": rng.standard_normal((size, 8) if "N, 8" in text else (size,), dtype=np.float32),
        "c": np.array(size % 2 == 0), "n": np.array(size % 3 + 1), "most": np.array(size),
        "boxes": rng.random((2, size, 4), dtype=np.float32), "scores": rng.random((2, 3, size), dtype=np.float32),
    }  # fmt: skip
    return {entry.name: drawn[entry.name] for entry in of(text).graph.input}


@pytest.mark.parametrize("engine", ["wasmtime", "node", "chromium"])
@pytest.mark.parametrize("text", [OPEN, FOUND, COLLECTED, BOXES], ids=["open", "found", "collected", "boxes"])
def test_sizes_that_only_a_run_knows(text: str, engine: str) -> None:
    exe, wanted = started(of(text), engine), tw.compile(of(text), cache=False)
    for size in (3, 1, 6, 6):
        inputs = fed(text, size)
        assert same(exe.run(inputs), wanted.run(inputs)), size
    exe.close()


@pytest.mark.parametrize("engine", ["wasmtime", "node"])
@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(5, 60), marks=pytest.mark.long)], ids=["few", "many"])
def test_random_programs_of_open_sizes(seeds: range, engine: str) -> None:
    for seed in seeds:
        text = open_program(Random(seed))
        exe, plain = started(of(text), engine), tw.compile(of(text), cache=False)
        for size in (0, 1, 4):
            x = np.random.default_rng(size).standard_normal(size, dtype=np.float32)
            inputs = {"x": x, "few": np.array([3]), "trips": np.array(1 + size // 2)}
            try:
                wanted = plain.run(inputs)
            except InputError as error:
                with pytest.raises(InputError):
                    exe.run(inputs)
                assert "reshape" in str(error) or "shape" in str(error), (seed, size, text, error)
                continue
            found = exe.run(inputs)
            assert same(found, wanted), f"seed {seed}, size {size}: {found}, not {wanted}\n{text}"
        exe.close()


@pytest.mark.parametrize("engine", ["node", "chromium"])
def test_programs_of_open_sizes_find_the_same_bits_with_any_threads(engine: str) -> None:
    exe = started(of(FOUND), engine)
    one = exe.run(fed(FOUND, 40))
    exe.use(engine, threads=2)
    for _ in range(3):
        for got, wanted in zip(exe.run(fed(FOUND, 40)), one, strict=True):
            np.testing.assert_array_equal(got, wanted)
    exe.close()


@pytest.mark.parametrize("engine", ["wasmtime", "node", "chromium"])
def test_texts_and_sequences(engine: str) -> None:
    inputs = {"words": np.array(["a b", "", "c d e"], object), "parts": [np.float32([1, 2]), np.float32([3])]}
    exe = started(of(TEXTS), engine)
    assert same(exe.run(inputs), tw.compile(of(TEXTS), cache=False).run(inputs))
    exe.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('g (string[4] x) => (bool[4] y) { [find] y = RegexFullMatch <pattern = "a+"> (x) }',
         "the operator onnx.RegexFullMatch of the node 'find' runs on the host, in Python, and there is none in Java"),
    ],
    ids=["host operator"],
)  # fmt: skip
def test_what_no_module_is_made_of_is_refused(text: str, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        compiled(of(text))


@needs_node
def test_what_does_not_fit_is_an_error_after_which_the_model_runs(tmp_path: Path) -> None:
    compiled(of(FOUND)).export_web(tmp_path)
    script = """
const model = await load(), n = BigInt64Array.of(1n), x = { data: new Float32Array(16).fill(1), shape: [2, 8] };
for (const feeds of [{ x }, { x: new Float32Array(16), n }, { x: { data: new Float32Array(6), shape: [1, 6] }, n }]) {
  try { await model.run(feeds); } catch (error) { console.log(error instanceof TilewrightError, error.message); }
}
const { z, w } = await model.run({ x, n });
console.log(z.shape, w.shape, z.data.length);"""
    missing, unshaped, wrong, fine = in_node(tmp_path, script).splitlines()
    assert missing == "true the input n is missing; the model takes x: float32[N, 8], n: int64[]"
    assert unshaped.startswith("true x: float32[N, 8] has open sizes") and "got the shape [1, 6]" in wrong
    assert fine == "[ 4, 8 ] [ 2, 16 ] 32"


@needs_node
def test_texts_and_sequences_go_through_a_worker(tmp_path: Path) -> None:
    compiled(of(TEXTS)).export_web(tmp_path)
    script = """
const words = ["a b", "", "c"], parts = [Float32Array.of(1, 2), Float32Array.of(0, 3, 4).subarray(1)];
for (const worker of [false, true]) {
  const model = await load(undefined, { worker });
  const { loud, more, count } = await model.run({ words, parts: parts.map((data) => ({ data, shape: [2] })) });
  console.log(JSON.stringify([loud.data, more.map(({ data }) => [...data]), Number(count.data[0])]));
  await model.run({ words, parts: words }).catch(({ message }) => console.log(message));
  model.close();
}"""
    lines = in_node(tmp_path, script).splitlines()
    assert lines[0] == lines[2] == '[["A B","","C"],[[1,2],[3,4],[1,2]],3]'
    assert lines[1] == lines[3] == "parts: a value of the type Tensor[(?,), float32] is needed"


@needs_node
def test_a_straight_model_s_file_says_that_it_runs_no_programs(tmp_path: Path) -> None:
    compiled(of("g (float[4] x) => (float[4] y) { y = Sin(x) }")).export_web(tmp_path)
    compiled(of(FOUND)).export_web(tmp_path, "found")
    script = """
try { await load(new URL("./found.wasm", import.meta.url)); } catch (error) { console.log(error.message); }"""
    assert "which this file of a model without one cannot run" in in_node(tmp_path, script)


def test_kernels_within_branches_are_not_timed(tmp_path: Path) -> None:
    exe = compiled(of(BRANCH))
    assert len(exe.time(drawn(of(BRANCH), 1), repeat=3)) == 3
    with pytest.raises(UnsupportedError, match="no list of kernels to time in WebAssembly"):
        exe.profile(drawn(of(BRANCH), 1))
    exe.export_web(tmp_path, "net")
    assert "x: Float32Array | Tensor<Float32Array>;" in (tmp_path / "net.d.mts").read_text()


def test_values_of_each_operator() -> None:
    text = """g (float[2, 3] x) => (float[2, 3] y)
    { [first] a = Sin(x) [second] b = Mul(a, x) [third] y = Softmax(b) }"""
    inputs = {"x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)}
    seen = compiled(of(text), executor="debug").steps(inputs)
    wanted = tw.compile(of(text), executor="debug", cache=False).steps(inputs)  # type: ignore[attr-defined]
    assert [step.operator for step in seen] == [step.operator for step in wanted] and len(seen) >= 3
    assert all(same(a.values, b.values) for a, b in zip(seen, wanted, strict=True))
    with pytest.raises(UnsupportedError, match='compile it with executor="debug"'):
        compiled(of(text)).steps(inputs)
