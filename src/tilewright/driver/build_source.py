"""Fused modules to C99 source: every kernel, the run loop, the functions that a C program calls, and the weights.

model.c, model.h, and where the weights are large model.weights; `runtime.c_source` says what the functions are. The
code runs on one thread. It needs <math.h> where a model calls a function of float64, and nothing freestanding.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.backend import backend_of
from tilewright.backend.c.backend import SourceBackend
from tilewright.codegen.source.compile_c import SEMANTICS
from tilewright.codegen.source.prelude import source_prelude
from tilewright.codegen.source.share_functions import share_functions
from tilewright.driver.build import BuiltSegments, compile_segments, plan_segments
from tilewright.driver.plan import WEIGHT_ALIGNMENT, model_manifest, unique_constants
from tilewright.driver.require_oblivious import require_oblivious, require_plain_functions
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Constant
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.memory.plan_memory import MemoryPlan
from tilewright.runtime.artifact import weight_parts, weights_bytes
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.c_source import CModel, checked_text, functions_text, image_header_text, set_weights_declaration
from tilewright.runtime.c_stream import State, stream_declarations, stream_text
from tilewright.runtime.export import c_name, move_into_place
from tilewright.runtime.link import split_objects
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.sealed.container import Seal, seal
from tilewright.runtime.sealed.reader import load_declaration, load_text
from tilewright.target import Target

#: Weights up to this size stand in the source; a compiler takes about a second for each 4 MiB of them.
MOST_WEIGHTS_IN_SOURCE = 4 << 20

_TOP = """\
/* {name}: a model compiled by Tilewright {version} to C99, for one thread. Compile it with

     cc -std=c99 -O2 {semantics} -c {name}.c        (and link with -lm if it includes <math.h>)

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


#: The states of a model between steps, by its interface.
States = Callable[[CInterface], Sequence[State]]


def image_target(targets: Sequence[Target]) -> Target:
    """The target of models in one image, that with the accelerator where some run on one.

    Raises `UnsupportedError` for models of different processors or accelerators.
    """
    different = dict.fromkeys(targets)
    wide = [target for target in different if target.kind == "vta"]
    processors = {getattr(target, "processor", target) for target in different}
    configurations = {getattr(target, "figures", ()) for target in wide}
    if len(processors) > 1 or len(configurations) > 1:
        raise UnsupportedError(
            "models in one image are for one processor, and one configuration of VTA beside it; these are for "
            + ", ".join(map(str, different))
        )
    return (wide or list(different))[0]


@dataclass(frozen=True)
class SourceModel:
    """A model of C source: its name in C, its manifest, how its text runs it, its states between steps."""

    name: str
    manifest: Manifest
    c_model: CModel
    states: Sequence[State] = ()


class Exported(list[Path]):
    """The files of a model in C source, the .c first; its models, and the memory plan of each straight graph.

    `traded` says in words what limits of memory led to.
    """

    traded: Sequence[str] = ()

    def __init__(
        self, files: Iterable[Path], models: Sequence[SourceModel], memories: Sequence[MemoryPlan] = ()
    ) -> None:
        super().__init__(files)
        self.models, self.memories = models, memories


def write_source(
    modules: Sequence[tuple[str, IRModule]],
    backend: SourceBackend,
    path: Path,
    name: str | None = None,
    freestanding: bool = False,
    sealed: Seal | None = None,
    oblivious: bool = False,
    states: States | None = None,
) -> Exported:
    """Write the C source of modules that went through the graph passes to `path` (.c) and beside it.

    Each comes with its name in C; `name` is that of the header (default: from the file's name). Equal kernels and equal
    constants are there once. `states` finds those of a model by its interface. Raises `EnvironmentError_` where files
    cannot be written; then none is; with `oblivious` `UnsupportedError` for kernels whose branches or addresses depend
    on data.
    """
    planned = plan_segments([(f"{own}_model", mod) for own, mod in modules], backend)
    if oblivious:
        require_oblivious(planned.tasks, backend.target)
    read = [constant for memory in planned.memories for constant in memory.constants]
    built = compile_segments(planned, backend, for_c=True, offsets=shared_constants(read, backend.alignment))
    models = []
    for (own, mod), plan in zip(modules, built.plans, strict=True):
        manifest = model_manifest(plan, mod["main"], backend, distinct(built.constants))
        interface = CInterface.of(manifest)
        run = f"{manifest.entry_symbol}(slots, &tilewright_alone) ? {interface.kernel_error} : 0"
        found = states(interface) if states else ()
        models.append(SourceModel(own, manifest, CModel(interface, "", run), found))
    files = write_models(
        path, c_name(path, name), built, models, freestanding=freestanding, sealed=sealed, oblivious=oblivious
    )
    return Exported(files, models, built.memories)


def write_models(
    path: Path,
    name: str,
    built: BuiltSegments,
    models: Sequence[SourceModel],
    head: Sequence[str] | None = None,
    freestanding: bool = False,
    sealed: Seal | None = None,
    oblivious: bool = False,
) -> Exported:
    """Write the text of models, their header, and their weights where they are large, or `sealed` by two keys.

    `head` are the texts before the weights: by default what C kernels need, and these.
    """
    first = models[0].manifest
    weights = [constant.data for constant in distinct(built.constants)]
    large = sealed is not None or weights_bytes(first, weights) > MOST_WEIGHTS_IN_SOURCE
    stored = path.with_name(f"{name}.weights{'.sealed' if sealed else ''}")
    functions = []
    for model in models:
        interface = model.c_model.interface
        functions.append(model.c_model.before)
        functions.append(functions_text(model.name, interface, model.c_model.run, given_weights=large))
        functions.append(checked_text(model.name, interface))
        functions.append(stream_text(model.name, interface, model.states))
    if head is None:
        kernels = share_functions([text.decode() for text in split_objects(built.code)])
        if oblivious:
            require_plain_functions("\n".join(kernels))
        top = _TOP.format(name=name, version=first.tilewright_version, semantics=" ".join(SEMANTICS))
        head = [top, source_prelude([*kernels, *functions], freestanding), *kernels]
    data = _section(first, weights).tobytes() if large else b""
    if sealed is not None:
        owner = hashlib.sha256("\n".join([*head, *functions]).encode()).digest()[:16]
        given, nbytes = load_text(name, owner), len(data)
        data = seal(data, sealed.sign, sealed.encrypt, owner)
        declared = load_declaration(name, stored.name, nbytes, len(data))
    else:
        given = _GIVEN_WEIGHTS.format(name=name) if large else _weights_text(first, weights)
        declared = set_weights_declaration(name, stored.name) if large else ""
    declared += "".join(stream_declarations(model.name, model.c_model.interface, model.states) for model in models)
    listed = [(model.name, model.manifest, model.c_model.interface) for model in models]
    with tempfile.TemporaryDirectory(prefix="tilewright-source-") as folder:
        work = Path(folder)
        (work / "model.c").write_text("\n".join([*head, given, *functions]))
        (work / "model.h").write_text(image_header_text(name, listed, True, declared))
        files = [(work / "model.c", path), (work / "model.h", path.with_name(f"{name}.h"))]
        if large:
            (work / "model.weights").write_bytes(data)
            files.append((work / "model.weights", stored))
        move_into_place(files)
    return Exported((target for _, target in files), models)


def shared_constants(constants: Iterable[Constant], alignment: int) -> dict[Constant, int]:
    """The byte offset of each constant in the weights section; of equal bytes the same.

    [a, b] of equal bytes, [c]    =>    {a: 0, b: 0, c: 64}
    """
    firsts: dict[bytes, Constant] = {}
    same = {one: firsts.setdefault(hashlib.sha256(one.data.tobytes()).digest(), one) for one in constants}
    offsets = unique_constants(list(firsts.values()), alignment)
    return {constant: offsets[first] for constant, first in same.items()}


def distinct(constants: Mapping[Constant, int]) -> dict[Constant, int]:
    """Of the constants at one offset the first, without those that have no elements."""
    firsts = {offset: constant for constant, offset in reversed([*constants.items()]) if constant.data.nbytes}
    return {constant: offset for offset, constant in sorted(firsts.items())}


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
    wide = manifest.alignment > WEIGHT_ALIGNMENT
    aligned = f"__attribute__((aligned({manifest.alignment})))" if wide else "TILEWRIGHT_ALIGNED"
    head = f"static const uint64_t tilewright_weights[{len(words)}] {aligned} = {{"
    return "\n".join([head, ",\n".join(lines), "};\n"])
