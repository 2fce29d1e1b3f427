"""The common part of C texts of plans on devices: tables of launches, opening a driver's library, and a run.

The text of a kind of device (`opencl_host`, `cuda_host`) stands between `BEFORE` and `AFTER` and defines

    tilewright_open(weights), tilewright_write(buffer, data), tilewright_launch(), tilewright_read(buffer, data)

which return 0 or the number of an error of the kind. Buffers are numbered: weights, arena, inputs, outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.runtime.gpu.api import Copy, Launch
from tilewright.runtime.gpu.noted_steps import NotedSteps, Range
from tilewright.runtime.plan import ExecutionPlan


def host_fields(plan: ExecutionPlan, weights: int, tables: HostTables) -> dict[str, Any]:
    """The fields of `BEFORE`, `AFTER` and the text between them, of a plan with so many bytes of weights."""
    specs = (*plan.inputs, *plan.outputs)
    sizes = [weights, plan.arena_bytes, *(s.nbytes for s in specs)]
    return {
        "sizes": ", ".join(f"{max(1, size)}u" for size in sizes),
        "buffers": len(sizes),
        "inputs": len(plan.inputs),
        "outputs": len(plan.outputs),
        "args": _rows(tables.args),
        "steps": _rows(tables.steps),
        "count": len(tables.steps),
        "most": max(1, tables.most),
    }


class HostTables:
    """The rows of both tables, as C."""

    def __init__(self, plan: ExecutionPlan) -> None:
        names = ["weights", "arena", *(f"input {i}" for i in range(len(plan.inputs)))]
        names += [f"output {i}" for i in range(len(plan.outputs))]
        self.args: list[str] = []
        self.steps: list[str] = []
        self.most = 0  # arguments of a launch
        self._numbers = {name: number for number, name in enumerate(names)}

    def add(self, noted: NotedSteps, sources: Sequence[str], first_program: int = 0) -> None:
        """Add the steps of a plan; the programs of their kernels are numbered as the texts, from `first_program` on."""
        for step in noted.steps:
            if isinstance(step, Copy):
                self._copy(step)
                continue
            name = step.kernel.name
            program = first_program + next(i for i, source in enumerate(sources) if f" {name}(" in source)
            self._launch(step, program)

    def _copy(self, step: Copy) -> None:
        self.steps.append(f'{{-1, "", {{{step.nbytes}u, 1, 1}}, {{1, 1, 1}}, {len(self.args)}, 2, 0}}')
        self.args += [self._arg(step.source), self._arg(step.target)]

    def _launch(self, step: Launch, program: int) -> None:
        size = ", ".join(f"{g * b}u" for g, b in zip(step.grid, step.block))
        block = ", ".join(f"{b}u" for b in step.block)
        count = f"{len(self.args)}, {len(step.args)}, {step.shared_bytes}u"
        self.steps.append(f'{{{program}, "{step.kernel.name}", {{{size}}}, {{{block}}}, {count}}}')
        self.args += [self._arg(arg) for arg in step.args]
        self.most = max(self.most, len(step.args))

    def _arg(self, arg: Any) -> str:
        if isinstance(arg, Range):
            return f"{{{self._numbers[arg.space]}, {arg.offset}u, {max(1, arg.nbytes)}u, {{0}}}}"
        value = np.asarray(arg)
        listed = ", ".join(str(byte) for byte in value.tobytes())
        return f"{{-1, 0, {value.itemsize}u, {{{listed}}}}}"


def _rows(rows: Sequence[str]) -> str:
    return ",\n".join(f"  {row}" for row in rows) or "  {0}"


BEFORE = """\
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

struct tilewright_arg { int buffer; size_t offset, bytes; unsigned char value[8]; };
struct tilewright_step {
  int program;
  const char *kernel;
  size_t global[3], local[3];
  int first, count;
  size_t shared;
};

static const size_t tilewright_sizes[] = {%(sizes)s}; /* of the weights, the arena, inputs and outputs */
static const struct tilewright_arg tilewright_args[] = {
%(args)s
};
static const struct tilewright_step tilewright_steps[] = {
%(steps)s
};

/* Fill slots with the functions of a library, of another file where the environment says so. */
static int tilewright_library(const char *variable, const char *name, const char *const *names, size_t count,
                              void **slots) {
  const char *path = getenv(variable);
  void *library = dlopen(path ? path : name, RTLD_NOW);
  size_t i;
  if (!library) return 1;
  for (i = 0; i < count; i++)
    if (!(slots[i] = dlsym(library, names[i]))) return 1;
  return 0;
}

"""

AFTER = """
static int tilewright_device(void **slots) {
  static int opened, failed;
  int i, code;
  if (!opened) opened = 1, failed = tilewright_open(slots[%(inputs)d + %(outputs)d]);
  if (failed) return failed;
  for (i = 0; i < %(inputs)d; i++)
    if ((code = tilewright_write(2 + i, slots[i]))) return code;
  if ((code = tilewright_launch())) return code;
  for (i = %(inputs)d; i < %(inputs)d + %(outputs)d; i++)
    if ((code = tilewright_read(2 + i, slots[i]))) return code;
  return 0;
}
"""
