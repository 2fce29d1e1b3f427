"""A model with more than 2 GB of weights: compiled, run, saved and loaded, without many copies in memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

WIDTH, LAYERS = 14016, 3
GIB = 2**30

PROGRAM = """
import re, sys
import numpy as np
import tilewright as tw

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024

step, model, artifact, results = sys.argv[1:]
exe = tw.compile(model, cache=False) if step == "compile" else tw.load(artifact)
print(peak())
outputs = exe(np.load(results + "/x.npy"))
if step == "compile":
    exe.save(artifact)
np.save(f"{results}/{step}.npy", outputs)
print(peak())
"""


def large_model(folder: Path) -> Path:
    """Three products with square matrices of 2.2 GiB together, in one external file; x float32 [1, WIDTH]."""
    rows = np.random.default_rng(0).standard_normal((64, WIDTH), np.float32) / np.float32(WIDTH) ** 0.5
    model = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)])
    graph, size = model.graph, WIDTH * WIDTH * 4
    graph.name = "large"
    with (folder / "weights.bin").open("wb") as file:
        for layer in range(LAYERS):
            weight = graph.initializer.add(name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH])
            weight.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "weights.bin"), ("offset", layer * size), ("length", size)):
                weight.external_data.add(key=key, value=str(value))
            graph.node.append(helper.make_node("Gemm", [f"x{layer}", weight.name], [f"x{layer + 1}"], transB=1))
            for row in range(0, WIDTH, 64):
                file.write(np.roll(rows, 7 * row + layer, axis=1).tobytes())
    for infos, name in ((graph.input, "x0"), (graph.output, f"x{LAYERS}")):
        infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, WIDTH]))
    (folder / "large.onnx").write_bytes(model.SerializeToString())
    return folder / "large.onnx"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    shutil.rmtree(tmp_path)


def available_memory() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def run(*arguments: object) -> list[int]:
    """The peaks of memory that `PROGRAM` prints."""
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "TILEWRIGHT_CACHE": "0"}
    )
    return [int(word) for word in done.stdout.split()]


@pytest.mark.long
def test_more_than_two_gigabytes(folder: Path) -> None:
    if available_memory() < 10 * GIB or shutil.disk_usage(folder).free < 8 * GIB:
        pytest.skip("needs 10 GiB of free memory and 8 GiB of free disk")
    model, artifact = large_model(folder), folder / "large.tw"
    np.save(folder / "x.npy", x := np.random.default_rng(1).standard_normal((1, WIDTH), np.float32))
    compiling, _ = run("compile", model, artifact, folder)
    assert compiling < 3.5 * 2.2 * GIB  # the file's pages, the packed weights, the block that they run from
    assert artifact.stat().st_size > 2**31
    loading, running = run("load", model, artifact, folder)
    assert loading < 0.2 * GIB and running < 1.2 * 2.2 * GIB  # mapped, never copied
    np.testing.assert_array_equal(np.load(folder / "load.npy"), np.load(folder / "compile.npy"))
    artifact.unlink()
    wanted = x[0]
    for layer in range(LAYERS):
        positions = {"offset": layer * WIDTH * WIDTH * 4, "shape": (WIDTH, WIDTH)}
        wanted = np.memmap(folder / "weights.bin", np.float32, "r", **positions) @ wanted  # type: ignore[call-overload]
    np.testing.assert_allclose(np.load(folder / "load.npy")[0], wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())
    command = [sys.executable, "-m", "tilewright.cli.main", "verify", str(model), "--no-cache", "--at", "x1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "ok       x1" in done.stdout
