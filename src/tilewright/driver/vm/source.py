"""A module with control flow to C99 source: its segments, and one function with branches and loops around them."""

from __future__ import annotations

from pathlib import Path

from tilewright.backend.c.backend import SourceBackend
from tilewright.driver.build import compile_segments, plan_segments
from tilewright.driver.build_source import Exported, SourceModel, write_models
from tilewright.driver.plan import input_specs
from tilewright.driver.vm.build import Optimize, bytecode_graphs
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.export import c_name
from tilewright.runtime.sealed.container import Seal
from tilewright.runtime.vm.c_program import program_model
from tilewright.runtime.vm.positions import require_fixed


def write_program_source(
    mod: IRModule,
    backend: SourceBackend,
    optimize: Optimize,
    path: Path,
    name: str | None = None,
    freestanding: bool = False,
    sealed: Seal | None = None,
) -> Exported:
    """Write the C source of a module as imported to `path` (.c) and beside it, as `write_source` does.

    `optimize` are the graph passes of its segments. Raises `UnsupportedError`, with the node, where sizes are symbolic
    or an operator runs on the host; all symbolic inputs are named at once, before anything is compiled.
    """
    name = c_name(path, name)
    require_fixed(input_specs(mod["main"]))
    graphs = bytecode_graphs(mod, backend, optimize)
    built = compile_segments(plan_segments(graphs.segments, graphs.backend), graphs.backend, more=graphs.constants)
    manifest = graphs.manifest(built)
    model = SourceModel(name, manifest, program_model(manifest, alone=True))
    return write_models(path, name, built, [model], freestanding=freestanding, sealed=sealed)
