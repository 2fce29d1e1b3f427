"""The whole compiler as one straight list of calls into the layers below: read this first.

model file -> frontend -> Relay -> graph passes -> fused functions -> te schedules -> loop IR -> object code
           -> memory plan -> run loop -> Executable

docs/walkthrough.md follows one convolution through all of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tilewright.backend import backend_of
from tilewright.driver.build_source import write_source
from tilewright.driver.model.build import build_model
from tilewright.driver.model.cache_entry import CacheEntry
from tilewright.driver.model.specialize import checked_limit, specialize_sizes
from tilewright.driver.optimize import optimize
from tilewright.driver.vm.build import needs_machine
from tilewright.driver.vm.source import write_program_source
from tilewright.frontend.formats.import_model import WHOLE, Entry, import_model
from tilewright.frontend.formats.table import ModelSource, frontend_for, frontend_of, load_all_plugins
from tilewright.records.context import records_in_force
from tilewright.records.database import Database
from tilewright.records.tophub import open_records
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.manager.pass_manager import PassContext
from tilewright.relay.transform.partition.lower_external import lower_external
from tilewright.relay.transform.quantize.compute_in_float32 import compute_in_float32
from tilewright.relay.transform.simplify.check_indices import check_indices
from tilewright.relay.transform.simplify.expand_calls import expand_calls
from tilewright.runtime.model import Model
from tilewright.support import knobs, plugins, trace
from tilewright.support.cache import DiskCache, digest, open_cache
from tilewright.support.fingerprint import compiler_fingerprint, contents_digest, model_digest
from tilewright.support.open_sizes import Shapes, as_mapping
from tilewright.support.plugin_faults import survives_exit
from tilewright.target import Target

#: Records of tuning: a file of them, or as read.
Records = str | os.PathLike[str] | Database

#: Arguments that a program of PyTorch is exported with, in order or by name: whatever the program takes.
ExampleInputs = Sequence[object] | Mapping[str, object]


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
) -> Model:
    """Compile `model` for `target` into an executable.

    `model` is the path or bytes of a model of a known format (recognized by its contents), an object that one of
    them takes, such as an `onnx.ModelProto`, or a Relay module. A `torch.nn.Module`, and TorchScript, needs
    `example_inputs`, a tuple of the arguments or a mapping by name (a string or a `Target` in its place is the target).
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
    others from the cost model, and the same file gives the same code; "tophub" are those that come with the package,
    of processors that were measured. With `tune_seconds`, schedules are looked for by measuring the most promising ones
    of each kernel for about so long first (`tilewright tune` does it thoroughly). With `exact_rounding`, float16
    and bfloat16 are rounded after each operator of the model, as frameworks do that run one after the other; without it
    what they hand on to each other is in float32 (docs/numerics.md).

    A model for another machine (`target="llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"`) is compiled as well: it
    can be saved and exported, and runs there; `tilewright.rpc` brings it there.

    Raises a `UserError` where the model, its shapes or the target are at fault; the message says what to do.
    """
    if isinstance(example_inputs, str | Target):
        target, example_inputs = example_inputs, None
    target, specialize = Target(target), checked_limit(specialize)
    backend = backend_of(target)
    backend.check(measured=bool(specialize or tune_seconds))
    cache = cache and backend.is_here
    input_shapes = as_mapping(input_shapes)
    if example_inputs is not None:
        model = frontend_for(model, signature).by_example(model, example_inputs, input_shapes)
        input_shapes = signature = None
    tuned = open_records(records) if isinstance(records, str | os.PathLike) else records or records_in_force()
    options = _Options(Entry.of(signature, outputs), executor, check, tuned, tune_seconds, exact_rounding)
    executable = _compiled(model, target, options, cache, input_shapes, threads)
    if specialize:
        again = replace(options, executor="auto", tune_seconds=0.0)
        specialize_sizes(executable, model, specialize, partial(_compiled, model, target, again, cache, jobs=1))
    return executable


@dataclass(frozen=True)
class _Options:
    """The arguments of `compile` that decide, beside model, target and shapes, what is compiled."""

    entry: Entry = WHOLE
    executor: str = "auto"
    check: bool = False
    records: Database | None = None
    tune_seconds: float = 0.0
    exact_rounding: bool = False

    @property
    def spelling(self) -> str:
        """The options as text, for the key of the cache."""
        records = "" if self.records is None else self.records.digest()
        return f"{self.entry} {self.executor} {self.check} {records} {self.tune_seconds} {self.exact_rounding}"


def _compiled(
    model: ModelSource,
    target: Target,
    options: _Options,
    cache: bool,
    input_shapes: Shapes | None,
    threads: int | None = None,
    jobs: int | None = None,
) -> Model:
    """Load the model from the cache, or compile it; `jobs` processes work (default: one per processor)."""
    load_all_plugins()  # the cache's key covers their code
    fresh = PassContext.current().instruments or knobs.DEBUG_INFO.get()
    store = open_cache() if cache and not fresh else DiskCache(None)
    key = _cache_key(model, target, input_shapes, store, options.spelling) if store.directory is not None else None
    entry = CacheEntry(store, key, threads)
    cached = entry.load()
    if cached is not None:
        return cached
    with trace.span("frontend"):
        mod = import_model(model, input_shapes, options.entry)
    mod = _as_wanted(mod, options)
    records = _tuned(mod, target, options)
    executable = build_model(mod, target, threads, options.executor, jobs, records, entry.keep)
    entry.add(executable)
    return executable


def _as_wanted(mod: IRModule, options: _Options) -> IRModule:
    """The imported module with checks of indices and exact rounding, where the options ask for them."""
    if options.check:
        mod = check_indices(mod)
    return compute_in_float32(mod, exact=True) if options.exact_rounding else mod


def _tuned(mod: IRModule, target: Target, options: _Options) -> Database | None:
    """The records of the options, with what tuning for their seconds adds."""
    if options.tune_seconds <= 0:
        return options.records
    # the tuner takes longer to import than most models take to compile
    from tilewright.autotvm.network.tune import tuned_records

    with trace.span("tune"):
        return tuned_records(mod, target, options.tune_seconds, options.records)


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
) -> list[Path]:
    """Write `model` as C99 source for one thread to `path` (.c), its header and weights beside it; the files.

    The code runs wherever a C compiler makes it run; `target` chooses its tiles; `exact_rounding` as in `compile`.
    Raises as `compile` does.
    """
    target, mod = Target(target), import_model(model, input_shapes, Entry.of(signature, outputs))
    mod = expand_calls(lower_external(compute_in_float32(mod, exact=True) if exact_rounding else mod))
    if needs_machine(mod):
        return write_program_source(mod, target, optimize, Path(path), name)
    return write_source(optimize(mod, target), target, Path(path), name)


def _cache_key(
    model: ModelSource, target: Target, input_shapes: Shapes | None, store: DiskCache, executor: str
) -> str | None:
    """The key of a compilation: model, target, shapes, compiler and plug-ins; None where one of them has none."""
    contents, registered = contents_digest(model, store), plugins.fingerprint()
    if contents is None or registered is None:
        return None
    if isinstance(model, str | os.PathLike):
        beside = frontend_of(model).companions(Path(model))
        contents = digest(contents, *(part for path in beside for part in (path.name, model_digest(path, store))))
    shapes = repr(sorted((str(name), dims) for name, dims in (as_mapping(input_shapes) or {}).items()))
    spelling = PassContext.current().spelling
    return digest(contents, str(target), shapes, executor, spelling, compiler_fingerprint(), registered)
