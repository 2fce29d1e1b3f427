"""Every example runs as its docstring says, in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import tilewright as tw
from tests.codegen.source.programs import require_target
from tests.onnx_models import convolution, perceptron, saved
from tests.service.page.browser import browser, missing
from tilewright.compile import export_source

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, *arguments: object) -> str:
    """The output of the example."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_tested() -> None:
    text = Path(__file__).read_text()
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(re.findall(r"\brun\(\"(\w+)\"", text))
    assert {path.stem for path in EXAMPLES.glob("*.c")} == set(re.findall(r"EXAMPLES / \"(\w+)\.c\"", text))


def test_schedule_gemm() -> None:
    out = run("schedule_gemm", "--size", 64)
    assert [line[0] for line in out.splitlines() if re.match(r"\d\. ", line)] == list("12345")
    assert len(re.findall(r"^-> .* GFLOP/s$", out, re.MULTILINE)) == 5


def test_schedule_gemm_prints_every_stage() -> None:
    out = run("schedule_gemm", "--size", 64, "--stages", 3)
    stages = re.findall(r"^# after (\w+)$", out, re.MULTILINE)
    assert stages[0] == "schedule_to_tir" and stages[-1] == "remove_no_op"
    assert "define " in out[out.index("# LLVM IR") :]


def test_schedule_gemm_draws_every_step(tmp_path: Path) -> None:
    out = run("schedule_gemm", "--size", 64, "--pictures", tmp_path)
    assert "5 pictures" in out
    assert len(list(tmp_path.glob("*.svg"))) == 5
    page = (tmp_path / "steps.html").read_text(encoding="utf-8")
    assert page.count("<svg ") == 5 and "C.local: at i_outer of C" in page


def test_any_model(tmp_path: Path) -> None:
    path = saved(convolution(), tmp_path / "model.onnx")
    assert run("any_model", path).startswith("features: float32[1, 16, 1, 1]")
    assert run("any_model", path, "--outputs", "first_relu").startswith("first_relu: float32[1, ")


def test_te_primitives() -> None:
    assert "all 10 agree with NumPy" in run("te_primitives")


def test_te_reduction() -> None:
    assert run("te_reduction", "--size", 200).count("agree") == 3


def test_te_scan() -> None:
    assert run("te_scan").count("agree with NumPy") == 3


def test_te_tensorize() -> None:
    out = run("te_tensorize")
    assert "agrees with NumPy" in out and "refused: tensorize of axis i_inner in stage D with gemv" in out


def test_te_extern() -> None:
    assert "agree with NumPy" in run("te_extern")


@pytest.mark.long
@pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="emulation needs a C++ compiler")
def test_gpu_tensor_core_gemm() -> None:
    out = run("gpu_tensor_core_gemm")
    assert "nvcuda::wmma::mma_sync(" in out and "128 x 64 x 96 on cuda -emulate=1 agrees with NumPy" in out
    out = run("gpu_tensor_core_gemm", "--template", "--size", 40, 72, 96)
    assert "tilewright_mma_f16(" in out and "40 x 72 x 96 on cuda -emulate=1 agrees with NumPy" in out


@pytest.mark.long
@pytest.mark.parametrize("target", ["opencl", "cuda -emulate=1"])
def test_gpu_convolution(target: str) -> None:
    # 40 columns: the second block of a row is cut off, also where it fills shared memory.
    out = run("gpu_convolution", "--target", require_target(target), "--shape", 8, 32, 3, 40)
    assert f"8 to 32 channels of 3 x 40 on {target} agree with NumPy" in out


def test_run_model(tmp_path: Path) -> None:
    assert "the same bits come out: True" in run("run_model")
    assert "first_conv" in run("run_model", saved(convolution(), tmp_path / "c.onnx"))
    dynamic = saved(perceptron("n"), tmp_path / "p.onnx")
    assert "y: float32[3, 4]" in run("run_model", dynamic, "x:[3,8]")


@pytest.mark.long
def test_identify_files(tmp_path: Path) -> None:
    for package in ("magika", "onnxruntime"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the package {package} is not installed")
    (tmp_path / "page.html").write_text("<!DOCTYPE html><html><body><p>Good morning</p></body></html>\n" * 4)
    out = run("identify_files", tmp_path / "page.html", EXAMPLES / "identify_files.py")
    assert re.search(r"^html +html +\d\.\d+ +page\.html$", out, re.MULTILINE)
    assert re.search(r"^python +python +\d\.\d+ +identify_files\.py$", out, re.MULTILINE)
    assert "the same label on 2 of 2 files" in out
    assert re.search(
        r"^one file, \d+ threads, in turns of 3 calls after an untimed one, as `tilewright bench` does:$", out, re.M
    )
    times = dict(re.findall(r"^(\w+) +minimum +(\d+\.\d+) ms   median +\d+\.\d+ ms$", out, re.MULTILINE))
    assert times.keys() == {"tilewright", "onnxruntime"}


def test_te_latency_hiding() -> None:
    cycles = [int(n) for n in re.findall(r"^\d virtual threads?: (\d+) cycles", run("te_latency_hiding"), re.MULTILINE)]
    assert len(cycles) == 2 and cycles[1] < 0.65 * cycles[0]


def c_compiler() -> list[str]:
    """A C compiler of this machine, or ziglang's."""
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    pytest.skip("there is no C compiler: neither cc nor the package ziglang")


@pytest.mark.parametrize("form", ["model.c", "libmodel.so"])
def test_call_from_c(form: str, tmp_path: Path) -> None:
    compiler = c_compiler()
    model, x = perceptron(), np.random.default_rng(0).standard_normal((1, 8)).astype(np.float32)
    if form == "model.c":
        export_source(model, tmp_path / form)
        linked = ["-fwrapv", form, "-lm"]
    else:
        tw.compile(model, executor="aot").export_library(tmp_path / form)
        linked = [form, "-Wl,-rpath,.", "-DTHREADS=2"]
    strict = ["-std=c99", "-O1", "-Wall", "-Wextra", "-pedantic", "-I.", str(EXAMPLES / "call_from_c.c")]
    subprocess.run([*compiler, *strict, *linked, "-o", "call_from_c"], check=True, cwd=tmp_path)
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    command = [str(tmp_path / "call_from_c"), "x.bin", "8", "4"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = np.float32(done.stdout.split())
    np.testing.assert_allclose(found, tw.compile(model)(x)[0], rtol=1e-5, atol=1e-6)
    short = subprocess.run([*command[:2], "9", "4"], capture_output=True, text=True, cwd=tmp_path)
    assert short.returncode == 1 and "does not hold 9 numbers" in short.stderr


def test_train_digits() -> None:
    pytest.importorskip("sklearn")
    text = run("train_digits", "--network", "lstm", "--epochs", 2, "--optimizer", "sgd", "--alone")
    assert re.search(r"epoch 2  tilewright: loss [012]\.\d+ accuracy 0\.\d+", text)
    assert re.search(r"tilewright: \d+\.\d\d ms a step of 64 images", text)


@pytest.mark.parametrize(("engine", "module"), [("gloo", "torch"), ("mpi", "mpi4py")])
def test_train_distributed(engine: str, module: str, tmp_path: Path) -> None:
    for needed in ("sklearn", "safetensors", module):
        pytest.importorskip(needed)
    arguments = ["--engine", engine, "--epochs", 2, "--folder", tmp_path]
    losses = [float(loss) for loss in re.findall(r"^epoch \d  loss (\S+)$", run("train_distributed", *arguments), re.M)]
    assert len(losses) == 2 and losses[1] < 0.6 < losses[0]
    assert {path.name for path in tmp_path.iterdir()} == {"rank-0", "rank-1"}


def test_web_digits(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    assert re.match(r"[89]\d\.\d % of 360 test images are right", run("web_digits", tmp_path / "web", "--epochs", 3))
    assert {"index.html", "digits.mjs", "digits.wasm"} <= {path.name for path in (tmp_path / "web").iterdir()}
    if reason := missing():
        pytest.skip(f"the page is not opened: {reason}")
    with served(tmp_path / "web") as url, browser(tmp_path) as page:
        page.open(url)
        page.wait("return /^Loaded/.test(document.getElementById('about').textContent)")
        page.run(_STROKES, [[80, 60], [200, 60], [150, 140], [120, 240]])
        assert page.wait("return document.body.dataset.best") == "7"
        assert "in a worker" in page.run("return document.getElementById('about').textContent")
        page.click("button", "Clear")
        assert page.run("return document.body.dataset.best") == ""


#: Draws a line through points of the paper, as a pen does.
_STROKES = """
const paper = document.getElementById("paper"), { left, top } = paper.getBoundingClientRect();
const [first, ...rest] = arguments[0];
const draw = (type, [x, y], buttons) => paper.dispatchEvent(new PointerEvent(type,
  { clientX: left + paper.clientLeft + x, clientY: top + paper.clientTop + y, buttons, pointerId: 1, bubbles: true }));
draw("pointerdown", first, 1);
let from = first;
for (const to of rest) {
  for (let i = 1; i <= 10; i++) draw("pointermove", from.map((at, k) => at + (to[k] - at) * i / 10), 1);
  from = to;
}
draw("pointerup", from, 0);
"""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which the files of a folder are served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


class _Files(SimpleHTTPRequestHandler):
    extensions_map: ClassVar = {**SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a test's output is its failures."""


@pytest.mark.long  # a minute of qemu
def test_device_fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography", reason="certificates are made by cryptography, which is not installed")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    out = run("device_fleet", "--trials", 1)
    for key in ("host", "arm-board", "riscv-board"):
        left_out = f"{key}: left out, " in out and key != "host"
        assert left_out or (f"{key}: compiled in" in out and f"{key}: tuned with " in out), out
    assert not list(tmp_path.iterdir())


def test_train_gestures(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert re.match(r"\d+\.\d% of new readings are right", run("train_gestures", "--epochs", 1, "-o", tmp_path))
    assert (tmp_path / "gestures.pt2").exists() and (tmp_path / "gestures.npz").exists()


def test_five_commands_to_a_board(tmp_path: Path) -> None:
    """The commands of docs/microcontrollers.md, word for word."""
    pytest.importorskip("torch")
    for tool in ("cmake", "make", "arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    if not Path("/usr/lib/picolibc/arm-none-eabi").exists():
        pytest.skip("needs picolibc-arm-none-eabi")
    page = (EXAMPLES.parent / "docs" / "microcontrollers.md").read_text()
    commands = page.split("in five commands\n\n")[1].split("\n\n")[0]
    assert len(commands.splitlines()) == 5
    (tmp_path / "examples").symlink_to(EXAMPLES)
    (tmp_path / "bin").mkdir()
    for name, program in (("python", ""), ("tilewright", "-m tilewright ")):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {program}"$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e"], input=commands, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^1: linear:( -?[\d.]+){4}$", done.stdout, re.MULTILINE)
