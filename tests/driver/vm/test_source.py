"""Models with branches and loops as C: compiled by whatever C compiler there is, and equal to onnxruntime and to us."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import tilewright as tw
from tests.frontend.onnx.test_models import real_model
from tests.relay.programs import Programs
from tilewright import relay
from tilewright.codegen.source.compile_c import SEMANTICS
from tilewright.compile import export_source
from tilewright.errors import EnvironmentError_, UnsupportedError
from tilewright.relay.ir.type import TensorType
from tilewright.runtime.export import find_linker


def compiler() -> list[str]:
    """The command of a C compiler; the test is skipped where there is none."""
    try:
        return find_linker()
    except EnvironmentError_ as error:
        pytest.skip(str(error))


def compiled(source: Path) -> Any:
    """The source as a library in this process."""
    made = source.with_suffix(".so")
    options = ["-std=c99", "-O1", "-pedantic-errors", "-Werror=implicit-function-declaration", *SEMANTICS]
    command = [*compiler(), *options, "-shared", "-fPIC", source.name, "-o", made.name, "-lm"]
    subprocess.run(command, check=True, cwd=source.parent)
    return ctypes.CDLL(str(made))


def call(library: Any, name: str, inputs: list[Any], outputs: list[Any], threads: int = 1) -> str:
    """Run a model in C into `outputs`; the words of its error, or "success"."""
    function, words = getattr(library, f"tilewright_{name}"), getattr(library, f"tilewright_{name}_error_text")
    bytes_of = getattr(library, f"tilewright_{name}_workspace_bytes")
    bytes_of.restype, words.restype = ctypes.c_int64, ctypes.c_char_p
    positions = [(ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays]) for arrays in (inputs, outputs)]
    workspace = np.full(bytes_of(threads), 0xA5, np.uint8)
    return words(function(*positions, ctypes.c_void_p(workspace.ctypes.data), threads)).decode()


def check(model: Any, inputs: dict[str, Any], path: Path, shapes: Any = None, reference: Any = None) -> None:
    """C, an exported library, our executable and the reference agree on `inputs`."""
    executable = tw.compile(model, input_shapes=shapes, threads=1)
    ours = executable.run(inputs)
    source, _, *weights = export_source(model, path / "model.c", input_shapes=shapes)
    executable.export_library(path / "libshared.so", name="shared")
    loaded = compiled(source)
    if weights:
        kept = np.fromfile(weights[0], np.uint8)
        loaded.tilewright_model_set_weights(ctypes.c_void_p(kept.ctypes.data))
    for library, name, threads in ((loaded, "model", 1), (ctypes.CDLL(str(path / "libshared.so")), "shared", 2)):
        outputs = [np.zeros_like(value) for value in ours]
        given = [np.ascontiguousarray(inputs[spec.name]) for spec in executable.inputs]
        for _ in range(2):
            assert call(library, name, given, outputs, threads) == "success"
        for got, wanted in zip(outputs, ours, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
        for got, wanted in zip(outputs, reference or [], strict=False):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def by_onnxruntime(model: onnx.ModelProto, inputs: dict[str, Any]) -> list[Any]:
    return list(onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs))


def of(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')


SCAN = """g (float[4] s, float[40, 4] xs) => (float[4] last, float[4, 40] all, float[40, 4] back)
{ last, all, back = Scan <num_scan_inputs = 1, scan_output_axes = [1, 0], scan_output_directions = [0, 1], body =
    b (float[4] a, float[4] x) => (float[4] n, float[4] o, float[4] p)
    { t = Tanh(x) n = Add(a, t) o = Neg(n) p = Mul(n, x) }
  > (s, xs) }"""

BRANCH_IN_LOOP = """g (float[4] s, int64 n) => (float[4] last, int64 turns) <bool yes = {1}, int64 zero = {0}>
{ last, turns = Loop <body = b (int64 i, bool c, float[4] a, int64 k) => (bool more, float[4] m, int64 l)
    { one = Constant <value_int = 1>()
      two = Constant <value_int = 2>()
      odd = Mod(i, two)
      is_odd = Cast <to = 9>(odd)
      m = If(is_odd) <then_branch = t () => (float[4] u) { u = Sin(a) },
        else_branch = e () => (float[4] w) { w = Add(a, a) }>
      total = ReduceSum <keepdims = 0>(m)
      most = Constant <value_float = 30.0>()
      more = Less(total, most)
      l = Add(k, one) }
  > (n, yes, s, zero) }"""

NESTED = """g (float[3] s, int64 n) => (float[3] last, float[20, 3] rows) <bool yes = {1}, int64 outer = {20}>
{ last, rows = Loop <body = b (int64 i, bool c, float[3] a) => (bool c2, float[3] z, float[3] row)
    { c2 = Identity(c)
      y = Loop <body = d (int64 j, bool e, float[3] f) => (bool e2, float[3] h)
        { e2 = Identity(e) half = Constant <value_float = 0.5>()
          q = Mul(f, half) w = Cos(a) r = Mul(w, half) h = Add(q, r) }
      > (i, c, a)
      z, row = If(c) <then_branch = t () => (float[3] u, float[3] v) { u = Identity(y) v = Neg(y) },
        else_branch = k () => (float[3] u2, float[3] v2) { u2 = Identity(a) v2 = Identity(a) }> }
  > (outer, yes, s) }"""


@pytest.mark.parametrize("text", [SCAN, BRANCH_IN_LOOP, NESTED], ids=["scan", "branch in a loop", "nested loops"])
@pytest.mark.sample(2)
def test_loops_and_branches(text: str, tmp_path: Path) -> None:
    model = of(text)
    for count in (0, 1, 7):
        inputs: dict[str, Any] = {}
        for entry in model.graph.input:
            shape = [dim.dim_value for dim in entry.type.tensor_type.shape.dim]
            drawn = np.random.default_rng(count).standard_normal(shape, dtype=np.float32)
            inputs[entry.name] = drawn if entry.name != "n" else np.array(count)
        check(model, inputs, tmp_path, reference=by_onnxruntime(model, inputs))


def decoder(steps: int = 24, width: int = 8, words: int = 11) -> onnx.ModelProto:
    """A decoder that writes `steps` words, one a turn, with a cache of keys and values that it carries."""
    random = np.random.default_rng(5)
    cache = f"float[{steps}, {width}]"
    model = of(f"""g (int64 first, {cache} keys0, {cache} values0)
      => (int64 word, {cache} keys, {cache} values, int64[{steps}] text)
    <bool yes = {{1}}, int64 count = {{{steps}}}>
    {{ word, keys, values, text = Loop <body =
        b (int64 i, bool c, int64 w, {cache} k, {cache} v) => (bool c2, int64 next, {cache} k2, {cache} v2, int64 said)
        {{ c2 = Identity(c)
          x = Gather(table, w)
          axes = Constant <value_ints = [0]>()
          row = Unsqueeze(x, axes)
          q = MatMul(row, wq)
          key = MatMul(row, wk)
          value = MatMul(row, wv)
          at2 = Constant <value_ints = [1, 1]>()
          position = Reshape(i, at2)
          k2 = ScatterND(k, position, key)
          v2 = ScatterND(v, position, value)
          kt = Transpose <perm = [1, 0]>(k2)
          scores = MatMul(q, kt)
          past = LessOrEqual(positions, i)
          low = Constant <value_float = -1e9>()
          masked = Where(past, scores, low)
          weights = Softmax(masked)
          context = MatMul(weights, v2)
          h = Add(context, row)
          logits = MatMul(h, wo)
          flat = Squeeze(logits, axes)
          next = ArgMax <axis = 0, keepdims = 0>(flat)
          said = Identity(next) }}
      > (count, yes, first, keys0, values0) }}""")
    shapes = {
        "table": (words, width),
        "wq": (width, width),
        "wk": (width, width),
        "wv": (width, width),
        "wo": (width, words),
    }
    for name, shape in shapes.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(random.standard_normal(shape, "float32"), name))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(steps), "positions"))
    return model


def test_a_decoder_with_a_cache_of_keys_and_values(tmp_path: Path) -> None:
    model = decoder()
    inputs = {"first": np.array(3), "keys0": np.zeros((24, 8), "float32"), "values0": np.zeros((24, 8), "float32")}
    check(model, inputs, tmp_path, reference=by_onnxruntime(model, inputs))


def test_a_trained_model_with_nested_branches(tmp_path: Path) -> None:
    path = real_model("silero_vad")
    shapes = {"input": (1, 512), "state": (2, 1, 128)}
    random = np.random.default_rng(2)
    inputs = {name: random.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    inputs["sr"] = np.array(16000)
    reference = onnxruntime.InferenceSession(str(path)).run(None, inputs)
    check(path, inputs, tmp_path, shapes, reference)
    library = compiled(tmp_path / "model.c")
    outputs = [np.zeros((1, 1), "float32"), np.zeros((2, 1, 128), "float32")]
    words = call(library, "model", [inputs["input"], inputs["state"], np.array(8000)], outputs)
    assert words.startswith("the inputs lead into a branch of the model that cannot run on them: node 'If_0/")


@pytest.mark.parametrize("seeds", [range(9), pytest.param(range(9, 150), marks=pytest.mark.long)], ids=["few", "many"])
def test_random_programs_in_c_compute_what_the_machine_does(seeds: range, tmp_path: Path) -> None:
    """Programs written as C compute what the machine does; others are refused with the reason."""
    inputs = [np.array(3, "int32"), np.arange(3, dtype="float32"), np.zeros((2, 4, 5), "float32")]
    written = 0
    for seed in seeds:
        mod = Programs(Random(seed)).module()
        main = mod["main"]
        fixed = relay.var("fixed", TensorType((2, 4, 5)))
        mod = mod.with_function("main", relay.Function([*main.params[:2], fixed], main.body))
        try:
            source = export_source(mod, tmp_path / f"p{seed}.c")[0]
        except UnsupportedError as error:
            assert "this model runs on the virtual machine, and cannot become C or WebAssembly: " in str(error)
            continue
        wanted = tw.compile(mod, executor="vm")(*inputs)
        wanted = wanted if isinstance(wanted, list) else [wanted]
        outputs = [np.zeros_like(np.ascontiguousarray(value)) for value in wanted]
        assert call(compiled(source), f"p{seed}", inputs, outputs) == "success"
        written += 1
        for got, value in zip(outputs, wanted, strict=True):
            np.testing.assert_allclose(got, value, rtol=1e-5, err_msg=f"seed {seed}\n{mod}")
    assert written > len(seeds) // 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("g (float[N] x, bool c) => (float[M] y) { y = If(c) <then_branch = t () => (float[M] a) { a = Neg(x) }, "
         "else_branch = e () => (float[M] b) { b = Abs(x) }> }",
         r"the sizes of x: float32\[N\] are symbolic; fix them, for example with --input-shapes \"x:\[1\]\" "
         r"\(in Python: input_shapes=\{'x': \(1,\)\}\)"),
        ("g (float[4] x) => (int64[1, M] y) { [find] y = NonZero(x) }",
         "the operator onnx.NonZero of the node 'find' runs on the host, in Python"),
        ("g (float[2] x, int64 n) => (float[M] y) <bool yes = {1}> { y = Loop <body = b (int64 i, bool c, float[K] a)"
         " => (bool d, float[L] z) { d = Identity(c) z = Concat <axis = 0>(a, a) }> (n, yes, x) }",
         "are known only when it runs"),
        ("g (float[2] x, int64 n) => (float[M, 2] y) <bool yes = {1}> { y = Loop <body = b (int64 i, bool c) => "
         "(bool d, float[2] z) { d = Identity(c) z = Neg(x) }> (n, yes) }",
         "what the node 'Loop_0' collects, whose sizes only a run knows, is needed"),
    ],
    ids=["symbolic dimensions", "host operator", "growing tensor", "list of unknown length"],
)  # fmt: skip
def test_what_cannot_be_written(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedError, match=f"cannot become C or WebAssembly: .*{words}.* all sizes within branches"
    ):
        export_source(of(text), tmp_path / "m.c")
    assert not list(tmp_path.iterdir())
