"""The graph passes of a compilation, in order: an imported module to one whose `main` calls fused functions only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from tilewright.backend import backend_of
from tilewright.driver.apply_records import apply_records
from tilewright.records.database import Database
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.well_sized import refuse_unaddressable
from tilewright.relay.transform.manager.added_passes import with_added_passes
from tilewright.relay.transform.manager.graph_pass import GraphPass
from tilewright.relay.transform.manager.pass_manager import PassContext, run
from tilewright.support import trace
from tilewright.support.entry_points import PASSES, load_plugins
from tilewright.target import Target


def graph_passes(target: Target) -> list[GraphPass]:
    """The pipeline of the target's backend with the passes that plug-ins add, as far as the open `PassContext` runs it.

    Those of level 0 always run.
    """
    load_plugins(PASSES)
    context, passes = PassContext.current(), with_added_passes(backend_of(target).pipeline())
    return [one for one in passes if one.level == 0 or context.enabled(one.info)]


#: What a caller does to the module behind the pass of this name.
After = Mapping[str, Callable[[IRModule], IRModule]]


def optimize(mod: IRModule, target: Target, records: Database | None = None, after: After | None = None) -> IRModule:
    """Run the graph passes; the result's `main` calls fused functions only, configured as `records` know best."""
    *_, (_, optimized) = optimize_stages(mod, target, records, after)
    if records is None:
        return optimized
    with trace.span("apply_records"):
        return infer_type(apply_records(optimized, records, target))


def optimize_stages(
    mod: IRModule, target: Target, records: Database | None = None, after: After | None = None
) -> Iterator[tuple[str, IRModule]]:
    """The imported module as "relay", then the module after each graph pass, with the pass's name, in order.

    An open `PassContext` chooses passes (`graph_passes`) and watches them.
    """
    backend = backend_of(target)
    backend.check()
    mod = infer_type(mod)
    refuse_unaddressable(mod)
    yield "relay", mod
    for one in graph_passes(target):
        with trace.span(one.name):
            mod = infer_type(
                run(one.info, partial(one.apply, target=target, backend=backend.asked(), records=records), mod)
            )
            if after is not None and one.name in after:
                mod = infer_type(after[one.name](mod))
        yield one.name, mod
