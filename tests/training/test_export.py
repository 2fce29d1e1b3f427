"""Training steps as artifacts: from a file without the compiler, from C as a library and as C99 on a board."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tests.training.test_loop import BATCH, regression, samples
from tilewright import relay
from tilewright.errors import InputError
from tilewright.training import (
    AdamW,
    Arrays,
    Averaged,
    Trainer,
    TrainingStep,
    export_step,
    fit,
    loss_of,
    network_of,
    training_step,
)

Array = np.ndarray[Any, Any]
STEPS = 5


def step() -> TrainingStep:
    """The step of `regression`."""
    x, y, w = relay.var("x", shape=(BATCH, 3)), relay.var("y", shape=(BATCH, 2)), relay.var("w", shape=(2, 3))
    error = relay.nn.dense(x, w) - y
    return training_step(relay.mean(error * error), [w], Averaged(AdamW(0.05)))


FIRST = {"w": np.arange(6, dtype="float32").reshape(2, 3) / 8}


def expected() -> tuple[list[float], Array]:
    """The losses of some steps, and the weights after them."""
    own = step()
    trainer = Trainer(own, tw.compile(own.module), FIRST)
    batches = list(Arrays(samples(), BATCH, seed=None).epoch(0))[:STEPS]
    return [float(trainer(**batch)[0]) for batch in batches], trainer.parameters["w"]


def test_a_file_trains_without_the_compiler(tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="needs safetensors (PyPI)")
    files = export_step(step(), FIRST, tmp_path / "step.tw")
    assert [file.name for file in files] == ["step.tw", "step.safetensors"]
    program = (
        "import sys\n"
        "import numpy as np\n"
        "from tilewright.training.trainer import Trainer\n"
        "trainer = Trainer.load(sys.argv[1])\n"
        "data = np.load(sys.argv[2])\n"
        "for x, y in zip(data['x'], data['y']): print(float(trainer(x=x, y=y)[0]).hex())\n"
        "print(trainer.parameters['w'].tobytes().hex())\n"
        "compiler = ('tilewright.relay', 'tilewright.tir', 'llvmlite')\n"
        "assert not [name for name in sys.modules if name.startswith(compiler)]\n"
    )
    batches = list(Arrays(samples(), BATCH, seed=None).epoch(0))[:STEPS]
    np.savez(tmp_path / "data.npz", **{name: np.stack([batch[name] for batch in batches]) for name in ("x", "y")})
    command = [sys.executable, "-c", program, str(tmp_path / "step.tw"), str(tmp_path / "data.npz")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    losses, weights = expected()
    assert shown.stdout.split() == [*[loss.hex() for loss in losses], weights.tobytes().hex()]


MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "step.h"
#include "data.h"
static uint8_t workspace[TILEWRIGHT_STEP_WORKSPACE_SIZE]
    __attribute__((aligned(TILEWRIGHT_STEP_WORKSPACE_ALIGNMENT)));
static tilewright_step_state state;
int main(void) {
  float loss;
  void *const outputs[] = {&loss};
  tilewright_step_init(&state);
  for (int i = 0; i < STEPS; i++) {
    const void *const inputs[] = {x[i], y[i]};
    int code = tilewright_step_step(&state, inputs, outputs, workspace, sizeof workspace);
    if (code) return code;
    printf("%.9g\\n", (double)loss);
  }
  for (int i = 0; i < 6; i++) printf("%.9g\\n", (double)state.w[i]);
  exit(0); /* a return would end in a loop on a board */
}
"""


def _numbers(values: Array) -> str:
    return ", ".join(f"{float(value).hex()}f" for value in values.reshape(-1))


def _program(folder: Path) -> None:
    """A program that trains and prints losses and weights, and its data."""
    batches = list(Arrays(samples(), BATCH, seed=None).epoch(0))[:STEPS]
    lines = [f"#define STEPS {STEPS}"]
    for name in ("x", "y"):
        rows = ",\n".join(f"{{{_numbers(batch[name])}}}" for batch in batches)
        lines.append(f"static const float {name}[STEPS][{batches[0][name].size}] = {{{rows}}};")
    (folder / "data.h").write_text("\n".join(lines))
    (folder / "main.c").write_text(MAIN)


def _assert_printed(text: str) -> None:
    losses, weights = expected()
    np.testing.assert_allclose([float(word) for word in text.split()], [*losses, *weights.reshape(-1)], rtol=1e-5)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("kind", ["so", "c"])
def test_a_program_in_c_trains(kind: str, tmp_path: Path) -> None:
    export_step(step(), FIRST, tmp_path / f"step.{kind}", freestanding=kind == "c")
    _program(tmp_path)
    options = ["-Wall", "-Wextra", "-Werror", "-O2", "-fwrapv", "-fno-strict-aliasing", "-I", str(tmp_path)]
    command = ["cc", *options, "-o", str(tmp_path / "main"), str(tmp_path / "main.c"), str(tmp_path / f"step.{kind}")]
    subprocess.run([*command, "-Wl,-rpath," + str(tmp_path), "-lm"], check=True)
    _assert_printed(subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None or shutil.which("qemu-system-arm") is None,
    reason="needs gcc-arm-none-eabi, picolibc-arm-none-eabi and qemu-system-arm (Debian)",
)
def test_a_cortex_m7_trains(tmp_path: Path) -> None:
    export_step(step(), FIRST, tmp_path / "step.c", target="c -mcpu=cortex-m7", freestanding=True)
    _program(tmp_path)
    options = (
        "-mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-sp-d16 -O2 -fwrapv -fno-strict-aliasing -ffp-contract=off "
        "--specs=picolibc.specs --oslib=semihost -Wl,--defsym=__flash=0x0,--defsym=__flash_size=0x400000,"
        "--defsym=__ram=0x20000000,--defsym=__ram_size=0x400000"
    )
    image = tmp_path / "main.elf"
    files = [str(tmp_path / name) for name in ("main.c", "step.c")]
    subprocess.run(["arm-none-eabi-gcc", *options.split(), "-o", str(image), *files], check=True, cwd=tmp_path)
    machine = "qemu-system-arm -M mps2-an500 -nographic -semihosting -monitor none -serial none -kernel"
    command = [*machine.split(), str(image)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    _assert_printed(shown.stdout + shown.stderr)


def _classifier(path: Path) -> dict[str, Array]:
    """A network with a batch norm and two dense layers as ONNX; its weights."""
    rng = np.random.default_rng(0)
    shapes = {
        "scale": (4,),
        "shift": (4,),
        "mean": (4,),
        "variance": (4,),
        "v": (4, 6),
        "c": (6,),
        "w": (6, 3),
        "b": (3,),
    }
    weights = {name: np.abs(rng.standard_normal(shape)).astype("float32") for name, shape in shapes.items()}
    nodes = [
        helper.make_node("BatchNormalization", ["x", "scale", "shift", "mean", "variance"], ["n"], "norm"),
        helper.make_node("Gemm", ["n", "v", "c"], ["h"], "first"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("Gemm", ["r", "w", "b"], ["s"], "last"),
        helper.make_node("Softmax", ["s"], ["p"], "softmax"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("p", TensorProto.FLOAT, ["n", 3])
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(w, n) for n, w in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return weights


def test_a_model_file_is_fine_tuned_as_by_torch(tmp_path: Path) -> None:
    weights = _classifier(tmp_path / "net.onnx")
    network = network_of(tmp_path / "net.onnx", {"x": (8, 4)})
    assert sorted(value.size for value in network.values.values()) == [3, 4, 4, 6, 18, 24]
    loss, target = loss_of("cross-entropy", network.results[0])
    own = training_step(loss, network.parameters, AdamW(0.01))
    trainer = Trainer(own, tw.compile(own.module), network.values)
    rng = np.random.default_rng(1)
    x, classes = rng.standard_normal((8, 4)).astype("float32"), rng.integers(0, 3, 8)
    found = [float(trainer(**{"x": x, target.name: classes})[0]) for _ in range(6)]
    torch = pytest.importorskip("torch")
    held = {name: torch.tensor(value) for name, value in weights.items()}
    trained = [held[name].requires_grad_() for name in ("scale", "shift", "v", "c", "w", "b")]
    optimizer = torch.optim.AdamW(trained, 0.01)
    for value in found:
        normal = (torch.from_numpy(x) - held["mean"]) / (held["variance"] + 1e-5).sqrt() * held["scale"] + held["shift"]
        scores = torch.relu(normal @ held["v"] + held["c"]) @ held["w"] + held["b"]
        expected_loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(classes))
        assert value == pytest.approx(float(expected_loss.detach()), rel=1e-4)
        optimizer.zero_grad()
        expected_loss.backward()
        optimizer.step()


def test_the_last_layer_alone(tmp_path: Path) -> None:
    _classifier(tmp_path / "net.onnx")
    network = network_of(tmp_path / "net.onnx", {"x": (8, 4)}, trainable="^last")
    assert sorted(value.size for value in network.values.values()) == [3, 18]
    assert all(name.startswith("last.") for name in network.values)
    with pytest.raises(InputError, match=r"no weight has 'head' in its name; there are norm\.0, norm\.1, first\.0"):
        network_of(tmp_path / "net.onnx", {"x": (8, 4)}, trainable="head")
    with pytest.raises(InputError, match="a training step has fixed sizes: fix those of the inputs"):
        network_of(tmp_path / "net.onnx")


@pytest.mark.parametrize("kind", ["binary-cross-entropy", "mean-squared", "mean-absolute"])
def test_losses_are_those_of_torch(kind: str) -> None:
    torch = pytest.importorskip("torch")
    x = relay.var("x", shape=(4, 3))
    loss, target = loss_of(kind, relay.sigmoid(x) if kind.startswith("binary") else x)
    compute = tw.compile(relay.IRModule.from_expr(relay.Function([x, target], loss)))
    rng = np.random.default_rng(2)
    scores, wanted = (50 * rng.standard_normal((4, 3))).astype("float32"), rng.random((4, 3), "float32")
    functional = torch.nn.functional
    function = {
        "binary-cross-entropy": functional.binary_cross_entropy_with_logits,
        "mean-squared": functional.mse_loss,
        "mean-absolute": functional.l1_loss,
    }[kind]
    own = float(compute(scores, wanted))
    assert own == pytest.approx(float(function(torch.from_numpy(scores), torch.from_numpy(wanted))), rel=1e-5)


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a training step is written as \.tw, \.so or \.c; 'step.onnx' ends in none"):
        export_step(step(), FIRST, tmp_path / "step.onnx")
    with pytest.raises(InputError, match=r"freestanding code is C source; name a file that ends in \.c, not step\.so"):
        export_step(step(), FIRST, tmp_path / "step.so", freestanding=True)
    with pytest.raises(InputError, match="no initial value for the parameters w"):
        export_step(step(), {}, tmp_path / "step.c")
    with pytest.raises(InputError, match="there is no loss 'hinge'; known: cross-entropy"):
        loss_of("hinge", relay.var("x", shape=(2, 3)))
    pytest.importorskip("safetensors", reason="needs safetensors (PyPI)")
    trainer = regression()
    fit(trainer, Arrays(samples(), BATCH), epochs=1, report=None)
    export_step(step(), FIRST, tmp_path / "step.tw")
    other, odd = relay.var("x", shape=(2, 3)), relay.var("v", shape=(4, 3))
    different = training_step(relay.sum(relay.nn.dense(other, odd)), [odd], AdamW())
    export_step(different, {"v": np.zeros((4, 3), "float32")}, tmp_path / "other.tw")
    shutil.copy(tmp_path / "other.safetensors", tmp_path / "step.safetensors")
    with pytest.raises(InputError, match=r"is no training step of these parameters: it has no input .*v"):
        Trainer.load(tmp_path / "step.tw")
