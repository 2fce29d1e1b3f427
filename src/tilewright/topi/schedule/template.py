"""A schedule template: what it can choose, what each choice costs, and the schedule that a choice stands for.

    workload = template.workload(anchor, out)         # the facts that choices rest on, without the computation
    space = template.ranked(workload, target)         # knobs; `space.default` costs least
    template.schedule(s, anchor, out, target, space.default)

`space` and `cost` see the workload alone, so a pass over the graph can price a workload before there is a computation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from tilewright import te
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace


@dataclass(frozen=True)
class Template:
    """The schedule of kernels whose anchor carries `tag`.

    `workload(anchor, out)` are the facts of a kernel as a hashable value (`out` is the result of its epilogue, the
    anchor itself where it has none); `space(workload, target)` are its knobs and `cost(workload, config, target)` is
    what a configuration is expected to take; `schedule(s, anchor, out, target, config)` applies it. `version` is raised
    when knobs change their meaning, so that what was measured before counts no more. `least(workload, target)` returns
    a function of configurations, quick to compute, that their cycles never fall below.
    """

    tag: str
    workload: Callable[[te.Tensor, te.Tensor], Any]
    space: Callable[[Any, Target], ConfigSpace]
    cost: Callable[[Any, Config, Target], Cost]
    schedule: Callable[[te.Schedule, te.Tensor, te.Tensor, Target, Config], None]
    version: int = 1
    least: Callable[[Any, Target], Callable[[Config], float]] | None = None

    def ranked(self, workload: Hashable, target: Target) -> ConfigSpace:
        """The search space of `workload`, ranked by cost."""
        return _ranked(self, workload, target)


@functools.lru_cache(maxsize=4096)
def _ranked(template: Template, workload: Hashable, target: Target) -> ConfigSpace:
    space = template.space(workload, target)
    least = None if template.least is None else template.least(workload, target)
    space.rank_by(lambda config: template.cost(workload, config, target), least)
    return space
