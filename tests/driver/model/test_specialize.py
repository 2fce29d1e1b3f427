"""Symbolic sizes that come often get an executable of their own: the same numbers, bounded, a clean failure."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.onnx_models import convolution, saved
from tests.test_dynamic import CASES, H, at, model, random
from tilewright import te
from tilewright.errors import InputError, ShapeError, UnsupportedError
from tilewright.relay import op
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Function, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.runtime.executor import Executable
from tilewright.runtime.specializations import HOT_RUNS


def often(exe: Any, *inputs: np.ndarray, runs: int = HOT_RUNS) -> None:
    """Run as often as makes a size hot, and wait for what is compiled then."""
    for _ in range(runs):
        exe(*inputs)
    exe._specializations.wait()


@pytest.mark.parametrize("name", ["conv2d", "dense"])
def test_a_size_that_comes_often_gets_kernels_of_its_own(name: str) -> None:
    build, shapes = CASES[name]
    exe = tw.compile(model(build, shapes), specialize=2, threads=1)
    assert isinstance(exe, Executable) and exe.specializes == 2
    arrays = random(at(shapes, 16, 24))
    (wanted,) = interpret(model(build, at(shapes, 16, 24)), arrays)
    often(exe, *arrays, runs=HOT_RUNS - 1)
    assert exe.specialized_sizes == []
    often(exe, *arrays, runs=1)
    (sizes,) = exe.specialized_sizes
    assert sizes["H"] == 16
    np.testing.assert_allclose(exe(*arrays), wanted, rtol=1e-4, atol=1e-4)
    assert all(row.flops is not None for row in exe._special(arrays).manifest.kernels)
    assert exe.profile({f"x{i}": a for i, a in enumerate(arrays)})[0].flops > 0
    exe.set_threads(2)
    np.testing.assert_allclose(exe(*arrays), wanted, rtol=1e-4, atol=1e-4)
    assert exe._special(arrays).threads == 2
    given = np.empty_like(wanted)
    exe.run({f"x{i}": a for i, a in enumerate(arrays)}, [given])
    np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-4)


def test_at_most_so_many_and_a_dropped_size_still_runs() -> None:
    build, shapes = CASES["softmax"]
    exe = tw.compile(model(build, shapes), specialize=2, threads=1)
    inputs = {h: random(at(shapes, h, 40))[0] for h in (3, 4, 5)}
    for h, x in inputs.items():
        often(exe, x)
        assert [sizes["H"] for sizes in exe.specialized_sizes] == [n for n in (3, 4, 5) if h - 2 < n <= h]
    for h, x in inputs.items():
        (wanted,) = interpret(model(build, at(shapes, h, 40)), [x])
        np.testing.assert_allclose(exe(x), wanted, rtol=1e-5, atol=1e-6)
    often(exe, inputs[3], runs=HOT_RUNS)
    assert 3 not in [sizes["H"] for sizes in exe.specialized_sizes]  # once dropped, it takes twice as many runs
    often(exe, inputs[3], runs=HOT_RUNS)
    assert [sizes["H"] for sizes in exe.specialized_sizes] == [5, 3]


def test_sizes_that_must_agree_are_still_checked() -> None:
    exe = tw.compile(model(lambda x, y: op.add(op.exp(x), y), ((H, 4), (H, 4))), specialize=1)
    x, y = random(((3, 4), (3, 4)))
    often(exe, x, y)
    assert exe.specialized_sizes == [{"H": 3}]
    with pytest.raises(InputError, match=r"input 'x1' has size 5 along axis 0, which must be H = 3"):
        exe(x, random(((5, 4),))[0])


def test_equal_weights_are_shared() -> None:
    exe = tw.compile(model(*CASES["layer_norm"]), specialize=1)
    often(exe, *random(((1, 7, 64),)))
    special = exe._special(random(((1, 7, 64),)))
    assert (
        special is not None and special._weights.__array_interface__["data"] == exe._weights.__array_interface__["data"]
    )


def test_a_failure_leaves_the_general_kernels_with_one_warning(tmp_path: Path) -> None:
    path = saved(convolution(), tmp_path / "model.onnx")
    exe = tw.compile(path, input_shapes={"image": (1, 3, "H", "W")}, specialize=1)
    path.write_bytes(b"something else")
    (x,) = random(((1, 3, 8, 8),))
    first = exe(x)
    often(exe, x, runs=HOT_RUNS - 1)  # the last of these begins to compile
    with pytest.warns(RuntimeWarning, match=r"stays general: .*model\.onnx has changed since"):
        np.testing.assert_array_equal(exe(x), first)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        often(exe, x, runs=2 * HOT_RUNS)
    assert exe.specialized_sizes == []


def test_a_loaded_executable_does_not_specialize(tmp_path: Path) -> None:
    exe = tw.compile(model(*CASES["softmax"]), specialize=3)
    (x,) = random(((3, 4),))
    often(exe, x)
    exe.save(tmp_path / "model.tw")
    loaded = tw.load(tmp_path / "model.tw")
    assert isinstance(loaded, Executable) and (loaded.specializes, loaded.specialized_sizes) == (0, [])
    np.testing.assert_allclose(loaded(x), exe(x), rtol=1e-6)
    fixed = tw.compile(model(CASES["softmax"][0], ((3, 4),)), specialize=3)
    assert isinstance(fixed, Executable) and fixed.specializes == 0


@pytest.mark.parametrize("executor", ["vm", "aot"])
def test_other_executors_do_not_specialize(executor: str) -> None:
    with pytest.raises(UnsupportedError, match=f'specialize=1: this model runs on the executor "{executor}"'):
        tw.compile(model(*CASES["softmax"]), executor=executor, specialize=1)


def test_input_shapes_fix_the_sizes_of_a_relay_module() -> None:
    build, shapes = CASES["conv2d"]
    exe = tw.compile(model(build, shapes), input_shapes={"x0": (1, 3, 17, "W")})
    assert str(exe.inputs[0]) == "x0: float32[1, 3, 17, W]"
    (x,) = random(at(shapes, 17, 23))
    np.testing.assert_allclose(exe(x), interpret(model(build, at(shapes, 17, 23)), [x])[0], rtol=1e-4, atol=1e-4)


def test_input_shapes_that_a_relay_module_cannot_have() -> None:
    build, shapes = CASES["conv2d"]
    with pytest.raises(ShapeError, match=r"\(1, 4, 17, 17\) is given for the input 'x0', which is Tensor"):
        tw.compile(model(build, shapes), input_shapes={"x0": (1, 4, 17, 17)})
    with pytest.raises(ShapeError, match="for the input 'y', which does not exist; there are x0"):
        tw.compile(model(build, shapes), input_shapes={"y": (1,)})
    n = te.size_var("n")
    twice = Var("x", TensorType((n, n)))
    with pytest.raises(ShapeError, match=r"\(2, 3\) is given for the input 'x'"):
        tw.compile(IRModule.from_expr(Function([twice], op.exp(twice))), input_shapes={"x": (2, 3)})


@pytest.mark.parametrize("value", [-1, True, "4", 1.5])
def test_the_number_of_sizes_is_checked(value: Any) -> None:
    with pytest.raises(InputError, match="an integer of 0 or more"):
        tw.compile(model(*CASES["dense"]), specialize=value)
