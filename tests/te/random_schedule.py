"""Random tensor expressions and random schedules of them, drawn through hypothesis so that failures shrink."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from tests.te.python_backend import evaluate
from tilewright import te, tir
from tilewright.errors import ScheduleError
from tilewright.te.attach import AttachType
from tilewright.te.bounds import infer_bounds
from tilewright.te.group import Group
from tilewright.te.operation import reduces_by_lanes
from tilewright.te.rolling import rolling_value
from tilewright.te.stage import nested_in
from tilewright.tir.stmt import ForKind

Draw = Callable[[st.SearchStrategy[Any]], Any]


def shape_of(tensor: te.Tensor) -> tuple[int, ...]:
    """The constant shape of a tensor."""
    return tuple(int(d.value) for d in tensor.shape)


# ------------------------------------------------------------------------------------------------ computations
def _pointwise(draw: Draw, t: te.Tensor, name: str) -> te.Tensor:
    return te.compute(t.shape, lambda *i: _formula(t(*i)), name=name, tag="pointwise")


def _formula(x: tir.Expr) -> tir.Expr:
    return tir.maximum(x * 2, 1) - x


def _intrinsic(size: int) -> te.TensorIntrin:
    """The formula on a row of `size` elements, backwards."""
    x = te.placeholder((size,), "int32", name="x")
    y = te.compute((size,), lambda i: _formula(x[i]), name="y")

    def statements(ins: Any, outs: Any) -> tir.Stmt:
        ib = tir.ir_builder.create()
        source, target = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, size, name="r") as r:
            target[size - 1 - r] = _formula(source[size - 1 - r])
        return ib.get()

    return te.decl_tensor_intrin(y.op, statements, f"formula{size}")


def _both(draw: Draw, t: te.Tensor, name: str) -> te.Tensor:
    first, second = te.compute(t.shape, lambda *i: (t(*i) + 1, t(*i) * 3), name=name)
    return draw(st.sampled_from([first, second]))


def _shift(draw: Draw, t: te.Tensor, name: str) -> te.Tensor:
    """A stencil along the last axis."""
    *rest, last = shape_of(t)
    if last < 3:
        return _pointwise(draw, t, name)
    step = draw(st.integers(1, 2))
    size = (last - 3) // step + 1
    return te.compute((*rest, size), lambda *i: t(*i[:-1], i[-1] * step) - t(*i[:-1], i[-1] * step + 2), name=name)


def _transpose(draw: Draw, t: te.Tensor, name: str) -> te.Tensor:
    return te.compute(shape_of(t)[::-1], lambda *i: t(*i[::-1]) + i[0], name=name)


def _reverse(draw: Draw, t: te.Tensor, name: str) -> te.Tensor:
    last = shape_of(t)[-1]
    return te.compute(t.shape, lambda *i: t(*i[:-1], last - 1 - i[-1]), name=name)


def _reshape(draw: Draw, t: te.Tensor, name: str) -> te.Tensor:
    """Two axes flattened into one, or one axis blocked."""
    shape = shape_of(t)
    if len(shape) >= 2:
        n = shape[1]
        return te.compute((shape[0] * n, *shape[2:]), lambda i, *r: t(i // n, i % n, *r), name=name)
    by = draw(st.integers(1, 4))
    blocks = -(-shape[0] // by)
    return te.compute((blocks, by), lambda i, j: tir.if_then_else(i * by + j < shape[0], t(i * by + j), 0), name=name)


def _pad(draw: Draw, t: te.Tensor, name: str) -> te.Tensor:
    *rest, last = shape_of(t)
    before = draw(st.integers(0, 2))
    return te.compute(
        (*rest, last + before + 1),
        lambda *i: tir.if_then_else(
            tir.all(i[-1] >= before, i[-1] < last + before), t(*i[:-1], i[-1] - before), tir.const(5)
        ),
        name=name,
    )


def _reduce(draw: Draw, t: te.Tensor, name: str) -> te.Tensor:
    """The last axis reduced."""
    *rest, last = shape_of(t)
    k = te.reduce_axis((0, last), "k")
    kind = draw(st.sampled_from([te.sum, te.max, te.min]))
    return te.compute(rest or (1,), lambda *i: kind(t(*(i if rest else ()), k), axis=k), name=name)


def _window(draw: Draw, t: te.Tensor, name: str) -> te.Tensor:
    """A convolution along the last axis with a window of up to 3."""
    *rest, last = shape_of(t)
    size = min(draw(st.integers(1, 3)), last)
    step = draw(st.integers(1, 2))
    k = te.reduce_axis((0, size), "k")
    return te.compute(
        (*rest, (last - size) // step + 1),
        lambda *i: te.sum(t(*i[:-1], i[-1] * step + k) * (k + 1), axis=k),
        name=name,
    )


def _rows(draw: Draw, t: te.Tensor, name: str) -> te.Tensor:
    """Neighbours along the first axis summed up."""
    first, *rest = shape_of(t)
    size = min(draw(st.integers(2, 3)), first)
    k = te.reduce_axis((0, size), "k")
    return te.compute((first - size + 1, *rest), lambda i, *r: te.sum(t(i + k, *r) * (k + 2), axis=k), name=name)


def _outer(draw: Draw, t: te.Tensor, name: str) -> te.Tensor:
    """All pairs along the first axis, multiplied and summed over the second."""
    shape = shape_of(t)
    if len(shape) < 2:
        return te.compute((shape[0], 3), lambda i, j: t(i) * (j + 1), name=name)
    k = te.reduce_axis((0, shape[1]), "k")
    tail = tuple(0 for _ in shape[2:])
    return te.compute(
        (shape[0], shape[0]),
        lambda i, j: te.sum(t(i, k, *tail) * t(j, k, *tail), axis=k, where=tir.ne(k, i)),
        name=name,
    )


def _larger(x: Any, y: Any) -> Any:
    """The larger of two (index, value); of equal ones that with the smaller index, so that no order matters."""
    second = tir.any(y[1] > x[1], tir.all(tir.eq(y[1], x[1]), y[0] < x[0]))
    return tir.select(second, y[0], x[0]), tir.select(second, y[1], x[1])


_argmax = te.comm_reducer(_larger, lambda t, u: (tir.const(2**31 - 1, t), tir.const(-(2**31), u)), name="argmax")


def _arg_maximum(draw: Draw, t: te.Tensor, name: str) -> te.Tensor:
    """The position or the value of the maximum along the last axis: a reduction of a tuple."""
    *rest, last = shape_of(t)
    k = te.reduce_axis((0, last), "k")
    both = te.compute(rest or (1,), lambda *i: _argmax((k.var, t(*(i if rest else ()), k)), axis=k), name=name)
    return draw(st.sampled_from(both))


def _cumulative(draw: Draw, t: te.Tensor, name: str) -> te.Tensor:
    """A recurrence along the first axis, with or without a stage of its own inside."""
    shape = shape_of(t)
    state = te.placeholder(shape, "int32", name=f"{name}_state")
    first = te.compute((1, *shape[1:]), lambda _, *i: t(0, *i) * 2, name=f"{name}_first")
    step = state
    if draw(st.booleans()):
        step = te.compute(shape, lambda n, *i: state(n - 1, *i) - 1, name=f"{name}_inside")
    before = 0 if step is not state else 1
    update = te.compute(shape, lambda n, *i: step(n - before, *i) + t(n, *i), name=f"{name}_update")
    return te.scan(first, update, state, inputs=[t], name=name)


def _by_hand(draw: Draw, t: te.Tensor, name: str) -> te.Tensor:
    """The elements in reverse memory order, by an extern operation."""

    def body(ins: Any, outs: Any) -> tir.Stmt:
        ib = tir.ir_builder.create()
        source, target = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        size = ins[0].constant_size()
        with ib.for_range(0, size, name="n") as n:
            target[n] = source[size - 1 - n] + 1
        return ib.get()

    return te.extern(shape_of(t), [t], body, name=name)


_UNARY = (
    _pointwise, _both, _shift, _transpose, _reverse, _reshape, _pad, _reduce, _window, _outer, _arg_maximum,
    _cumulative, _by_hand, _rows, _rows,
)  # fmt: skip


def random_graph(draw: Draw, stages: int = 4) -> tuple[te.Tensor, te.Tensor]:
    """(input, output) of a random graph of int32 computations."""
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    source = te.placeholder(shape, "int32", name="A")
    tensors = [source]
    for n in range(draw(st.integers(1, stages))):
        t = draw(st.sampled_from(tensors[-2:]))
        same = [u for u in tensors if u is not t and shape_of(u) == shape_of(t)]
        if same and draw(st.booleans()):
            u = draw(st.sampled_from(same))
            made = te.compute(t.shape, lambda *i, t=t, u=u: t(*i) - u(*i), name=f"T{n}")
        else:
            made = draw(st.sampled_from(_UNARY))(draw, t, f"T{n}")
        tensors.append(made)
    return source, tensors[-1]


# --------------------------------------------------------------------------------------------------- schedules
def random_schedule(draw: Draw, source: te.Tensor, output: te.Tensor, marks: bool = True) -> te.Schedule:
    """A random valid schedule of `output`; with `marks`, loops are vectorized, unrolled and run in parallel too."""
    s = te.create_schedule(output.op)
    if draw(st.booleans()) and isinstance(output.op, te.ComputeOp):
        s.cache_write(list(output.op.outputs), draw(st.sampled_from(["local", "global"])))
    if draw(st.integers(0, 3)) == 0:
        readers = [stage.op for stage in s.stages if source in stage.op.input_tensors]
        s.cache_read(source, "local", draw(st.lists(st.sampled_from(readers), min_size=1, unique=True)))
    for stage in list(s.stages):
        if isinstance(stage.op, te.ComputeOp) and stage.op.is_reduction and draw(st.integers(0, 3)) == 0:
            _factor(draw, s, stage)
    group = _grouped(s) if draw(st.integers(0, 7)) == 0 else None
    for stage in reversed(list(s.stages)):
        if isinstance(stage.op, te.ComputeOp):
            if not stage.is_output:
                _position(draw, s, stage)
            if stage.attach_type != AttachType.INLINE and not (stage.op.tag == "pointwise" and draw(st.booleans())):
                _transform_loops(draw, stage)
                if marks:
                    _mark_loops(draw, stage)
        elif isinstance(stage.op, te.ScanOp) and not stage.is_output:
            _place_scan(draw, s, stage)
    if group is not None:
        _place_group(draw, s, group)
    for stage in s.stages:
        if isinstance(stage.op, te.ComputeOp) and stage.attach_type != AttachType.INLINE:
            _request(draw, s, stage)
    return s


def _factor(draw: Draw, s: te.Schedule, stage: te.Stage) -> None:
    """rfactor of one of the loops that the reduction is split into."""
    axis = draw(st.sampled_from(stage.op.reduce_axis))
    if draw(st.booleans()):
        axis = draw(st.sampled_from(stage.split(axis, factor=draw(st.integers(1, 4)))))
    s.rfactor(stage.outputs[0], axis, draw(st.integers(-1, len(stage.op.axis))))


def _grouped(s: te.Schedule) -> Group | None:
    """Two stages, one read by the other, as a group."""
    for stage in s.stages:
        sources = [s[t] for t in stage.op.input_tensors if isinstance(s[t].op, te.ComputeOp)]
        if not isinstance(stage.op, te.ComputeOp) or len(sources) != 1 or stage.is_output:
            continue
        inputs = [t for t in sources[0].op.input_tensors if s[t] is not stage]
        if inputs and not _in_scan(s, stage) and not _in_scan(s, sources[0]):
            return s.create_group(list(stage.outputs), list(dict.fromkeys(inputs)))
    return None


def _place_group(draw: Draw, s: te.Schedule, group: Group) -> None:
    """Inside a loop of the one stage that reads the group, if there is one."""
    if any(_in_scan(s, m) or not isinstance(m.op, te.ComputeOp) for m in group.stages):
        return
    outside = [r for member in group.stages for r in _real_readers(s, member) if r not in group.stages]
    if len(set(outside)) == 1 and isinstance(outside[0].op, te.ComputeOp):
        group.compute_at(outside[0], draw(st.sampled_from(outside[0].leaf_iter_vars)))


def _in_scan(s: te.Schedule, stage: te.Stage) -> bool:
    """True for the first steps and updates of scans, which cannot be placed."""
    return any(isinstance(other.op, te.ScanOp) and other.op.scan_reads(stage.outputs) for other in s.stages)


def _fits_intrinsic(s: te.Schedule, stage: te.Stage) -> bool:
    """True for the formula, as it was written, on whole rows of more than one element."""
    plain = stage.op is stage.origin_op and stage.leaf_iter_vars == list(stage.op.axis) and not stage.attrs
    sources = [s[t] for t in stage.op.input_tensors]
    size = stage.op.axis[-1].dom.extent
    whole = (
        stage.attach_type == AttachType.ROOT and stage.group is None and isinstance(size, tir.IntImm) and size.value > 1
    )
    row = stage.op.axis[-1]
    free = all(x.attach_ivar is not row and (x.group is None or x.group.attach_ivar is not row) for x in s.stages)
    written = all(x.attach_type != AttachType.INLINE for x in sources)
    return stage.op.tag == "pointwise" and plain and whole and free and written


def _request(draw: Draw, s: te.Schedule, stage: te.Stage) -> None:
    """Requests of a stage beyond its loops."""
    if _fits_intrinsic(s, stage):
        stage.tensorize(stage.op.axis[-1], _intrinsic(stage.op.axis[-1].dom.extent.value))
        return
    if stage.attach_type == AttachType.AT and may_roll(s, stage) and draw(st.integers(0, 3)) > 0:
        stage.rolling_buffer()
    elif stage.attach_type == AttachType.AT and draw(st.integers(0, 2)) == 0 and not stage.is_output:
        stage.double_buffer()
    elif not stage.is_output and draw(st.integers(0, 3)) == 0:
        stage.storage_align(draw(st.sampled_from(stage.op.axis)), draw(st.integers(1, 4)), draw(st.integers(0, 3)))
    sources = [t for t in stage.op.input_tensors if s[t].attach_type == AttachType.ROOT and s[t].group is None]
    if sources and draw(st.integers(0, 5)) == 0:
        tensor = draw(st.sampled_from(sources))
        stage.prefetch(tensor, draw(st.sampled_from(stage.leaf_iter_vars)), draw(st.integers(1, 3)))
    if draw(st.integers(0, 5)) == 0:
        axis = draw(st.sampled_from(stage.op.axis))
        stage.set_store_predicate(tir.all(axis >= 0, axis < axis.dom.extent))


def expected_values(outputs: list[te.Tensor], values: dict[te.Tensor, Any]) -> list[Any]:
    """The outputs by definition; a graph whose values leave int32 is drawn again."""
    try:
        return evaluate(outputs, values)
    except OverflowError:
        reject()


def may_roll(s: te.Schedule, stage: te.Stage) -> bool:
    """True if the stage, as it is placed now, makes some elements again that its buffer could keep."""
    normal = s.normalize()
    twin = next((t for t in normal.stages if t.outputs == stage.outputs), None)
    if twin is None or any(attr.intrin for t in normal.stages for attr in t.attrs.values()):
        return False
    try:
        value = rolling_value(twin, infer_bounds(normal))
    except ScheduleError:
        return False
    if value is None:
        return False
    loops = [(at, iv) for at, _ in nested_in(twin) for iv in at.leaf_iter_vars if iv.var is value.args[0]]
    return all(at.attr(iv).kind in (ForKind.SERIAL, ForKind.UNROLLED) for at, iv in loops)


def _position(draw: Draw, s: te.Schedule, stage: te.Stage) -> None:
    """Inline, compute at a loop around all readers, or leave at the root."""
    if _in_scan(s, stage) or stage.group is not None:
        return
    readers = _real_readers(s, stage)
    choice = draw(st.integers(0, 4))
    if choice == 0 and any(not isinstance(s[r].op, te.ComputeOp) for r in _direct_readers(s, stage)):
        return
    if choice == 0 and not stage.op.is_reduction:
        stage.compute_inline()
    elif choice <= 3 and len(readers) == 1 and isinstance(readers[0].op, te.ComputeOp):
        stage.compute_at(readers[0], draw(st.sampled_from(readers[0].leaf_iter_vars)))
        if not stage.scope and draw(st.booleans()):
            stage.set_scope("local")


def _place_scan(draw: Draw, s: te.Schedule, stage: te.Stage) -> None:
    """In a loop of the one stage that reads it, or at the root."""
    readers = _real_readers(s, stage)
    alone = len(readers) == 1 and isinstance(readers[0].op, te.ComputeOp) and not _in_scan(s, stage)
    if alone and draw(st.booleans()):
        stage.compute_at(readers[0], draw(st.sampled_from(readers[0].leaf_iter_vars)))


def _direct_readers(s: te.Schedule, stage: te.Stage) -> list[te.Operation]:
    return [r.op for r in s.stages if any(t in stage.outputs for t in r.op.input_tensors)]


def _real_readers(s: te.Schedule, stage: te.Stage) -> list[te.Stage]:
    """The stages that read `stage`, through inlined ones."""
    found: dict[te.Stage, None] = {}
    for reader in s.stages:
        if any(t in stage.outputs for t in reader.op.input_tensors):
            found.update(
                dict.fromkeys(_real_readers(s, reader) if reader.attach_type == AttachType.INLINE else [reader])
            )
    return list(found)


def _transform_loops(draw: Draw, stage: te.Stage) -> None:
    for _ in range(draw(st.integers(0, 4))):
        leaves = stage.leaf_iter_vars
        what = draw(st.sampled_from(["split", "split", "nparts", "fuse", "reorder"]))
        if what in ("split", "nparts"):
            axis, size = draw(st.sampled_from(leaves)), draw(st.integers(1, 5))
            stage.split(axis, **{"factor" if what == "split" else "nparts": size})
        elif what == "reorder":
            stage.reorder(*draw(st.permutations(leaves)))
        else:
            at = draw(st.integers(0, len(leaves) - 1))
            if at + 1 < len(leaves) and leaves[at].iter_type is leaves[at + 1].iter_type:
                stage.fuse(leaves[at], leaves[at + 1])


def _mark_loops(draw: Draw, stage: te.Stage) -> None:
    for axis in stage.leaf_iter_vars:
        mark = draw(st.sampled_from(["", "", "unroll", "vectorize", "parallel", "pragma"]))
        if mark == "unroll":
            stage.unroll(axis)
        elif mark == "pragma":
            stage.pragma(axis, "unroll", 2)
        elif mark == "vectorize" and (axis.iter_type is te.IterVar.DATA_PAR or reduces_by_lanes(stage.op)):
            stage.vectorize(axis)
        elif mark == "parallel" and axis.iter_type is te.IterVar.DATA_PAR:
            stage.parallel(axis)
