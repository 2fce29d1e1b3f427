"""LLVM IR text to object code or assembly, in this process, through llvmlite.

Code arrives scheduled, with common subexpressions and loop invariants placed, so three passes suffice: local buffers to
registers, peephole rules, branches. They take a tenth of the time of LLVM's own first level (1.5 against 13 ms for a
3x3 convolution) for the same inner loop. Loops that accumulate in memory, and those that ask to be unrolled, do need
that level; the emitter marks their module. LLVM aborts the process on code that is illegal for the target; the emitter
therefore never writes any (see `target.py`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from tilewright.codegen.llvm.builder import LOOPS
from tilewright.errors import InternalError, TargetError
from tilewright.support.forks import between_forks
from tilewright.target import Target

_machines: dict[Target, Any] = {}
_initialized: set[str] = set()


@dataclass(frozen=True)
class CompileTimes:
    """Seconds spent on one module."""

    parse: float
    optimize: float
    emit: float


def compile_object(text: str, target: Target) -> bytes:
    """Object code (ELF for Linux triples) of the module `text`."""
    return compile_timed(text, target)[0]


@between_forks
def compile_timed(text: str, target: Target) -> tuple[bytes, CompileTimes]:
    """Like `compile_object`, with the time each step took."""
    machine = _machine(target)
    start = time.perf_counter()
    module = _parse(text, machine)
    parsed = time.perf_counter()
    _optimize(module, machine, text)
    optimized = time.perf_counter()
    code = machine.emit_object(module)
    return code, CompileTimes(parsed - start, optimized - parsed, time.perf_counter() - optimized)


@between_forks
def emit_as_it_stands(text: str, target: Target) -> bytes:
    """Object code of a module written by hand, which no pass has to improve."""
    machine = _machine(target)
    return machine.emit_object(_parse(text, machine))


@between_forks
def assembly(text: str, target: Target) -> str:
    """The assembly text that `compile_object` would assemble."""
    machine = _machine(target)
    module = _parse(text, machine)
    _optimize(module, machine, text)
    return machine.emit_assembly(module)


@between_forks
def bitcode(text: str, target: Target) -> bytes:
    """The module `text` in LLVM's binary form."""
    return bytes(_parse(text, _machine(target)).as_bitcode())


@between_forks
def optimized(text: str, target: Target) -> str:
    """The LLVM IR after the optimization pipeline."""
    machine = _machine(target)
    module = _parse(text, machine)
    _optimize(module, machine, text)
    return str(module)


def _machine(target: Target) -> Any:
    # a model whose kernels are in the cache does without LLVM
    from llvmlite import binding as llvm

    found = _machines.get(target)
    if found is None:
        _initialize(target.architecture == Target.host().architecture)
        try:
            made = llvm.Target.from_triple(target.triple)
        except RuntimeError as error:
            raise TargetError(f"LLVM has no code generator for {target.triple!r}: {error}") from None
        found = made.create_target_machine(
            cpu=target.cpu,
            features=_features(target),
            opt=3,
            reloc="static" if target.architecture == "wasm32" else "pic",
            codemodel="default",
            abiname="lp64d" if target.architecture == "riscv64" else "",
        )
        _machines[target] = found
    return found


def _features(target: Target) -> str:
    """Those of the target; LLVM cuts vpdpwssd in two for its latency, which the sums of a register tile hide."""
    words = [target.feature_string, "+fast-dpwssd" if target.architecture == "x86_64" else ""]
    return ",".join(filter(None, words))


def _initialize(native: bool) -> None:
    """Register LLVM's code generators, once: this machine's own, or all of them (some 20 ms)."""
    from llvmlite import binding as llvm

    if native and not _initialized:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _initialized.add("native")
    if not native and "all" not in _initialized:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        _initialized.add("all")


def _parse(text: str, machine: Any) -> Any:
    from llvmlite import binding as llvm

    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"the emitted LLVM IR is not valid: {error}") from None
    module.data_layout = str(machine.target_data)
    return module


def _optimize(module: Any, machine: Any, text: str) -> None:
    """Run the passes in place: three, or those of level 1 for a module whose `text` is marked with `LOOPS`."""
    from llvmlite import binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    if text.startswith(LOOPS):
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
    passes.run(module, builder)
