"""The template of products on tensor cores: results, choices, and what the vendor's assembler makes of its kernels."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import build, te, tir
from tilewright.backend.gpu.schedule.dispatch import template_of
from tilewright.backend.gpu.schedule.machine import machine_of
from tilewright.backend.gpu.schedule.tensor_core import TENSOR_CORE, fits_tensor_core, tensor_core_gemm, workload
from tilewright.codegen.build_device import emit_device
from tilewright.errors import EnvironmentError_, ScheduleError
from tilewright.runtime.gpu.nvrtc import compile_cubin
from tilewright.target import DeviceTarget, Target
from tilewright.topi import nn
from tilewright.topi.schedule.stages import computes, is_reduction


def device(arch: str) -> DeviceTarget:
    """The target of an architecture."""
    target = Target(f"cuda -arch={arch}")
    assert isinstance(target, DeviceTarget)
    return target


def convolution(
    image: tuple[int, ...], filters: int, window: int, stride: int = 1, padding: int = 0, dtype: str = "float16"
) -> list[te.Tensor]:
    """NHWC, with bias, a residual and an activation behind it."""
    batch, height, width, channels = image
    data, weight = te.placeholder(image, dtype, "data"), te.placeholder((filters, window, window, channels), dtype, "w")
    out = [batch, *((n + 2 * padding - window) // stride + 1 for n in (height, width)), filters]
    bias, residual = te.placeholder((filters,), dtype, "bias"), te.placeholder(out, dtype, "residual")
    read = nn.pad(data, (0, padding, padding, 0)) if padding else data
    ry, rx, rc = (te.reduce_axis((0, n), name) for n, name in ((window, "ry"), (window, "rx"), (channels, "rc")))

    def body(b: Any, y: Any, x: Any, o: Any) -> Any:
        value = read(b, y * stride + ry, x * stride + rx, rc).astype("float32")
        return te.sum(value * weight(o, ry, rx, rc).astype("float32"), axis=[ry, rx, rc])

    sums = te.compute(out, body, "conv")

    def last(*i: Any) -> Any:
        value = sums(*i) + bias(i[-1]).astype("float32") + residual(*i).astype("float32")
        return tir.maximum(value, 0.0).astype(dtype)

    return [data, weight, bias, residual, te.compute(out, last, "relu")]


def convolved(args: list[te.Tensor], values: list[Any], stride: int, padding: int) -> Any:
    """The result by NumPy."""
    data, weight, bias, residual = (v.astype("float32") for v in values)
    data = np.pad(data, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    rows, columns = residual.shape[1:3]
    total = residual + bias
    for i in range(weight.shape[1]):
        for j in range(weight.shape[2]):
            part = data[:, i : i + (rows - 1) * stride + 1 : stride, j : j + (columns - 1) * stride + 1 : stride]
            total += part @ weight[:, i, j].T
    return np.maximum(total, 0)


def shape(tensor: te.Tensor) -> tuple[int, ...]:
    """The shape as integers."""
    return tuple(int(n.value) for n in tensor.shape)


def run(args: list[te.Tensor], values: list[Any], **config: int) -> Any:
    """The result by the emulation, of the configuration that ranks first or, of the space, one with these values."""
    target, out = device("sm_80"), args[-1]
    (anchor,) = [t for t in computes([out]) if is_reduction(t)]
    space = TENSOR_CORE.ranked(workload(anchor, out), target)
    chosen = next((c for _, c in space.ranked if all(c[k] == v for k, v in config.items())), None)
    assert chosen is not None, "the space has no such configuration"
    func = te.lower(tensor_core_gemm(out, target, chosen), args, name="f", target=target)
    result = np.zeros(shape(out), str(out.dtype))
    build(func, "cuda -emulate=1")["f"](*values, result)
    return result.astype("float32")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("image", "filters", "window", "stride", "padding"),
    [
        ((1, 8, 8, 16), 32, 3, 1, 1),
        ((2, 9, 7, 16), 40, 3, 2, 1),
        ((1, 11, 11, 3), 16, 7, 2, 3),
        ((3, 5, 5, 24), 48, 1, 1, 0),
    ],
)
def test_convolutions_agree_with_numpy(
    image: tuple[int, ...], filters: int, window: int, stride: int, padding: int
) -> None:
    """With borders, strides, few channels and ragged sizes."""
    args, rng = convolution(image, filters, window, stride, padding), np.random.default_rng(1)
    values = [(rng.standard_normal(shape(t)) / 2).astype("float16") for t in args[:-1]]
    found = run(args, values)
    np.testing.assert_allclose(found, convolved(args, values, stride, padding), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("config", [{}, {"rows": 128, "columns": 128}, {"rows": 16, "stages": 2}, {"parts": 4}])
@pytest.mark.sample(2)
def test_stacks_agree_with_numpy(config: dict[str, int]) -> None:
    """Products of stacks of matrices, the second transposed, whatever the tiles."""
    depth = 512 if "parts" in config else 64
    a, b = te.placeholder((3, 40, depth), "float16", "a"), te.placeholder((3, 72, depth), "float16", "b")
    args = [a, b, nn.batch_matmul(a, b)]
    rng = np.random.default_rng(2)
    x, y = (rng.standard_normal(shape(t)).astype("float16") for t in (a, b))
    expected = x.astype("float32") @ y.astype("float32").transpose(0, 2, 1)
    np.testing.assert_allclose(run(args, [x, y], **config), expected, rtol=2e-3, atol=2e-2)


def test_the_last_block_adds_up_parts_in_their_order() -> None:
    """A convolution of ragged sizes in one launch and in two: the same bits, and again in a second run."""
    args, rng = convolution((1, 7, 7, 64), 40, 3, 1, 1), np.random.default_rng(7)
    values = [(rng.standard_normal(shape(t)) / 4).astype("float16") for t in args[:-1]]
    found = [run(args, values, rows=32, columns=32, parts=3, joined=joined) for joined in (0, 1, 1)]
    np.testing.assert_allclose(found[0], convolved(args, values, 1, 1), rtol=2e-3, atol=2e-3)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_symbolic_rows_are_any_number_at_run_time() -> None:
    """The grid follows the array's size; the last tile is cut."""
    a, b = te.placeholder((te.size_var("n"), 64), "float16", "a"), te.placeholder((48, 64), "float16", "b")
    out, target = nn.dense(a, b), device("sm_80")
    module = build(te.lower(tensor_core_gemm(out, target), [a, b, out], name="f", target=target), "cuda -emulate=1")
    rng = np.random.default_rng(4)
    for rows in (1, 70):
        x, y = (rng.standard_normal(s).astype("float16") for s in ((rows, 64), (48, 64)))
        found = np.zeros((rows, 48), "float16")
        module["f"](x, y, found)
        expected = x.astype("float32") @ y.astype("float32").T
        np.testing.assert_allclose(found.astype("float32"), expected, rtol=2e-3, atol=2e-2)


def test_dense_of_bytes_agrees_with_numpy() -> None:
    """Sums of int32 are exact."""
    a, b = te.placeholder((50, 100), "int8", "a"), te.placeholder((64, 100), "int8", "b")
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-128, 128, shape(t)).astype("int8") for t in (a, b))
    found = run([a, b, nn.dense(a, b, "int32")], [x, y])
    np.testing.assert_array_equal(found, x.astype("int32") @ y.astype("int32").T)


def test_tensor_cores_are_taken_where_they_fit() -> None:
    """Of float16 from compute capability 8.0 on; not for float32 nor for a vector."""

    def fits(rows: int, dtype: str, arch: str) -> bool:
        a, b = te.placeholder((rows, 64), dtype, "a"), te.placeholder((64, 64), dtype, "b")
        out = nn.dense(a, b)
        (anchor,) = [t for t in computes([out]) if is_reduction(t)]
        found = template_of([out], device(arch))
        assert (found is not None and found[0] is TENSOR_CORE) == fits_tensor_core(anchor, out, device(arch))
        return fits_tensor_core(anchor, out, device(arch))

    assert fits(64, "float16", "sm_80") and fits(64, "bfloat16", "sm_90a")
    assert not fits(64, "float32", "sm_80") and not fits(64, "float16", "sm_75") and not fits(1, "float16", "sm_80")
    a = te.placeholder((8, 8), "float32", "a")
    with pytest.raises(ScheduleError, match="out is no product that tensor cores of cuda"):
        tensor_core_gemm(te.compute((8, 8), lambda i, j: a(i, j) + 1.0, "out"), device("sm_80"))


def test_choices_follow_the_machine() -> None:
    """Large products have large tiles, small ones enough blocks for the multiprocessors."""

    def chosen(size: int) -> Any:
        a, b = te.placeholder((size, size), "float16", "a"), te.placeholder((size, size), "float16", "b")
        out = nn.dense(a, b)
        (anchor,) = [t for t in computes([out]) if is_reduction(t)]
        return TENSOR_CORE.ranked(workload(anchor, out), device("sm_80")).default

    large, small = chosen(4096), chosen(512)
    assert large["rows"] * large["columns"] >= 128 * 128
    assert (512 // small["rows"]) * (512 // small["columns"]) >= 64


@pytest.mark.parametrize(("arch", "has"), [("sm_80", False), ("sm_90a", True), ("sm_100a", False), ("sm_120a", False)])
def test_only_hopper_multiplies_by_warpgroups(arch: str, has: bool) -> None:
    """The assembler refuses `wgmma` for every other architecture, newer ones among them."""
    a, b = (te.placeholder((512, 512), "float16", name) for name in "ab")
    out = nn.dense(a, b)
    (anchor,) = [t for t in computes([out]) if is_reduction(t)]
    space = TENSOR_CORE.space(workload(anchor, out), device(arch))
    assert any(config["warpgroups"] for config in space) == has


# --------------------------------------------------------------------------------------------- the vendor's assembler
def cuobjdump() -> str:
    """The disassembler. Skips the test where it is missing."""
    found = shutil.which("cuobjdump")
    if found is None:
        paths = Path(np.__file__).parent.parent.glob("nvidia/*/bin/cuobjdump")
        found = next((str(path) for path in paths), None)
    if found is None:
        pytest.skip("needs cuobjdump: pip install nvidia-cuda-cuobjdump")
    return found


def assembled(args: list[te.Tensor], arch: str, folder: Path) -> tuple[Counter[str], int, int]:
    """Instructions of the kernel by name, registers of a thread, and bytes of shared memory."""
    target = device(arch)
    func = te.lower(tensor_core_gemm(args[-1], target), args, name="f", target=target)
    source, (info,) = emit_device([func], target)
    try:
        code = compile_cubin(source, arch)
    except EnvironmentError_ as error:
        pytest.skip(str(error))
    path = folder / "f.cubin"
    path.write_bytes(code)

    def dumped(option: str) -> str:
        return subprocess.run([cuobjdump(), option, str(path)], capture_output=True, text=True, check=True).stdout

    names = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9]+)", dumped("-sass"))
    registers = re.search(r"Function f_kernel0:\s+REG:(\d+)", dumped("-res-usage"))
    assert registers is not None
    return Counter(names), int(registers[1]), info.launches[0]["shared_bytes"]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("image", "filters", "window", "stride", "padding"),
    [((1, 56, 56, 64), 64, 3, 1, 1), ((32, 14, 14, 1024), 256, 1, 1, 0), ((1, 7, 7, 512), 512, 3, 1, 1)],
)
def test_kernels_are_tensor_core_code(
    image: tuple[int, ...], filters: int, window: int, stride: int, padding: int, arch: str, tmp_path: Path
) -> None:
    """Matrix instructions, loads of fragments and asynchronous copies; no spills; a quarter of the threads resident."""
    args = convolution(image, filters, window, stride, padding)
    counts, registers, shared = assembled(args, arch, tmp_path)
    assert counts["LDGSTS"] and (counts["HGMMA"] or (counts["HMMA"] and counts["LDSM"]))
    assert counts["HGMMA"] == 0 or arch == "sm_90a"
    assert not counts["LDL"] and not counts["STL"]
    (anchor,) = [t for t in computes([args[-1]]) if is_reduction(t)]
    config = TENSOR_CORE.ranked(workload(anchor, args[-1]), device(arch)).default
    machine, threads = machine_of(device(arch)), 32 * config["warps_rows"] * config["warps_columns"]
    blocks = min(
        machine.threads // threads,
        machine.registers // (-(-registers // 8) * 8 * threads),
        machine.shared_per_multiprocessor // (shared + machine.shared_reserved),
    )
    assert blocks * threads >= machine.threads // 4
