"""A model's plan for OpenCL as C: the text of its kernels, its launches as tables, and what makes and runs them.

The C text defines `tilewright_device(slots)`, whose slots are the addresses of inputs, outputs and weights. It opens
libOpenCL at the first run, on the first GPU or else the first device, uploads the weights once, and queues all launches
of a run at once. It is for C99 and POSIX's `dlopen`; OpenCL's own headers are not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.backend.gpu.noted_steps import NotedSteps, Range
from tilewright.runtime.gpu.api import Copy, Launch
from tilewright.runtime.plan import ExecutionPlan

#: What may go wrong beside the model's own checks, in the order of the codes of `tilewright_device`.
ERRORS = (
    "there is no OpenCL library (libOpenCL.so.1, or that of TILEWRIGHT_OPENCL_LIBRARY)",
    "no OpenCL driver has a device",
    "the OpenCL compiler refused the kernels",
    "OpenCL refused memory, a kernel or a launch",
)


def opencl_host_text(plan: ExecutionPlan, noted: NotedSteps, sources: Sequence[str], weights: int) -> str:
    """The C text of a plan of fixed sizes with so many bytes of weights, and the text of each group of kernels."""
    specs = (*plan.inputs, *plan.outputs)
    sizes = [weights, plan.arena_bytes, *(int(np.prod(s.static_shape)) * s.dtype.itemsize for s in specs)]
    names = ["weights", "arena", *(f"input {i}" for i in range(len(plan.inputs)))]
    names += [f"output {i}" for i in range(len(plan.outputs))]
    table = _Tables({name: number for number, name in enumerate(names)}, sources)
    for step in noted.steps:
        table.add(step)
    return _TEXT % {
        "sources": ",\n".join(_literal(source) for source in sources),
        "programs": len(sources),
        "sizes": ", ".join(f"{max(1, size)}u" for size in sizes),
        "buffers": len(sizes),
        "inputs": len(plan.inputs),
        "outputs": len(plan.outputs),
        "args": _rows(table.args),
        "steps": _rows(table.steps),
        "count": len(table.steps),
        "most": max((len(step.args) for step in noted.steps if isinstance(step, Launch)), default=1),
    }


class _Tables:
    """The rows of both tables, as C."""

    def __init__(self, names: dict[str, int], sources: Sequence[str]) -> None:
        self.args: list[str] = []
        self.steps: list[str] = []
        self._numbers, self._sources = names, sources

    def add(self, step: Launch | Copy) -> None:
        """Add a launch, or a copy between two buffers."""
        first = len(self.args)
        if isinstance(step, Copy):
            self.args += [self._arg(step.source), self._arg(step.target)]
            self.steps.append(f'{{-1, "", {{{step.nbytes}u, 1, 1}}, {{1, 1, 1}}, {first}, 2, 0}}')
            return
        self.args += [self._arg(arg) for arg in step.args]
        name = step.kernel.name
        program = next(i for i, source in enumerate(self._sources) if f" {name}(" in source)
        size = ", ".join(f"{g * b}u" for g, b in zip(step.grid, step.block))
        block = ", ".join(f"{b}u" for b in step.block)
        count = f"{first}, {len(step.args)}, {step.shared_bytes}u"
        self.steps.append(f'{{{program}, "{name}", {{{size}}}, {{{block}}}, {count}}}')

    def _arg(self, arg: Any) -> str:
        if isinstance(arg, Range):
            return f"{{{self._numbers[arg.space]}, {arg.offset}u, {max(1, arg.nbytes)}u, {{0}}}}"
        value = np.asarray(arg)
        listed = ", ".join(str(byte) for byte in value.tobytes())
        return f"{{-1, 0, {value.itemsize}u, {{{listed}}}}}"


def _rows(rows: Sequence[str]) -> str:
    return ",\n".join(f"  {row}" for row in rows) or "  {0}"


def _literal(text: str) -> str:
    return "\n".join(f'  "{line}"' for line in _escaped(text)) or '  ""'


def _escaped(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield line.replace("\\", "\\\\").replace('"', '\\"').replace("??", "?\\?") + "\\n"


_TEXT = """\
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

static const char *const tilewright_sources[] = {
%(sources)s
};
static const size_t tilewright_sizes[] = {%(sizes)s}; /* of the weights, the arena, inputs and outputs */
static const struct tilewright_arg tilewright_args[] = {
%(args)s
};
static const struct tilewright_step tilewright_steps[] = {
%(steps)s
};

/* The part of OpenCL 1.2 that is used, with the types of its specification. */
typedef void *cl_object;
static struct {
  int32_t (*platforms)(uint32_t, cl_object *, uint32_t *);
  int32_t (*devices)(cl_object, uint64_t, uint32_t, cl_object *, uint32_t *);
  cl_object (*context)(const intptr_t *, uint32_t, const cl_object *, void *, void *, int32_t *);
  cl_object (*queue)(cl_object, cl_object, uint64_t, int32_t *);
  cl_object (*program)(cl_object, uint32_t, const char **, const size_t *, int32_t *);
  int32_t (*build)(cl_object, uint32_t, const cl_object *, const char *, void *, void *);
  cl_object (*kernel)(cl_object, const char *, int32_t *);
  int32_t (*argument)(cl_object, uint32_t, size_t, const void *);
  cl_object (*buffer)(cl_object, uint64_t, size_t, void *, int32_t *);
  cl_object (*part)(cl_object, uint64_t, uint32_t, const void *, int32_t *);
  int32_t (*write)(cl_object, cl_object, uint32_t, size_t, size_t, const void *, uint32_t, const void *, void *);
  int32_t (*read)(cl_object, cl_object, uint32_t, size_t, size_t, void *, uint32_t, const void *, void *);
  int32_t (*copy)(cl_object, cl_object, cl_object, size_t, size_t, size_t, uint32_t, const void *, void *);
  int32_t (*launch)(cl_object, cl_object, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t,
                    const void *, void *);
} tilewright_cl;
static const char *const tilewright_names[] = {
  "clGetPlatformIDs", "clGetDeviceIDs", "clCreateContext", "clCreateCommandQueue", "clCreateProgramWithSource",
  "clBuildProgram", "clCreateKernel", "clSetKernelArg", "clCreateBuffer", "clCreateSubBuffer", "clEnqueueWriteBuffer",
  "clEnqueueReadBuffer", "clEnqueueCopyBuffer", "clEnqueueNDRangeKernel"
};
static cl_object tilewright_queue, tilewright_buffers[%(buffers)d], tilewright_kernels[%(count)d + 1];

static int tilewright_library(void) {
  const char *path = getenv("TILEWRIGHT_OPENCL_LIBRARY");
  void *library = dlopen(path ? path : "libOpenCL.so.1", RTLD_NOW), **slot = (void **)&tilewright_cl;
  size_t i;
  if (!library) return 1;
  for (i = 0; i < sizeof tilewright_names / sizeof *tilewright_names; i++)
    if (!(slot[i] = dlsym(library, tilewright_names[i]))) return 1;
  return 0;
}

static cl_object tilewright_find_device(void) {
  cl_object platforms[16], device = 0;
  uint32_t count = 0, i, found;
  int type; /* a GPU, or else any device */
  if (tilewright_cl.platforms(16, platforms, &count)) return 0;
  if (count > 16) count = 16;
  for (type = 0; type < 2; type++)
    for (i = 0; i < count; i++)
      if (!tilewright_cl.devices(platforms[i], type ? 0xFFFFFFFFu : 4u, 1, &device, &found) && found) return device;
  return 0;
}

/* The buffer of an argument, or the part of it that begins at its offset. */
static cl_object tilewright_range(const struct tilewright_arg *arg, int32_t *error) {
  size_t region[2];
  if (arg->offset == 0) return *error = 0, tilewright_buffers[arg->buffer];
  region[0] = arg->offset, region[1] = arg->bytes;
  return tilewright_cl.part(tilewright_buffers[arg->buffer], 1, 0x1220, region, error);
}

static int tilewright_set_arguments(const struct tilewright_step *step, cl_object kernel) {
  int32_t error;
  int i;
  for (i = 0; i < step->count; i++) {
    const struct tilewright_arg *arg = tilewright_args + step->first + i;
    cl_object range;
    if (arg->buffer < 0) {
      if (tilewright_cl.argument(kernel, (uint32_t)i, arg->bytes, arg->value)) return 4;
      continue;
    }
    range = tilewright_range(arg, &error);
    if (error || tilewright_cl.argument(kernel, (uint32_t)i, sizeof range, &range)) return 4;
  }
  return step->shared && tilewright_cl.argument(kernel, (uint32_t)i, step->shared, 0) ? 4 : 0;
}

static int tilewright_open(const void *weights) {
  cl_object device, context, programs[%(programs)d];
  int32_t error;
  int i;
  if (tilewright_library()) return 1;
  if (!(device = tilewright_find_device())) return 2;
  context = tilewright_cl.context(0, 1, &device, 0, 0, &error);
  if (error) return 2;
  tilewright_queue = tilewright_cl.queue(context, device, 0, &error);
  if (error) return 4;
  for (i = 0; i < %(programs)d; i++) {
    programs[i] = tilewright_cl.program(context, 1, (const char **)(uintptr_t)&tilewright_sources[i], 0, &error);
    if (error || tilewright_cl.build(programs[i], 1, &device, "", 0, 0)) return 3;
  }
  for (i = 0; i < %(buffers)d; i++) {
    tilewright_buffers[i] = tilewright_cl.buffer(context, 1, tilewright_sizes[i], 0, &error);
    if (error) return 4;
  }
  if (tilewright_cl.write(tilewright_queue, tilewright_buffers[0], 1, 0, tilewright_sizes[0], weights, 0, 0, 0))
    return 4;
  for (i = 0; i < %(count)d; i++) {
    const struct tilewright_step *step = tilewright_steps + i;
    if (step->program < 0) continue;
    tilewright_kernels[i] = tilewright_cl.kernel(programs[step->program], step->kernel, &error);
    if (error) return 4;
    if (tilewright_set_arguments(step, tilewright_kernels[i])) return 4;
  }
  return 0;
}

static int tilewright_device(void **slots) {
  static int opened, failed;
  int i;
  if (!opened) opened = 1, failed = tilewright_open(slots[%(inputs)d + %(outputs)d]);
  if (failed) return failed;
  for (i = 0; i < %(inputs)d; i++)
    if (tilewright_cl.write(tilewright_queue, tilewright_buffers[2 + i], 0, 0, tilewright_sizes[2 + i], slots[i], 0, 0,
                            0))
      return 4;
  for (i = 0; i < %(count)d; i++) {
    const struct tilewright_step *step = tilewright_steps + i;
    const struct tilewright_arg *args = tilewright_args + step->first;
    if (step->program < 0
            ? tilewright_cl.copy(tilewright_queue, tilewright_buffers[args[0].buffer],
                                 tilewright_buffers[args[1].buffer], args[0].offset, args[1].offset, step->global[0], 0,
                                 0, 0)
            : tilewright_cl.launch(tilewright_queue, tilewright_kernels[i], 3, 0, step->global, step->local, 0, 0, 0))
      return 4;
  }
  for (i = %(inputs)d; i < %(inputs)d + %(outputs)d; i++)
    if (tilewright_cl.read(tilewright_queue, tilewright_buffers[2 + i], 1, 0, tilewright_sizes[2 + i], slots[i], 0, 0,
                           0))
      return 4;
  return 0;
}
"""
