"""Models in C on random inputs, watched: guard pages and stack canaries under seccomp, sanitizers on this machine.

    python bench/enclave_faults.py MODEL... [--inputs 10000] [--sanitized 200] [--target "c -mcpu=cortex-m4"]

Under seccomp every block of memory ends at a page that faults, the bytes around blocks are compared after each run, and
functions check their canaries; a difference ends the run with an error. The second program is the same source with
-fsanitize=undefined,address, its tensors and its workspace allocated one by one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tilewright.compile import export_source
from tilewright.driver.build_source import Exported
from tilewright.enclave import SeccompModel, open_enclave, source_of
from tilewright.enclave.build import OPTIONS
from tilewright.errors import UserError

_MAIN = """
#include "enclave_model.h"
#include <stdio.h>
#include <stdlib.h>
static const size_t input_bytes[] = {INPUT_BYTES}, output_bytes[] = {OUTPUT_BYTES};
int main(int count, char **arguments) {
  int runs = 0, code = 0;
  unsigned i;
#if WEIGHTS_BYTES
  FILE *file = fopen(arguments[1], "rb");
  void *weights = aligned_alloc(64, (WEIGHTS_BYTES + 63) / 64 * 64);
  if (!file || fread(weights, 1, WEIGHTS_BYTES, file) != WEIGHTS_BYTES) return 2;
  SET_WEIGHTS(weights);
#endif
  (void)count;
  (void)arguments;
  for (;;) {
    const void *inputs[INPUTS];
    void *outputs[OUTPUTS], *memory[INPUTS], *workspace = aligned_alloc(64, (WORKSPACE_BYTES + 63) / 64 * 64);
    int whole = 1;
    for (i = 0; i < INPUTS; i++) {
      inputs[i] = memory[i] = malloc(input_bytes[i]);
      whole &= fread(memory[i], 1, input_bytes[i], stdin) == input_bytes[i];
    }
    for (i = 0; i < OUTPUTS; i++) outputs[i] = malloc(output_bytes[i]);
    if (whole) code |= MODEL_RUN(inputs, outputs, workspace, WORKSPACE_BYTES);
    for (i = 0; i < INPUTS; i++) free(memory[i]);
    for (i = 0; i < OUTPUTS; i++) free(outputs[i]);
    free(workspace);
    if (!whole) break;
    runs++;
  }
  printf("%d\\n", runs);
#if WEIGHTS_BYTES
  free(weights);
  fclose(file);
#endif
  return code;
}
"""


def guarded(files: Exported, inputs: int) -> int:
    """Run a model under seccomp; the number of runs. Raises `UserError` where memory or a canary was touched."""
    model = open_enclave(files, "seccomp")
    assert isinstance(model, SeccompModel)
    rng = np.random.default_rng(0)
    for _ in range(inputs):
        model.run({spec.name: drawn(rng, spec.static_shape, spec.numpy) for spec in model.inputs})
    model.close()
    return inputs


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A random input: any integers, or normal numbers times 10^-3 to 10^3."""
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    return (rng.standard_normal(shape) * 10.0 ** rng.uniform(-3, 3)).astype(dtype)


def sanitized(files: Exported, inputs: int) -> int:
    """Run a model with sanitizers; the number of runs. Raises `CalledProcessError` with what they found."""
    source = source_of(files)
    rng = np.random.default_rng(1)
    specs = source.interface.inputs
    sets = (drawn(rng, spec.static_shape, spec.numpy).tobytes() for _ in range(inputs) for spec in specs)
    with tempfile.TemporaryDirectory(prefix="sanitized-") as folder:
        work = Path(folder)
        source.write_to(work, "static.c")
        (work / "main.c").write_text(_MAIN)
        options = [
            "-std=gnu11",
            "-g1",
            "-O1",
            "-march=native",
            "-fsanitize=undefined,address",
            "-fno-sanitize-recover=all",
        ]
        command = ["cc", *OPTIONS, *options, "main.c", "model.c", "-o", "program"]
        subprocess.run(command, cwd=work, check=True)
        done = subprocess.run(
            [str(work / "program"), str(source.weights)], input=b"".join(sets), check=True, capture_output=True
        )
        return int(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--sanitized", type=int, default=200)
    parser.add_argument("--target", default="c")
    given = parser.parse_args()
    failed = False
    for path in given.models:
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            try:
                files = export_source(path, Path(folder) / "model.c", target=given.target, freestanding=True)
                clean = sanitized(files, given.sanitized) if given.sanitized else 0
                runs = guarded(files, given.inputs) if given.inputs else 0
                print(f"ok   {Path(path).name}: {clean} runs with sanitizers, {runs} under guard", flush=True)
            except (UserError, subprocess.CalledProcessError) as error:
                failed = True
                words = error.stderr.decode()[-1500:] if isinstance(error, subprocess.CalledProcessError) else ""
                print(f"FAIL {Path(path).name}: {error}\n{words}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
