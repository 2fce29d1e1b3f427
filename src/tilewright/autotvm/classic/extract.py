"""The tasks of Relay programs by their classic interface."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.autotvm.task.extract import extract_from_program as extracted
from tilewright.autotvm.task.task import KernelTask
from tilewright.autotvm.template.entities import OtherOptionEntity
from tilewright.autotvm.template.space import ConfigEntity
from tilewright.relay.ir.expr import Expr, Function, const
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import substitute


class KernelSpace:
    """The configurations of a kernel by number: 0 is what the cost model puts first."""

    def __init__(self, task: KernelTask) -> None:
        self._task = task

    def __len__(self) -> int:
        return len(self._task.points)

    def get(self, index: int) -> ConfigEntity:
        """The configuration `index`."""
        values = self._task.points.plain(index)
        return ConfigEntity(index, None, {name: OtherOptionEntity(value) for name, value in values.items()})

    def __repr__(self) -> str:
        knobs = ", ".join(f"{name}: {size} values" for name, size in self._task.points.knobs.items())
        return f"ConfigSpace (len={len(self)}, {knobs})"


class ExtractedTask(KernelTask):
    """A kernel of a network, with what programs for the classic stack ask of a task."""

    @functools.cached_property
    def config_space(self) -> KernelSpace:
        """The configurations by number."""
        return KernelSpace(self)

    @property
    def args(self) -> tuple[Any, ...]:
        """The workload as plain data."""
        return (json.loads(self.key.workload),)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The version of the template."""
        return {"version": self.key.version}

    @property
    def workload(self) -> tuple[Any, ...]:
        """The workload that identifies it."""
        return (self.name, *self.args)

    @property
    def flop(self) -> float:
        """Operations of one call."""
        return self.flops


def extract_from_program(
    mod: Any,
    params: Any = None,
    target: Any = "llvm",
    target_host: Any = None,
    ops: Any = None,
    alter_layout: bool = True,
) -> list[ExtractedTask]:
    """The tasks of a module or function with parameters `params`; of the operators `ops`, where they are given."""
    mod = module_of(mod, params)
    wanted = None if ops is None else {str(getattr(op, "name", op)).rpartition(".")[2] for op in ops}
    found = []
    for task in extracted(mod, target):
        if wanted is not None and not any(name in task.key.template or name in task.name for name in wanted):
            continue
        roles = [argument.role for argument in task.arguments if argument.role != "output"]
        own = ExtractedTask(task.name, task.function, task.target, roles, task.calls, task.flops)
        own.name = task.key.template
        found.append(own)
    return found


def extract_from_multiple_program(
    mods: Sequence[Any], params: Iterable[Any], target: Any = "llvm", target_host: Any = None, ops: Any = None
) -> list[ExtractedTask]:
    """The tasks of several modules, each task once."""
    found = {
        task.key: task for mod, own in zip(mods, params) for task in extract_from_program(mod, own, target, ops=ops)
    }
    return list(found.values())


def module_of(mod: Any, params: Any) -> IRModule:
    """A module or function with the arrays `params`, where there are any, instead of parameters."""
    return bind_arrays(IRModule.from_expr(mod) if isinstance(mod, Function) else mod, params or {})


def bind_arrays(mod: IRModule, params: Any) -> IRModule:
    """`main` with the arrays `params`, by name, instead of its parameters of these names."""
    if not params:
        return mod
    main = mod["main"]
    values: dict[Expr, Expr] = {p: const(np.asarray(_numpy(params[p.name]))) for p in main.params if p.name in params}
    left = [p for p in main.params if p not in values]
    body = substitute(main.body, values)
    return mod.with_function("main", Function(left, body, main.ret_type, main.type_params, main.attrs))


def _numpy(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value
