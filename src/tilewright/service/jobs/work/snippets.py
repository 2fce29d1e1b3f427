"""Programs that run what was compiled, as text: in Python, C and JavaScript; each fills inputs with zeros."""

from __future__ import annotations

import json
import math
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

_JAVASCRIPT = """\
// node main.mjs, or a page of the same folder
import {{ ARRAYS, load }} from "./model.mjs";

const model = await load();
const outputs = await model.run({{
{inputs}
}});
for (const {{ name }} of model.outputs) console.log(name, outputs[name].dtype, outputs[name].shape.join("x"));
"""


def python_snippet(inputs: Sequence[TensorSpec]) -> str:
    """A program in Python for `model.tw`; symbolic dimensions are 1."""
    lines = []
    for spec in inputs:
        shape = tuple(size if isinstance(size, int) else 1 for size in spec.shape)
        value = f"np.full({shape}, '')" if spec.dtype.is_string else f"np.zeros({shape}, {str(spec.numpy)!r})"
        lines.append(f"    {json.dumps(spec.name)}: {value},")
    return _PYTHON.format(inputs="\n".join(lines))


def javascript_snippet(inputs: Sequence[TensorSpec]) -> str:
    """A program in JavaScript for `model.mjs`; symbolic dimensions are 1."""
    lines = []
    for spec in inputs:
        shape = [size if isinstance(size, int) else 1 for size in spec.shape]
        data = f"new ARRAYS.{spec.dtype}({math.prod(shape)})"
        lines.append(f"  {json.dumps(spec.name)}: {{ data: {data}, shape: {shape} }},")
    return _JAVASCRIPT.format(inputs="\n".join(lines))


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
