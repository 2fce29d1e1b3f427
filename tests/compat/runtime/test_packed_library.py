"""Libraries with the classic packed C interface: ours read by ctypes and by our loader, and one in C read by ours."""

from __future__ import annotations

import ctypes
import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.compat
from tilewright.compat.relay.executor import load_packed
from tilewright.compat.runtime.module_blob import SYMBOL, factory_blob, read_blob
from tilewright.compat.runtime.packed_module import PackedModule
from tilewright.errors import ArtifactError, InputError, UnsupportedError

tilewright.compat.install()

import tvm  # noqa: E402
from tvm import relay, te  # noqa: E402
from tvm.contrib import graph_executor  # noqa: E402

tilewright.compat.uninstall()

RNG = np.random.default_rng(12)


class Tensor(ctypes.Structure):
    """A tensor by the documented interface, written down here a second time on purpose."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int * 2),
        ("ndim", ctypes.c_int),
        ("dtype", ctypes.c_uint8 * 2),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_uint64),
    ]


class Library:
    """An independent reader: symbols called as the interface says, one worker or several threads of its own."""

    def __init__(self, path: Path) -> None:
        self.code = ctypes.CDLL(str(path))
        self.words = b""
        keep = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(self._note)
        ctypes.c_void_p.in_dll(self.code, "__TVMAPISetLastError").value = ctypes.cast(keep, ctypes.c_void_p).value
        self._alive = [keep]

    def _note(self, words: bytes) -> None:
        self.words = words

    def call(self, name: str, *args: Any) -> int:
        """The status of a call of arrays, ints and floats."""
        values, codes, alive = (ctypes.c_int64 * 9)(), (ctypes.c_int * 9)(), []
        for position, value in enumerate(args):
            if isinstance(value, np.ndarray):
                shape = np.array(value.shape, np.int64)
                strides = np.array([step // value.itemsize for step in value.strides], np.int64)
                kind = {"f": 2, "i": 0, "u": 1, "b": 1}[value.dtype.kind]
                bits = 1 if value.dtype == np.bool_ else 8 * value.itemsize
                made = Tensor(value.ctypes.data, (1, 0), value.ndim, (kind, bits), 1, shape.ctypes.data)
                made.strides = strides.ctypes.data
                alive += [made, shape, strides]
                values[position], codes[position] = ctypes.addressof(made), 7
            elif isinstance(value, float):
                values[position], codes[position] = struct.unpack("<q", struct.pack("<d", value))[0], 2
            else:
                values[position] = value
        result, kind_of_result = ctypes.c_int64(7), ctypes.c_int(4)
        function = getattr(self.code, name)
        return int(function(values, codes, len(args), ctypes.byref(result), ctypes.byref(kind_of_result), None))


def exponential() -> Any:
    n = te.var("n")
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    c = te.compute((n,), lambda i: te.exp(a[i]) + b[i], name="c")
    schedule = te.create_schedule(c.op)
    schedule[c].parallel(c.op.axis[0])
    return tvm.build(schedule, [a, b, c], "llvm", name="exponential")


def test_the_functions_of_a_library_are_called_by_the_documented_interface(tmp_path: Path) -> None:
    exponential().export_library(tmp_path / "lib.so")
    library = Library(tmp_path / "lib.so")
    assert ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library.code, "__tvm_main__"))) == b"exponential"
    assert ctypes.c_void_p.in_dll(library.code, "__tvm_module_ctx").value is None
    a, b, c = RNG.random(1001, np.float32), RNG.random(1001, np.float32), np.zeros(1001, np.float32)
    assert library.call("exponential", a, b, c) == 0
    np.testing.assert_allclose(c, np.exp(a) + b, rtol=1e-5)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((np.zeros(4, np.float32),) * 2, b"takes 3 arguments"),
        ((np.zeros(4, np.float32),) * 2 + (np.zeros(4),), b"argument 2 must be c: float32[n]"),
        ((np.zeros(4, np.float32),) * 2 + (np.zeros(3, np.float32),), b"must be equal"),
        (
            (np.zeros(8, np.float32)[::2],) + (np.zeros(4, np.float32),) * 2,
            b"argument 0 must be a: float32[n], compact",
        ),
        ((3,) + (np.zeros(4, np.float32),) * 2, b"argument 0 must be"),
    ],
)
def test_arguments_that_do_not_fit_are_an_error_with_words(tmp_path: Path, args: Any, words: bytes) -> None:
    exponential().export_library(tmp_path / "lib.so")
    library = Library(tmp_path / "lib.so")
    assert library.call("exponential", *args) == -1
    assert words in library.words


def test_workers_come_from_the_program_that_loads_the_library(tmp_path: Path) -> None:
    """Two threads of the test are the workers: each gets its number, and a barrier lets them meet."""
    import threading

    exponential().export_library(tmp_path / "lib.so")
    library = Library(tmp_path / "lib.so")
    meeting, seen = threading.Barrier(2), []
    task = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    class Environment(ctypes.Structure):
        _fields_ = [("handle", ctypes.c_void_p), ("workers", ctypes.c_int32)]

    def launch(function: int, data: int, tasks: int) -> int:
        env = Environment(None, 2)
        seen.append(tasks)
        call = task(function)
        threads = [threading.Thread(target=call, args=(i, ctypes.addressof(env), data)) for i in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        return 0

    def barrier(worker: int, env: int) -> int:
        meeting.wait(10)
        return 0

    kinds = [
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(launch),
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(barrier),
    ]
    for name, one in zip(("Launch", "Barrier"), kinds, strict=True):
        slot = ctypes.c_void_p.in_dll(library.code, f"__TVMBackendParallel{name}")
        slot.value = ctypes.cast(one, ctypes.c_void_p).value
    a, b, c = RNG.random(64, np.float32), RNG.random(64, np.float32), np.zeros(64, np.float32)
    assert library.call("exponential", a, b, c) == 0
    np.testing.assert_allclose(c, np.exp(a) + b, rtol=1e-5)
    assert seen == [0]


def test_numbers_bools_and_working_memory(tmp_path: Path) -> None:
    n, factor, shift = te.var("n"), te.var("factor", "float32"), te.var("shift", "int32")
    a, mask = te.placeholder((n, 32), name="a"), te.placeholder((n,), "bool", name="mask")
    rows = te.compute((n, 32), lambda i, j: a[i, j] * factor, name="rows")
    k = te.reduce_axis((0, 32), "k")
    sums = te.compute((n,), lambda i: te.sum(rows[i, k], k), name="sums")
    out = te.compute((n,), lambda i: te.if_then_else(mask[i], sums[i] + shift, 0.0), name="out")
    schedule = te.create_schedule(out.op)
    schedule[out].parallel(out.op.axis[0])
    function = tvm.build(schedule, [a, mask, factor, shift, out], "llvm", name="rows")
    function.export_library(tmp_path / "lib.so")
    library = Library(tmp_path / "lib.so")
    data, chosen = RNG.random((7, 32), np.float32), RNG.random(7) > 0.5
    for call in (library.call, lambda name, *args: PackedModule(tmp_path / "lib.so")[name](*args) or 0):
        result = np.zeros(7, np.float32)
        assert call("rows", data, chosen, 1.5, -2, result) == 0
        np.testing.assert_allclose(result, np.where(chosen, (data * 1.5).sum(1) - 2, 0), rtol=1e-5)


def test_our_loader_reads_our_library_by_its_interface(tmp_path: Path) -> None:
    exponential().export_library(tmp_path / "lib.so")
    module = PackedModule(tmp_path / "lib.so")
    assert module.names == ["exponential"]
    a, b, c = tvm.nd.array(RNG.random(50, np.float32)), tvm.nd.array(RNG.random(50, np.float32)), tvm.nd.empty((50,))
    module(a, b, c)
    np.testing.assert_allclose(c.numpy(), np.exp(a.numpy()) + b.numpy(), rtol=1e-5)
    assert module.time_evaluator("exponential", tvm.cpu(), number=2, repeat=3)(a, b, c).mean > 0
    with pytest.raises(InputError, match="must be equal"):
        module["exponential"](a, b, tvm.nd.empty((49,)))
    with pytest.raises(InputError, match="no function 'other'; it has: exponential"):
        module["other"]
    loaded = tvm.runtime.load_module(str(tmp_path / "lib.so"))
    loaded["exponential"](a, b, c)


def test_functions_of_python_are_called_from_our_library(tmp_path: Path) -> None:
    name = "tests.compat.packed_library.twice"

    @tvm.register_func(name, override=True)
    def twice(x: Any, y: Any) -> None:
        y.copyfrom(2 * x.numpy())

    a = te.placeholder((4,), name="a")
    b = te.extern((4,), [a], lambda ins, outs: tvm.tir.call_packed(name, ins[0], outs[0]), name="b")
    tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="twice").export_library(tmp_path / "lib.so")
    x, y = np.arange(4, dtype="float32"), np.zeros(4, np.float32)
    PackedModule(tmp_path / "lib.so")["twice"](x, y)
    np.testing.assert_array_equal(y, 2 * x)


def network() -> tuple[Any, dict[str, Any], Any]:
    x = relay.var("x", shape=(1, 3, 8, 8))
    w, d = relay.var("w", shape=(8, 3, 3, 3)), relay.var("d", shape=(5, 8))
    y = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1)))
    y = relay.nn.dense(relay.reshape(relay.nn.global_avg_pool2d(y), (1, 8)), d)
    mod = tvm.IRModule.from_expr(relay.Function([x, w, d], relay.Tuple([relay.nn.softmax(y), y])))
    params = {"w": RNG.normal(size=(8, 3, 3, 3)), "d": RNG.normal(size=(5, 8))}
    return mod, {key: value.astype("float32") for key, value in params.items()}, RNG.random((1, 3, 8, 8), np.float32)


def outputs(factory: Any, x: Any) -> list[Any]:
    module = graph_executor.GraphModule(factory["default"](tvm.cpu()))
    module.set_input("x", x)
    module.run()
    return [module.get_output(position).numpy() for position in range(2)]


def test_a_model_is_a_graph_over_the_functions_of_its_library(tmp_path: Path) -> None:
    mod, params, x = network()
    built = relay.build(mod, "llvm", params=params)
    built.export_library(tmp_path / "net.so")
    want = outputs(built, x)
    for factory in (tvm.runtime.load_module(tmp_path / "net.so"), load_packed(tmp_path / "net.so")):
        for one, other in zip(outputs(factory, x), want, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


def test_an_independent_reader_runs_the_graph_of_a_library(tmp_path: Path) -> None:
    """Only ctypes, json and struct: the modules' bytes taken apart, every node called by the interface."""
    mod, params, x = network()
    built = relay.build(mod, "llvm", params=params)
    built.export_library(tmp_path / "net.so")
    library = Library(tmp_path / "net.so")
    first = ctypes.c_uint64.in_dll(library.code, SYMBOL)
    blob = ctypes.string_at(ctypes.addressof(first) + 8, first.value)
    graph, names, arrays = _factory(blob)
    entries: dict[tuple[int, int], Any] = {}
    pointers = graph["node_row_ptr"]
    for number, node in enumerate(graph["nodes"]):
        positions = range(pointers[number], pointers[number + 1])
        if node["op"] == "null":
            entries[number, 0] = x if node["name"] == "x" else arrays[names.index(node["name"])]
            continue
        given = [entries[entry[0], entry[1]] for entry in node["inputs"]]
        shapes = [graph["attrs"]["shape"][1][position] for position in positions]
        if node["attrs"]["func_name"] == "__nop":
            made = [given[0].reshape(shapes[0])]
        else:
            made = [
                np.zeros(shape, graph["attrs"]["dltype"][1][position]) for shape, position in zip(shapes, positions)
            ]
            assert library.call(node["attrs"]["func_name"], *given, *made) == 0, library.words
        entries.update({(number, index): one for index, one in enumerate(made)})
    found = [entries[head[0], head[1]] for head in graph["heads"]]
    for one, other in zip(found, outputs(built, x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def _factory(blob: bytes) -> tuple[Any, list[str], list[Any]]:
    at = 0

    def number() -> int:
        nonlocal at
        at += 8
        return int(struct.unpack_from("<Q", blob, at - 8)[0])

    def text() -> str:
        nonlocal at
        length = number()
        at += length
        return blob[at - length : at].decode()

    assert (number(), text()) == (3, "GraphExecutorFactory")
    graph = json.loads(text())
    count, names = number(), [text() for _ in range(number())]
    assert count == len(names)
    arrays = []
    for _ in names:
        magic, _, _, _, rank, code, bits, lanes = struct.unpack_from("<QQiiiBBH", blob, at)
        assert (magic, code, bits, lanes) == (0xDD5E40F096B4A13F, 2, 32, 1)
        *shape, size = struct.unpack_from(f"<{rank + 1}q", blob, at + 32)
        at += 40 + 8 * rank
        arrays.append(np.frombuffer(blob, np.float32, size // 4, at).reshape(shape))
        at += size
    assert (text(), text(), text()) == ("default", "_lib", "_import_tree")
    assert [number() for _ in range(6)] == [3, 0, 1, 1, 1, 1] and at == len(blob)
    return graph, names, arrays


def test_programs_without_a_graph_are_there_in_our_own_form(tmp_path: Path) -> None:
    x = relay.var("x", shape=(relay.Any(), 3))
    exe = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], x + relay.const(1.0))), "llvm")
    exe.mod.export_library(tmp_path / "vm.so")
    code, _ = exe.save()
    loaded = tvm.runtime.vm.Executable.load_exec(code, tvm.runtime.load_module(tmp_path / "vm.so"))
    machine = tvm.runtime.vm.VirtualMachine(loaded, tvm.cpu())
    np.testing.assert_array_equal(machine.invoke("main", np.zeros((2, 3), np.float32)).numpy(), np.ones((2, 3)))


FOREIGN = r"""
#include <stdint.h>
#include <string.h>
typedef union { int64_t i; double f; void* p; const char* s; } Value;
typedef struct { void* data; int device[2]; int ndim; uint8_t code, bits; uint16_t lanes;
                 int64_t *shape, *strides; uint64_t offset; } Tensor;
typedef struct { void* handle; int32_t workers; } Env;
const char __tvm_main__[] = "add";
void* __tvm_module_ctx = 0;
int (*__TVMFuncCall)(void*, Value*, int*, int, Value*, int*);
void (*__TVMAPISetLastError)(const char*);
int (*__TVMBackendGetFuncFromEnv)(void*, const char*, void**);
void* (*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int);
int (*__TVMBackendFreeWorkspace)(int, int, void*);
int (*__TVMBackendParallelLaunch)(int (*)(int, Env*, void*), void*, int);
int (*__TVMBackendParallelBarrier)(int, Env*);

int add(Value* v, int* codes, int n, Value* ret, int* kind, void* r) {
  if (n != 3) { __TVMAPISetLastError("add wants three arrays"); return -1; }
  Tensor *a = v[0].p, *b = v[1].p, *c = v[2].p;
  int64_t size = 1;
  for (int d = 0; d < a->ndim; ++d) size *= a->shape[d];
  float* room = __TVMBackendAllocWorkspace(1, 0, size * 4, 2, 32);
  for (int64_t i = 0; i < size; ++i) room[i] = ((float*)a->data)[i];
  for (int64_t i = 0; i < size; ++i) ((float*)c->data)[i] = room[i] + ((float*)b->data)[i];
  __TVMBackendFreeWorkspace(1, 0, room);
  ret->i = size; *kind = 0;
  return 0;
}
static int part(int id, Env* env, void* data) {
  Tensor* t = data;
  int64_t n = t->shape[0];
  float* x = t->data;
  for (int64_t i = n * id / env->workers; i < n * (id + 1) / env->workers; ++i) x[i] = i;
  __TVMBackendParallelBarrier(id, env);
  if (id == 0) for (int64_t i = 1; i < n; ++i) x[i] += x[i - 1];
  return 0;
}
int prefix(Value* v, int* codes, int n, Value* ret, int* kind, void* r) {
  return __TVMBackendParallelLaunch(part, v[0].p, 0);
}
int mean_by_name(Value* v, int* codes, int n, Value* ret, int* kind, void* r) {
  void* f = 0;
  if (__TVMBackendGetFuncFromEnv(__tvm_module_ctx, v[1].s, &f)) return -1;
  return __TVMFuncCall(f, v, codes, 1, ret, kind);
}
int describe(Value* v, int* codes, int n, Value* ret, int* kind, void* r) {
  static const char* names[] = {"int", "uint", "float"};
  ret->s = codes[0] < 3 ? names[codes[0]] : codes[0] == 4 ? "null" : codes[0] == 11 ? v[0].s : "other";
  *kind = 11;
  return 0;
}
int apply(Value* v, int* codes, int n, Value* ret, int* kind, void* r) {
  return __TVMFuncCall(v[0].p, v + 1, codes + 1, n - 1, ret, kind);
}
"""


def foreign(folder: Path, more: str = "") -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("a library of another compiler is made with a C compiler, and there is none")
    (folder / "foreign.c").write_text(FOREIGN + more)
    command = [compiler, "-shared", "-fPIC", "-O1", "-w", "-o", str(folder / "foreign.so"), str(folder / "foreign.c")]
    subprocess.run(command, check=True)
    return folder / "foreign.so"


def test_a_library_of_another_compiler_is_called(tmp_path: Path) -> None:
    module = tvm.runtime.load_module(str(foreign(tmp_path)))
    assert set(module.names) == {"add", "prefix", "mean_by_name", "describe", "apply"}
    a, b, c = (tvm.nd.array(RNG.random((3, 4), np.float32)) for _ in range(3))
    assert module(a, b, c) == 12
    np.testing.assert_array_equal(c.numpy(), a.numpy() + b.numpy())
    with pytest.raises(tvm.TVMError, match="add wants three arrays"):
        module["add"](a, b)
    long = tvm.nd.empty((1000,))
    module["prefix"](long)
    np.testing.assert_array_equal(long.numpy(), np.cumsum(np.arange(1000)).astype("float32"))
    assert [module["describe"](one) for one in (3, 2.5, None, "so")] == ["int", "float", "null", "so"]
    assert module["apply"](lambda x, y: x * y, 6, 7) == 42
    assert module.time_evaluator("add", tvm.cpu(), number=1)(a, b, c).mean > 0


def test_a_library_calls_registered_functions_and_their_errors_come_through(tmp_path: Path) -> None:
    module = tvm.runtime.load_module(str(foreign(tmp_path)))
    name = "tests.compat.packed_library.mean"
    tvm.register_func(name, lambda x: float(x.numpy().mean()), override=True)
    a = tvm.nd.array(RNG.random((3, 4), np.float32))
    assert module["mean_by_name"](a, name) == pytest.approx(a.numpy().mean())

    def fails(_: Any) -> None:
        raise ZeroDivisionError("by the test")

    tvm.register_func(name, fails, override=True)
    with pytest.raises(ZeroDivisionError, match="by the test"):
        module["mean_by_name"](a, name)
    with pytest.raises(InputError, match="no function registered"):
        module["mean_by_name"](a, "tests.compat.nowhere")


def test_a_graph_in_a_library_of_another_compiler_runs(tmp_path: Path) -> None:
    nodes = [{"op": "null", "name": name, "inputs": []} for name in ("x", "p")]
    call = {"func_name": "add", "num_inputs": "2", "num_outputs": "1", "flatten_data": "1"}
    nodes.append({"op": "tvm_op", "name": "sum", "attrs": call, "inputs": [[0, 0, 0], [1, 0, 0]]})
    columns = {"dltype": ["list_str", ["float32"] * 3], "storage_id": ["list_int", [0, 1, 2]]}
    graph = {"nodes": nodes, "arg_nodes": [0, 1], "heads": [[2, 0, 0]], "node_row_ptr": [0, 1, 2, 3]}
    graph["attrs"] = columns | {"shape": ["list_shape", [[2, 3]] * 3]}
    p, x = RNG.random((2, 3), np.float32), RNG.random((2, 3), np.float32)
    blob = factory_blob(json.dumps(graph), {"p": p}, "default")
    listed = ",".join(map(str, blob))
    path = foreign(tmp_path, f"const unsigned char {SYMBOL}[] __attribute__((aligned(8))) = {{{listed}}};\n")
    module = graph_executor.GraphModule(tvm.runtime.load_module(str(path))["default"](tvm.cpu()))
    module.set_input("x", x)
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), x + p)


def test_modules_that_are_not_read_are_named() -> None:
    body = struct.pack("<QQ", 1, 4) + b"cuda"
    with pytest.raises(UnsupportedError, match="'cuda'"):
        read_blob(struct.pack("<Q", len(body)) + body)
    for cut in (b"\x09", struct.pack("<Q", 90) + body, struct.pack("<QQQ", 16, 1, 1 << 40)):
        with pytest.raises(ArtifactError):
            read_blob(cut)


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.so").write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(ArtifactError):
        tvm.runtime.load_module(str(tmp_path / "no.so"))
