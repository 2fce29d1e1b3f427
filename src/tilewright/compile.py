"""The whole compiler as one straight list of calls into the layers below: read this first.

model file -> frontend -> Relay -> graph passes -> fused functions -> te schedules -> loop IR -> object code
           -> memory plan -> run loop -> Executable

docs/walkthrough.md follows one convolution through all of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tilewright.backend.c.backend import SourceBackend
from tilewright.board.limits import Limits, first_within, write_within
from tilewright.driver.build import ModelGraphs, finished
from tilewright.driver.build_device_source import has_device_source, refuse_program, write_device_source
from tilewright.driver.build_parts import build_segments
from tilewright.driver.build_source import Exported, image_target, source_backend, write_source
from tilewright.driver.model.build import optimized_graphs, run_function
from tilewright.driver.model.specialize import checked_limit, specialize_sizes
from tilewright.driver.optimize import optimize
from tilewright.driver.require_oblivious import oblivious_context
from tilewright.driver.vm.build import needs_machine
from tilewright.driver.vm.source import write_program_source
from tilewright.errors import UnsupportedError
from tilewright.frontend.formats.table import ModelSource, initial_states
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.memory.in_place import UPDATES
from tilewright.relay.transform.partition.lower_external import lower_external
from tilewright.relay.transform.simplify.expand_calls import expand_calls
from tilewright.request import ExampleInputs as ExampleInputs
from tilewright.request import Records as Records
from tilewright.request import Request
from tilewright.runtime.c_stream import states_of
from tilewright.runtime.export import c_name
from tilewright.runtime.model import Model
from tilewright.runtime.sealed.container import Seal
from tilewright.runtime.signing import Key
from tilewright.support.open_sizes import Shapes
from tilewright.support.plugin_faults import survives_exit
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc


@survives_exit
def compile(
    model: ModelSource,
    example_inputs: ExampleInputs | str | Target | None = None,
    *,
    target: str | Target = "cpu",
    input_shapes: Shapes | None = None,
    signature: str | None = None,
    outputs: str | Sequence[str] | None = None,
    threads: int | None = None,
    cache: bool = True,
    executor: str = "auto",
    specialize: int = 0,
    check: bool = False,
    records: Records | None = None,
    tune_seconds: float = 0.0,
    exact_rounding: bool = False,
    precision: str = "float32",
) -> Model:
    """Compile `model` for `target` into an executable.

    `model` is the path or bytes of a model of a known format (recognized by its contents), an object that one of
    them takes, such as an `onnx.ModelProto`, or a Relay module. A `torch.nn.Module`, and TorchScript, needs
    `example_inputs`, a tuple of the arguments or a mapping by name (a string or a `Target` instead is the target).
    `input_shapes` fixes dynamic
    dimensions, by the name of an input or its position, `[(1, 3, 224, 224)]`; a string names one that stays symbolic,
    `{"x": (1, 3, "H", "W")}`, as all do that are not given. `signature` names the entry of a model that has several,
    `outputs` the results that are wanted: some of the model's own, or those of nodes within it. `threads` is the number
    of workers (default: what the process may really use). With `cache`, a model
    compiled before for the same target and shapes is loaded from the disk cache, unless instruments of the open
    `PassContext` want to see the passes run. `executor` is "graph" (one native call; straight graphs only), "aot"
    (the same, and sizes and memory planned in compiled code, as in an exported library), "vm" (the virtual machine,
    which runs any program), "debug" (the same operator by operator, every result to be seen) or "auto": "graph" where
    that can run the model, else "vm". With `specialize`, a graph executable with symbolic sizes is compiled again, in
    the background, for up to that many sizes that are run often. With `check`, for debugging, an index out of range
    (of a Gather, a Scatter …) makes the run raise `InputError`, with the operator's name; without it it reads the
    nearest element, or writes nothing. A model that has such operators then runs on the virtual machine. `records` are
    a file that `tilewright tune` wrote: kernels that it knows on this processor take their schedules from it, the
    others from the cost model, and the same file yields the same code; "tophub" are those that come with the package,
    of processors that were measured. With `tune_seconds`, schedules are looked for by measuring the most promising ones
    of each kernel for about so long first (`tilewright tune` does it thoroughly). With `exact_rounding`, float16
    and bfloat16 are rounded after each operator of the model, as frameworks do that run one after the other; without it
    what they hand on to each other is in float32 (docs/numerics.md). With `precision="bf16"`, products of float32 with
    weights read operands rounded to bfloat16 where the processor gains by it; sums and all else stay in float32. With
    "tf32-like" dense layers read operands as sums of two bfloat16, with "f16" as float16, of which a few products are
    added up in float16 (docs/numerics.md states the losses).

    A model for another machine (`target="llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"`) is compiled as well: it
    can be saved and exported, and runs there; `tilewright.rpc` brings it there.

    Raises a `UserError` where the model, its shapes or the target are at fault; the message says what to do.
    """
    if isinstance(example_inputs, str | Target):
        target, example_inputs = example_inputs, None
    specialize = checked_limit(specialize)
    request = Request.of(
        model, target, input_shapes, example_inputs, threads, cache, signature=signature, outputs=outputs,
        executor=executor, check=check, records=records, tune_seconds=tune_seconds, exact_rounding=exact_rounding,
        precision=precision, runs_here=bool(specialize or tune_seconds),
    )  # fmt: skip
    executable = _compiled(request)
    if specialize:
        again = replace(request, executor="auto", tune_seconds=0.0, threads=None, jobs=1)
        specialize_sizes(
            executable, request.model, specialize, lambda shapes: _compiled(replace(again, input_shapes=shapes))
        )
    return executable


def _compiled(request: Request) -> Model:
    """The model of a request, from the cache or through the five steps of the compiler."""
    entry = request.cache_entry()
    cached = entry.load()
    if cached is not None:
        return cached
    mod = request.imported()
    graphs = optimized_graphs(mod, request.target, request.executor, request.records_for(mod))
    built = build_segments(graphs, request.jobs)
    executable = finished(built, graphs.manifest(built), graphs.backend, request.threads, entry.keep)
    entry.add(executable)
    return executable


@dataclass(frozen=True)
class Compiled:
    """A model, the graphs that it was made of, and the loops of its kernels by name, of those that have any."""

    model: Model
    graphs: ModelGraphs
    loops: Mapping[str, PrimFunc]


def compile_openly(
    module: IRModule,
    target: str | Target,
    *,
    threads: int | None = None,
    records: Records | None = None,
    exact_rounding: bool = False,
    precision: str = "float32",
) -> Compiled:
    """As `compile` of a module, in this process and without the cache, for who shows what was made."""
    request = Request.of(
        module, target, None, None, threads, False, records=records, exact_rounding=exact_rounding, precision=precision
    )
    imported = request.imported()
    graphs = optimized_graphs(imported, request.target, records=request.records_for(imported))
    loops: dict[str, PrimFunc] = {}
    graphs.backend.lowered = loops
    built = build_segments(graphs, jobs=1)
    return Compiled(finished(built, graphs.manifest(built), graphs.backend, threads), graphs, loops)


def export_source(
    model: ModelSource,
    path: str | os.PathLike[str],
    *,
    target: str | Target = "c",
    input_shapes: Shapes | None = None,
    name: str | None = None,
    exact_rounding: bool = False,
    signature: str | None = None,
    outputs: str | Sequence[str] | None = None,
    freestanding: bool = False,
    oblivious: bool = False,
    seal: tuple[Key, Key] | None = None,
    ram_limit: int | None = None,
    rom_limit: int | None = None,
    records: Records | None = None,
    states: Mapping[str, str] | None = None,
    first: Mapping[str, NDArray[Any]] | None = None,
) -> Exported:
    """Write `model` as C99 source for one thread to `path` (.c), its header and weights beside it; what was written.

    The code runs wherever a C compiler makes it run; `target` chooses its tiles; `exact_rounding` as in `compile`. With
    `freestanding` it needs nothing but memcpy and memset; with `oblivious` no branch, trip count or address of it
    depends on data, and an `UnsupportedError` names the kernels where that cannot be; with `seal`, a private key and
    one of encryption, the weights are a file that only the reader in the source opens (docs/enclaves.md). Where the
    workspace is to have at most `ram_limit` bytes, or constants and code `rom_limit`, code for boards is slower but
    smaller (`board.limits`). `records` as in `compile`. A model with states gets functions that run it in steps
    (`runtime.c_stream`): those that it declares, and `states` by the name of an input and of the output that is this
    input of the next step; `first` are values before the first step, which are zeros otherwise. For the targets
    "opencl" and "cuda" it launches the model's kernels. Raises as `compile` does, `UnsupportedError` for other targets
    that are no processor and for limits that nothing meets, and `EnvironmentError_` for "cuda" where NVRTC is not
    installed.
    """
    request = Request.of(
        model, target, input_shapes, cache=False, signature=signature, outputs=outputs, exact_rounding=exact_rounding,
        records=records,
    )  # fmt: skip
    target = request.target
    sealed, limits = None if seal is None else Seal(*seal), Limits(ram_limit, rom_limit)
    if has_device_source(target):
        if sealed:
            raise UnsupportedError(f"weights are sealed for processors, and the target is {target}")
        mod = expand_calls(lower_external(request.imported()))
        refuse_program(needs_machine(mod), target)
        kernels = optimize(mod, target)
        return first_within([lambda file: write_device_source(kernels, target, file, name)], Path(path), target, limits)
    backend = source_backend(target)
    mod = source_module(request, backend)
    obstacle = needs_machine(mod)
    if obstacle and oblivious:
        raise UnsupportedError(
            f"a model with control flow is not oblivious: it needs the virtual machine for {obstacle}"
        )
    if obstacle:
        graphs = partial(optimize, target=target, records=request.records)

        def program(file: Path) -> Exported:
            return write_program_source(mod, backend, graphs, file, name, freestanding, sealed)

        return first_within([program], Path(path), target, limits)

    initial, in_place = partial(initial_states, model, signature), UPDATES in mod["main"].attrs
    find = partial(states_of, pairs=states, first=initial, given=first, in_place=in_place)

    def straight(graphs: Sequence[tuple[str, IRModule]], file: Path) -> Exported:
        return write_source(graphs, backend, file, name, freestanding, sealed, oblivious, find)

    with oblivious_context() if oblivious else nullcontext():
        return write_within([(c_name(Path(path), name), mod)], target, Path(path), straight, limits, request.records)


def source_module(request: Request, backend: SourceBackend) -> IRModule:
    """The module of a request whose target's models are C source, with what its accelerator takes."""
    return expand_calls(lower_external(backend.offload(request.imported(), run_function)))


def export_image(
    models: Mapping[str, ModelSource],
    path: str | os.PathLike[str],
    *,
    target: str | Target | Mapping[str, str | Target] = "c",
    freestanding: bool = False,
    ram_limit: int | None = None,
    rom_limit: int | None = None,
) -> Exported:
    """Write several models, by their names in C, as `export_source` does one; equal kernels and constants once.

    They can share one workspace, whose size the header has. `target` may be a mapping from names, where some run on an
    accelerator beside the same processor ("vta -host=riscv32-imac" and "c -mcpu=riscv32-imac"). Raises
    `UnsupportedError` for a model with control flow.
    """
    targets = {name: Target(target[name] if isinstance(target, Mapping) else target) for name in models}
    image = image_target(list(targets.values()))
    backend, modules = source_backend(image), []
    for name, model in models.items():
        request = Request.of(model, targets[name], None, cache=False)
        mod = source_module(request, source_backend(targets[name]))
        obstacle = needs_machine(mod)
        if obstacle:
            raise UnsupportedError(
                f"the model {name} needs the virtual machine for {obstacle}, and models in one image are straight "
                "graphs: write it as C source of its own"
            )
        modules.append((c_name(Path(path), name), mod))

    def write(graphs: Sequence[tuple[str, IRModule]], file: Path) -> Exported:
        return write_source(graphs, backend, file, None, freestanding)

    return write_within(modules, image, Path(path), write, Limits(ram_limit, rom_limit))
