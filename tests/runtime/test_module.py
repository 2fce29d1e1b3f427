"""`Module`: calls with arrays, tensors and scalars, working memory, errors, saving and loading."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tilewright import te
from tilewright.backend import build
from tilewright.errors import ArtifactError, InputError
from tilewright.runtime.container import read_container, write_container
from tilewright.runtime.module import FORMAT, FunctionInfo, Module, Param
from tilewright.runtime.tensor import Tensor

AXPY = FunctionInfo(
    "axpy",
    (
        Param("x", "float32", (None,), written=False),
        Param("y", "float32", (None,)),
        Param("n", "int64", is_scalar=True),
        Param("a", "float32", is_scalar=True),
    ),
)


@pytest.fixture
def module(kernels: ModuleType) -> Module:
    return Module(kernels.object_of(kernels.AXPY), [AXPY], ["n must not be negative"], threads=2)


def test_call_with_arrays_and_scalars(module: Module) -> None:
    x, y = np.arange(101, dtype=np.float32), np.ones(101, np.float32)
    module["axpy"](x, y, 101, 2.5)
    np.testing.assert_array_equal(y, 2.5 * x + 1)
    module["axpy"](Tensor.from_numpy(x), Tensor.from_numpy(y), np.int64(101), np.float32(-2.5))
    np.testing.assert_array_equal(y, np.ones(101))


def test_read_only_input_is_fine_and_read_only_output_is_not(module: Module) -> None:
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    x.flags.writeable = False
    module["axpy"](x, y, 4, 1.0)
    y.flags.writeable = False
    with pytest.raises(InputError, match=r"axpy: argument y: float32\[\?\] is read-only"):
        module["axpy"](x, y, 4, 1.0)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((1, 2), r"axpy takes 4 arguments \(x: float32\[\?\], .*a: float32\), 2 given"),
        ((np.ones(4), np.ones(4, np.float32), 4, 1.0), r"argument x: float32\[\?\] got float64\[4\]"),
        ((np.ones((2, 2), np.float32), np.ones(4, np.float32), 4, 1.0), r"got float32\[2, 2\]"),
        ((np.ones(8, np.float32)[::2], np.ones(4, np.float32), 4, 1.0), "C-contiguous"),
        (("text", np.ones(4, np.float32), 4, 1.0), "must be a Tensor or array, not str"),
        ((np.ones(4, np.float32), np.ones(4, np.float32), "four", 1.0), "argument n: int64 got 'four'"),
        ((np.ones(4, np.float32), np.ones(4, np.float32), 2**70, 1.0), "argument n: int64 got"),
        ((np.ones(4, np.float32), np.ones(4, np.float32), -1, 1.0), "axpy: n must not be negative"),
    ],
)
def test_wrong_arguments_are_named(module: Module, args: tuple[object, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        module["axpy"](*args)


def test_time_gives_one_figure_a_repeat(module: Module) -> None:
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    times = module["axpy"].time(x, y, 64, 1.0, repeat=3, number=2)
    assert len(times) == 3 and all(t > 0 for t in times)
    assert y[0] == 7  # once to warm up, then 3 * 2


def test_unknown_function_is_named(module: Module) -> None:
    assert "axpy" in module and "gemm" not in module
    with pytest.raises(KeyError, match="no function 'gemm'; it has: axpy"):
        module["gemm"]


def test_working_memory_is_given_and_separate_for_each_worker(kernels: ModuleType) -> None:
    """`shift` writes its worker's number to its scratch slot: with working memory declared, that is the last slot."""
    params = tuple(Param(name, "float32", (8,)) for name in ("a", "b", "y"))
    info = FunctionInfo("shift", params, workspace_bytes=4, worker_workspace_bytes=4, meets=False)
    shift = Module(kernels.object_of(kernels.MODEL), [info], threads=3)["shift"]
    a, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    shift(a, a, y)
    np.testing.assert_array_equal(y, np.full(8, 2))
    shared, private, _ = shift._memory
    assert shared.array().view(np.int32)[0] == 3  # z, the number of workers
    assert [private.array().view(np.int32)[16 * worker] for worker in range(3)] == [0, 1, 2]


def test_save_and_load(module: Module, tmp_path: Path) -> None:
    module.save(tmp_path / "axpy.twm")
    loaded = Module.load(tmp_path / "axpy.twm")
    assert loaded.functions == module.functions and loaded.messages == module.messages
    y = np.zeros(3, np.float32)
    loaded["axpy"](np.ones(3, np.float32), y, 3, 4.0)
    np.testing.assert_array_equal(y, [4, 4, 4])


@pytest.mark.parametrize(("parallel", "threads"), [(True, 2), (False, 1)])
def test_a_kernel_without_shares_wakes_no_worker(parallel: bool, threads: int, tmp_path: Path) -> None:
    a = te.placeholder((256,), name="a")
    b = te.compute((256,), lambda i: a(i) * 2.0, name="b")
    schedule = te.create_schedule(b.op)
    if parallel:
        schedule[b].parallel(b.op.axis[0])
    module = build(te.lower(schedule, [a, b], name="double"), "cpu", threads=2)
    module.save(tmp_path / "module")
    for one in (module, Module.load(tmp_path / "module", threads=2)):
        assert one["double"].threads == threads
        given, taken = np.arange(256, dtype=np.float32), np.empty(256, np.float32)
        one["double"](given, taken)
        np.testing.assert_array_equal(taken, given * 2)


def test_code_that_does_not_link(kernels: ModuleType) -> None:
    with pytest.raises(ArtifactError, match="not object code"):
        Module(b"MZ nonsense", [AXPY])
    with pytest.raises(ArtifactError, match="does not link"):
        Module(kernels.object_of(kernels.AXPY), [FunctionInfo("absent", ())])


def test_a_forged_module_is_an_artifact_error(module: Module, tmp_path: Path) -> None:
    path = tmp_path / "module.tw"
    module.save(path)
    found = read_container(path, FORMAT)
    assert Module.load(path).functions == module.functions
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"functions": 3}, r"manifest.functions must be a list; got 3"),
        ({"functions": [{"name": "f"}]}, r"manifest.functions\[0\] is incomplete: it has no 'params'"),
        ({"functions": [{"name": "f", "params": [{"name": "x"}]}]}, r"functions\[0\].params\[0\] is incomplete"),
        ({"functions": [{"name": "f", "params": [], "workspace_bytes": -1}]}, r"workspace_bytes must be a number"),
        ({"messages": [None]}, r"manifest.messages\[0\] must be a text; got None"),
    ]
    for fields, message in wrong:
        write_container(path, found.manifest | fields, found.object_code, pool=found.pool)
        with pytest.raises(ArtifactError, match=message):
            Module.load(path)
