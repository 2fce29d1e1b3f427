"""The example program of a project: each model once on a pattern of numbers, its outputs printed.

It has three parts, which a sketch and a `main` put together: memory, a function that runs a model, and calls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.board.project.sources import Sources
from tilewright.driver.build_source import SourceModel
from tilewright.runtime.c_stream import c_type
from tilewright.runtime.signature import TensorSpec

#: Values that are printed of an output, at most.
_MOST_PRINTED = 16

#: Steps of a model with states, each on a pattern of its own.
STEPS = 3

_RUN = """\
static int run_{name}(void) {{
{call}  int status;
  size_t i;
{fills}  status = tilewright_{name}_run({arguments}, workspace, sizeof workspace);
  if (status) return status;
{prints}  return 0;
}}
"""

#: With states, whose inputs and outputs are not the caller's.
_RUN_STEPS = """\
static int run_{name}(void) {{
  static tilewright_{name}_state state; /* of one stream, between its steps */
{call}  int status, step;
  size_t i;
  tilewright_{name}_init(&state);
  for (step = 0; step < {steps}; step++) {{
{fills}    status = tilewright_{name}_step(&state, {arguments}, workspace, sizeof workspace);
    if (status) return status;
{prints}  }}
  return 0;
}}
"""


def _tensors(model: SourceModel) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """The inputs and the outputs that a caller has: all but those that are states."""
    interface, states = model.c_model.interface, model.states
    inputs, outputs = ({one.input for one in states}, {one.output for one in states})
    return (
        [spec for index, spec in enumerate(interface.inputs) if index not in inputs],
        [spec for index, spec in enumerate(interface.outputs) if index not in outputs],
    )


def memory_text(sources: Sources) -> str:
    """The workspace and the tensors of every model, as variables."""
    macros = [f"TILEWRIGHT_{model.name.upper()}" for model in sources.models]
    shared = macros[0] if len(macros) == 1 else f"TILEWRIGHT_{sources.name.upper()}"
    lines = [
        f"static uint8_t workspace[{shared}_WORKSPACE_SIZE] __attribute__((aligned({shared}_WORKSPACE_ALIGNMENT)));"
    ]
    for model in sources.models:
        for kind, specs in zip(("input", "output"), _tensors(model), strict=True):
            for index, spec in enumerate(specs):
                lines.append(f"static {c_type(spec)} {model.name}_{kind}{index}[{max(_count(spec), 1)}];")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Printing:
    """C statements that print the expression `%s`: an integer, a float, a text."""

    integer: str
    float: str
    text: str


def run_text(sources: Sources, printing: Printing) -> str:
    """A function for each model that fills its inputs, runs it and prints its outputs."""
    return "\n".join(_run_text(model, printing) for model in sources.models)


def has_floats(sources: Sources) -> bool:
    """True if an output is printed as float."""
    return any(_is_float(spec) for model in sources.models for spec in _tensors(model)[1])


def _is_float(spec: TensorSpec) -> bool:
    return c_type(spec) in ("float", "double")


def _run_text(model: SourceModel, printing: Printing) -> str:
    inputs, outputs = _tensors(model)
    indent, index = ("    ", "(i + (size_t)step)") if model.states else ("  ", "i")
    fills, prints = "", ""
    for position, spec in enumerate(inputs):
        name = f"{model.name}_input{position}"
        fills += f"{indent}for (i = 0; i < {_count(spec)}; i++) {name}[i] = {_pattern(spec, index)};\n"
    for position, spec in enumerate(outputs):
        shown = min(_count(spec), _MOST_PRINTED)
        write = (printing.float if _is_float(spec) else printing.integer) % f"{model.name}_output{position}[i]"
        prints += f"{indent}{printing.text % _literal(f'{spec.name}:')};\n"
        prints += f"{indent}for (i = 0; i < {shown}; i++) {write};\n{indent}{printing.text % _literal(_NEWLINE)};\n"
    call = "".join(_pointers(model.name, kind, len(specs)) for kind, specs in (("input", inputs), ("output", outputs)))
    arguments = ", ".join("0" if not specs else f"{kind}s" for kind, specs in (("input", inputs), ("output", outputs)))
    template = _RUN_STEPS if model.states else _RUN
    return template.format(name=model.name, call=call, fills=fills, arguments=arguments, prints=prints, steps=STEPS)


_NEWLINE = "\n"


def _pointers(name: str, kind: str, count: int) -> str:
    if not count:
        return ""
    listed = ", ".join(f"{name}_{kind}{index}" for index in range(count))
    return f"  {'const void *const' if kind == 'input' else 'void *const'} {kind}s[] = {{{listed}}};\n"


def calls(sources: Sources) -> Iterator[tuple[str, str]]:
    """Of each model its name and the call of its function."""
    for model in sources.models:
        yield model.name, f"run_{model.name}()"


def _count(spec: TensorSpec) -> int:
    return math.prod(spec.static_shape)


def pattern(spec: TensorSpec, index: int) -> float:
    """Element `index` of an input of the example; in step n of a stream that is its element `index` - n."""
    dtype = str(spec.dtype)
    if dtype.startswith("float") and dtype != "float16":
        return (index * 7 % 17 - 8) / 8
    if dtype == "int8":
        return index * 7 % 251 - 125
    return index * 7 % (251 if dtype == "uint8" else 2)


def _pattern(spec: TensorSpec, index: str) -> str:
    """The C of `pattern` at `index`: bytes of many values, floats around 0; others, which may be indices, 0 and 1."""
    dtype, kind = str(spec.dtype), c_type(spec)
    if _is_float(spec):
        return f"(({kind})({index} * 7 % 17) - 8) / 8"
    if dtype == "int8":
        return f"(int8_t)((int)({index} * 7 % 251) - 125)"
    return f"({kind})({index} * 7 % {251 if dtype == 'uint8' else 2})"


def _literal(text: str) -> str:
    shown = "".join(char if 32 <= ord(char) < 127 and char not in '"\\%?' else "_" for char in text.rstrip(_NEWLINE))
    return f'"{shown}{chr(92)}n"' if text.endswith(_NEWLINE) else f'"{shown}"'


_MAIN = """\
/* Runs each model of {name} once on a pattern of numbers and prints its outputs. */
#include <stdint.h>
#include <stdio.h>

#include "{name}.h"

{memory}
{run}
int main(void) {{
  int status;
{calls}  return 0;
}}
"""

_CALL = """\
  status = {call};
  if (status) {{
    printf("{name}: %s\\n", tilewright_{name}_error_text(status));
    return 1;
  }}
"""


def main_text(sources: Sources) -> str:
    """The example as a `main` that prints with printf."""
    run = run_text(sources, Printing('printf(" %%ld", (long)%s)', 'printf(" %%g", (double)%s)', 'printf("%%s", %s)'))
    called = "".join(_CALL.format(name=name, call=call) for name, call in calls(sources))
    return _MAIN.format(name=sources.name, memory=memory_text(sources), run=run, calls=called)
