"""MNIST trained by a step in C, beside PyTorch: as a library, as C99, under qemu on AArch64 and on a Cortex-M7.

    python bench/training_artifact.py [--steps 200] [--only so,c,aarch64,cortex-m7] [--json FILE]

A network of two convolutions and a dense layer is trained by SGD with momentum on the digits of ../shared/data/mnist,
whole, and on the Cortex-M7 its last layer alone. The program in C reads the images as bytes and prints each loss; a row
has the largest difference from PyTorch's losses, the bytes of parameters and state, and those of the struct in C.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.training import SGD, TrainingStep, export_step, loss_of, training_step

Array = np.ndarray[Any, Any]
DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "mnist"
BATCH, CLASSES, RATE, MOMENTUM = 16, 10, 0.05, 0.9
SHAPES = {"conv1": (8, 1, 3, 3), "conv2": (16, 8, 3, 3), "fc": (CLASSES, 16 * 7 * 7), "fc_bias": (CLASSES,)}
LAST = ("fc", "fc_bias")
_BOARD = (
    "-mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-sp-d16 --specs=picolibc.specs --oslib=semihost "
    "-Wl,--defsym=__flash=0x0,--defsym=__flash_size=0x400000,--defsym=__ram=0x20000000,--defsym=__ram_size=0x400000"
)


@dataclass(frozen=True)
class Kind:
    """A way to build and run: the file of the step, its target, the compiler's command and the runner's."""

    file: str
    target: str | None
    compiler: str
    runner: str = ""
    trained: tuple[str, ...] = tuple(SHAPES)


KINDS = {
    "so": Kind("libstep.so", None, "gcc"),
    "c": Kind("step.c", "c", "gcc"),
    "aarch64": Kind("step.c", "c", "aarch64-linux-gnu-gcc -static", "qemu-aarch64"),
    "cortex-m7": Kind(
        "step.c", "c -mcpu=cortex-m7", f"arm-none-eabi-gcc {_BOARD}",
        "qemu-system-arm -M mps2-an500 -nographic -semihosting -monitor none -serial none -kernel", LAST,
    ),
}  # fmt: skip

_MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include "{header}"
#include "data.h"
static uint8_t workspace[TILEWRIGHT_STEP_WORKSPACE_SIZE]
    __attribute__((aligned(TILEWRIGHT_STEP_WORKSPACE_ALIGNMENT)));
static tilewright_step_state state;
static float x[{batch} * 784];
int main(void) {{
  float loss;
  void *const outputs[] = {{&loss}};
  const void *inputs[2];
  tilewright_step_init(&state);
  for (int step = 0; step < STEPS; step++) {{
    for (int i = 0; i < {batch} * 784; i++) x[i] = images[step][i] / 255.0f;
    inputs[0] = x, inputs[1] = labels[step];
    int code = tilewright_step_step(&state, inputs, outputs, workspace, sizeof workspace);
    if (code) return code;
    printf("%.9g\\n", (double)loss);
  }}
  printf("%lu\\n", (unsigned long)sizeof state);
  exit(0);
}}
"""


def first_values() -> dict[str, Array]:
    """Random weights, scaled by what each output sums."""
    rng = np.random.default_rng(0)
    bounds = {name: 1 / np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else 0.0 for name, shape in SHAPES.items()}
    return {name: rng.uniform(-bounds[name], bounds[name], shape).astype("float32") for name, shape in SHAPES.items()}


def batches(steps: int) -> tuple[Array, Array]:
    """Images as bytes [steps, BATCH * 784] and labels [steps, BATCH], in a random order."""
    images = np.frombuffer(gzip.decompress((DATA / "t10k-images-idx3-ubyte.gz").read_bytes())[16:], np.uint8)
    labels = np.frombuffer(gzip.decompress((DATA / "t10k-labels-idx1-ubyte.gz").read_bytes())[8:], np.uint8)
    order = np.random.default_rng(1).permutation(len(labels))[: steps * BATCH]
    return images.reshape(-1, 784)[order].reshape(steps, -1), labels[order].reshape(steps, BATCH).astype("int64")


def step_of(trained: tuple[str, ...]) -> TrainingStep:
    """The step that trains some of the weights; the others are constants."""
    values = first_values()
    x = relay.var("x", shape=(BATCH, 1, 28, 28))
    w = {n: relay.var(n, shape=shape) if n in trained else relay.const(values[n]) for n, shape in SHAPES.items()}
    y = relay.nn.relu(relay.nn.conv2d(x, w["conv1"], strides=2, padding=1))
    y = relay.nn.relu(relay.nn.conv2d(y, w["conv2"], strides=2, padding=1))
    scores = relay.nn.bias_add(relay.nn.dense(relay.nn.batch_flatten(y), w["fc"]), w["fc_bias"])
    loss, _ = loss_of("cross-entropy", scores)
    return training_step(loss, [w[name] for name in trained], SGD(RATE, MOMENTUM))  # type: ignore[misc]


def by_torch(images: Array, labels: Array, trained: tuple[str, ...]) -> list[float]:
    """PyTorch's losses."""
    import torch
    from torch.nn import functional

    torch.set_num_threads(1)
    w = {name: torch.tensor(value, requires_grad=name in trained) for name, value in first_values().items()}
    optimizer = torch.optim.SGD([w[name] for name in trained], RATE, momentum=MOMENTUM)
    losses = []
    for pixels, wanted in zip(images, labels, strict=True):
        x = torch.from_numpy((pixels / np.float32(255)).astype("float32").reshape(BATCH, 1, 28, 28))
        y = functional.conv2d(x, w["conv1"], stride=2, padding=1).relu()
        y = functional.conv2d(y, w["conv2"], stride=2, padding=1).relu()
        loss = functional.cross_entropy(
            functional.linear(y.flatten(1), w["fc"], w["fc_bias"]), torch.from_numpy(wanted)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def by_c(kind: Kind, images: Array, labels: Array, work: Path) -> tuple[list[float], int]:
    """The losses that the program prints, and the bytes of its struct."""
    values = {name: value for name, value in first_values().items() if name in kind.trained}
    export_step(
        step_of(kind.trained), values, work / kind.file, target=kind.target, freestanding=kind.target is not None
    )
    lines = [f"#define STEPS {len(images)}"]
    for name, rows, of in (("images", images, "uint8_t"), ("labels", labels, "int64_t")):
        listed = ",\n".join("{" + ",".join(map(str, row.tolist())) + "}" for row in rows)
        lines.append(f"static const {of} {name}[STEPS][{rows.shape[1]}] = {{{listed}}};")
    (work / "data.h").write_text("\n".join(lines))
    (work / "main.c").write_text(_MAIN.format(header="step.h", batch=BATCH))
    options = ["-O2", "-fwrapv", "-fno-strict-aliasing", "-o", "main", "main.c"]
    subprocess.run([*kind.compiler.split(), *options, kind.file, "-lm", "-Wl,-rpath,."], cwd=work, check=True)
    command = [*kind.runner.split(), "./main"]
    shown = subprocess.run(command, cwd=work, capture_output=True, text=True, check=True)
    *losses, size = (shown.stdout + shown.stderr).split()
    return [float(loss) for loss in losses], int(size)


def main() -> None:
    """Print a row for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    images, labels = batches(given.steps)
    rows = []
    for name in given.only.split(","):
        kind = KINDS[name]
        expected = by_torch(images, labels, kind.trained)
        with tempfile.TemporaryDirectory() as folder:
            losses, size = by_c(kind, images, labels, Path(folder))
        step = step_of(kind.trained)
        own = sum(4 * int(np.prod(SHAPES[one])) for one in kind.trained) + sum(v.nbytes for v in step.state.values())
        worst = float(np.abs(np.array(losses) - expected).max())
        rows.append({"kind": name, "first": losses[0], "last": losses[-1], "torch": expected[-1], "difference": worst})
        print(f"{name:10} loss {losses[0]:.4f} to {losses[-1]:.4f}, PyTorch's {expected[-1]:.4f}; largest difference "
              f"{worst:.2e}; {own:,} bytes of parameters and state, struct {size:,}", flush=True)  # fmt: skip
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
