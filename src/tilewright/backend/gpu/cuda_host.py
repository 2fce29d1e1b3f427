"""A model's plan for CUDA as C: machine code of its kernels, its launches as tables, and what loads and replays them.

As `opencl_host`, over NVIDIA's driver (libcuda.so.1, from CUDA 12.0 on) and without its headers: the first run takes
the machine code that suits the first GPU best, allocates all memory at once, uploads the weights, and captures the
launches as a graph; every run replays it. Launches may differ among architectures, so that each has rows of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.backend.gpu.host_text import AFTER, BEFORE, HostTables, host_fields
from tilewright.errors import EnvironmentError_, UnsupportedError
from tilewright.runtime.gpu.code import DeviceCode
from tilewright.runtime.gpu.cuda import architecture_of
from tilewright.runtime.gpu.noted_steps import codes_for, noted_steps
from tilewright.runtime.link import split_objects
from tilewright.runtime.plan import ExecutionPlan

#: What may go wrong beside the model's own checks, in the order of the codes of `tilewright_device`.
ERRORS = (
    "there is no NVIDIA driver of CUDA 12.0 or newer (libcuda.so.1, or the library of TILEWRIGHT_CUDA_LIBRARY)",
    "the NVIDIA driver finds no GPU",
    "none of the model's machine code runs on this GPU and driver: compile it for the GPU's architecture, as by -arch",
    "the NVIDIA driver refused memory, a kernel or a launch",
)


def cuda_host_text(plan: ExecutionPlan, code: bytes, weights: int) -> str:
    """The C text of a plan of fixed sizes, with the code of its kernels and so many bytes of weights.

    Raises `EnvironmentError_` where the code has no machine code, `UnsupportedError` for the emulation.
    """
    tables, images, variants = HostTables(plan), list[bytes](), list[str]()
    for name in _binaries(code):
        codes, (is_cubin, exact, (major, minor)) = codes_for(code, name), architecture_of(name)
        first = len(tables.steps)
        tables.add(noted_steps(plan, code, weights, name), [one.source for one in codes], len(images))
        fits = f"{major}, {minor}, {int(exact)}, {int(not is_cubin)}"
        variants.append(f"{{{fits}, {len(images)}, {len(codes)}, {first}, {len(tables.steps) - first}}}")
        images += [one.binaries[name] for one in codes]
    fields = host_fields(plan, weights, tables)
    fields |= {
        "image_words": "\n".join(_words(number, image) for number, image in enumerate(images)),
        "images": ", ".join(f"tilewright_image_{number}" for number in range(len(images))),
        "image_count": len(images),
        "variants": ", ".join(variants),
    }
    return (BEFORE + _TEXT + AFTER) % fields


def _binaries(code: bytes) -> list[str]:
    """The names of the machine code that all groups of kernels have, the best first wherever several run."""
    names: set[str] | None = None
    for group in split_objects(code):
        codes = [DeviceCode.decode(one) for one in split_objects(group)]
        if any(one.emulate for one in codes):
            raise UnsupportedError("C source launches kernels on a GPU, and -emulate=1 runs them on this processor")
        own = {name for one in codes for name in one.binaries}
        names = own if names is None else names & own
    if not names:
        raise EnvironmentError_(
            "C source for CUDA holds machine code, and NVRTC, which makes it, is not installed: "
            "pip install 'tilewright[cuda]'"
        )
    return sorted(names, key=architecture_of, reverse=True)


def _words(number: int, image: bytes) -> str:
    """Machine code as an array of 64-bit words; text (PTX) ends in NUL."""
    padded = image.ljust(len(image) // 8 * 8 + 8, b"\0")
    words = [f"0x{word:x}u" for word in np.frombuffer(padded, "<u8").tolist()]
    lines: Sequence[str] = ["  " + ", ".join(words[start : start + 8]) for start in range(0, len(words), 8)]
    return f"static const uint64_t tilewright_image_{number}[] = {{\n" + ",\n".join(lines) + "\n};"


_TEXT = """\
%(image_words)s
static const uint64_t *const tilewright_images[] = {%(images)s};
/* Machine code for an architecture, the best first: a cubin for GPUs of its major number or exactly these, or PTX. */
struct tilewright_variant { int major, minor, exact, ptx, image, images, first, count; };
static const struct tilewright_variant tilewright_variants[] = {%(variants)s};

/* The part of the driver API that is used; memory is addressed by numbers. */
typedef void *cu_handle;
static struct {
  int (*init)(unsigned);
  int (*count)(int *);
  int (*device)(int *, int);
  int (*attribute)(int *, int, int);
  int (*retain)(cu_handle *, int);
  int (*current)(cu_handle);
  int (*allocate)(uint64_t *, size_t);
  int (*stream)(cu_handle *, unsigned);
  int (*synchronize)(cu_handle);
  int (*write)(uint64_t, const void *, size_t, cu_handle);
  int (*read)(void *, uint64_t, size_t, cu_handle);
  int (*copy)(uint64_t, uint64_t, size_t, cu_handle);
  int (*load)(cu_handle *, const void *);
  int (*unload)(cu_handle);
  int (*function)(cu_handle *, cu_handle, const char *);
  int (*set)(cu_handle, int, int);
  int (*launch)(cu_handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cu_handle, void **,
                void **);
  int (*begin)(cu_handle, int);
  int (*end)(cu_handle, cu_handle *);
  int (*instantiate)(cu_handle *, cu_handle, unsigned long long);
  int (*replay)(cu_handle, cu_handle);
} tilewright_cu;
static const char *const tilewright_names[] = {
  "cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
  "cuMemAlloc_v2", "cuStreamCreate", "cuStreamSynchronize", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
  "cuMemcpyDtoDAsync_v2", "cuModuleLoadData", "cuModuleUnload", "cuModuleGetFunction", "cuFuncSetAttribute",
  "cuLaunchKernel", "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch"
};
static cu_handle tilewright_context, tilewright_stream, tilewright_graph, tilewright_modules[%(image_count)d];
static uint64_t tilewright_buffers[%(buffers)d];

static int tilewright_write(int buffer, const void *data) {
  if (tilewright_cu.current(tilewright_context)) return 4; /* calls may come from several threads */
  return tilewright_cu.write(tilewright_buffers[buffer], data, tilewright_sizes[buffer], tilewright_stream) ? 4 : 0;
}

static int tilewright_launch(void) {
  if (tilewright_cu.current(tilewright_context)) return 4;
  return tilewright_cu.replay(tilewright_graph, tilewright_stream) ? 4 : 0;
}

static int tilewright_read(int buffer, void *data) {
  if (tilewright_cu.read(data, tilewright_buffers[buffer], tilewright_sizes[buffer], tilewright_stream)) return 4;
  return tilewright_cu.synchronize(tilewright_stream) ? 4 : 0;
}

/* One allocation, a buffer after the other at multiples of 256 bytes. */
static int tilewright_allocate(void) {
  uint64_t base;
  size_t total = 0;
  int i;
  for (i = 0; i < %(buffers)d; i++) {
    tilewright_buffers[i] = total;
    total += (tilewright_sizes[i] + 255) / 256 * 256;
  }
  if (tilewright_cu.allocate(&base, total)) return 4;
  for (i = 0; i < %(buffers)d; i++) tilewright_buffers[i] += base;
  return 0;
}

/* Queue one step: a copy, or a launch, whose arguments the driver reads before it returns. */
static int tilewright_queue(const struct tilewright_step *step) {
  const struct tilewright_arg *args = tilewright_args + step->first;
  uint64_t addresses[%(most)d];
  void *slots[%(most)d] = {0};
  cu_handle function;
  int i;
  if (step->program < 0)
    return tilewright_cu.copy(tilewright_buffers[args[1].buffer] + args[1].offset,
                              tilewright_buffers[args[0].buffer] + args[0].offset, step->global[0], tilewright_stream);
  for (i = 0; i < step->count; i++) {
    if (args[i].buffer >= 0) addresses[i] = tilewright_buffers[args[i].buffer] + args[i].offset;
    slots[i] = args[i].buffer < 0 ? (void *)(uintptr_t)args[i].value : (void *)&addresses[i];
  }
  if (tilewright_cu.function(&function, tilewright_modules[step->program], step->kernel)) return 4;
  /* a function has to be allowed more than 48 KiB of shared memory: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
  if (step->shared > 49152 && tilewright_cu.set(function, 8, (int)step->shared)) return 4;
  return tilewright_cu.launch(function, (unsigned)(step->global[0] / step->local[0]),
                              (unsigned)(step->global[1] / step->local[1]),
                              (unsigned)(step->global[2] / step->local[2]), (unsigned)step->local[0],
                              (unsigned)step->local[1], (unsigned)step->local[2], (unsigned)step->shared,
                              tilewright_stream, slots, 0);
}

static int tilewright_load(const struct tilewright_variant *variant) {
  int i;
  for (i = variant->image; i < variant->image + variant->images; i++)
    if (tilewright_cu.load(&tilewright_modules[i], tilewright_images[i])) {
      while (i-- > variant->image) tilewright_cu.unload(tilewright_modules[i]);
      return 3;
    }
  return 0;
}

/* Capture the launches of a variant, whose modules are loaded, as a graph. */
static int tilewright_record(const struct tilewright_variant *variant) {
  cu_handle graph;
  int i, failed = 0;
  if (tilewright_cu.begin(tilewright_stream, 2)) return 4; /* CU_STREAM_CAPTURE_MODE_RELAXED: loading is allowed */
  for (i = 0; i < variant->count && !failed; i++) failed = tilewright_queue(tilewright_steps + variant->first + i);
  if (tilewright_cu.end(tilewright_stream, &graph) || failed) return 4;
  return tilewright_cu.instantiate(&tilewright_graph, graph, 0) ? 4 : 0;
}

static int tilewright_fits(const struct tilewright_variant *made, int major, int minor) {
  if (made->exact) return made->major == major && made->minor == minor;
  if (made->major == major) return made->minor <= minor;
  return made->ptx && made->major < major;
}

static int tilewright_open(const void *weights) {
  int device, count = 0, major, minor;
  size_t i;
  if (tilewright_library("TILEWRIGHT_CUDA_LIBRARY", "libcuda.so.1", tilewright_names,
                         sizeof tilewright_names / sizeof *tilewright_names, (void **)&tilewright_cu))
    return 1;
  if (tilewright_cu.init(0) || tilewright_cu.count(&count) || count < 1 || tilewright_cu.device(&device, 0)) return 2;
  /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR */
  if (tilewright_cu.attribute(&major, 75, device) || tilewright_cu.attribute(&minor, 76, device)) return 2;
  if (tilewright_cu.retain(&tilewright_context, device) || tilewright_cu.current(tilewright_context)) return 4;
  if (tilewright_cu.stream(&tilewright_stream, 1) || tilewright_allocate()) return 4; /* waits for no other stream */
  if (tilewright_write(0, weights) || tilewright_cu.synchronize(tilewright_stream)) return 4;
  for (i = 0; i < sizeof tilewright_variants / sizeof *tilewright_variants; i++)
    if (tilewright_fits(&tilewright_variants[i], major, minor) && !tilewright_load(&tilewright_variants[i]))
      return tilewright_record(&tilewright_variants[i]);
  return 3;
}
"""
