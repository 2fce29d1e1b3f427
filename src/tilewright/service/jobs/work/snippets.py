"""Programs that run what was compiled, as text: in Python, C and JavaScript; each fills inputs with zeros."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tilewright.runtime.c_stream import c_type
from tilewright.runtime.signature import TensorSpec

_PYTHON = """\
# pip install tilewright
import numpy as np
import tilewright as tw

model = tw.load("model.tw")
outputs = model.run({{
{inputs}
}})
for spec, value in zip(model.outputs, outputs):
    print(spec.name, value.dtype, value.shape)
"""

_C = """\
/* cc -std=c11 -O2 -fwrapv -ffp-contract=on -fno-math-errno main.c model.c -lm -o main */
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

static _Alignas(64) unsigned char workspace[TILEWRIGHT_MODEL_WORKSPACE_SIZE + 64];
{buffers}

int main(void) {{
{weights}  const void *inputs[] = {{{inputs}}};
  void *outputs[] = {{{outputs}}};
  int code = tilewright_model_run(inputs, outputs, workspace, sizeof workspace);
  if (code) {{
    fprintf(stderr, "%s\\n", tilewright_model_error_text(code));
    return 1;
  }}
{shown}
  return 0;
}}
"""

_WEIGHTS = """\
  FILE *file = fopen({name}, "rb");
  void *weights = aligned_alloc(64, ({size}u + 63) / 64 * 64);
  if (!file || !weights || fread(weights, 1, {size}u, file) != {size}u) return 2;
  tilewright_model_set_weights(weights);
"""


#: A program in JavaScript for `model.wasm`, `model.json` and `model.weights`, in Node; a page reads them by fetch.
JAVASCRIPT = """\
// node main.mjs
import { existsSync, readFileSync } from "node:fs";

export async function load(module, about, weights) {
  const { exports } = (await WebAssembly.instantiate(module)).instance;
  let end = exports.__heap_base.value;
  const take = (bytes) => {
    const start = Math.ceil(end / 64) * 64;
    end = start + bytes;
    return start;
  };
  const weightsAt = take(about.weights);
  const workspace = take(about.workspace);
  const tensors = [...about.inputs, ...about.outputs];
  const at = tensors.map((tensor) => take(tensor.bytes));
  const table = take(4 * tensors.length);
  const missing = Math.ceil((end - exports.memory.buffer.byteLength) / 65536);
  if (missing > 0) exports.memory.grow(missing);
  const bytes = new Uint8Array(exports.memory.buffer);
  new Uint32Array(exports.memory.buffer, table, at.length).set(at);
  if (about.weights) {
    bytes.set(weights, weightsAt);
    exports.set_weights(weightsAt);
  }
  // inputs and outputs are bytes, in the order of model.json
  return (inputs) => {
    inputs.forEach((input, number) => bytes.set(input, at[number]));
    const code = exports.run(table, workspace, 1);
    if (code) throw new Error(`the model failed with code ${code}`);
    return about.outputs.map((tensor, number) => {
      const start = at[about.inputs.length + number];
      return bytes.slice(start, start + tensor.bytes);
    });
  };
}

const about = JSON.parse(readFileSync("model.json", "utf8"));
const weights = existsSync("model.weights") ? readFileSync("model.weights") : new Uint8Array();
const run = await load(readFileSync("model.wasm"), about, weights);
const outputs = run(about.inputs.map((tensor) => new Uint8Array(tensor.bytes)));
outputs.forEach((output, number) => console.log(`${about.outputs[number].name}: ${output.length} bytes`));
"""


def python_snippet(inputs: Sequence[TensorSpec]) -> str:
    """A program in Python for `model.tw`; symbolic dimensions are 1."""
    lines = []
    for spec in inputs:
        shape = tuple(size if isinstance(size, int) else 1 for size in spec.shape)
        value = f"np.full({shape}, '')" if spec.dtype.is_string else f"np.zeros({shape}, {str(spec.numpy)!r})"
        lines.append(f"    {json.dumps(spec.name)}: {value},")
    return _PYTHON.format(inputs="\n".join(lines))


def c_snippet(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], weights: Path | None) -> str:
    """A program in C for `model.c` of fixed sizes, whose weights are in a file of their own or in the source."""
    kinds = {"input": inputs, "output": outputs}
    named = [(f"{kind}_{number}", spec) for kind, specs in kinds.items() for number, spec in enumerate(specs)]
    buffers = [
        f"static _Alignas(64) {c_type(spec)} {name}[{max(1, spec.nbytes // spec.dtype.itemsize)}]; "
        f"/* {_comment(spec)} */"
        for name, spec in named
    ]
    shown = [
        f'  printf("%s: %zu bytes\\n", {_text(spec.name)}, sizeof {name});'
        for name, spec in named
        if name.startswith("output")
    ]
    read = _WEIGHTS.format(name=_text(weights.name), size=weights.stat().st_size) if weights else ""
    return _C.format(
        buffers="\n".join(buffers), weights=read, shown="\n".join(shown),
        inputs=", ".join(name for name, _ in named if name.startswith("input")) or "0",
        outputs=", ".join(name for name, _ in named if name.startswith("output")) or "0",
    )  # fmt: skip


def _comment(spec: TensorSpec) -> str:
    """A tensor as a comment of C, which its name does not end."""
    return str(spec).replace("*/", "* /").encode("ascii", "replace").decode().replace("\n", " ").replace("\\", "/")


def _text(text: str) -> str:
    """A text as a literal of C, its bytes beyond letters and digits in octal."""
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./: "
    return '"' + "".join(chr(one) if one in plain else f"\\{one:03o}" for one in text.encode()) + '"'
