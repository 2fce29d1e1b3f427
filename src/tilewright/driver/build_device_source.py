"""A fused module for OpenCL to C source that launches its kernels: the functions of `runtime.c_source`, for any driver.

model.c, model.h, and where the weights are large model.weights, as `build_source` writes them for processors.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tilewright.backend import backend_of
from tilewright.backend.gpu.noted_steps import first_codes, noted_steps
from tilewright.backend.gpu.opencl_host import ERRORS, opencl_host_text
from tilewright.driver.build import compile_segments, plan_segments
from tilewright.driver.build_source import write_files
from tilewright.driver.plan import model_manifest
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.artifact import weights_bytes
from tilewright.runtime.c_interface import INTERFACE_ERRORS, CInterface
from tilewright.runtime.c_source import CModel
from tilewright.runtime.export import c_name
from tilewright.target import Target

_TOP = """\
/* {name}: a model compiled by Tilewright {version} to kernels of OpenCL, and C99 that launches them. Compile it with

     cc -std=c99 -O2 -c {name}.c        (and link with -ldl)

   Calls take turns: none may begin while another runs. The first one compiles the kernels and uploads the weights. */
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


def write_device_source(mod: IRModule, target: Target, path: Path, name: str | None = None) -> list[Path]:
    """Write the C source of a module that went through the graph passes to `path` (.c) and beside it; the files.

    Raises `UnsupportedError` for symbolic sizes.
    """
    name, backend = c_name(path, name), backend_of(target)
    built = compile_segments(plan_segments([("main", mod)], backend), backend)
    manifest = model_manifest(built.plans[0], mod["main"], backend, built.constants)
    nbytes = weights_bytes(manifest, [constant.data for constant in built.constants])
    noted, sources = noted_steps(built.plans[0], built.code, nbytes), [one.source for one in first_codes(built.code)]
    text = opencl_host_text(built.plans[0], noted, sources, nbytes)
    interface = replace(
        CInterface.of(manifest), arena_bytes=0, scratch_bytes=0, max_threads=1, errors=(*INTERFACE_ERRORS, *ERRORS)
    )
    before = text + _RUN.format(own=len(INTERFACE_ERRORS))
    top = _TOP.format(name=name, version=manifest.tilewright_version)
    return write_files(path, name, built, manifest, CModel(interface, before, "tilewright_run(slots)"), [top])
