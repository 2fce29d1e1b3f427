"""A fused module to C99 source: every kernel, the run loop, the functions that a C program calls, and the weights.

model.c, model.h, and where the weights are large model.weights; `runtime.c_source` says what the functions are. The
code runs on one thread and needs <math.h> only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.backend import backend_of
from tilewright.backend.c.backend import SourceBackend
from tilewright.codegen.source.c import c_prelude
from tilewright.codegen.source.compile_c import SEMANTICS
from tilewright.driver.build import BuiltSegments, compile_segments, plan_segments
from tilewright.driver.plan import model_manifest
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.artifact import weight_parts, weights_bytes
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.c_source import CModel, functions_text, header_text
from tilewright.runtime.export import c_name, move_into_place
from tilewright.runtime.link import split_objects
from tilewright.runtime.manifest import Manifest
from tilewright.target import Target

#: Weights up to this size stand in the source; a compiler takes about a second for each 4 MiB of them.
MOST_WEIGHTS_IN_SOURCE = 4 << 20

_TOP = """\
/* {name}: a model compiled by Tilewright {version} to C99, for one thread. Compile it with

     cc -std=c99 -O2 {semantics} -c {name}.c        (and link with -lm)

   Signed integers must wrap, and products may be fused with sums. */
#include "{name}.h"

"""

_GIVEN_WEIGHTS = """\
static const void *tilewright_weights;

void tilewright_{name}_set_weights(const void *weights) {{
  tilewright_weights = weights;
}}
"""


def source_backend(target: Target) -> SourceBackend:
    """The backend that writes C source. Raises `UnsupportedError` for a device that is no processor."""
    backend = backend_of(target)
    if isinstance(backend, SourceBackend):
        return backend
    if backend.device != SourceBackend.device:
        raise UnsupportedError(
            f'C source is for one thread of a processor, and the target is {target}: take "c", or a processor such as '
            f'"llvm -mcpu=cortex-a76"; tilewright.compile compiles for {target}'
        )
    return SourceBackend(target)


def write_source(mod: IRModule, backend: SourceBackend, path: Path, name: str | None = None) -> list[Path]:
    """Write the C source of a module that went through the graph passes to `path` (.c) and beside it; the files.

    `name` becomes part of the C names (default: from the file's name). Raises `EnvironmentError_` where they cannot be
    written; then none is.
    """
    name = c_name(path, name)
    built = compile_segments(plan_segments([(f"{name}_model", mod)], backend), backend, for_c=True)
    manifest = model_manifest(built.plans[0], mod["main"], backend, built.constants)
    interface = CInterface.of(manifest)
    run = f"{manifest.entry_symbol}(slots, &tilewright_alone) ? {interface.kernel_error} : 0"
    return write_files(path, name, built, manifest, CModel(interface, "", run))


def write_files(
    path: Path, name: str, built: BuiltSegments, manifest: Manifest, model: CModel, head: Sequence[str] | None = None
) -> list[Path]:
    """Write the text of a model, its header, and its weights where they are large; the files.

    `head` are the texts before the weights: by default what C kernels need, and these.
    """
    weights = [constant.data for constant in built.constants]
    large = weights_bytes(manifest, weights) > MOST_WEIGHTS_IN_SOURCE
    stored = path.with_name(f"{name}.weights")
    if head is None:
        top = _TOP.format(name=name, version=manifest.tilewright_version, semantics=" ".join(SEMANTICS))
        head = [top, c_prelude(one_worker=True), *[text.decode() for text in split_objects(built.code)]]
    parts = [
        *head,
        _GIVEN_WEIGHTS.format(name=name) if large else _weights_text(manifest, weights),
        model.before,
        functions_text(name, model.interface, model.run, given_weights=large),
    ]
    with tempfile.TemporaryDirectory(prefix="tilewright-source-") as folder:
        work = Path(folder)
        (work / "model.c").write_text("\n".join(parts))
        header = header_text(name, manifest, True, stored.name if large else None, model.interface)
        (work / "model.h").write_text(header)
        files = [(work / "model.c", path), (work / "model.h", path.with_name(f"{name}.h"))]
        if large:
            (work / "model.weights").write_bytes(_section(manifest, weights).tobytes())
            files.append((work / "model.weights", stored))
        move_into_place(files)
    return [target for _, target in files]


def _section(manifest: Manifest, weights: Sequence[Any]) -> np.ndarray:
    """The weights as they lie in memory, in whole 64-bit words."""
    section = np.zeros(-(-max(weights_bytes(manifest, weights), 8) // 8) * 8, np.uint8)
    for offset, part in weight_parts(manifest, weights):
        data = np.frombuffer(part, np.uint8) if not isinstance(part, np.ndarray) else part.reshape(-1).view(np.uint8)
        section[offset : offset + data.size] = data
    return section


def _weights_text(manifest: Manifest, weights: Sequence[Any]) -> str:
    """The weights as an array of little-endian words."""
    words = [f"0x{word:x}u" for word in _section(manifest, weights).view("<u8").tolist()]
    lines = ["  " + ", ".join(words[start : start + 8]) for start in range(0, len(words), 8)]
    head = f"static const uint64_t tilewright_weights[{len(words)}] TILEWRIGHT_ALIGNED = {{"
    return "\n".join([head, ",\n".join(lines), "};\n"])
