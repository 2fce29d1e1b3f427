"""A request for a compilation: the model, its target and options; its key in the cache, its module, its records."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tilewright.backend import backend_of
from tilewright.driver.model.cache_entry import CacheEntry
from tilewright.errors import InputError, TargetError
from tilewright.frontend.formats.import_model import Entry, import_model
from tilewright.frontend.formats.table import ModelSource, frontend_for, frontend_of, load_all_plugins
from tilewright.records.context import records_in_force
from tilewright.records.database import Database
from tilewright.records.tophub import open_records
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.manager.pass_manager import PassContext
from tilewright.relay.transform.quantize.bfloat16_products import BFLOAT16, PRECISION, SPLIT
from tilewright.relay.transform.quantize.compute_in_float32 import compute_in_float32
from tilewright.relay.transform.quantize.float16_products import FLOAT16
from tilewright.relay.transform.simplify.check_indices import check_indices
from tilewright.support import knobs, plugins, trace
from tilewright.support.cache import DiskCache, digest, open_cache
from tilewright.support.fingerprint import compiler_fingerprint, contents_digest, model_digest
from tilewright.support.open_sizes import Shapes, as_mapping
from tilewright.support.suggestion import nearest
from tilewright.target import PROCESSORS, Target

#: Records of tuning: a file of them, or as read.
Records = str | os.PathLike[str] | Database

#: Precisions of the operands of products: as the model has them, rounded to bfloat16, to the sum of two, or to float16.
FLOAT32, BF16, TF32_LIKE, F16 = "float32", "bf16", "tf32-like", "f16"

#: The attribute of functions for all but the first (`bfloat16_products`, `float16_products`, `half_weights`).
_ROUNDING = {BF16: BFLOAT16, TF32_LIKE: SPLIT, F16: FLOAT16}

#: Features of processors, one of which products of bfloat16 take.
_MULTIPLY_BFLOAT16 = ("avx512bf16", "amx-bf16")

#: The same of float16.
_COMPUTE_FLOAT16 = ("avx512fp16", "fullfp16")

#: Arguments that a program of PyTorch is exported with, in order or by name: whatever the program takes.
ExampleInputs = Sequence[object] | Mapping[str, object]


@dataclass(frozen=True)
class Request:
    """The arguments of `tilewright.compile`, checked; `jobs` processes compile (None: one per processor)."""

    model: ModelSource
    target: Target
    input_shapes: Shapes | None
    entry: Entry
    executor: str
    check: bool
    records: Database | None
    tune_seconds: float
    exact_rounding: bool
    precision: str
    cache: bool
    threads: int | None = None
    jobs: int | None = None

    @classmethod
    def of(
        cls,
        model: ModelSource,
        target: str | Target,
        input_shapes: Shapes | None,
        example_inputs: ExampleInputs | None = None,
        threads: int | None = None,
        cache: bool = True,
        *,
        signature: str | None = None,
        outputs: str | Sequence[str] | None = None,
        executor: str = "auto",
        check: bool = False,
        records: Records | None = None,
        tune_seconds: float = 0.0,
        exact_rounding: bool = False,
        precision: str = "float32",
        runs_here: bool = False,
    ) -> Self:
        """The request of these arguments; with `runs_here` the model must run in this process as well.

        Raises a `UserError` where the target takes no whole models or lacks the precision, or a program cannot be
        exported.
        """
        target = Target(target)
        backend = backend_of(target)
        backend.check(measured=runs_here)
        _check_precision(precision, target)
        input_shapes = as_mapping(input_shapes)
        if example_inputs is not None:
            model = frontend_for(model, signature).by_example(model, example_inputs, input_shapes)
            input_shapes = signature = None
        tuned = open_records(records) if isinstance(records, str | os.PathLike) else records or records_in_force()
        return cls(
            model, target, input_shapes, Entry.of(signature, outputs), executor, check, tuned, tune_seconds,
            exact_rounding, precision, cache and backend.is_here, threads,
        )  # fmt: skip

    def imported(self) -> IRModule:
        """The model as a Relay module, with checks of indices and exact rounding where they are wanted."""
        with trace.span("frontend"):
            mod = import_model(self.model, self.input_shapes, self.entry)
        if self.check:
            mod = check_indices(mod)
        mod = compute_in_float32(mod, exact=True) if self.exact_rounding else mod
        if self.precision == FLOAT32:
            return mod
        return mod.map_functions(lambda func: func.with_attr(PRECISION, _ROUNDING[self.precision]))

    def records_for(self, mod: IRModule) -> Database | None:
        """The records to compile the module with: those of the request, and what tuning for its seconds adds."""
        if self.tune_seconds <= 0:
            return self.records
        # the tuner takes longer to import than most models take to compile
        from tilewright.autotvm.network.tune import tuned_records

        with trace.span("tune"):
            return tuned_records(mod, self.target, self.tune_seconds, self.records)

    def cache_entry(self) -> CacheEntry:
        """The entry in the disk cache; none without `cache`, or where instruments want to see the passes run."""
        load_all_plugins()  # the cache's key covers their code
        fresh = PassContext.current().instruments or knobs.DEBUG_INFO.get()
        store = open_cache() if self.cache and not fresh else DiskCache(None)
        return CacheEntry(store, self._key(store) if store.directory is not None else None, self.threads)

    def _key(self, store: DiskCache) -> str | None:
        """The key: model, target, shapes, options, compiler and plug-ins; None where one of them has none."""
        contents, registered = contents_digest(self.model, store), plugins.fingerprint()
        if contents is None or registered is None:
            return None
        if isinstance(self.model, str | os.PathLike):
            beside = frontend_of(self.model).companions(Path(self.model))
            contents = digest(contents, *(part for path in beside for part in (path.name, model_digest(path, store))))
        shapes = repr(sorted((str(name), dims) for name, dims in (as_mapping(self.input_shapes) or {}).items()))
        records = "" if self.records is None else self.records.digest()
        rounding = f"{self.exact_rounding} {self.precision}"
        options = f"{self.entry} {self.executor} {self.check} {records} {self.tune_seconds} {rounding}"
        spelling = PassContext.current().spelling
        return digest(contents, str(self.target), shapes, options, spelling, compiler_fingerprint(), registered)


def _check_precision(precision: str, target: Target) -> None:
    """Raise `InputError` for an unknown precision, `TargetError` for one that the target's code has no products of."""
    known = (FLOAT32, *_ROUNDING)
    if precision not in known:
        raise InputError(f"precision {precision!r} is unknown{nearest(precision, known)}; known: {', '.join(known)}")
    needed = _COMPUTE_FLOAT16 if precision == F16 else _MULTIPLY_BFLOAT16
    if precision == FLOAT32 or (target.kind == "llvm" and any(map(target.supports, needed))):
        return
    if precision == F16 and target.kind == "webgpu":  # weights are stored so (`half_weights`)
        return
    tables = PROCESSORS["x86_64"], PROCESSORS["aarch64"]
    able = [cpu for table in tables for cpu, features in table.items() if not {*features}.isdisjoint(needed)]
    which = "AVX512-FP16 or fullfp16" if precision == F16 else "AVX512-BF16 or AMX"
    raise TargetError(
        f"precision {precision!r}: code for {target} has no products of {_ROUNDING[precision].removesuffix('x3')}; "
        f"processors with {which} have ({', '.join(able)}). Leave out the precision, or choose another target"
    )
