"""Models for the web: the same module in wasmtime and, by the files written, in Node; errors of both."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.onnx_models import convolution, make_model, perceptron
from tests.runtime.web.helpers import NODE, compiled, in_node, needs_node
from tilewright import relay
from tilewright.backend.wasm.link import link
from tilewright.backend.wasm.object_file import read_object
from tilewright.backend.wasm.run_text import run_text
from tilewright.codegen.llvm import compile_object
from tilewright.errors import InputError, TargetError
from tilewright.runtime.web.description import SECTION
from tilewright.target import Target

pytest.importorskip("wasmtime", reason="needs the package wasmtime")


@pytest.mark.parametrize("target", ["wasm", "wasm -mattr=-simd128", "wasm -mattr=+relaxed-simd"])
def test_a_convolution_in_wasmtime_is_as_on_the_processor(target: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 12, 12)).astype("float32")
    want = tw.compile(convolution(), cache=False)(x)
    np.testing.assert_allclose(compiled(convolution(), target)(x), want, rtol=1e-5, atol=1e-6)


def test_outputs_of_the_caller_and_times() -> None:
    model, x = compiled(perceptron()), np.ones((1, 8), "float32")
    out = np.zeros((1, 4), "float32")
    model.run({"x": x}, [out])
    np.testing.assert_array_equal(out, model(x))
    assert len(model.time({"x": x}, repeat=3)) == 3


def test_symbolic_sizes_in_wasmtime() -> None:
    model, reference = compiled(perceptron("N")), tw.compile(perceptron("N"), cache=False)
    for rows in (3, 40, 1):
        x = np.random.default_rng(rows).standard_normal((rows, 8)).astype("float32")
        np.testing.assert_allclose(model(x), reference(x), rtol=1e-5)
    with pytest.raises(InputError, match=r"float32\[3, 9\] given"):
        model(np.zeros((3, 9), "float32"))


@needs_node
@pytest.mark.parametrize("flags", [(), ("--experimental-wasm-relaxed-simd",)])
def test_the_files_run_in_node(tmp_path: Path, flags: tuple[str, ...]) -> None:
    written = compiled(convolution()).export_web(tmp_path)
    names = {"model.mjs", "model.d.mts", "index.html", "model.wasm", "model.relaxed.wasm", "model.bin"}
    assert {path.name for path in written} == names
    x = np.random.default_rng(1).standard_normal((1, 3, 12, 12)).astype("float32")
    script = f"""
const model = await load();
const {{ features }} = await model.run({{ image: Float32Array.from({json.dumps(x.reshape(-1).tolist())}) }});
console.log(JSON.stringify([...features.data]), features.shape.join(), features.dtype);"""
    numbers, shape, dtype = in_node(tmp_path, script, *flags).split()
    assert (shape, dtype) == ("1,16,1,1", "float32")
    want = tw.compile(convolution(), cache=False)(x)
    np.testing.assert_allclose(np.reshape(json.loads(numbers), want.shape), want, rtol=1e-5, atol=1e-6)


@needs_node
def test_symbolic_sizes_in_node(tmp_path: Path) -> None:
    compiled(perceptron("N")).export_web(tmp_path)
    x = np.random.default_rng(2).standard_normal((5, 8)).astype("float32")
    script = f"""
const model = await load();
const data = Float32Array.from({json.dumps(x.reshape(-1).tolist())});
for (const rows of [1, 5]) {{
  const {{ y }} = await model.run({{ x: {{ data: data.subarray(0, 8 * rows), shape: [rows, 8] }} }});
  console.log(JSON.stringify([...y.data]), y.shape.join());
}}
for (const wrong of [{{ x: data }}, {{ x: {{ data, shape: [4, 10] }} }}]) {{
  await model.run(wrong).catch((error) => console.log(error instanceof TilewrightError, error.message));
}}"""
    lines = in_node(tmp_path, script).splitlines()
    want = tw.compile(perceptron("N"), cache=False)(x)
    for line, rows in zip(lines, (1, 5), strict=False):
        numbers, shape = line.split()
        assert shape == f"{rows},4"
        np.testing.assert_allclose(np.reshape(json.loads(numbers), (rows, 4)), want[:rows], rtol=1e-5)
    assert lines[2:] == [
        "true x: float32[N, 8] has open sizes: give { data, shape }",
        "true x: float32[N, 8]: got the shape [4, 10]",
    ]


@needs_node
def test_errors_in_node_say_what_to_do(tmp_path: Path) -> None:
    compiled(perceptron()).export_web(tmp_path)
    (tmp_path / "short.bin").write_bytes((tmp_path / "model.bin").read_bytes()[:-1])
    (tmp_path / "other.wasm").write_bytes(b"\0asm\1\0\0\0")
    (tmp_path / "text.wasm").write_text("no module")
    script = """
import { readFileSync } from "node:fs";
const here = (name) => new URL(name, import.meta.url), model = await load(), x = new Float32Array(8);
const bytes = readFileSync(here("model.wasm"));
const same = await load(bytes, { weights: readFileSync(here("model.bin")) });
console.log((await same.run({ x })).y.data.join() === (await model.run({ x })).y.data.join());
for (const attempt of [
  () => model.run({}), () => model.run({ x, z: x }), () => model.run({ x: new Float64Array(8) }),
  () => model.run({ x: new Float32Array(9) }), () => load(undefined, { weights: here("short.bin") }),
  () => load(bytes), () => load(here("other.wasm")), () => load(here("text.wasm")), () => load(here("absent.wasm")),
]) await attempt().then(() => console.log("no error"), (error) =>
  console.log(error instanceof TilewrightError, error.message));
console.log((await model.run({ x })).y.data.length);"""
    first, *lines, last = in_node(tmp_path, script).splitlines()
    assert (first, last) == ("true", "4")  # after all errors the model still runs
    for line, words in zip(
        lines,
        [
            "the input x is missing; the model takes x: float32[1, 8]",
            "there is no input z",
            "give a Float32Array, not a Float64Array",
            "8 elements are wanted, 9 given",
            "copy all files of the folder",
            "a module given as bytes needs { weights }",
            "it has no description",
            "is no WebAssembly module that this engine takes",
            "absent.wasm cannot be read",
        ],
        strict=True,
    ):
        assert line.startswith("true ") and words in line


def test_types_of_elements_in_the_types_file(tmp_path: Path) -> None:
    nodes = [helper.make_node("Cast", ["my input"], ["y"], to=TensorProto.INT64)]
    model = make_model(nodes, {"my input": (TensorProto.BOOL, (2,))}, {"y": (TensorProto.INT64, (2,))})
    compiled(model).export_web(tmp_path, "net")
    text = (tmp_path / "net.d.mts").read_text()
    assert '"my input": Uint8Array | Tensor<Uint8Array>;' in text and "y: Required<Tensor<BigInt64Array>>" in text
    assert 'from "./net.mjs"' in (tmp_path / "index.html").read_text()


def test_what_no_module_is_made_of_is_refused(tmp_path: Path) -> None:
    model = compiled(perceptron())
    with pytest.raises(TargetError, match="-o web/ --target wasm"):
        model.save(tmp_path / "model.tw")
    with pytest.raises(TargetError, match="a folder of files"):
        model.export_library(tmp_path / "model.so")
    with pytest.raises(InputError, match="cannot be a file's name on the web"):
        model.export_web(tmp_path, "a b")
    assert not list(tmp_path.iterdir())


@needs_node
def test_threads_find_the_same_bits_in_node(tmp_path: Path) -> None:
    model = make_model(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Softmax", ["p"], ["y"])],
        {"x": (TensorProto.FLOAT, (64, 96))},
        {"y": (TensorProto.FLOAT, (64, 96))},
        {"w": np.random.default_rng(0).standard_normal((96, 96)).astype("float32")},
    )
    compiled(model).export_web(tmp_path)
    script = """
const x = Float32Array.from({ length: 64 * 96 }, (_, i) => Math.sin(i)), found = [];
for (const options of [{ threads: 1 }, { threads: 2 }, { threads: 3 }, { threads: 2, worker: true }]) {
  const model = await load(undefined, options);
  let text = "";
  for (let run = 0; run < 20; run++) {
    const { y } = await model.run({ x });
    text += new Uint32Array(y.data.buffer).join();
  }
  found.push(text);
  console.log(model.threads);
  model.close();
  await model.run({ x }).catch((error) => console.log(error instanceof TilewrightError, /closed/.test(error.message)));
}
console.log(new Set(found).size);"""
    lines = in_node(tmp_path, script).splitlines()
    assert lines == ["1", "true true", "2", "true true", "3", "true true", "2", "true true", "1"]


#: Two regions; in the first the worker that the input names fails: it returns 7, or divides by zero where that is 9.
FAILING = """
target triple = "wasm32-unknown-unknown"
declare i32 @tilewright_regions(ptr, i32, ptr, ptr)
define i32 @part(ptr %slots, ptr %ctx) {
  %x = load ptr, ptr %slots
  %fails = load i32, ptr %x
  %code.p = getelementptr i32, ptr %x, i32 1
  %code = load i32, ptr %code.p
  %worker = load i32, ptr %ctx
  %region.p = getelementptr i8, ptr %ctx, i32 16
  %region = load i32, ptr %region.p
  %here = icmp eq i32 %worker, %fails
  %now = icmp eq i32 %region, 0
  %bad = and i1 %here, %now
  br i1 %bad, label %fail, label %fine
fail:
  %left = sub i32 %code, 9
  %trap = sdiv i32 7, %left
  store volatile i32 %trap, ptr %code.p
  ret i32 %code
fine:
  ret i32 0
}
define i32 @main__entry(ptr %slots, ptr %ctx) {
  %code = call i32 @tilewright_regions(ptr @part, i32 2, ptr %slots, ptr %ctx)
  ret i32 %code
}
"""


@needs_node
def test_a_failure_in_one_thread_ends_the_run_of_all(tmp_path: Path) -> None:
    compiled(perceptron()).export_web(tmp_path)
    parts = [read_object(compile_object(text, Target("wasm"))) for text in (FAILING, run_text("main", True))]
    x = {"name": "x", "shape": [2], "dtype": "int32"}
    piece = {"inputs": [x], "outputs": [], "arena": 0, "scratch": 0}
    data = {"format": 3, "weights": 0, "workers": 8, "alignment": 64, "messages": [], "pieces": [piece]}
    section = (SECTION, lambda heap: json.dumps({**data, "heap": heap}).encode())
    exports = {"run": "run", "serve": "serve"}
    (tmp_path / "failing.wasm").write_bytes(link(parts, exports, [section], shares_memory=True))
    script = """
const source = new URL("failing.wasm", import.meta.url);
for (const worker of [0, 1, 2]) {
  const model = await load(source, { threads: 3 }), say = ({ message }) => console.log(message);
  for (let turn = 0; turn < 20; turn++) {
    await model.run({ x: Int32Array.of(worker, 7) }).then(() => console.log("no error"), say);
    await model.run({ x: Int32Array.of(5, 7) });
  }
  await model.run({ x: Int32Array.of(worker, 9) }).then(() => console.log("no error"), say);
  await model.run({ x: Int32Array.of(5, 7) }).catch(say);
}"""
    lines = in_node(tmp_path, script).splitlines()
    assert len(lines) == 3 * 22
    for worker in range(3):
        *codes, fault, closed = lines[22 * worker : 22 * worker + 22]
        assert set(codes) == {"the model stopped: code 7"}
        assert fault.startswith("the model stopped with a fault")
        assert closed == "the model was closed, or stopped with a fault: load it again"


@pytest.mark.parametrize("engine", ["wasmtime", "node"])
def test_functions_of_the_c_library_beyond_their_domains(engine: str) -> None:
    if engine == "node" and NODE is None:
        pytest.skip("needs node")
    x = relay.var("x", shape=(6,), dtype="float64")
    values = np.array([0.0, -1.0, 1e3, np.inf, -np.inf, np.nan])
    results = relay.Tuple([relay.log(x), relay.exp(x), relay.asin(x), relay.sin(x)])
    exe = compiled(relay.IRModule.from_expr(relay.Function([x], results)))
    exe.use(engine)
    with np.errstate(all="ignore"):
        wanted = [function(values) for function in (np.log, np.exp, np.arcsin, np.sin)]
    for got, value in zip(exe(values), wanted, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-12)
    exe.close()
