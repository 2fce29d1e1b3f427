"""Models in C on random inputs, watched: guard pages and stack canaries under seccomp, sanitizers on this machine.

    python bench/enclave_faults.py MODEL... [--inputs 10000] [--sanitized 200] [--wrong 100] [--target TARGET]

Under seccomp every block of memory ends at a page that faults, the bytes around blocks are compared after each run, and
functions check their canaries; a difference ends the run with an error. The second program is the same source with
-fsanitize=undefined,address, its tensors and its workspace allocated one by one. Then it is called wrongly: with sealed
weights of which one bit is changed, with other keys, too little memory, and pointers that are not aligned. Each call
must be refused by its code and touch nothing.
"""

from __future__ import annotations

import argparse
import ctypes
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
from tilewright.runtime import signing
from tilewright.runtime.sealed.container import make_key

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


class Called:
    """A model with sealed weights as a library of this process, its memory painted; `wrong` are calls with their codes.

    Tensors stand one behind the other at multiples of 64 bytes, with 64 between them.
    """

    def __init__(self, files: Exported, folder: Path) -> None:
        command = ["cc", *OPTIONS, "-O1", "-march=native", "-shared", "-fPIC", "-lm", str(files[0]), "-o", "model.so"]
        subprocess.run(command, cwd=folder, check=True)
        library = ctypes.CDLL(str(folder / "model.so"))
        name = files.models[0].name
        self.load, self.run = (getattr(library, f"tilewright_{name}_{verb}") for verb in ("load_weights", "run"))
        self.interface = files.models[0].c_model.interface
        self.sealed = files[2].read_bytes()
        self.weights_bytes = len(self.sealed) - 128
        specs = [*self.interface.inputs, *self.interface.outputs]
        sizes = [self.weights_bytes, self.interface.workspace_size, *(spec.nbytes for spec in specs)]
        starts = np.cumsum([0, *(-(-size // 64) * 64 + 64 for size in sizes)])
        self.memory = np.full(int(starts[-1]) + 64, 0xA5, np.uint8)
        base = self.memory.ctypes.data + -self.memory.ctypes.data % 64
        self.weights, self.workspace, *self.tensors = (base + int(start) for start in starts[:-1])

    def loaded(self, sealed: bytes, public: bytes, key: bytes, at: int = 0, size: int | None = None) -> int:
        """The code of loading weights."""
        room = ctypes.c_size_t(self.weights_bytes if size is None else size)
        to = ctypes.c_void_p(self.weights + at)
        return int(self.load(sealed, ctypes.c_size_t(len(sealed)), public, key, to, room))

    def ran(self, moved: int = -1, at: int = 1, missing: int = 0, workspace: int = 0) -> int:
        """The code of a run: tensor `moved` by `at` bytes, so many bytes `missing` of a workspace that is moved."""
        count = len(self.interface.inputs)
        positions = [one + at if index == moved else one for index, one in enumerate(self.tensors)]
        positions = [0 if index == moved and not at else one for index, one in enumerate(positions)]
        arrays = [(ctypes.c_void_p * max(len(part), 1))(*part) for part in (positions[:count], positions[count:])]
        size = ctypes.c_size_t(self.interface.workspace_size - missing)
        return int(self.run(*arrays, ctypes.c_void_p(self.workspace + workspace), size))


def refused(model: str, target: str, wrong: int) -> int:
    """Call a model wrongly; the number of calls. Raises `UserError` for a code that is not the right one."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    rng = np.random.default_rng(2)
    with tempfile.TemporaryDirectory(prefix="refused-") as folder:
        work = Path(folder)
        for name in ("mine", "other"):
            signing.make_keys(work / name)
            make_key(work / f"{name}.key")
        mine, other = (load_pem_public_key((work / f"{name}.pub.pem").read_bytes()) for name in ("mine", "other"))
        public, stranger = (key.public_bytes_raw() for key in (mine, other))  # type: ignore[union-attr]
        key, false = (bytes.fromhex((work / f"{name}.key").read_text()) for name in ("mine", "other"))
        seal = work / "mine.pem", work / "mine.key"
        one = Called(export_source(model, work / "model.c", target=target, freestanding=True, seal=seal), work)
        whole = one.sealed
        found = [
            ("no weights yet", one.ran(), {1}), ("another key of encryption", one.loaded(whole, public, false), {105}),
            ("another signer", one.loaded(whole, stranger, key), {104}),
            ("a byte less", one.loaded(whole[:-1], public, key), {101}),
            ("a byte less of memory", one.loaded(whole, public, key, size=one.weights_bytes - 1), {3}),
            *((f"memory {at} bytes on", one.loaded(whole, public, key, at), {4}) for at in (1, 4, 32)),
        ]  # fmt: skip
        for _ in range(wrong):
            bit = int(rng.integers(8 * len(whole)))
            changed = bytearray(whole)
            changed[bit // 8] ^= 1 << bit % 8
            found.append((f"bit {bit} changed", one.loaded(bytes(changed), public, key), {101, 102, 103, 104}))
        untouched = bool((one.memory == 0xA5).all())
        found += [("the right weights", one.loaded(whole, public, key), {0})]
        after = one.memory.copy()
        found += [("a short workspace", one.ran(missing=1), {3})] if one.interface.workspace_size else []
        found += [("a workspace a byte on", one.ran(workspace=1), {4})] if one.interface.alignment > 1 else []
        for index, spec in enumerate((*one.interface.inputs, *one.interface.outputs)):
            found += [(f"{spec.name} is null", one.ran(index, 0), {1})]
            found += [(f"{spec.name} {at} on", one.ran(index, at), {4}) for at in range(1, spec.numpy.itemsize)]
        untouched &= bool((one.memory == after).all())
        found += [("a right call", one.ran(), {0})]
    for what, code, allowed in found:
        if code not in allowed:
            raise UserError(f"{what}: code {code}, expected {allowed}")
    if not untouched:
        raise UserError("a call that was refused wrote to memory")
    return len(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--sanitized", type=int, default=200)
    parser.add_argument("--wrong", type=int, default=100, help="bits of sealed weights to change, one at a time")
    parser.add_argument("--target", default="c")
    given = parser.parse_args()
    failed = False
    for path in given.models:
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            try:
                files = export_source(path, Path(folder) / "model.c", target=given.target, freestanding=True)
                clean = sanitized(files, given.sanitized) if given.sanitized else 0
                runs = guarded(files, given.inputs) if given.inputs else 0
                calls = refused(path, given.target, given.wrong) if given.wrong else 0
                print(f"ok   {Path(path).name}: {clean} runs with sanitizers, {runs} under guard, "
                      f"{calls} wrong calls refused", flush=True)  # fmt: skip
            except (UserError, subprocess.CalledProcessError) as error:
                failed = True
                words = error.stderr.decode()[-1500:] if isinstance(error, subprocess.CalledProcessError) else ""
                print(f"FAIL {Path(path).name}: {error}\n{words}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
