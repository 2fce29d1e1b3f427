"""Configurations that were found by tuning, put into the fused functions of an optimized module.

Before: fn (%p0, %p1) { nn.conv2d(%p0, %p1, …) }(%x, w)
After:  fn (%p0, %p1, schedule=((tile_rows, 4), …)) { nn.conv2d(%p0, %p1, …) }(%x, w)

A configuration travels with its function from here on (`lower.chosen_config`): everything that compiles, shows or
measures the function takes it. What the records do not know keeps the choice of the cost model, and so does what they
know of an older template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright import te
from tilewright.backend import backend_of
from tilewright.backend.lower import SCHEDULE, index_type_of, to_compute
from tilewright.driver.lower import search_space
from tilewright.errors import ArtifactError, ScheduleError, UnsupportedError
from tilewright.records.database import Database, processor_of
from tilewright.records.entry import TaskKey, canonical, this_compiler
from tilewright.records.tophub import TopHub
from tilewright.relay.ir.expr import Call, Expr, Function
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.structural import structural_hash
from tilewright.relay.ir.symbolic import close_dims
from tilewright.relay.ir.visitor import rewrite
from tilewright.target import Target
from tilewright.topi.schedule.sketch.config import SKETCH, VERSION


def task_key_of(function: Function, target: Target) -> TaskKey | None:
    """The key of a fused function in tuning records; None where it has no choices, or symbolic dimensions."""
    with te.index_type(index_type_of(function)):
        return backend_of(target).task_key(to_compute(close_dims(function)[0]).outputs)


def sketch_key_of(function: Function) -> TaskKey:
    """The key in tuning records of a fused function that is scheduled by a sketch, since no template has choices for
    it.
    """
    return TaskKey(SKETCH, canonical({"kernel": structural_hash(close_dims(function)[0])}), VERSION)


def has_sketch(function: Function, target: Target) -> bool:
    """True for a fused function of fixed sizes without choices of a template whose schedule a sketch can be."""
    closed, open_dims = close_dims(function)
    if open_dims or task_key_of(function, target) is not None:
        return False
    with te.index_type(index_type_of(function)):
        return backend_of(target).has_sketch(to_compute(closed).outputs)


def sketch_config_of(function: Function, target: Target, values: Mapping[str, Any]) -> Mapping[str, int]:
    """The configuration of a fused function's sketch with these values. Raises `ScheduleError` where it has none."""
    with te.index_type(index_type_of(function)):
        return backend_of(target).sketch_config(to_compute(function).outputs, values)


def apply_records(mod: IRModule, records: Database, target: Target) -> IRModule:
    """Configure the fused functions that `main` calls as is best known of this processor.

    Raises `ArtifactError` where the records are all of other processors; the hub of the package may be.
    """
    processor = processor_of(target)
    if isinstance(records, TopHub):
        return _configured_by(mod, target, lambda key, function: _from_hub(records, key, function, target))
    if records.entries and processor not in records.processors:
        others = "\n  ".join(sorted(records.processors))
        raise ArtifactError(
            f"{records.name} has no records of this processor,\n  {processor}\nbut of\n  {others}\n"
            "Tune on this processor (`tilewright tune`), or compile for one of those"
        )
    best = records.configurations(processor, this_compiler())

    sketches = any(key.template == SKETCH for key in best)

    def known(key: TaskKey | None, function: Function) -> Function:
        if key is not None:
            return _configured(function, best[key].config, target) if key in best else function
        sketch = best.get(sketch_key_of(function)) if sketches else None
        return function if sketch is None else _sketched(function, sketch.config, target)

    return _configured_by(mod, target, known)


def _configured_by(mod: IRModule, target: Target, known: Callable[[TaskKey | None, Function], Function]) -> IRModule:
    """The module, each fused function as `known` returns it for its key, or None where it has none."""
    done: dict[Function, Function] = {}

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not isinstance(node.op, Function) or not node.op.is_primitive:
            return None
        if node.op not in done:
            done[node.op] = known(task_key_of(node.op, target), node.op)
        return Call(done[node.op], node.args, node.attrs, node.span) if done[node.op] is not node.op else None

    return mod.map_functions(lambda func: func.with_body(rewrite(func.body, rule)))


#: How far another task may be for its configuration to be taken unmeasured: another height and width, or a third more
#: channels; and how many times the least expected time that may be expected to take.
_NEAR, _MOST_EXPECTED = 1.0, 1.05


def _from_hub(hub: TopHub, key: TaskKey | None, function: Function, target: Target) -> Function:
    """The function with what the hub knows of its task, or of one very near that the cost model does not object to."""
    if key is None:
        return function
    exact = hub.best(key, processor_of(target))
    if exact is not None:
        return _configured(function, exact.config, target)
    space = search_space(function, target)
    for entry in hub.nearest(key, processor_of(target), 1, _NEAR) if space is not None else ():
        assert space is not None
        try:
            config = space.config(dict(entry.config or {}))
        except ScheduleError:
            continue
        if space.cost(config).cycles <= _MOST_EXPECTED * space.cheapest[0].cycles:
            return function.with_attr(SCHEDULE, config.items_)
    return function


def _configured(function: Function, config: object, target: Target) -> Function:
    """The function with a configuration, where that is one of its space."""
    space = search_space(function, target)
    if space is None or not isinstance(config, dict):
        return function
    try:
        return function.with_attr(SCHEDULE, space.config(config).items_)
    except ScheduleError:
        return function


def _sketched(function: Function, values: object, target: Target) -> Function:
    """The function with a configuration of its sketch, where that is one."""
    if not isinstance(values, Mapping):
        return function
    try:
        return function.with_attr(SCHEDULE, tuple(sketch_config_of(function, target, values).items()))
    except (ScheduleError, UnsupportedError):
        return function
