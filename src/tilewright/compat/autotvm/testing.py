"""`tvm.testing.autotvm`: a matrix product as a task, measurements that nobody made, and a runner that runs nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random
from typing import Any

from tilewright import te
from tilewright.autotvm.classic.measure import MeasureInput, MeasureResult, Runner
from tilewright.autotvm.template.dispatch import get_config
from tilewright.autotvm.template.template import TemplateTask, create, template
from tilewright.compat.target.target import Target


class DummyRunner(Runner):
    """Tells a time at random of whatever was built."""

    def __init__(self) -> None:
        super().__init__(1, 1)

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        """Seconds below one."""
        generator = Random()
        return [MeasureResult((generator.random(),), 0, 0.2, time.time()) for _ in measure_inputs]


def _matmul(n: int, l: int, m: int, dtype: str) -> Any:
    """A product of an n x l and an l x m matrix, split twice."""
    a, b = te.placeholder((n, l), dtype, "A"), te.placeholder((l, m), dtype, "B")
    k = te.reduce_axis((0, l), "k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    y, x = s[c].op.axis
    cfg = get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, c, y)
    xo, xi = cfg["tile_x"].apply(s, c, x)
    s[c].reorder(yo, xo, s[c].op.reduce_axis[0], yi, xi)
    return s, [a, b, c]


matmul = template("testing/matmul", _matmul)


def _bad_matmul(n: int, l: int, m: int, dtype: str) -> Any:
    """The same, but for targets with the key "bad_device" with knobs that it does not follow."""
    target = Target.current()
    if target is None or "bad_device" not in target.keys:
        return _matmul(n, l, m, dtype)
    a, b = te.placeholder((n, l), dtype, "A"), te.placeholder((l, m), dtype, "B")
    k = te.reduce_axis((0, l), "k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    for name, axis in zip(("tile_y", "tile_x"), s[c].op.axis):
        get_config().define_split(name, axis, num_outputs=2)
    return s, [a, b, c]


bad_matmul = template("testing/bad_matmul", _bad_matmul)


def get_sample_task(target: Any = "llvm", n: int = 128) -> tuple[TemplateTask, Any]:
    """A task, and its target."""
    target = Target(target)
    return create("testing/matmul", args=(n, n, n, "float32"), target=target), target


def get_sample_records(n: int) -> list[tuple[MeasureInput, MeasureResult]]:
    """`n` measurements of that task, the later ones the slower."""
    task, target = get_sample_task()
    configs = (task.config_space.get(index % len(task.config_space)) for index in range(n))
    return [
        (MeasureInput(target, task, config), MeasureResult((index + 1.0,), 0, index, time.time()))
        for index, config in enumerate(configs)
    ]
