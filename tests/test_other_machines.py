"""Models compiled here for other machines: what they are refused as here, and what they compute there, under qemu."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.onnx_models import convolution, perceptron
from tests.relay.helpers import module
from tilewright import relay
from tilewright.errors import ArtifactError, EnvironmentError_, TargetError, UserError
from tilewright.runtime.artifact import load_artifact
from tilewright.runtime.export import find_linker
from tilewright.runtime.foreign import ForeignModel
from tilewright.runtime.model import Model

SHARED = Path(__file__).resolve().parents[2] / "shared" / "models"
ARM, RISCV = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76", "llvm -mtriple=riscv64-linux-gnu"
#: target -> emulator, and where Debian puts the C library of that architecture
MACHINES = {
    ARM: ("qemu-aarch64", "/usr/aarch64-linux-gnu", "libc6-arm64-cross"),
    RISCV: ("qemu-riscv64", "/usr/riscv64-linux-gnu", "libc6-riscv64-cross"),
}
#: Reads the inputs from standard input, runs the model on two threads, and writes the outputs.
PROGRAM = """
#include "NAME.h"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  static const size_t in_bytes[] = {INPUTS}, out_bytes[] = {OUTPUTS};
  enum { IN = sizeof(in_bytes) / sizeof(in_bytes[0]), OUT = sizeof(out_bytes) / sizeof(out_bytes[0]) };
  const void *inputs[IN];
  void *outputs[OUT];
  for (int i = 0; i < IN; ++i) {
    void *read = aligned_alloc(64, (in_bytes[i] + 63) / 64 * 64);
    if (fread(read, 1, in_bytes[i], stdin) != in_bytes[i]) return 90;
    inputs[i] = read;
  }
  for (int i = 0; i < OUT; ++i) outputs[i] = aligned_alloc(64, (out_bytes[i] + 63) / 64 * 64);
  int64_t size = tilewright_NAME_workspace_bytes(2);
  int code = tilewright_NAME(inputs, outputs, aligned_alloc(64, (size + 64) / 64 * 64), 2);
  if (code) return 91;
  for (int i = 0; i < OUT; ++i) fwrite(outputs[i], 1, out_bytes[i], stdout);
  return 0;
}
"""


def is_foreign(target: str) -> bool:
    return not tw.Target(target).is_host


def run_there(model: Model, target: str, inputs: dict[str, np.ndarray], folder: Path) -> list[np.ndarray]:
    """Export for a machine, link a program, run it under its emulator; the outputs. Skips with what is missing."""
    emulator, root, package = MACHINES[target]
    if shutil.which(emulator) is None or not Path(root).exists():
        pytest.skip(f"needs {emulator} and {package} (Debian: apt install qemu-user {package})")
    try:
        find_linker(tw.Target(target).architecture)
    except EnvironmentError_ as error:
        pytest.skip(str(error))
    library, header = model.export_library(folder / "libthere.so", "there")
    assert header.exists()
    outputs = [(spec.numpy, spec.static_shape) for spec in model.outputs]
    return run_library(library, "there", target, [inputs[spec.name] for spec in model.inputs], outputs)


def run_library(
    library: Path, name: str, target: str, inputs: list[np.ndarray], outputs: list[tuple[Any, tuple[int, ...]]]
) -> list[np.ndarray]:
    """Link a program with a library for a machine, run it under its emulator; outputs of types and shapes as given."""
    emulator, root, _ = MACHINES[target]
    folder, sizes = library.parent, [int(np.prod(shape, dtype=np.int64)) * kind.itemsize for kind, shape in outputs]
    text = PROGRAM.replace("NAME", name).replace("OUTPUTS", ", ".join(map(str, sizes)))
    text = text.replace("INPUTS", ", ".join(str(array.nbytes) for array in inputs))
    (folder / "main.c").write_text(text)
    linker = find_linker(tw.Target(target).architecture)  # what linked the library, as its version of glibc counts
    words = [*linker, "-std=gnu11", "-O1", "main.c", library.name]
    subprocess.run([*words, "-Wl,-rpath,.", "-o", "program"], cwd=folder, check=True, capture_output=True)
    given = b"".join(array.tobytes() for array in inputs)
    done = subprocess.run([emulator, "-L", root, "./program"], cwd=folder, input=given, capture_output=True, check=True)
    found, position = [], 0
    for (kind, shape), size in zip(outputs, sizes, strict=True):
        found.append(np.frombuffer(done.stdout[position : position + size], kind).reshape(shape))
        position += size
    return found


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("make", [perceptron, convolution])
def test_a_model_computes_there_what_it_computes_here(make, target, tmp_path):
    here, there = tw.compile(make()), tw.compile(make(), target=target)
    generator = np.random.default_rng(0)
    inputs = {spec.name: generator.standard_normal(spec.static_shape).astype(spec.numpy) for spec in here.inputs}
    for mine, theirs in zip(here.run(inputs), run_there(there, target, inputs, tmp_path), strict=True):
        np.testing.assert_allclose(theirs, mine, rtol=1e-5, atol=1e-6)


#: Bits, level of accuracy, and whether codes name numbers of a table.
FEW_BITS = [(4, 4, False), (3, 4, False), (4, 0, False), (6, 0, False), (4, 0, True)]


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize(("bits", "level", "table"), FEW_BITS)
@pytest.mark.sample(3)
def test_weights_of_few_bits_compute_there_what_they_compute_here(bits, level, table, target, tmp_path):
    rng = np.random.default_rng(2)
    weight, scales = rng.integers(0, 256, (40, 4, 4 * bits)).astype(np.uint8), rng.random((40, 4)).astype(np.float32)
    attrs = {"bits": bits, "accuracy_level": level, "table": rng.standard_normal(16) if table else None}
    call = relay.nn.dense_blockwise(
        relay.var("x", shape=(3, 128)), relay.const(weight), relay.const(scales), None, **attrs
    )
    here, there = (tw.compile(module(call), target) for target in ("cpu", target))
    inputs = {"x": rng.standard_normal((3, 128)).astype(np.float32)}
    (mine,), (theirs,) = here.run(inputs), run_there(there, target, inputs, tmp_path)
    # Only the order in which blocks are added differs; another code of level 4's data would change 1e-3.
    np.testing.assert_allclose(theirs, mine, rtol=0, atol=3e-7 * np.abs(mine).max())


REAL = {
    "magika": ("real/onnx/magika", {"bytes": (1, 2048)}),
    "ppocr_cls": ("real/onnx/ppocr_cls", {"x": (1, 3, 48, 192)}),
    "silero_vad": ("real/onnx/silero_vad", {"input": (1, 512), "state": (2, 1, 128)}),
    "smart_turn_v3_int8": ("real/onnx/smart_turn_v3_int8", {"input_features": (1, 80, 800)}),
    "aecmos": ("real/onnx/aecmos", {"input": (1, 3, 100, 160)}),
    "basic_pitch": ("real/onnx/basic_pitch", {"serving_default_input_2:0": (1, 43844, 1)}),
}
#: Of a model of 8-bit activations: a value beside the middle between two codes may fall on either side, as its float
#: products are summed in another order there.
QUANTIZED = {"smart_turn_v3_int8": 5e-3}
NETWORKS = ("squeezenet1_1", "mobilenet_v2", "lstm_lm")


@pytest.mark.long
@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("name", REAL)
def test_trained_models_compute_there_what_they_compute_here(name, target, tmp_path):
    folder, shapes = REAL[name]
    files = sorted((SHARED / folder).glob("*.onnx"))
    if not files:
        pytest.skip(f"needs {SHARED / folder}")
    compare_on(files[0], shapes, target, tmp_path, QUANTIZED.get(name, 1e-4))


@pytest.mark.long
@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_compute_there_what_they_compute_here(name, target, tmp_path):
    if not (SHARED / "nets" / "fill.py").exists():
        pytest.skip(f"needs {SHARED / 'nets'}")
    filled = tmp_path / "filled.onnx"
    subprocess.run([sys.executable, SHARED / "nets" / "fill.py", name, filled], check=True, capture_output=True)
    compare_on(filled, {}, target, tmp_path, 1e-4)


def compare_on(file: Path, shapes: dict[str, tuple[int, ...]], target: str, folder: Path, bound: float) -> None:
    here, there = (tw.compile(file, t, input_shapes=shapes or None) for t in ("cpu", target))
    generator = np.random.default_rng(1)
    inputs = {}
    for spec in here.inputs:
        drawn = generator.standard_normal(spec.static_shape)
        inputs[spec.name] = drawn.astype(spec.numpy) if spec.dtype.is_float else np.abs(drawn * 8).astype(spec.numpy)
    if "sr" in inputs:
        inputs["sr"] = np.array(16000, inputs["sr"].dtype)
    for mine, theirs in zip(here.run(inputs), run_there(there, target, inputs, folder), strict=True):
        if mine.dtype.kind == "f":
            np.testing.assert_allclose(theirs, mine, rtol=bound, atol=bound * max(np.abs(mine).max(), 1e-6))
        else:
            np.testing.assert_array_equal(theirs, mine)


def test_here_a_model_for_another_machine_is_refused_with_what_to_do():
    model = tw.compile(perceptron(), target=RISCV)
    assert isinstance(model, ForeignModel) and "riscv64" in repr(model) + model.target
    for use in (
        lambda: model(np.zeros((1, 8), np.float32)),
        lambda: model.run({"x": np.zeros((1, 8), np.float32)}),
        lambda: model.time({}),
        lambda: model.profile({}),
        lambda: model.set_threads(2),
    ):
        with pytest.raises(TargetError, match=r"riscv64.*save it and load it there"):
            use()


def test_an_artifact_for_another_machine_names_it_when_it_is_loaded_here(tmp_path):
    if not is_foreign(ARM):
        pytest.skip("this is such a machine")
    tw.compile(perceptron(), target=ARM).save(tmp_path / "m.tw")
    with pytest.raises(ArtifactError, match=r"was compiled for aarch64 and this machine is"):
        load_artifact(tmp_path / "m.tw")


def test_no_artifact_where_none_could_be_loaded(tmp_path):
    with pytest.raises(TargetError, match=r"write a library for C"):
        tw.compile(perceptron(), target=RISCV).save(tmp_path / "m.tw")
    assert not list(tmp_path.iterdir())


def test_without_a_cross_compiler_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="linking for riscv64 needs a cross compiler"):
        tw.compile(perceptron(), target=RISCV).export_library(tmp_path / "m.so")


def test_what_runs_the_model_needs_this_machine():
    with pytest.raises(TargetError, match="tuning and specializing run the model here"):
        tw.compile(perceptron("n"), target=RISCV, specialize=2)
