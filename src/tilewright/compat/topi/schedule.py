"""`topi.generic`, `topi.x86` and `topi.testing.get_*_schedule`: one schedule function for every operator.

The classic library has one function an operator and target; here the computation itself tells which template it needs,
so all their names lead to `schedule`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright import te, topi
from tilewright.backend.cpu.schedule.dispatch import anchors_of
from tilewright.backend.cpu.schedule.dispatch import schedule as cpu_schedule
from tilewright.compat.driver.build import build
from tilewright.compat.runtime.array import array, empty
from tilewright.compat.target.target import Target
from tilewright.compat.testing.asserts import assert_allclose
from tilewright.compat.topi import computes
from tilewright.errors import InputError, UnsupportedError
from tilewright.target import DeviceTarget
from tilewright.te.operation import producer_loads
from tilewright.topi.schedule.stages import computes as computed

_THREADS = 64
#: The dimensions of an image with its batch and channels: a convolution of windows of one element has fewer.
_IMAGE = 4


def schedule(outs: Any, layout: str = "") -> te.Schedule:
    """The schedule of the computation of `outs` for the current target (this processor without one).

    `layout`, an argument of classic schedules of pooling, is that of the computation.
    """
    outputs = list(outs) if isinstance(outs, list | tuple) else [outs]
    target = Target.current() or Target("llvm")
    if isinstance(target, DeviceTarget):
        return _device_schedule(outputs)
    return cpu_schedule(outputs, target) if _has_template(outputs) else _plain_schedule(outputs)


def _has_template(outputs: list[te.Tensor]) -> bool:
    """True if the templates are for such a computation: no extern stage, an anchor only of the output's shape."""
    stages = te.create_schedule([out.op for out in outputs]).stages
    if not all(isinstance(stage.op, te.ComputeOp | te.PlaceholderOp) for stage in stages):
        return False
    if any(_read_by_lengths(stage.op) for stage in stages):
        return False
    anchors = anchors_of(computed(outputs))
    if not anchors:
        return True
    tag, anchor = anchors[0]
    of_image = not tag.startswith("conv2d") or len(anchor.shape) >= _IMAGE
    return len(anchors) == 1 and of_image and anchor.shape == outputs[0].shape


def _read_by_lengths(op: te.Operation) -> set[te.Tensor]:
    """The tensors whose values say how long reductions are, as in rows of sparse matrices."""
    spans = [axis.dom for axis in op.reduce_axis if axis.dom is not None]
    return {load.producer for load in producer_loads([end for span in spans for end in (span.min, span.extent)])}


def _plain_schedule(outputs: list[te.Tensor]) -> te.Schedule:
    """Loops as they are written, the outermost in parallel; element by element operations stand in their readers."""
    s = te.create_schedule([out.op for out in outputs])
    whole = {t for stage in s.stages if not isinstance(stage.op, te.ComputeOp) for t in stage.op.input_tensors}
    whole |= {tensor for stage in s.stages for tensor in _read_by_lengths(stage.op)}
    for stage in s.stages:
        if isinstance(stage.op, te.ComputeOp):
            if topi.tag.is_injective(stage.op.tag) and not stage.is_output and whole.isdisjoint(stage.outputs):
                stage.compute_inline()
            elif stage.op.axis:
                stage.parallel(stage.op.axis[0])
    return s


def _device_schedule(outputs: list[te.Tensor]) -> te.Schedule:
    """Every stage a kernel of its own, element by element, its axes fused over blocks of 64 threads."""
    s = te.create_schedule([out.op for out in outputs])
    for stage in s.stages:
        if not isinstance(stage.op, te.ComputeOp):
            if isinstance(stage.op, te.PlaceholderOp):
                continue
            raise UnsupportedError(f"{stage.op.name} has no schedule for devices; write one with te.create_schedule")
        block, thread = stage.split(stage.fuse(*stage.op.axis), factor=_THREADS)
        stage.bind(block, te.thread_axis("blockIdx.x"))
        stage.bind(thread, te.thread_axis("threadIdx.x"))
    return s


def get_schedule(target: Any) -> Callable[[Any], te.Schedule]:
    """The schedule function for a target."""
    chosen = Target(target)

    def schedule_for(outs: Any) -> te.Schedule:
        with chosen:
            return schedule(outs)

    return schedule_for


def dispatch(target: Any, dispatch_map: Mapping[str, Any]) -> Any:
    """The entry of `dispatch_map` for the target: its kind, "cpu" for "llvm", else "generic"."""
    keys = [str(target).split()[0], *Target(target).keys, "generic"]
    for key in keys:
        if key in dispatch_map:
            return dispatch_map[key]
    raise InputError(f"nothing for the target {target}; there are entries for: {', '.join(dispatch_map)}")


def compare_numpy_tvm(
    inputs: Sequence[Any],
    output: Any,
    target: Any,
    device: Any,
    compute: Callable[..., Any],
    schedule: Callable[..., Any],
) -> None:
    """Raise `AssertionError` unless what `compute` makes of arrays `inputs`, by `schedule`, is the array `output`."""
    tensors = [te.placeholder(value.shape, str(value.dtype), f"input{i}") for i, value in enumerate(inputs)]
    with Target(target):
        made = compute(*tensors)
        function = build(schedule([made]), [*tensors, made], target)
    given = [array(value, device) for value in inputs]
    result = empty([int(size) for size in made.shape], str(made.dtype), device)
    function(*given, result)
    assert_allclose(result.numpy(), output, atol=1e-4, rtol=1e-4)


def get_conv2d_nchw_implement(target: Any) -> tuple[Callable[..., Any], Callable[[Any], te.Schedule]]:
    """The computation and the schedule of a convolution."""
    return computes.conv2d_nchw, get_schedule(target)
