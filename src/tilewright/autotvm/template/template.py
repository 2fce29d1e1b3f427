"""Templates that users write on `te`: a function that declares its knobs and follows them, tuned like any kernel.

    @template("tutorial/matmul")
    def matmul(n, l, m, dtype):
        ...
        cfg = get_config()
        cfg.define_split("tile_y", y, num_outputs=2)
        yo, yi = cfg["tile_y"].apply(s, C, y)
        return s, [A, B, C]

    task = create("tutorial/matmul", args=(512, 512, 512, "float32"), target="llvm")
    task.config_space, task.instantiate(task.config_space.get(37))

Every configuration's results are compared with those of the computation without a schedule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tilewright import te
from tilewright.autotvm.task.points import Points, UnrestrictedPoints
from tilewright.autotvm.task.task import INPUT, OUTPUT, Argument, Task
from tilewright.autotvm.template.count_flops import count_flops
from tilewright.autotvm.template.dispatch import ApplyConfig, Workload, current_context
from tilewright.autotvm.template.space import ConfigEntity, ConfigSpace
from tilewright.errors import InputError, ScheduleError
from tilewright.records.entry import TaskKey, canonical
from tilewright.target import Target
from tilewright.tir.op import as_const
from tilewright.tir.stmt import PrimFunc

#: The templates of users by name.
TASK_TABLE: dict[str, Callable[..., Any]] = {}


def template(task_name: str, func: Callable[..., Any] | None = None) -> Any:
    """A decorator: `func` is the template `task_name` from now on.

    Calling it returns the schedule and the arguments by the configuration that the current context has for them.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        TASK_TABLE[task_name] = function

        @functools.wraps(function)
        def configured(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                raise InputError(
                    f"the template {task_name!r} takes its arguments by position, not {', '.join(kwargs)}="
                )
            config = current_context().query(None, args_to_workload(args, task_name))
            with ApplyConfig(config):
                return function(*args)

        return configured

    return register if func is None else register(func)


def serialize_args(args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments of a template as plain data: tensors become ("TENSOR", shape, type)."""

    def plain(value: Any) -> Any:
        if isinstance(value, te.Tensor):
            return ("TENSOR", tuple(as_const(extent) for extent in value.shape), str(value.dtype))
        if isinstance(value, list | tuple):
            return tuple(map(plain, value))
        if value is None or isinstance(value, str | int | float):
            return value
        found = as_const(value)
        if found is None:
            raise InputError(
                f"a template takes numbers, texts, tensors and lists of these, not a {type(value).__name__}"
            )
        return found

    return tuple(map(plain, args))


def args_to_workload(args: Sequence[Any], task_name: str | None = None) -> Workload:
    """The workload of a template's call: its name and its arguments."""
    plain = serialize_args(args)
    return (task_name, *plain) if task_name is not None else plain


def create(task_name: str, args: Sequence[Any], target: Any = "llvm", target_host: Any = None) -> TemplateTask:
    """The task of a template for `args` on `target`. Raises `InputError` where there is no such template."""
    if task_name not in TASK_TABLE:
        known = ", ".join(map(repr, TASK_TABLE)) or "none yet"
        raise InputError(f"there is no template {task_name!r}; there are: {known} (`@autotvm.template` makes one)")
    return TemplateTask(task_name, args, target, target_host)


class TemplateTask(Task):
    """A template for given arguments: `config_space` is what it declares, `workload` what records know it by."""

    def __init__(self, name: str, args: Sequence[Any], target: Any, target_host: Any = None) -> None:
        self.name, self.args = name, serialize_args(args)
        self.kwargs: dict[str, Any] = {}
        self.target, self.target_host = Target(target), target_host
        self.func = TASK_TABLE[name]
        self.workload = args_to_workload(args, name)
        self.key = TaskKey(name, canonical({"args": self.args}))
        self.config_space = ConfigSpace()
        schedule, tensors = self._run(self.config_space)
        if not self.config_space.space_map:
            raise ScheduleError(
                f"the template {name!r} declares no knobs, so there is nothing to tune: call define_split, define_knob "
                "or the like on autotvm.get_config()"
            )
        if not self.config_space.valid():
            raise ScheduleError(f"the template {name!r} cannot be used: {'; '.join(self.config_space.errors)}")
        self.arguments = tuple(map(_argument, tensors))
        self.flops = self.flop = self.config_space.flop or count_flops(schedule)

    def _run(self, config: ConfigSpace | ConfigEntity) -> tuple[te.Schedule, list[te.Tensor]]:
        # A target that can be the current one, as those of `tilewright.compat` can, is while its template runs.
        current = self.target if isinstance(self.target, AbstractContextManager) else nullcontext()
        with current, ApplyConfig(config):
            made = self.func(*self.args)
        if not isinstance(made, tuple | list) or len(made) != 2 or not isinstance(made[0], te.Schedule):
            raise ScheduleError(f"the template {self.name!r} must return a schedule and the list of its arguments")
        return made[0], list(made[1])

    def instantiate(self, config: ConfigEntity) -> tuple[te.Schedule, list[te.Tensor]]:
        """The schedule and the arguments of a configuration. Raises `ScheduleError` where the template refuses it."""
        made = self._run(config)
        if not config.valid():
            raise ScheduleError("; ".join(config.errors))
        return made

    @functools.cached_property
    def points(self) -> Points:
        return TemplatePoints(self.config_space)

    @property
    def default(self) -> int | None:
        return None

    def lower(self, config: Any) -> PrimFunc:
        schedule, tensors = self.instantiate(config)
        return _lowered(schedule, tensors, self.target)

    def loops(self, config: Any) -> PrimFunc:
        schedule, tensors = self.instantiate(config)
        _, func = next(te.lower_stages(schedule, tensors, "kernel", target=self.target))
        return func

    def lower_reference(self) -> PrimFunc:
        _, tensors = self._run(self.config_space)
        outputs = [tensor.op for tensor in tensors if not isinstance(tensor.op, te.PlaceholderOp)]
        return _lowered(te.create_schedule(outputs), tensors, self.target)

    def __repr__(self) -> str:
        return f"Task(func_name={self.name}, args={self.args}, kwargs={self.kwargs}, workload={self.workload})"


def _lowered(schedule: te.Schedule, tensors: list[te.Tensor], target: Target) -> PrimFunc:
    *_, (_, func) = te.lower_stages(schedule, tensors, "kernel", target=target)
    return func


def _argument(tensor: te.Tensor) -> Argument:
    extents = [as_const(extent) for extent in tensor.shape]
    if None in extents:
        raise ScheduleError(f"{tensor} has a symbolic dimension: a task to tune needs all sizes")
    role = INPUT if isinstance(tensor.op, te.PlaceholderOp) else OUTPUT
    return Argument(tuple(int(extent or 0) for extent in extents), str(tensor.dtype), role)


class TemplatePoints(UnrestrictedPoints):
    """The configurations of a template's space, by their classic numbers."""

    def __init__(self, space: ConfigSpace) -> None:
        self.space = space
        self.knobs = {name: len(values) for name, values in space.space_map.items()}

    def __len__(self) -> int:
        return len(self.space)

    def config(self, point: int) -> ConfigEntity:
        return self.space.get(point)

    def plain(self, point: int) -> Mapping[str, Any]:
        return {name: [code, data] for name, code, data in self.config(point).to_json_dict()["entity"]}

    def find(self, config: Any) -> int | None:
        positions = []
        for name, values in self.space.space_map.items():
            known = [value.to_json() for value in values]
            if not isinstance(config, Mapping) or list(config.get(name, ())) not in known:
                return None
            positions.append(known.index(list(config[name])))
        return self.at(tuple(positions)) if len(config) == len(positions) else None
