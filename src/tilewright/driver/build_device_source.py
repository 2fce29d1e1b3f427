"""A fused module for OpenCL or CUDA to C source that launches its kernels: the functions of `runtime.c_source`.

model.c, model.h, and where the weights are large model.weights, as `build_source` writes them for processors.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tilewright.backend import backend_of
from tilewright.backend.gpu import cuda_host, opencl_host
from tilewright.driver.build import compile_segments, plan_segments
from tilewright.driver.build_source import Exported, SourceModel, write_models
from tilewright.driver.plan import model_manifest
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.artifact import weights_bytes
from tilewright.runtime.c_interface import INTERFACE_ERRORS, CInterface
from tilewright.runtime.c_source import CModel
from tilewright.runtime.export import c_name
from tilewright.target import Target

_TOP = """\
/* {name}: a model compiled by Tilewright {version} to kernels of {kind}, and C99 that launches them. Compile it with

     cc -std=c99 -O2 -c {name}.c        (and link with -ldl)

   Calls take turns: none may begin while another runs. The first one loads the kernels and uploads the weights. */
#include "{name}.h"

#define TILEWRIGHT_ALIGNED
"""

_RUN = """\
static int tilewright_run(void **slots) {{
  int code = tilewright_device(slots);
  return code ? code + {own} : 0;
}}
"""


def refuse_program(obstacle: str, target: Target) -> None:
    """Raise `UnsupportedError` where an `obstacle` has a model run on the virtual machine."""
    if obstacle:
        raise UnsupportedError(
            f"C source for {target.kind} launches the kernels of straight graphs, and this model needs the virtual "
            f"machine for {obstacle}: save an artifact (.tw), or write C source for a processor"
        )


#: How each kind is called, its text from a plan with code and bytes of weights, and what it adds to errors.
_KINDS = {
    "opencl": ("OpenCL", opencl_host.opencl_host_text, opencl_host.ERRORS),
    "cuda": ("CUDA", cuda_host.cuda_host_text, cuda_host.ERRORS),
}


def has_device_source(target: Target) -> bool:
    """True for a device for which there is C source."""
    return target.kind in _KINDS


def write_device_source(mod: IRModule, target: Target, path: Path, name: str | None = None) -> Exported:
    """Write the C source of a module that went through the graph passes to `path` (.c) and beside it.

    Raises `UnsupportedError` for symbolic sizes, `EnvironmentError_` where NVRTC is needed and not installed.
    """
    name, backend = c_name(path, name), backend_of(target)
    built = compile_segments(plan_segments([("main", mod)], backend), backend)
    if built.plans[0].dynamic is not None:
        raise UnsupportedError(
            f"C source for {target.kind} has the launches of fixed sizes: fix them, as by --input-shapes, or save an "
            "artifact (.tw), or write C source for a processor"
        )
    manifest = model_manifest(built.plans[0], mod["main"], backend, built.constants)
    nbytes = weights_bytes(manifest, [constant.data for constant in built.constants])
    kind, host_text, errors = _KINDS[target.kind]
    text = host_text(built.plans[0], built.code, nbytes)
    interface = replace(
        CInterface.of(manifest), arena_bytes=0, scratch_bytes=0, max_threads=1, errors=(*INTERFACE_ERRORS, *errors)
    )
    before = text + _RUN.format(own=len(INTERFACE_ERRORS))
    top = _TOP.format(name=name, version=manifest.tilewright_version, kind=kind)
    model = SourceModel(name, manifest, CModel(interface, before, "tilewright_run(slots)"))
    return write_models(path, name, built, [model], [top])
