"""The whole compiler as one straight list of calls into the layers below: read this first.

model file -> frontend -> Relay -> graph passes -> fused functions -> te schedules -> loop IR -> object code
           -> memory plan -> run loop -> Executable

docs/walkthrough.md follows one convolution through all of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tilewright
from tilewright.autotvm.record.context import applied, records_in_force
from tilewright.autotvm.record.database import Database
from tilewright.autotvm.record.tophub import open_records
from tilewright.backend import backend_of
from tilewright.codegen.native.pool import supported_machines
from tilewright.driver.apply_records import apply_records
from tilewright.driver.build import Keep, build_executable
from tilewright.driver.build_source import write_source
from tilewright.driver.vm.build import build_virtual_machine, needs_machine
from tilewright.driver.vm.source import write_program_source
from tilewright.driver.vta import offload
from tilewright.errors import ArtifactError, TargetError, UnsupportedError
from tilewright.frontend.outputs import choose_outputs
from tilewright.frontends import ModelSource, frontend_for, frontend_of, load_all_plugins
from tilewright.load import load
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.symbolic import fix_sizes
from tilewright.relay.ir.well_sized import refuse_unaddressable
from tilewright.relay.transform.fuse.fuse_attention import fuse_attention
from tilewright.relay.transform.fuse.fuse_ops import fuse_ops
from tilewright.relay.transform.fuse.split_args import split_args
from tilewright.relay.transform.layout.alter_layout import alter_layout
from tilewright.relay.transform.layout.batch_products import batch_products
from tilewright.relay.transform.layout.channels_first import channels_first
from tilewright.relay.transform.layout.pack_dense import pack_dense
from tilewright.relay.transform.layout.pack_recurrent import pack_recurrent
from tilewright.relay.transform.layout.pad_channels import pad_channels
from tilewright.relay.transform.layout.row_products import row_products
from tilewright.relay.transform.layout.widen_groups import widen_groups
from tilewright.relay.transform.manager.added_passes import GraphPass, with_added_passes
from tilewright.relay.transform.manager.pass_info import PassInfo
from tilewright.relay.transform.manager.pass_manager import PassContext, run
from tilewright.relay.transform.partition.lower_external import lower_external
from tilewright.relay.transform.passes import opt_level_of
from tilewright.relay.transform.quantize.compute_in_float32 import compute_in_float32
from tilewright.relay.transform.quantize.dequantized_products import dequantized_products
from tilewright.relay.transform.quantize.dot_products import dot_products
from tilewright.relay.transform.quantize.fake_quantization_to_integer import fake_quantization_to_integer
from tilewright.relay.transform.simplify.check_indices import check_indices
from tilewright.relay.transform.simplify.dead_code import dead_code
from tilewright.relay.transform.simplify.eliminate_common_subexpr import eliminate_common_subexpr
from tilewright.relay.transform.simplify.expand_calls import expand_calls
from tilewright.relay.transform.simplify.expand_operators import expand_operators
from tilewright.relay.transform.simplify.fold_constant import fold_constant
from tilewright.relay.transform.simplify.fold_empty import fold_empty
from tilewright.relay.transform.simplify.fold_scale_axis import fold_scale_axis
from tilewright.relay.transform.simplify.simplify_expr import simplify_expr
from tilewright.relay.transform.simplify.simplify_inference import simplify_inference
from tilewright.relay.transform.simplify.trim_windows import trim_windows
from tilewright.runtime.artifact import save_artifact, weights_bytes
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.model import Model
from tilewright.runtime.vm.debug import DebugMachine
from tilewright.runtime.vm.executable import VirtualMachine
from tilewright.specialize import checked_limit, specialize_sizes
from tilewright.support import knobs, plugins, trace
from tilewright.support.cache import DiskCache, digest, open_cache
from tilewright.support.entry_points import PASSES, load_plugins
from tilewright.support.fingerprint import compiler_fingerprint, contents_digest, model_digest
from tilewright.support.log import INFO, log
from tilewright.support.open_sizes import Shapes, as_mapping
from tilewright.support.plugin_faults import survives_exit
from tilewright.target import Target, VtaTarget

#: Records of tuning: a file of them, or as read.
Records = str | os.PathLike[str] | Database

#: Arguments that a program of PyTorch is exported with, in order or by name: whatever the program takes.
ExampleInputs = Sequence[object] | Mapping[str, object]

#: What may run a compiled model.
EXECUTORS = ("auto", "graph", "aot", "vm", "debug")

#: Tensors that one kernel joins at most: its code, and the time to compile it, grow faster than their number.
MOST_JOINED = 64

#: Bytes of weights from which an executable that was just compiled maps them from its entry in the cache.
WORTH_MAPPING = 16 << 20

#: The graph passes in order; each maps a module to a module.
GRAPH_PASSES: tuple[tuple[str, GraphPass], ...] = (
    ("infer_type", lambda mod, target: infer_type(mod)),
    ("compute_in_float32", lambda mod, target: compute_in_float32(mod)),
    ("fake_quantization_to_integer", lambda mod, target: fake_quantization_to_integer(mod)),
    ("dequantized_products", lambda mod, target: dequantized_products(mod)),
    ("expand_operators", lambda mod, target: expand_operators(mod)),
    ("fold_empty", lambda mod, target: fold_empty(mod)),
    ("simplify_inference", lambda mod, target: simplify_inference(mod)),
    ("channels_first", lambda mod, target: channels_first(mod)),
    ("fold_scale_axis", lambda mod, target: fold_scale_axis(mod)),
    ("simplify_expr", lambda mod, target: simplify_expr(mod)),
    ("fold_constant", lambda mod, target: fold_constant(mod)),
    ("trim_windows", lambda mod, target: trim_windows(mod)),
    ("eliminate_common_subexpr", lambda mod, target: eliminate_common_subexpr(mod)),
    ("dot_products", dot_products),
    ("fuse_attention", fuse_attention),
    ("pad_channels", pad_channels),
    ("widen_groups", widen_groups),
    ("alter_layout", alter_layout),
    ("batch_products", lambda mod, target: batch_products(mod)),
    ("row_products", lambda mod, target: row_products(mod)),
    ("pack_dense", pack_dense),
    ("pack_recurrent", pack_recurrent),
    ("share_packed_weights", lambda mod, target: eliminate_common_subexpr(mod)),
    ("fold_packed_weights", lambda mod, target: fold_constant(mod)),
    ("dead_code", lambda mod, target: dead_code(mod)),
    ("split_args", lambda mod, target: split_args(mod, MOST_JOINED)),
    ("fuse_ops", lambda mod, target: _fused(mod, target)),
)


class Entry(NamedTuple):
    """What of a model is compiled: one of its signatures, and which results; None is what the model says."""

    signature: str | None = None
    outputs: Sequence[str] | None = None


#: All of a model, by its own entry.
WHOLE = Entry()


def _names(outputs: str | Sequence[str] | None) -> tuple[str, ...] | None:
    return (outputs,) if isinstance(outputs, str) else None if outputs is None else tuple(outputs)


def graph_passes() -> tuple[tuple[str, GraphPass], ...]:
    """`GRAPH_PASSES` with those that plug-ins add."""
    load_plugins(PASSES)
    return with_added_passes(GRAPH_PASSES)


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

    `model` is the path or bytes of a model of a format of `frontends.py` (told by its contents), an object that one of
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
    refusal = backend_of(target).refusal()
    if refusal:
        raise UnsupportedError(refusal)
    if not target.is_host:
        refuse_foreign(target, specialize or tune_seconds)
        cache = False
    input_shapes = as_mapping(input_shapes)
    if example_inputs is not None:
        model = frontend_for(model, signature).by_example(model, example_inputs, input_shapes)
        input_shapes = signature = None
    entry = Entry(signature, _names(outputs))
    tuned = open_records(records) if isinstance(records, str | os.PathLike) else records or records_in_force()
    compiled = partial(
        _compiled, model, target, cache=cache, check=check, records=tuned, exact_rounding=exact_rounding, entry=entry
    )
    executable = compiled(input_shapes, threads, executor=executor, tune_seconds=tune_seconds)
    if specialize:
        specialize_sizes(executable, model, specialize, partial(compiled, jobs=1))
    return executable


def refuse_foreign(target: Target, measured: float) -> None:
    """Raise `TargetError` for another machine that nothing is compiled for, or that would have to be `measured`."""
    if measured:
        raise TargetError(f"tuning and specializing run the model here, and this machine cannot run code for {target}")
    if target.architecture not in supported_machines():
        raise TargetError(
            f"models are compiled for {', '.join(supported_machines())}; for {target} write C source "
            "(`tilewright compile -o model.c`), or build single functions with tilewright.build"
        )


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
    target, mod = Target(target), import_model(model, input_shapes, Entry(signature, _names(outputs)))
    mod = expand_calls(lower_external(compute_in_float32(mod, exact=True) if exact_rounding else mod))
    if needs_machine(mod):
        return write_program_source(mod, target, optimize, Path(path), name)
    return write_source(optimize(mod, target), target, Path(path), name)


def _compiled(
    model: ModelSource,
    target: Target,
    input_shapes: Shapes | None,
    threads: int | None = None,
    cache: bool = True,
    executor: str = "auto",
    jobs: int | None = None,
    check: bool = False,
    records: Database | None = None,
    tune_seconds: float = 0.0,
    exact_rounding: bool = False,
    entry: Entry = WHOLE,
) -> Model:
    """As `compile`; `jobs` processes work (default: one per processor)."""
    load_all_plugins()  # the cache's key covers their code
    fresh = PassContext.current().instruments or knobs.DEBUG_INFO.get()
    store = open_cache() if cache and not fresh else DiskCache(None)
    how = f"{executor}{' check' * check}{f' records {records.digest()}' if records is not None else ''}"
    how += f" tuned {tune_seconds}" * (tune_seconds > 0) + " exact rounding" * exact_rounding
    how += f" {entry!r}" * (entry != WHOLE)
    key = _cache_key(model, target, input_shapes, store, how) if store.directory is not None else None
    place = _Place(store, key, threads)
    cached = place.load()
    if cached is not None:
        return cached
    with trace.span("frontend"):
        mod = import_model(model, input_shapes, entry)
    if check:
        mod = check_indices(mod)
    if exact_rounding:
        mod = compute_in_float32(mod, exact=True)
    if tune_seconds > 0:
        with trace.span("tune"):
            # the tuner stands above this module and compiles with it: it is found by its public name
            records = tilewright.autotvm.tuned_records(mod, target, tune_seconds, records)
    executable = build(mod, target, threads, executor, jobs, records, place.keep)
    place.add(executable)
    return executable


def build(
    mod: IRModule,
    target: Target,
    threads: int | None = None,
    executor: str = "auto",
    jobs: int | None = None,
    records: Database | None = None,
    keep: Keep | None = None,
) -> Model:
    """Compile a module as imported for `executor`, in `jobs` processes (default: one per processor).

    `keep` may load the model from where it writes it (`driver/build.py`). Raises `UnsupportedError` where that executor
    cannot run the module.
    """
    if executor not in EXECUTORS:
        raise UnsupportedError(f"there is no executor {executor!r}; there are: {', '.join(EXECUTORS)}")
    mod, target = _beside(mod, target)
    mod, records = expand_calls(lower_external(mod)), records_in_force() if records is None else records
    obstacle = needs_machine(mod)
    if obstacle:
        log(INFO, "the virtual machine runs this model, for %s", obstacle)
    if executor in ("graph", "aot"):
        _refuse(obstacle, f'the executor "{executor}" runs straight graphs of tensor operators', 'use "vm" or "auto"')
    if not obstacle and executor not in ("vm", "debug"):
        ahead_of_time = executor == "aot"
        return build_executable(optimize(mod, target, records), target, threads, jobs, ahead_of_time, keep)
    kind = DebugMachine if executor == "debug" else VirtualMachine
    return build_virtual_machine(mod, target, partial(optimize, records=records), threads, jobs, kind, keep)


def _beside(mod: IRModule, target: Target) -> tuple[IRModule, Target]:
    """For an accelerator, the module that the processor beside it runs, with calls of it, and that processor."""
    if not isinstance(target, VtaTarget):
        return mod, target

    def run(function: Function, inputs: Mapping[str, Any]) -> Sequence[Any]:
        return build(IRModule.from_expr(function), target.processor).run(inputs)

    return offload(mod, target, run), target.processor


def _refuse(obstacle: str, what: str, advice: str) -> None:
    """Raise `UnsupportedError` where there is an obstacle."""
    if obstacle:
        raise UnsupportedError(f"{what}; this model needs the virtual machine for {obstacle}: {advice}")


class _Place:
    """The place of one compilation in the cache; none where the key is None."""

    def __init__(self, store: DiskCache, key: str | None, threads: int | None) -> None:
        self.store, self.key, self.threads = store, key, threads

    def load(self) -> Model | None:
        """The executable that is there, or None when there is none or it is damaged (it is then compiled again).

        The weights are read to check them, at the speed of memory, where a load alone maps them.
        """
        return self._load("load from cache", check=True)

    def keep(self, manifest: Manifest, code: bytes, weights: Sequence[Any]) -> Model | None:
        """Put a model with large weights there and map them from there: no copy of them stays in this process."""
        if self.key is None or weights_bytes(manifest, weights) < WORTH_MAPPING:
            return None
        with trace.span("write to cache"):
            self.store.put_file(
                "artifact", self.key, lambda path: save_artifact(path, manifest, code, weights, durable=False)
            )
        kept = self._load("link", check=False)
        self.key = None  # whatever became of it, it is not tried again
        return kept

    def add(self, executable: Model) -> None:
        """Put an executable there that was not kept."""
        if self.key is not None:
            with trace.span("write to cache"):
                self.store.put_file("artifact", self.key, lambda path: executable.save(path, durable=False))

    def _load(self, stage: str, check: bool) -> Model | None:
        found = self.store.find("artifact", self.key) if self.key is not None else None
        if found is None:
            return None
        try:
            with trace.span(stage):
                loaded = load(found, threads=self.threads, check=check)
        except ArtifactError as error:
            log(INFO, "compiling again: the cache's entry cannot be used: %s", error)
            return None
        log(INFO, "%s: %s", stage, found)
        return loaded


def import_model(model: ModelSource, input_shapes: Shapes | None, entry: Entry = WHOLE) -> IRModule:
    """The Relay module of a model in any of the forms `compile` takes.

    Raises `ModelError` where there is no such file or it is of no known format, `UnsupportedError` for another object.
    """
    if isinstance(model, IRModule):
        if entry.signature is not None:
            raise UnsupportedError(f"a Relay module has no signatures; leave out signature={entry.signature!r}")
        fixed = model.with_function("main", fix_sizes(model["main"], input_shapes)) if input_shapes else model
        return choose_outputs(fixed, entry.outputs, "a Relay module")
    return frontend_for(model, entry.signature).convert_outputs(model, as_mapping(input_shapes), entry.outputs)


def _fused(mod: IRModule, target: Target) -> IRModule:
    """`fuse_ops`; each call is a kernel of its own where the open `PassContext` wants none fused."""
    wanted = PassContext.current().enabled(PassInfo(1, "fuse_ops"))
    return fuse_ops(mod, target=target) if wanted else fuse_ops(mod, max_group=1, target=target)


def optimize(mod: IRModule, target: Target, records: Database | None = None) -> IRModule:
    """Run the graph passes; the result's `main` calls fused functions only, configured as `records` know best."""
    with applied(records):
        *_, (_, optimized) = optimize_stages(mod, target)
    if records is None:
        return optimized
    with trace.span("apply_records"):
        return infer_type(apply_records(optimized, records, target))


def optimize_stages(mod: IRModule, target: Target) -> Iterator[tuple[str, IRModule]]:
    """The imported module as "relay", then the module after each graph pass, with the pass's name, in order.

    An open `PassContext` switches passes off and watches them; without one, all run. Those of level 0 always do.
    """
    backend = backend_of(target)
    if backend.refusal():
        raise UnsupportedError(backend.refusal())
    mod = infer_type(mod)
    refuse_unaddressable(mod)
    yield "relay", mod
    for name, graph_pass in graph_passes():
        info = PassInfo(opt_level_of(name), name)
        switched_off = info.opt_level > 0 and not PassContext.current().enabled(info)
        if switched_off or name in backend.passes_left_out:
            continue
        with trace.span(name):
            mod = infer_type(run(info, lambda m, apply=graph_pass: apply(m, target), mod))  # type: ignore[misc]
        yield name, mod


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
