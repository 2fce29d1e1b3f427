"""`tvm.autotvm`: tasks for a current target, records that came with the classic stack, switches of its tuner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tilewright.autotvm.classic.record import ApplyHistoryBest
from tilewright.autotvm.template.template import TemplateTask
from tilewright.autotvm.template.template import create as create_task
from tilewright.compat.target.target import Target
from tilewright.errors import InputError


def context(target: Any, extra_files: Iterable[Any] | None = None) -> AbstractContextManager[Any]:
    """The context of the logs `extra_files`. The classic stack's own are not read: the cost model knows as much."""
    made = ApplyHistoryBest(None)
    for path in extra_files or ():
        made.load(path)
    return made


def create(task_name: str, args: Sequence[Any], target: Any = None, target_host: Any = None) -> TemplateTask:
    """The task of a template for `args` on `target` (default: the current one), which is current while it runs.

    Raises `InputError` where there is no such template, or no target.
    """
    target = Target.current() if target is None else Target(target)
    if target is None:
        raise InputError(f"create({task_name!r}) needs a target: pass one, or open one by `with tvm.target.Target(…)`")
    return create_task(task_name, args, target, target_host)


class AutotvmGlobalScope:
    """Switches that programs set; they make no difference."""

    silent = False
    deep_tuning = False
    in_tuning = False


GLOBAL_SCOPE = AutotvmGlobalScope()
