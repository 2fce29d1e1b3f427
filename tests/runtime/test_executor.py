"""`Executable`: calling by position and by name, input checks, threads, timing, profiling, saving and loading."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import ArtifactError, InputError
from tilewright.load import load
from tilewright.runtime.executor import Executable
from tilewright.runtime.plan import KernelCall
from tilewright.runtime.signature import TensorSpec
from tilewright.runtime.tensor import Tensor
from tilewright.support.dtype import DType

W = np.arange(8, dtype=np.float32)
B = np.full(8, 0.5, np.float32)
X = np.arange(8, dtype=np.float32).reshape(2, 4) - 3
Y = X * W.reshape(2, 4) + 0.5


@pytest.fixture
def exe(kernels: ModuleType) -> Executable:
    return Executable(kernels.object_of(kernels.MODEL), kernels.MANIFEST, [W, B], threads=2)


def test_call_by_position_and_by_name(exe: Executable) -> None:
    for y, z in (exe(X), exe.run({"x": X})):
        np.testing.assert_array_equal(y, Y)
        assert z.shape == () and z == 2


def test_an_executable_describes_inputs_outputs_and_threads(exe: Executable, kernels: ModuleType) -> None:
    (spec,) = exe.inputs
    assert (spec.name, spec.shape, spec.dtype, str(spec)) == ("x", (2, 4), "float32", "x: float32[2, 4]")
    assert [spec.name for spec in exe.outputs] == ["y", "z"]
    assert (exe.threads, exe.target, exe.version) == (2, "llvm -mcpu=test", "0.1.0")
    assert repr(exe) == "Executable(x: float32[2, 4] -> y: float32[2, 4], z: int32[]; 2 threads)"


def test_single_output_comes_as_an_array(kernels: ModuleType) -> None:
    manifest = replace(kernels.MANIFEST, entry="scale", inputs=(), outputs=(), worker_workspace_bytes=0, kernels=())
    assert Executable(kernels.object_of(kernels.MODEL), manifest).outputs == ()


def test_outputs_are_fresh_and_aligned(exe: Executable) -> None:
    first, second = exe(X)[0], exe(X + 1)[0]
    np.testing.assert_array_equal(first, Y)
    assert first.ctypes.data % 64 == 0 and not np.shares_memory(first, second)


def test_outputs_can_be_given(exe: Executable) -> None:
    y, z = np.empty((2, 4), np.float32), np.empty((), np.int32)
    results = exe.run({"x": X}, outputs=[y, z])
    assert results[0] is y and results[1] is z
    np.testing.assert_array_equal(y, Y)
    with pytest.raises(InputError, match=r"1 output arrays given, the model has y: float32\[2, 4\], z: int32\[\]"):
        exe.run({"x": X}, outputs=[y])
    with pytest.raises(InputError, match="output 'y' must be filled into a writable"):
        exe.run({"x": X}, outputs=[np.empty((4, 2), np.float32).T, z])


class _DLPackOnly:
    """An array that offers DLPack and nothing else, as a foreign framework's would."""

    def __init__(self, array: np.ndarray[Any, Any], device: int = 1) -> None:
        self._array, self._device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self._device, 0)


@pytest.mark.parametrize(
    "value",
    [
        X.tolist(),
        Tensor.from_numpy(X),
        np.asfortranarray(X),
        np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 4),
        memoryview(X),
        _DLPackOnly(X),
    ],
    ids=["list", "Tensor", "column order", "unaligned", "buffer", "dlpack"],
)
def test_kinds_of_input(exe: Executable, value: Any) -> None:
    np.testing.assert_array_equal(exe(value)[0], Y)


def test_a_torch_tensor_is_an_input(exe: Executable) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    np.testing.assert_array_equal(exe(torch.from_numpy(X.copy()))[0], Y)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"input 'x' is missing; the model expects x: float32\[2, 4\]"),
        ({"x": X, "q": X}, r"the model has no input 'q'; it expects x: float32\[2, 4\]"),
        ({"x": X.astype(np.float64)}, r"wrong dtype: float64\[2, 4\] given, float32\[2, 4\] expected"),
        ({"x": X.T}, r"wrong shape: float32\[4, 2\] given, float32\[2, 4\] expected"),
        ({"x": [[1, 2], [3]]}, r"a list cannot be used as float32\[2, 4\]"),
        ({"x": None}, "a NoneType cannot be used"),
        ({"x": _DLPackOnly(X, device=2)}, "not in CPU memory"),
        ([X], "inputs must be a mapping"),
    ],
)
def test_wrong_inputs_are_named(exe: Executable, values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        exe.run(values)


def test_wrong_number_of_positional_inputs(exe: Executable) -> None:
    with pytest.raises(InputError, match="takes 1 inputs, 2 given"):
        exe(X, X)


def test_a_failed_check_of_the_model_is_an_input_error(exe: Executable) -> None:
    with pytest.raises(InputError, match="the model stopped: the first output is not a number"):
        exe(np.full((2, 4), np.nan, np.float32))
    np.testing.assert_array_equal(exe(X)[0], Y)


def test_the_number_of_threads_changes_no_result(exe: Executable) -> None:
    for threads in (1, 3, 2):
        exe.set_threads(threads)
        y, z = exe(X)
        np.testing.assert_array_equal(y, Y)
        assert (exe.threads, int(z)) == (threads, threads)
    small = Executable(exe.object_code, replace(exe.manifest, max_workers=1), exe._weights, threads=4)
    assert small.threads == 1
    for bad in (0, -1, True, 1.5):
        with pytest.raises(InputError, match="the number of threads must be"):
            exe.set_threads(bad)  # type: ignore[arg-type]


def test_concurrent_runs_of_two_executables(kernels: ModuleType) -> None:
    exes = [Executable(kernels.object_of(kernels.MODEL), kernels.MANIFEST, [W, B], threads=2) for _ in range(2)]
    wrong: list[int] = []

    def work(index: int) -> None:
        for i in range(200):
            if not np.array_equal(exes[index % 2](X + i)[0], (X + i) * W.reshape(2, 4) + 0.5):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not wrong


def test_time_returns_seconds_per_run(exe: Executable) -> None:
    times = exe.time({"x": X}, repeat=5)
    assert len(times) == 5 and all(0 < t < 1 for t in times)


def test_profile_names_kernels_and_sources(exe: Executable) -> None:
    rows = exe.profile({"x": X}, repeat=3)
    assert [(row.kernel, row.source) for row in rows] == [("scale", "Mul_0"), ("shift", "Add_1, Size_2")]
    assert all(row.seconds > 0 for row in rows)
    assert list(exe._program.memory.scratch.array().view(np.int32)[::16]) == [
        0,
        1,
    ]  # scratch of its own for each worker


def test_profile_of_a_manifest_that_does_not_fit_the_code(kernels: ModuleType) -> None:
    manifest = replace(kernels.MANIFEST, kernels=(KernelCall(name="gone"),))
    exe = Executable(kernels.object_of(kernels.MODEL), manifest, [W, B])
    with pytest.raises(ArtifactError, match="kernel 'gone' of the manifest is not in"):
        exe.profile({"x": X})


def test_weights_as_one_buffer(kernels: ModuleType) -> None:
    block = np.zeros(96, np.uint8)
    block[:32], block[64:] = W.view(np.uint8), B.view(np.uint8)
    for weights in (block, block.tobytes(), memoryview(block)):
        exe = Executable(kernels.object_of(kernels.MODEL), kernels.MANIFEST, weights)
        np.testing.assert_array_equal(exe(X)[0], Y)


def test_weights_that_do_not_fit_the_manifest(kernels: ModuleType) -> None:
    code = kernels.object_of(kernels.MODEL)
    with pytest.raises(ArtifactError, match="lists 2 weights, 1 were given"):
        Executable(code, kernels.MANIFEST, [W])
    with pytest.raises(ArtifactError, match="weight 'b' has 64 bytes, the manifest says 32"):
        Executable(code, kernels.MANIFEST, [W, B.astype(np.float64)])


def test_bfloat16_and_bool_specs(kernels: ModuleType) -> None:
    manifest = replace(kernels.MANIFEST, inputs=(TensorSpec("x", (2,), DType("bfloat16")),))
    exe = Executable(kernels.object_of(kernels.MODEL), manifest, [W, B])
    with pytest.raises(InputError, match=r"float32\[2\] given, bfloat16\[2\] expected"):
        exe(np.zeros(2, np.float32))
    assert exe.inputs[0].numpy == ml_dtypes.bfloat16


def test_save_and_load(exe: Executable, tmp_path: Path) -> None:
    path = tmp_path / "model.tw"
    exe.save(path)
    loaded = load(path, threads=1)
    y, z = loaded(X)
    np.testing.assert_array_equal(y, Y)
    assert int(z) == 1 and loaded.inputs == exe.inputs and not loaded._weights.flags.writeable
    loaded.save(path)  # over the file its own weights are mapped from
    np.testing.assert_array_equal(loaded(X)[0], Y)
    np.testing.assert_array_equal(load(path)(X)[0], Y)
    assert os.listdir(tmp_path) == ["model.tw"]


def test_loading_and_running_imports_no_compiler(exe: Executable, tmp_path: Path) -> None:
    exe.save(tmp_path / "model.tw")
    np.save(tmp_path / "x.npy", X)
    script = """
import sys
import numpy as np
from tilewright.load import load
y, z = load("model.tw")(np.load("x.npy"))
np.save("y.npy", y)
allowed = ("load", "runtime", "support", "errors")
print(*[m for m in sys.modules if m in ("onnx", "onnxruntime", "torch", "click", "llvmlite") or
        m.startswith("tilewright.") and m.split(".")[1] not in allowed])
"""
    environment = {**os.environ, "TILEWRIGHT_CACHE": "0"}  # so that the worker pool's code comes with the model
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "" and done.stderr == ""
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), Y)


def test_notebooks_show_a_table(exe: Executable) -> None:
    shown = exe._repr_html_()
    assert "x: float32[2, 4]" in shown and "<th>threads</th><td>2</td>" in shown


def test_a_mapping_in_place_of_an_array_is_told_from_arrays_by_name(exe: Executable) -> None:
    with pytest.raises(InputError, match=r"a dict is no array; call a model .* executable.run\(\{'x': array\}\)"):
        exe({"x": X})
