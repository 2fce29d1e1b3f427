"""A model's plan for OpenCL as C: the text of its kernels, its launches as tables, and what makes and runs them.

The C text defines `tilewright_device(slots)`, whose slots are the addresses of inputs, outputs and weights. It opens
libOpenCL at the first run, on the first GPU or else the first device, uploads the weights once, and queues all launches
of a run at once. It is for C99 and POSIX's `dlopen`; OpenCL's own headers are not needed.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.backend.gpu.host_text import AFTER, BEFORE, HostTables, host_fields
from tilewright.runtime.gpu.noted_steps import codes_for, noted_steps
from tilewright.runtime.plan import ExecutionPlan

#: What may go wrong beside the model's own checks, in the order of the codes of `tilewright_device`.
ERRORS = (
    "there is no OpenCL library (libOpenCL.so.1, or that of TILEWRIGHT_OPENCL_LIBRARY)",
    "no OpenCL driver has a device",
    "the OpenCL compiler refused the kernels",
    "OpenCL refused memory, a kernel or a launch",
)


def opencl_host_text(plan: ExecutionPlan, code: bytes, weights: int) -> str:
    """The C text of a plan of fixed sizes, with the code of its kernels and so many bytes of weights."""
    sources, tables = [one.source for one in codes_for(code)], HostTables(plan)
    tables.add(noted_steps(plan, code, weights), sources)
    fields = host_fields(plan, weights, tables)
    fields |= {"sources": ",\n".join(_literal(source) for source in sources), "programs": len(sources)}
    return (BEFORE + _TEXT + AFTER) % fields


def _literal(text: str) -> str:
    return "\n".join(f'  "{line}"' for line in _escaped(text)) or '  ""'


def _escaped(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield line.replace("\\", "\\\\").replace('"', '\\"').replace("??", "?\\?") + "\\n"


_TEXT = """\
static const char *const tilewright_sources[] = {
%(sources)s
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
  if (tilewright_library("TILEWRIGHT_OPENCL_LIBRARY", "libOpenCL.so.1", tilewright_names,
                         sizeof tilewright_names / sizeof *tilewright_names, (void **)&tilewright_cl))
    return 1;
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

static int tilewright_write(int buffer, const void *data) {
  return tilewright_cl.write(tilewright_queue, tilewright_buffers[buffer], 0, 0, tilewright_sizes[buffer], data, 0, 0,
                             0)
             ? 4
             : 0;
}

static int tilewright_read(int buffer, void *data) {
  return tilewright_cl.read(tilewright_queue, tilewright_buffers[buffer], 1, 0, tilewright_sizes[buffer], data, 0, 0, 0)
             ? 4
             : 0;
}

static int tilewright_launch(void) {
  int i;
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
  return 0;
}
"""
