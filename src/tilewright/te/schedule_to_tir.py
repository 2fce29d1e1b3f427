"""From a schedule to a loop nest: bounds inferred, buffers placed, loops and guards written out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.te.axis_attr import Prefetch
from tilewright.te.bounds import Bounds, infer_bounds
from tilewright.te.extern import ExternOp
from tilewright.te.itervar import IterVar
from tilewright.te.loop_nest import Guard, Nest, guarded
from tilewright.te.operation import ComputeOp, Operation, PlaceholderOp
from tilewright.te.region import IndexEvaluator, to_expr
from tilewright.te.rewrite import BodyRewriter
from tilewright.te.rolling import rolling_value
from tilewright.te.scan import ScanOp
from tilewright.te.schedule import Schedule
from tilewright.te.stage import Stage, nested_in
from tilewright.te.tensor import Tensor
from tilewright.te.tensorize import Tensorized, tensorized
from tilewright.te.thread_reduction import reduce_by_threads, thread_guards, thread_positions
from tilewright.tir import op as tir_op
from tilewright.tir.arith.linear import Linear
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Expr, IntImm, Reduce, Var
from tilewright.tir.stmt import (
    IMPORT_LLVM,
    Allocate,
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Stmt,
    seq,
)
from tilewright.tir.visitor import post_order, substitute


def schedule_to_tir(
    schedule: Schedule,
    args: Sequence[Any],
    name: str = "main",
    binds: Mapping[Tensor, Buffer] | None = None,
    keep_outputs: bool = False,
) -> PrimFunc:
    """The function `name` that computes the schedule's outputs, as loops over multi-dimensional buffers.

    `args` lists tensors (passed as buffers), buffers and scalar variables, in call order; `binds` may name the buffer
    of a tensor. Variables in shapes that `args` leaves out are added as parameters after them, in order of appearance;
    those that are a whole dimension are named in the attribute "inferred": a caller with arrays need not pass them.
    The attribute "param_shapes" of the result keeps the shapes through the passes that flatten buffers.
    With `keep_outputs`, for reading the loops, outputs that `args` leaves out are in the function's own memory.
    Raises ScheduleError where a tensor that must be passed is not, or a stage is placed where it cannot be computed.
    """
    return _Builder(schedule, args, dict(binds or {}), keep_outputs).build(name)


class _Builder:
    """State of one `schedule_to_tir`."""

    def __init__(
        self, schedule: Schedule, args: Sequence[Any], binds: Mapping[Tensor, Buffer], keep_outputs: bool
    ) -> None:
        self.source = schedule
        self.keep_outputs = keep_outputs
        self.schedule = schedule.normalize(keep={arg.op for arg in args if isinstance(arg, Tensor)})
        self.bounds: Bounds = infer_bounds(self.schedule)
        self.indices = IndexEvaluator({}, self.bounds.ranges)
        self.buffers: dict[Tensor, Buffer] = {}
        self.whole: set[Tensor] = set()  # outputs of attached stages that go to a buffer of the whole tensor
        self.starts: dict[Tensor, tuple[Linear, ...]] = {}  # where a stage's buffer starts in its tensor, if not at 0
        self.params: list[Buffer | Var] = []
        self.binds = {self._source_of(t): b for t, b in binds.items()}
        self.attached: dict[tuple[Stage, IterVar], list[Stage]] = {}
        self.positions = schedule.axis_positions()
        for arg in args:
            self._add_param(arg)

    def _source_of(self, tensor: Tensor) -> Tensor:
        """The tensor as the schedule has it; an input that nothing reads stays as it is."""
        unused = isinstance(tensor.op, PlaceholderOp) and tensor.op not in self.source.stage_map
        return tensor if unused else self.source.tensor(tensor)

    def _add_param(self, arg: Any) -> None:
        if isinstance(arg, Tensor):
            tensor = self._source_of(arg)
            if tensor in self.buffers:
                raise ScheduleError(f"lower: {arg.name} is given twice among the arguments")
            buffer = self.binds.get(tensor) or Buffer(arg.name, tensor.shape, tensor.dtype)
            self.buffers[tensor] = buffer
            self.params.append(buffer)
        elif isinstance(arg, (Buffer, Var)):
            self.params.append(arg)
        else:
            raise ScheduleError(f"lower: an argument must be a tensor, a buffer or a variable; got {arg!r}")

    def build(self, name: str) -> PrimFunc:
        """The whole function."""
        roots: list[Stage] = []
        internal: list[Buffer] = []
        for stage in self.schedule.stages:
            if isinstance(stage.op, ScanOp) and stage.attach_stage is None:
                internal.extend(self._scan_buffers(stage, stage.op))
        for stage in self.schedule.stages:
            if isinstance(stage.op, PlaceholderOp):
                continue
            if stage.attach_stage is not None and stage.attach_ivar is not None:
                self.attached.setdefault((stage.attach_stage, stage.attach_ivar), []).append(stage)
            else:
                roots.append(stage)
                if stage.rolling:
                    rolling_value(stage, self.bounds)  # raises: nothing rolls at the root
                if stage.is_output and not self.keep_outputs:
                    self._check_outputs(stage)
                if not isinstance(stage.op, ScanOp):
                    internal.extend(self._make_buffers(stage))
        body = seq(*[self._emit(stage) for stage in roots])
        for buffer in reversed(internal):
            body = Allocate(buffer, body)
        free = self._free_variables()
        params = [*self.params, *free]
        shapes = [p.shape if isinstance(p, Buffer) else None for p in params]
        whole = {size for shape in shapes for size in shape or ()}
        inferred = tuple(v for v in free if v in whole)
        attrs = {"inferred": inferred, IMPORT_LLVM: self._imports()}
        return PrimFunc(name, params, body, {"param_shapes": shapes} | {key: v for key, v in attrs.items() if v})

    def _imports(self) -> tuple[str, ...]:
        """The texts of LLVM IR that pragmas bring along, each once."""
        pragmas = [attr.pragmas for stage in self.schedule.stages for attr in stage.attrs.values()]
        return tuple(dict.fromkeys(str(found[IMPORT_LLVM]) for found in pragmas if IMPORT_LLVM in found))

    def _check_outputs(self, stage: Stage) -> None:
        for tensor in stage.outputs:
            if tensor not in self.buffers:
                raise ScheduleError(f"lower: the output {tensor.name} is not among the arguments")

    def _make_buffers(self, stage: Stage) -> list[Buffer]:
        """Buffers for the outputs of `stage` that the caller does not pass, as large as its region."""
        made = []
        for tensor in stage.outputs:
            shape, starts = self._box(stage, tensor)
            if tensor in self.buffers:
                if stage.attach_stage is not None:
                    self.whole.add(tensor)
                continue
            strides = _strides(stage, shape)
            self.buffers[tensor] = Buffer(tensor.name, shape, tensor.dtype, stage.scope or "global", strides)
            if any(s.terms or s.constant for s in starts):
                self.starts[tensor] = starts
            made.append(self.buffers[tensor])
        return made

    def _box(self, stage: Stage, tensor: Tensor) -> tuple[Sequence[Expr], tuple[Linear, ...]]:
        """The size of the part of `tensor` that `stage` makes, and where it starts."""
        op, bounds = stage.op, self.bounds.stages[stage]
        if isinstance(op, ComputeOp):
            return [bounds.extents[iv] for iv in op.axis], tuple(bounds.mins[iv] for iv in op.axis)
        axes = [bounds.spatial.get((tensor.value_index, d)) for d in range(tensor.ndim)]
        shape = [size if iv is None else bounds.extents[iv] for iv, size in zip(axes, tensor.shape, strict=True)]
        return shape, tuple(Linear({}) if iv is None else bounds.mins[iv] for iv in axes)

    def _scan_buffers(self, stage: Stage, op: ScanOp) -> list[Buffer]:
        """Buffers for the results of a scan.

        The state, the updates and where possible the first steps are in the same.
        """
        buffers = self._make_buffers(stage)
        for result, state, made, first in zip(stage.outputs, op.states, op.update, op.init, strict=True):
            for tensor in (state, made):
                if tensor in self.buffers:
                    raise ScheduleError(
                        f"lower: {tensor.name} exists within the scan {op.name} only, not as an argument"
                    )
                self._put_in_place(tensor, result)
            source = self.schedule[first]
            readers = [s for s in self.schedule.stages if first in s.op.input_tensors]
            beside = source.attach_ivar is stage.attach_ivar and first not in self.buffers
            if isinstance(source.op, ComputeOp) and readers == [stage] and not source.is_output and beside:
                self._put_in_place(first, result)
        return buffers

    def _put_in_place(self, tensor: Tensor, result: Tensor) -> None:
        """`tensor` is computed in the buffer of `result`."""
        self.buffers[tensor] = self.buffers[result]
        self.whole.add(tensor)
        if result in self.starts:
            self.starts[tensor] = self.starts[result]

    def _free_variables(self) -> list[Var]:
        """Variables in the parameters' shapes that are not parameters themselves."""
        free: dict[Var, None] = {}

        def visit(node: Any) -> None:
            if isinstance(node, Var) and node not in self.params:
                free[node] = None

        for param in self.params:
            if isinstance(param, Buffer):
                for size in (*param.shape, *(param.strides or ())):
                    post_order(size, visit)
        return list(free)

    # ------------------------------------------------------------------------------------------------- loops
    def _emit(self, stage: Stage) -> Stmt:
        """The loops of `stage` with everything computed inside them, on the threads it launches."""
        if isinstance(stage.op, ExternOp):
            body = self._extern(stage, stage.op)
        elif isinstance(stage.op, ScanOp):
            body = self._scan(stage, stage.op)
        else:
            body = self._compute(stage)
        for thread in reversed(stage.launch_threads):
            assert thread.dom is not None
            body = For(thread.var, thread.dom.min, thread.dom.extent, ForKind.THREAD_BINDING, body, thread.thread_tag)
        return body

    def _extern(self, stage: Stage, op: ExternOp) -> Stmt:
        """The operation's own statement, on the buffers of its tensors."""
        actual = {theirs: self._buffer(tensor) for theirs, tensor in zip(op.input_buffers, op.inputs, strict=True)}
        actual |= {theirs: self.buffers[t] for theirs, t in zip(op.output_buffers, stage.outputs, strict=True)}
        return substitute(op.body, {}, actual).at(op.position)

    def _scan(self, stage: Stage, op: ScanOp) -> Stmt:
        """First steps that are not in place yet copied there, then the loop over time around the updates."""
        copies = []
        for result, first in zip(stage.outputs, op.init, strict=True):
            if self._buffer(first) is not self.buffers[result]:
                copies.append(self._copied(stage, result, first))
        nest = Nest(stage, op, self.bounds.stages[stage], {}, self.positions)
        return seq(*copies, nest.wrap(seq(), range(1), [], self._children(nest)))

    def _copied(self, stage: Stage, result: Tensor, first: Tensor) -> Stmt:
        """The first steps in `first` copied to those of `result`, as far as the scan computes them."""
        shape, starts = self._box(stage, result)
        sizes = [first.shape[0], *shape[1:]]
        variables = [Var(f"i{d}", size.dtype) for d, size in enumerate(sizes)]
        positions = [
            v + to_expr(start, v.dtype) if start.terms or start.constant else v
            for v, start in zip(variables, starts, strict=True)
        ]
        copy: Stmt = BufferStore(self.buffers[result], self._read(first, tuple(positions)), tuple(variables))
        inside = [
            tir_op.all(p >= 0, p < n) for p, v, n in zip(positions, variables, first.shape, strict=True) if p is not v
        ]
        copy = guarded(inside, copy)
        for var, size in reversed(list(zip(variables, sizes, strict=True))):
            copy = For(var, tir_op.const(0, var.dtype), size, ForKind.SERIAL, copy)
        return copy

    def _compute(self, stage: Stage) -> Stmt:
        op = stage.op
        assert isinstance(op, ComputeOp)
        nest = Nest(stage, op, self.bounds.stages[stage], {}, self.positions, self._read)
        inward = thread_guards(nest, nest.first_reduction())
        at_loop = self._children(nest, inward)  # makes the buffers that a tensorized loop may read
        match = tensorized(nest, self.buffers, self.whole, self._read)
        last = len(nest.leaves) if match is None else match.position
        outer = range(last)
        if match is not None and (not op.is_reduction or match.covers_reduction):
            body = match.body
        elif op.is_reduction:
            first = min(nest.first_reduction(), last)
            body = self._reduction(nest, first, last, match, at_loop, inward)
            outer = range(first)
        else:
            body = self._stores(nest, BodyRewriter(nest.values, self._read), op.body)
        assert body is not None
        body = nest.wrap(body, outer, [g for g in nest.guards if g not in inward], at_loop)
        return guarded([g.condition for g in nest.guards if g.level < 0], body)

    def _children(self, nest: Nest, inward: Sequence[Guard] = ()) -> Callable[[int, Stmt], Stmt]:
        """A function that puts the stages attached to the loops of `nest`, and their buffers, before a loop's body.

        The guards `inward`, which do not stand at their loops, stand around each of these stages.
        """
        stage = nest.stage
        positions = {p: iv for p, iv in enumerate(nest.leaves) if (stage, iv) in self.attached}
        children = {p: self.attached[stage, iv] for p, iv in positions.items()}
        buffers = {p: self._buffers_at(stages) for p, stages in children.items()}

        def at_loop(position: int, body: Stmt) -> Stmt:
            if position in children:
                conditions = [g.condition for g in inward if g.level <= position]
                body = seq(*[guarded(conditions, self._marked(child)) for child in children[position]], body)
                for buffer in reversed(buffers[position]):
                    body = Allocate(buffer, body)
            for prefetch in stage.prefetches:
                if prefetch.axis is nest.leaves[position]:
                    self._check_prefetch(stage, prefetch, nest.leaves[position:])
                    key = "prefetch_spread" if prefetch.spread else "prefetch"
                    body = AttrStmt(key, self._buffer(prefetch.tensor), prefetch.offset, body)
            return body

        intrin_depths = [p for p, iv in enumerate(nest.leaves) if stage.attr(iv).intrin is not None]
        if intrin_depths and any(p >= intrin_depths[0] for p in positions):
            inside = ", ".join(s.name for p in positions if p >= intrin_depths[0] for s in children[p])
            raise ScheduleError(f"tensorize in stage {stage.name}: {inside} is computed inside the replaced loops")
        return at_loop

    def _buffers_at(self, stages: Sequence[Stage]) -> list[Buffer]:
        """Buffers of stages computed in one loop; those of scans first, as other stages are computed in place there."""
        made = [b for s in stages if isinstance(s.op, ScanOp) for b in self._scan_buffers(s, s.op)]
        return made + [b for s in stages if not isinstance(s.op, ScanOp) for b in self._make_buffers(s)]

    def _check_prefetch(self, stage: Stage, prefetch: Prefetch, inside: Sequence[IterVar]) -> None:
        """Refuse a prefetch of a tensor that is made within the loop of the prefetch."""
        source = self.schedule[prefetch.tensor]
        if any(at is stage and iv in inside for at, iv in nested_in(source)):
            raise ScheduleError(
                f"prefetch of {source.name} in stage {stage.name}: it is computed inside the loop {prefetch.axis.name}"
            )

    def _marked(self, stage: Stage) -> Stmt:
        """A stage computed inside a loop, marked where its buffer is to be doubled or to roll."""
        body = self._emit(stage)
        for tensor in stage.outputs if stage.double_buffered else ():
            body = AttrStmt("double_buffer", self.buffers[tensor], 1, body)
        rolling = rolling_value(stage, self.bounds) if stage.rolling else None
        for tensor in stage.outputs if rolling is not None else ():
            body = AttrStmt("rolling_buffer", self.buffers[tensor], rolling, body)
        return body

    def _reduction(
        self,
        nest: Nest,
        first: int,
        last: int,
        match: Tensorized | None,
        at_loop: Callable[[int, Stmt], Stmt],
        inward: Sequence[Guard],
    ) -> Stmt:
        """Initialization, then the loops from `first` to `last` around the update."""
        threads = thread_positions(nest, first)
        if threads:
            return self._thread_reduction(nest, range(first, last), threads, at_loop, inward)
        guards = [g for g in nest.guards if g.level >= first]
        update = self._update(nest) if match is None else match.update
        assert update is not None
        update = nest.wrap(update, range(first, last), guards, at_loop)
        if match is None or match.reset is None:
            return seq(self._initialization(nest, first), update)
        reductions = frozenset(p for p, iv in enumerate(nest.leaves) if iv.iter_type is IterVar.REDUCE)
        positions = [p for p in range(first, last) if p not in reductions]
        return seq(nest.wrap(match.reset, positions, [g for g in guards if not g.depends & reductions], None), update)

    def _initialization(self, nest: Nest, first: int) -> Stmt:
        """The accumulators set to the reduction's start, in loops of their own over the data axes."""
        op = nest.op
        reductions = frozenset(p for p, iv in enumerate(nest.leaves) if iv.iter_type is IterVar.REDUCE)
        positions = [p for p in range(first, len(nest.leaves)) if p not in reductions]
        fresh = {nest.leaves[p]: Var(f"{nest.leaves[p].name}_init", nest.leaves[p].var.dtype) for p in positions}
        own = Nest(nest.stage, op, self.bounds.stages[nest.stage], fresh, self.positions, self._read)
        guards = [g for g in own.guards if g.level >= first and not g.depends & reductions]
        reduce = _reduction_of(op)
        start = reduce.init or reduce.combiner.identity
        return own.wrap(self._stores(own, BodyRewriter(own.values, self._read), start), positions, guards, None)

    def _thread_reduction(
        self,
        nest: Nest,
        positions: Sequence[int],
        threads: Sequence[int],
        at_loop: Callable[[int, Stmt], Stmt],
        inward: Sequence[Guard],
    ) -> Stmt:
        """A reduction with axes bound to the threads of a block."""
        zero = (tir_op.const(0),)

        def update(parts: list[Buffer]) -> Stmt:
            return self._combined(nest, parts, [zero] * len(parts))

        def store(values: list[Expr]) -> Stmt:
            return self._stores(nest, BodyRewriter({}, self._read), values)

        return reduce_by_threads(nest, positions, threads, _reduction_of(nest.op), update, store, at_loop, inward)

    def _update(self, nest: Nest) -> Stmt:
        """The accumulators combined with the next element."""
        buffers = [self.buffers[t] for t in nest.stage.outputs]
        return self._predicated(
            nest, self._combined(nest, buffers, [self._position(nest, t) for t in nest.stage.outputs])
        )

    def _combined(self, nest: Nest, buffers: Sequence[Buffer], indices: Sequence[tuple[Expr, ...]]) -> Stmt:
        """`buffers` at `indices` combined with the next element."""
        reduce = _reduction_of(nest.op)
        rewriter = BodyRewriter(nest.values, self._read)
        old = [BufferLoad(b, i) for b, i in zip(buffers, indices, strict=True)]
        values = rewriter.combiner(reduce.combiner).combine(old, [rewriter(x) for x in reduce.source])
        if len(buffers) == 1:
            body: Stmt = BufferStore(buffers[0], values[0], indices[0]).at(nest.op.position)
        else:
            temporaries = [Var(f"{b.name}_next", v.dtype) for b, v in zip(buffers, values, strict=True)]
            body = seq(*[BufferStore(b, t, i) for b, t, i in zip(buffers, temporaries, indices, strict=True)])
            body.at(nest.op.position)
            for var, value in reversed(list(zip(temporaries, values, strict=True))):
                body = LetStmt(var, value, body)
        condition = rewriter(reduce.condition)
        return body if isinstance(condition, IntImm) and condition.value else IfThenElse(condition, body)

    def _stores(self, nest: Nest, rewriter: BodyRewriter, values: Sequence[Expr]) -> Stmt:
        pairs = zip(nest.stage.outputs, values, strict=True)
        stores = [BufferStore(self.buffers[t], rewriter(value), self._position(nest, t)) for t, value in pairs]
        return self._predicated(nest, seq(*stores).at(nest.op.position))

    def _position(self, nest: Nest, tensor: Tensor) -> tuple[Expr, ...]:
        """The indices of the element at hand in the buffer of `tensor`."""
        if tensor in self.whole:
            return self._relative(tensor, [nest.values[iv.var] for iv in nest.op.axis])
        return tuple(nest.roots[iv] for iv in nest.op.axis)

    def _predicated(self, nest: Nest, body: Stmt) -> Stmt:
        """`body` under the stage's store predicate."""
        predicate = nest.stage.predicate
        return body if predicate is None else IfThenElse(BodyRewriter(nest.loop_values())(predicate), body)

    def _buffer(self, tensor: Tensor) -> Buffer:
        buffer = self.buffers.get(tensor)
        if buffer is None:
            raise ScheduleError(f"lower: {tensor.name} is read but is not among the arguments")
        return buffer

    def _read(self, tensor: Tensor, indices: tuple[Expr, ...]) -> Expr:
        """The load that a read of `tensor` becomes."""
        return BufferLoad(self._buffer(tensor), self._relative(tensor, indices))

    def _relative(self, tensor: Tensor, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """The indices in its buffer of the element of the whole tensor at `indices`."""
        starts = self.starts.get(tensor)
        if starts is None:
            return tuple(indices)
        return tuple(
            self._minus(index, start, size) if start.terms or start.constant else index
            for index, start, size in zip(indices, starts, self._buffer(tensor).shape, strict=True)
        )

    def _minus(self, index: Expr, start: Linear, size: Expr) -> Expr:
        """index - start, terms cancelled."""
        if isinstance(size, IntImm) and size.value == 1:
            return IntImm(index.dtype, 0)
        return to_expr(self.indices.affine(index).minus(start), index.dtype)


def _reduction_of(op: Operation) -> Reduce:
    assert isinstance(op, ComputeOp) and isinstance(op.body[0], Reduce)
    return op.body[0]


def _strides(stage: Stage, shape: Sequence[Expr]) -> list[Expr] | None:
    """Strides in elements where `storage_align` requested some, else None (compact)."""
    if not stage.alignment:
        return None
    strides: list[Expr] = []
    step: Expr = tir_op.const(1)
    for iv, size in zip(reversed(stage.op.axis), reversed(shape), strict=True):
        if iv in stage.alignment:
            factor, offset = stage.alignment[iv]
            step = step + (offset + factor - step % factor) % factor
        strides.insert(0, step)
        step = step * size
    return strides
